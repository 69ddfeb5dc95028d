"""The programs of a bundle against those that its weights give, which are written anew.

A program is never loaded to see what it does, since torch.export runs what a file says. It is the
one of the weights if it has the same bytes.
"""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch.onnx.errors import OnnxExporterError

from hpsearch.export.folder import BundleDir, Contents
from hpsearch.export.greedy import greedy_policy, sample_positions
from hpsearch.export.programs import (
    can_write,
    differing_actions,
    digest_by_build,
    save_onnx,
    save_program,
)
from hpsearch.game.random import derive_key
from hpsearch.trainers.opponents import SavedPlayer
from hpsearch.trainers.rollouts import game_config

Players = Mapping[str, SavedPlayer]
"""by role, on the CPU"""


def program_differences(bundle: BundleDir, contents: Contents, players: Players) -> list[str]:
    """Return a line for every program for torch that is not the one of the weights, or plays so."""
    lines = []
    for role, player in players.items():
        name = bundle.program(role).name
        build = _build(bundle, contents, role)
        positions = sample_positions(game_config(player.config), derive_key("bundle"))
        with TemporaryDirectory(prefix="hpsearch-") as folder:
            path = Path(folder) / name
            save_program(path, player, role, contents.bundle_format)
            differing = differing_actions(path, player, role, contents.bundle_format, positions)
            is_same = digest_by_build(path, build) == contents.digests[name]
        if differing:
            total = len(positions.points)
            lines.append(f"{name} plays otherwise than the weights on {differing} of {total}")
        if not is_same:
            lines.append(_other(name, build))
    return lines


def onnx_differences(bundle: BundleDir, contents: Contents, players: Players) -> list[str]:
    """Return a line for every program for ONNX that is not the one of the weights.

    Where the packages that write such programs are missing, none is compared.
    """
    lines = []
    for role, player in players.items():
        name = bundle.onnx(role).name
        if name not in contents.digests or not can_write():
            continue
        build = _build(bundle, contents, role)
        greedy = greedy_policy(role, player.net, contents.bundle_format, autocast=False)
        with TemporaryDirectory(prefix="hpsearch-") as folder:
            path = Path(folder) / name
            try:
                save_onnx(path, greedy, build)
                is_same = sha256(path.read_bytes()).hexdigest() == contents.digests[name]
            except OnnxExporterError:
                is_same = False
        if not is_same:
            lines.append(_other(name, build))
    return lines


def uncompared(contents: Contents) -> list[str]:
    """Return the names of the programs that this machine lacks the packages to compare."""
    return [name for name in contents.digests if name.endswith(".onnx") and not can_write()]


def _build(bundle: BundleDir, contents: Contents, role: str) -> str:
    return contents.builds.get(bundle.program(role).name, torch.__version__)


def _other(name: str, build: str) -> str:
    here = torch.__version__
    if build.partition("+")[0] == here.partition("+")[0]:
        return f"{name} is not the program of the weights, which give other bytes here"
    return (
        f"{name} could not be checked: torch {build} wrote it, and torch {here}, which is here, "
        f"gives other bytes for the weights; evaluate it with torch {build}"
    )

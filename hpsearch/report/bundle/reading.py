"""Reading a bundle back, and measuring its players again."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from hpsearch import yaml_file
from hpsearch.atomic import read_json
from hpsearch.config_paths import value_at
from hpsearch.errors import ConfigError, CorruptError
from hpsearch.game.philox import derive_key
from hpsearch.report.bundle.certificate import Conditions, Rows, differences
from hpsearch.report.bundle.files import INDEX, MARK, BundleDir
from hpsearch.report.bundle.positions import sample_positions
from hpsearch.report.bundle.programs import differing_actions
from hpsearch.report.devices import device_of
from hpsearch.report.provenance import versions
from hpsearch.schema import read
from hpsearch.trainers.config import TrainerConfig, read_config
from hpsearch.trainers.role_nets import build_net
from hpsearch.trainers.rollouts import game_config
from hpsearch.trainers.saved_player import SavedPlayer, player_of

CPU: Final = torch.device("cpu")


@dataclass(frozen=True)
class Bundle:
    """A bundle whose files are those that were written."""

    folder: BundleDir
    measures: dict[str, Any]
    """the certificate"""
    conditions: Conditions
    players: dict[str, SavedPlayer]
    """by role, on the CPU"""
    measured: dict[str, SavedPlayer]
    """the same on the device of the certificate, if this machine has it"""

    @property
    def rows(self) -> Rows:
        """Return the certified rows."""
        rows: Rows = self.measures["rows"]
        return rows


def bundles_in(folder: Path) -> list[Path]:
    """Return the bundles at a path: itself, or those that it lists; none where it is no bundle."""
    if (folder / MARK).is_file():
        return [folder]
    index = read_json(folder / INDEX) if folder.is_dir() else None
    return [] if index is None else [folder / one["folder"] for one in index["bundles"]]


def read_bundle(folder: Path) -> Bundle:
    """Return a bundle.

    Raises:
        CorruptError: if a file is missing, or not as it was written.
        ConfigError: if its configuration is of another version.
    """
    bundle = BundleDir(folder)
    _check_files(bundle)
    measures = read_json(bundle.certificate)
    try:
        conditions = read(Conditions, measures["conditions"], source=str(bundle.certificate))
    except (ConfigError, KeyError) as error:
        raise CorruptError(
            f"{bundle.certificate} is no certificate of this version; export again"
        ) from error
    config = read_config(yaml_file.load(bundle.config), source=str(bundle.config))
    players, device = _players(bundle, config, CPU), device_of(conditions.device)
    measured = players if device == CPU else _players(bundle, config, device)
    return Bundle(bundle, measures, conditions, players, measured)


def reproduce(bundle: Bundle) -> list[str]:
    """Measure a bundle's players again, and ask its programs what they are asked.

    Returns:
        A line for everything that is not as certified; none where all of it is, bit for bit.
    """
    found = _other_params(bundle)
    found += differences(bundle.measured, bundle.conditions, bundle.rows)
    for role, player in bundle.players.items():
        positions = sample_positions(game_config(player.config), derive_key("bundle"))
        path = bundle.folder.program(role)
        if differing := differing_actions(path, player, role, positions):
            total = len(positions.points)
            found.append(f"{path.name} plays otherwise than the weights on {differing} of {total}")
    return [*found, *_other_versions(bundle)] if found else []


def _other_params(bundle: Bundle) -> list[str]:
    """Return the parameters that the certificate names and the configuration has otherwise."""
    config = yaml_file.load(bundle.folder.config)
    return [
        f"{path}: {value} when certified, {there} in {bundle.folder.config.name}"
        for path, value in bundle.measures["params"].items()
        if (there := value_at(config, path)) != value
    ]


def _other_versions(bundle: Bundle) -> list[str]:
    """Return what else is not as it was: the versions, which may be why."""
    here = versions()
    return [
        f"version of {name}: {there} when certified, {here.get(name, 'none')} here"
        for name, there in bundle.measures["provenance"].items()
        if here.get(name) != there
    ]


def _check_files(bundle: BundleDir) -> None:
    origin = read_json(bundle.provenance)
    if origin is None or "files" not in origin:
        raise CorruptError(
            f"{bundle.root} has no {bundle.provenance.name} that lists its files; export it again"
        )
    there = bundle.digests()
    for name, digest in origin["files"].items():
        if there.get(name) != digest:
            what = "is missing" if name not in there else "is not as it was written"
            raise CorruptError(f"{bundle.root / name} {what}; export the bundle again")


def _players(
    bundle: BundleDir, config: TrainerConfig, device: torch.device
) -> dict[str, SavedPlayer]:
    from safetensors.torch import load_file

    tensors = load_file(bundle.weights)
    return {role: _player(bundle, config, role, tensors, device) for role in config.learning()}


def _player(
    bundle: BundleDir,
    config: TrainerConfig,
    role: str,
    tensors: Mapping[str, Tensor],
    device: torch.device,
) -> SavedPlayer:
    net = build_net(role, config.learning()[role], config, [config.seed], device)
    own = {
        name.removeprefix(f"{role}."): tensor
        for name, tensor in tensors.items()
        if name.startswith(f"{role}.")
    }
    try:
        net.set_layers(0, own)
    except ValueError as error:
        raise CorruptError(
            f"{bundle.weights} is not of the networks of {bundle.config}: {error}"
        ) from error
    return player_of(role, config, config.steps, net)

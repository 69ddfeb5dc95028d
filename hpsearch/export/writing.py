"""Writes bundles: the player, its certificate, and where it comes from."""

import json
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from hpsearch.analysis.compare import device_of, plain_rows
from hpsearch.analysis.lineage import read_lineage
from hpsearch.cluster.code_snapshot import code_commit, versions
from hpsearch.cluster.records import MatchPlan
from hpsearch.cluster.study_dir import MatchGames
from hpsearch.errors import ConflictError, CorruptError, UsageError
from hpsearch.export.certificate import certify
from hpsearch.export.folder import FORMAT, INDEX, BundleDir, replacing
from hpsearch.export.greedy import sample_positions
from hpsearch.export.programs import write_onnx, write_program
from hpsearch.export.readme import readme_text
from hpsearch.export.signature import sign
from hpsearch.export.text import config_text
from hpsearch.game.random import derive_key
from hpsearch.study.records import COMPLETE, Match, Trial
from hpsearch.study.view import StudyView
from hpsearch.trainers import checkpoint
from hpsearch.trainers.config import read_config
from hpsearch.trainers.evaluation import BOOTSTRAP_SEED, starts_key
from hpsearch.trainers.opponents import SavedPlayer, load_player
from hpsearch.trainers.rho import Lengths, rho
from hpsearch.trainers.rollouts import game_config


@dataclass(frozen=True)
class How:
    """How bundles are made."""

    num_games: int
    """games an opponent and mode"""
    command: str
    """the command line"""
    at: datetime
    key: Path | None
    """by which they are signed; None leaves them unsigned"""


def lineage(view: StudyView, trial: Trial) -> dict[str, Any] | None:
    """Return who a population's trial descends from, the oldest first; None for a search.

    The line of a trial that ended a moment ago, and is not in the ancestry yet, is empty.
    """
    if view.study.spec.population is None:
        return None
    ancestry = read_lineage(view)
    line = ancestry.line(trial.number) if trial.number in ancestry.relatives else []
    return {
        "trial": trial.number,
        "champion": ancestry.champion == trial.number,
        "origin": None if trial.origin is None else asdict(trial.origin),
        "line": [asdict(relative) for relative in line],
    }


def crossplay(view: StudyView, trial: Trial) -> dict[str, Any] | None:
    """Return a trial's games in the last match that it played as a member, None if there is none.

    rho is of the starts that confirm, with its 95 % interval, by role and opponent; high is a
    strong host, low a strong agent.

    Raises:
        CorruptError: if the match's files are damaged.
    """
    matches = [
        match for match in view.state.population.matches.values() if trial.number in match.strengths
    ]
    if not matches:
        return None
    folder = view.folder.match(matches[-1].number)
    games = folder.read_games()
    return None if games is None else _row(matches[-1], trial.number, folder.plan.required(), games)


def _row(match: Match, trial: int, plan: MatchPlan, games: MatchGames) -> dict[str, Any]:
    name, split = str(trial), plan.splits[-1]
    hosts, agents = ([player.name for player in side] for side in (plan.hosts, plan.agents))
    moves, finished = games.moves[-1], games.finished[-1]  # (hosts, agents, games) on these starts
    row: dict[str, Any] = {
        "match": match.number,
        "split": split,
        "games": plan.num_games,
        "max_steps": plan.max_steps,
        "seeds": {"starts": starts_key(split), "intervals": BOOTSTRAP_SEED},
        "strength": match.strengths[trial],
        "interval": match.intervals[trial],
    }
    if name in hosts:
        place = hosts.index(name)
        row["host"] = _against(agents, moves[place], finished[place])
    if name in agents:
        place = agents.index(name)
        row["agent"] = _against(hosts, moves[:, place], finished[:, place])
    return row


def _against(
    opponents: Iterable[str], moves: npt.NDArray[np.int64], finished: npt.NDArray[np.bool_]
) -> dict[str, dict[str, float]]:
    """Return rho against each opponent, of games (opponents, games)."""
    lengths = map(Lengths, moves, finished)
    return {
        name: asdict(rho(length, BOOTSTRAP_SEED))
        for name, length in zip(opponents, lengths, strict=True)
    }


Measures = dict[str, Any]
"""what evaluation.json holds"""


def export_bundle(view: StudyView, trial: Trial, folder: Path, how: How) -> Measures:
    """Write the bundle of a finished trial; return its certificate.

    Raises:
        UsageError: if the trial has not finished, the folder holds something else, or the key does
            not sign.
        CorruptError: if its last checkpoint is missing or damaged.
        DiskError: if the folder cannot be written; an older bundle stays.
    """
    _check_finished([trial])
    with replacing(folder) as temporary:
        return _write(BundleDir(temporary), view, trial, how)


def export_bundles(
    view: StudyView, trials: Sequence[Trial], folder: Path, how: How
) -> list[Measures]:
    """Write a bundle of each trial, in this order, below ``folder``; return their certificates.

    Raises:
        UsageError, CorruptError, DiskError: as `export_bundle`; then none is written.
    """
    _check_finished(trials)
    names = bundle_names(trials)
    with replacing(folder) as temporary:
        measures = [
            _write(BundleDir(temporary / name), view, trial, how)
            for trial, name in zip(trials, names, strict=True)
        ]
        listed = [
            {"folder": name, "trial": trial.number, "metrics": trial.metrics}
            for trial, name in zip(trials, names, strict=True)
        ]
        _write_json(temporary / INDEX, {"bundles": listed})
    return measures


def bundle_names(trials: Sequence[Trial]) -> list[str]:
    """Return the folders of several bundles: the place of each, and its trial."""
    return [f"{place}-trial-{trial.number}" for place, trial in enumerate(trials, start=1)]


def _check_finished(trials: Sequence[Trial]) -> None:
    for trial in trials:
        if trial.told != COMPLETE:
            raise UsageError(
                f"trial {trial.number} has not finished, so there is nothing to export"
            )


def _write(bundle: BundleDir, view: StudyView, trial: Trial, how: How) -> Measures:
    config = view.config(trial)
    source, players = _last_players(view, trial, config, torch.device("cpu"))
    device = device_of(config["device"])
    measured = players if device.type == "cpu" else _last_players(view, trial, config, device)[1]
    conditions, rows = certify(measured, how.num_games)
    measures = {
        "study": view.study.spec.name,
        "trial": trial.number,
        "objective": view.study.spec.objectives[0].metric,
        "params": view.study.space.decode(trial.last_params),
        "search_metrics": trial.metrics,
        "conditions": asdict(conditions),
        "rows": plain_rows(rows),
        "crossplay": crossplay(view, trial),
        "provenance": versions(),
    }
    bundle.root.mkdir(exist_ok=True)
    bundle.config.write_text(config_text(config, "yaml"), encoding="utf-8")
    _write_json(bundle.certificate, measures)
    if (line := lineage(view, trial)) is not None:
        _write_json(bundle.lineage, line)
    title = f"Trial {trial.number} of the study {view.study.spec.name}"
    _write_players(bundle, players, title)
    origin = {
        "format": FORMAT,
        "study": view.study.spec.name,
        "trial": trial.number,
        "checkpoint": {
            "path": str(source.relative_to(view.folder.root)),
            "sha256": checkpoint.identity(source),
        },
        "command": how.command,
        "at": how.at.isoformat(timespec="seconds"),
        "commit": code_commit(),
        "versions": versions(),
        "platform": platform.platform(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "trained_on": config["device"],
        "files": bundle.digests(),
    }
    _write_json(bundle.provenance, origin)
    if how.key is not None:
        sign(bundle.provenance, how.key)
    return measures


def _write_players(bundle: BundleDir, players: dict[str, SavedPlayer], title: str) -> None:
    """Write networks, policies and the README that explains them."""
    tensors = {
        f"{role}.{name}": tensor
        for role, player in players.items()
        for name, tensor in player.net.layers(0).items()
    }
    checkpoint.write_tensors(bundle.weights, tensors)
    remarks: dict[str, None] = {}
    for role, player in players.items():
        positions = sample_positions(game_config(player.config), derive_key("bundle"))
        write_program(bundle.program(role), player, role, positions)
        remark = write_onnx(bundle.onnx(role), player, role, positions)
        remarks |= {} if remark is None else {remark: None}
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    text = readme_text(title, players, shapes, list(remarks))
    bundle.readme.write_text(text, encoding="utf-8")


def _last_players(
    view: StudyView, trial: Trial, config: dict[str, Any], device: torch.device
) -> tuple[Path, dict[str, SavedPlayer]]:
    """Return the checkpoint at the end of a trial, and the players that it holds, by role."""
    files = view.folder.trial(trial.number)
    path = checkpoint.path_of(files.checkpoints, config["steps"])
    roles = read_config(config, source=str(files.config)).learning()
    try:
        return path, {role: load_player(path, role, device) for role in roles}
    except (ConflictError, CorruptError) as error:
        raise CorruptError(
            f"the last checkpoint in {files.checkpoints} is missing or damaged; export another "
            "trial with --trial, or run the study again with another name"
        ) from error


def _write_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")

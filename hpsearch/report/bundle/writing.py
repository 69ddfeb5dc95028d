"""Writing the bundles of trials."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from hpsearch.errors import ConflictError, CorruptError, UsageError
from hpsearch.game.philox import derive_key
from hpsearch.report.bundle.certificate import certify
from hpsearch.report.bundle.config_text import config_text
from hpsearch.report.bundle.files import FORMAT, INDEX, BundleDir
from hpsearch.report.bundle.met import crossplay
from hpsearch.report.bundle.onnx_program import write_onnx
from hpsearch.report.bundle.origin import Made, lineage, provenance
from hpsearch.report.bundle.placing import replacing
from hpsearch.report.bundle.positions import sample_positions
from hpsearch.report.bundle.programs import write_program
from hpsearch.report.bundle.readme import readme_text
from hpsearch.report.bundle.signature import sign
from hpsearch.report.compare import plain_rows
from hpsearch.report.devices import device_of
from hpsearch.report.provenance import versions
from hpsearch.report.view import StudyView
from hpsearch.study.records import COMPLETE, Trial
from hpsearch.trainers import checkpoint
from hpsearch.trainers.config import read_config
from hpsearch.trainers.rollouts import game_config
from hpsearch.trainers.saved_player import SavedPlayer, load_player

Measures = dict[str, Any]
"""what evaluation.json holds"""


@dataclass(frozen=True)
class How:
    """How bundles are made."""

    num_games: int
    """games an opponent and mode"""
    made: Made
    key: Path | None
    """by which they are signed; None leaves them unsigned"""


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
    found = []
    with replacing(folder) as temporary:
        names = bundle_names(trials)
        for trial, name in zip(trials, names, strict=True):
            found.append(_write(BundleDir(temporary / name), view, trial, how))
        listed = [
            {"folder": name, "trial": trial.number, "metrics": trial.metrics}
            for trial, name in zip(trials, names, strict=True)
        ]
        _write_json(temporary / INDEX, {"bundles": listed})
    return found


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
        **provenance(how.made, trained_on=config["device"]),
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

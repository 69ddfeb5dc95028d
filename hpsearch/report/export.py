"""Exporting: a trial as a folder that stands alone, whole or absent."""

import json
import shutil
from pathlib import Path
from typing import Any
from uuid import uuid4

from hpsearch import yaml_file
from hpsearch.errors import DiskError, UsageError
from hpsearch.report.compare import compare, load_trainer, plain_rows
from hpsearch.report.provenance import versions
from hpsearch.report.view import StudyView
from hpsearch.study.records import COMPLETE, Trial
from hpsearch.trainers.checkpoint import write_tensors
from hpsearch.trainers.config import read_config
from hpsearch.trainers.trainer import AnyTrainer

MARK = "evaluation.json"
"""the file by which a folder is known to be an export, and may be replaced by a newer one"""


def export(view: StudyView, trial: Trial, folder: Path) -> dict[str, Any]:
    """Write configuration, weights and measures of a finished trial; return the measures.

    Raises:
        UsageError: if the trial has not finished, or the folder holds something else.
        CorruptError: if no checkpoint of the trial is whole.
        DiskError: if the folder cannot be written; an older export stays.
    """
    if trial.told != COMPLETE:
        raise UsageError(f"trial {trial.number} has not finished, so there is nothing to export")
    if folder.is_file():
        raise UsageError(f"{folder} is a file; choose another folder with -o")
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise UsageError(f"{folder} holds other files; choose another folder with -o")
    config = view.config(trial)
    files = view.folder.trial(trial.number)
    trainer = load_trainer(read_config(config, source=str(files.config)), files.checkpoints)
    measures = {
        "study": view.study.spec.name,
        "trial": trial.number,
        "objective": view.study.spec.objectives[0].metric,
        "params": view.study.space.decode(trial.last_params),
        "search_metrics": trial.metrics,
        "rows": plain_rows(compare(trainer)),
        "provenance": versions(),
    }
    temporary = folder.with_name(f".{folder.name}-{uuid4().hex}")
    try:
        _write(temporary, trainer, config, measures)
        _put_in_place(temporary, folder)
    except OSError as error:
        raise DiskError(
            f"{folder} cannot be written ({error.strerror or error}); free some space, then "
            "export again"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return measures


def _put_in_place(new: Path, folder: Path) -> None:
    """Rename ``new`` to ``folder``; an older export is removed when the new one stands.

    A kill between two renames leaves the older one, hidden; the next export removes it.
    """
    for left in folder.parent.glob(f".{folder.name}-*-old"):
        if folder.exists():
            shutil.rmtree(left)
        else:
            left.rename(folder)
    if not folder.exists():
        new.rename(folder)
        return
    old = new.with_name(f"{new.name}-old")
    folder.rename(old)
    try:
        new.rename(folder)
    except OSError:
        old.rename(folder)
        raise
    shutil.rmtree(old)


def _write(
    folder: Path, trainer: AnyTrainer, config: dict[str, Any], measures: dict[str, Any]
) -> None:
    folder.mkdir(parents=True)
    tensors = {
        f"{learner.name}.{name}": tensor
        for learner in trainer.learners
        for name, tensor in learner.net.layers(0).items()
    }
    write_tensors(folder / "weights.safetensors", tensors)
    (folder / "config.yaml").write_text(yaml_file.dump(config))
    (folder / "README.md").write_text(_readme(measures, tensors))
    (folder / MARK).write_text(json.dumps(measures, indent=1) + "\n")


def _readme(measures: dict[str, Any], tensors: dict[str, Any]) -> str:
    shapes = "\n".join(f"- `{name}`: {list(tensor.shape)}" for name, tensor in tensors.items())
    return f"""# Trial {measures["trial"]} of the study {measures["study"]}

- `config.yaml`: the complete trainer configuration.
- `weights.safetensors`: the networks, a weight (outputs, inputs) and a bias a linear layer, in the
  order of the forward pass, as torch.nn.Linear holds them; batch norms as torch.nn.BatchNorm1d.
- `evaluation.json`: rho on starts that the search never used, beside the scripted players.

Every network takes the N x D points divided by their largest coordinate, rows sorted descending,
empty rows -1, flattened; an agent's takes the D bits of the host's subset after them. The `encoder`
of `config.yaml` says what it makes of them: `flatten` keeps the first `num_points` rows. A network
of Q-learning returns the value of every action; one of PPO has two towers, `0` gives the logarithm
of each action's odds, `1` the value of the position.

{shapes}
"""

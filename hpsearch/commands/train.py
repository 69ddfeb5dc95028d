"""hpsearch train: one trainer without a study."""

import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numba
import torch

from hpsearch import yaml_file
from hpsearch.cluster.failures import CODE, DISK, STOP_SIGNALS, stop_flag
from hpsearch.cluster.machine import num_cores
from hpsearch.cluster.single_run import open_run
from hpsearch.cluster.study_dir import TrialDir
from hpsearch.errors import (
    INTERRUPTED,
    ConfigError,
    DiskError,
    TrainingFailedError,
    UsageError,
    unknown_name,
)
from hpsearch.names import NAME_RULE, check_places, is_name
from hpsearch.report.training import open_training_display, plain_metrics_table
from hpsearch.schema import to_plain
from hpsearch.terminal import Terminal
from hpsearch.trainers.config import read_config


def train(
    config: Path,
    overrides: Sequence[str],
    *,
    runs: Path,
    name: str | None,
    resume: str | None,
    threads: int | None,
) -> int:
    """Train what a configuration says, from where it was interrupted; Ctrl-C saves and leaves."""
    check_places(config, runs)
    plain = to_plain(yaml_file.load(config))  # copied: what the file says by an alias is one object
    for override in overrides:
        _override(plain, override)
    if resume is not None:
        _override(plain, f"checkpoint.resume={resume}")
    trained = read_config(plain, source=str(config))
    name = config.stem if name is None else name
    if not is_name(name):
        raise UsageError(f"the name of a run {NAME_RULE}, but is {name!r}; choose one with --name")
    folder = (runs / name).absolute()
    _use_threads(threads or num_cores())
    console = Terminal()
    with (
        stop_flag((signal.SIGINT, *STOP_SIGNALS)) as flag,
        open_run(trained, folder) as run,
        open_training_display(console, trained.steps) as display,
    ):
        result = run.train(flag, display.show)
    if result.status == "interrupted":
        begins_anew = trained.checkpoint.resume == "never"
        print(
            f"hpsearch: interrupted at step {result.step} of {trained.steps} and saved; the same "
            f"command goes on{' with --resume auto' if begins_anew else ''}",
            file=sys.stderr,
        )
        return INTERRUPTED
    if result.kind == DISK:
        raise DiskError(
            f"training stopped ({result.message}); free some space, then run the same command again"
        )
    if result.status != "finished":
        fault = TrialDir(folder).fault
        where = f"; {fault} tells it in full" if result.kind == CODE else ""
        raise TrainingFailedError(f"training failed ({result.kind}): {result.message}{where}")
    console.print(plain_metrics_table(result.metrics))
    print(f"checkpoints and curves are in {folder}")
    return 0


def _override(plain: Any, override: str) -> None:
    """Set the value of one dotted key, as ``host.gamma=0.9`` says."""
    path, equals, text = override.partition("=")
    if not equals:
        raise UsageError(f"a changed key is written KEY=VALUE, but is {override!r}")
    *parents, key = path.split(".")
    place = plain
    for parent in parents:
        place = place.get(parent) if isinstance(place, dict) else None
    if not isinstance(place, dict):
        raise UsageError(f"the configuration has no keys below {'.'.join(parents)!r}")
    if key not in place:
        raise UsageError(f"{path}: {unknown_name('key', key, place)}")
    try:
        place[key] = yaml_file.parse(text)
    except ConfigError as error:
        raise UsageError(f"the value of {path}: {error}") from error


def _use_threads(count: int) -> None:
    torch.set_num_threads(count)
    numba.set_num_threads(min(count, numba.get_num_threads()))

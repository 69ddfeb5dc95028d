"""hpsearch train: one trainer without a study. hpsearch checkpoint: a checkpoint now."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpsearch.cluster.failures import CODE, DISK, STOP_SIGNALS, RankLostError, stop_flag
from hpsearch.cluster.threads import let_threads_spin
from hpsearch.commands.command import RUNS, argument, command, option, positive
from hpsearch.errors import (
    INTERRUPTED,
    ConfigError,
    DiskError,
    TrainingFailedError,
    UsageError,
    unknown_name,
)
from hpsearch.names import NAME_RULE, check_places, is_name

if TYPE_CHECKING:
    from hpsearch.cluster.records import AttemptResult, Heartbeat
    from hpsearch.cluster.study_dir import TrialDir
    from hpsearch.trainers.config import TrainerConfig


@command(
    "train one configuration without a study, or continue it",
    argument("config", "CONFIG", "trainer configuration, a file", Path),
    argument("overrides", "KEY=VALUE", "a key to change, such as host.gamma=0.9", count="*"),
    option("--name NAME", "name of the folder under --runs; default: that of the file"),
    RUNS,
    option(
        "--resume",
        "continue from a checkpoint if there is one, never, or fail without one; default: as the "
        "file says",
        choices=("auto", "never", "must"),
    ),
    option(
        "--threads N",
        "CPU threads per rank, at most as many as there are cores for all ranks, and fewer while "
        "other programs need them; default: "
        "OMP_NUM_THREADS, else what pays: one for small networks",
        positive,
    ),
    option(
        "--ranks N",
        "processes that train it together; the number must divide shards; default: 1",
        positive,
    ),
    examples=[
        "studies/trainers/ppo_20x3.yaml",
        "studies/trainers/dqn_20x3.yaml host.gamma=0.95 --name gamma95",
    ],
)
def train(
    config: Path,
    overrides: Sequence[str],
    *,
    runs: Path,
    name: str | None,
    resume: str | None,
    threads: int | None,
    ranks: int | None,
) -> int:
    let_threads_spin()

    from hpsearch.cluster.machine import keep_freed_memory
    from hpsearch.cluster.meeting import local_team
    from hpsearch.cluster.single_run import open_run, train_alone
    from hpsearch.report.progress import TrainingDisplay, metrics_table, open_panel
    from hpsearch.terminal import Terminal, say

    check_places(config, runs)
    resumes = [] if resume is None else [f"checkpoint.resume={resume}"]
    trained = _configuration(config, [*overrides, *resumes])
    name = config.stem if name is None else name
    if not is_name(name):
        raise UsageError(f"the name of a run {NAME_RULE}, but is {name!r}; choose one with --name")
    folder = (runs / name).absolute()
    num_ranks = ranks or 1
    _check_ranks(num_ranks, trained)
    num_threads = _threads(threads, num_ranks, trained)
    keep_freed_memory()
    console = Terminal(outlives_reader=True)
    with (
        stop_flag((signal.SIGINT, signal.SIGHUP, *STOP_SIGNALS)) as flag,
        open_run(trained, folder) as member,
        local_team(num_ranks, num_threads, flag, member.trial.weights) as team,
        open_panel(console) as panel,
    ):
        try:
            result = train_alone(member, flag, TrainingDisplay(panel, trained.steps).show, team)
        except RankLostError as error:
            raise TrainingFailedError(
                f"training stopped ({error}); the same command goes on from the newest checkpoint"
            ) from error
    if result.status == "interrupted":
        ending = " with --resume auto" if trained.checkpoint.resume == "never" else ""
        say(
            f"interrupted at step {result.step} of {trained.steps} and saved; the same command "
            f"goes on{ending}"
        )
        return INTERRUPTED
    _check_finished(result, member.trial)
    console.print(metrics_table(result.metrics))
    print(f"checkpoints and curves are in {folder}")
    return 0


def _check_finished(result: "AttemptResult", trial: "TrialDir") -> None:
    """Raise what kept a run from its end."""
    if result.kind == DISK:
        raise DiskError(
            f"training stopped ({result.message}); free some space, then run the same command again"
        )
    if result.status != "finished":
        where = f"; {trial.fault} tells it in full" if result.kind == CODE else ""
        raise TrainingFailedError(f"training failed ({result.kind}): {result.message}{where}")


def _configuration(path: Path, overrides: Sequence[str]) -> "TrainerConfig":
    from hpsearch import yaml_file
    from hpsearch.schema import to_plain
    from hpsearch.trainers.config import read_config

    plain = to_plain(yaml_file.load(path))  # copied: what the file says by an alias is one object
    if isinstance(plain, dict) and {"space", "objectives"} <= plain.keys():
        remedy = f"run it with: hpsearch run {path}"
        raise ConfigError(
            str(path), [f"the file holds a study and no trainer's configuration; {remedy}"]
        )
    for override in overrides:
        _override(plain, override)
    return read_config(plain, source=str(path))


def _check_ranks(ranks: int, config: "TrainerConfig") -> None:
    """Check that so many ranks can train, and let them see the GPUs that they share out."""
    from hpsearch.cluster.machine import VISIBLE, counted, find_gpus
    from hpsearch.trainers.config.rollouts import ActorRollouts

    if config.shards % ranks:
        raise UsageError(
            f"--ranks must divide the key shards={config.shards} of the configuration, but is "
            f"{ranks}; add shards={ranks} to the command; it must divide the sizes of rollouts, "
            "batches and memories"
        )
    rollouts = config.rollouts
    if isinstance(rollouts, ActorRollouts) and config.shards % (ranks * rollouts.actors):
        raise UsageError(
            f"{ranks} ranks of {rollouts.actors} actors each must divide the key "
            f"shards={config.shards}; add shards={ranks * rollouts.actors} to the command"
        )
    wanted = ranks * (1 + rollouts.gpus)
    if wanted == 1 or config.device != "cuda":
        return
    gpus = find_gpus()
    if len(gpus) < wanted:
        actors, remedy = "", "lower it, or add device=cpu to the command"
        if rollouts.gpus:
            actors = f" and each of its {rollouts.gpus} actors"
            remedy = "lower it or rollouts.actors, or add rollouts.sync_method=memory"
        raise UsageError(
            f"each rank{actors} needs a GPU of its own, but this machine has "
            f"{counted(len(gpus))} for --ranks {ranks}; {remedy}"
        )
    os.environ[VISIBLE] = ",".join(gpu.name for gpu in gpus[:wanted])


def _threads(asked_for: int | None, ranks: int, config: "TrainerConfig") -> int:
    """Return the threads of each rank.

    UsageError if an option asks for more than there are cores.
    """
    from hpsearch.cluster.machine import num_cores
    from hpsearch.cluster.threads import useful_threads

    cores = num_cores()
    if asked_for is not None:
        if asked_for * ranks > cores:
            each = "" if ranks == 1 else f" for each of {ranks} ranks"
            raise UsageError(
                f"--threads {asked_for}{each} takes {asked_for * ranks} cores, but the number of "
                f"those that this process may use is {cores}; lower it, or leave it out"
            )
        return asked_for
    import torch

    if "OMP_NUM_THREADS" in os.environ:  # a user's, which torch has read
        return torch.get_num_threads()
    return useful_threads(config, members=1, ranks=ranks, cores=cores)


def _override(plain: Any, override: str) -> None:
    """Set the value of one dotted key, as ``host.gamma=0.9`` says."""
    from hpsearch import yaml_file

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


@command(
    "ask a training process for a checkpoint now",
    argument("folder", "FOLDER", "RUNS/NAME, or RUNS/STUDY/trials/NUMBER", Path),
    examples=["runs/ppo_20x3"],
)
def checkpoint(folder: Path) -> None:
    from hpsearch.cluster.heartbeats import LONGEST_SECONDS
    from hpsearch.cluster.study_dir import TrialDir

    trial = TrialDir(folder)
    if not trial.config.exists():
        raise UsageError(
            f"{folder} is no folder of a run or a trial; they are RUNS/NAME after hpsearch train "
            "and RUNS/STUDY/trials/NUMBER in a study"
        )
    number = trial.newest_attempt()
    beat, longest_ago = _last_heartbeat(trial, number), time.time() - 3 * LONGEST_SECONDS
    is_silent = beat is not None and not beat.is_busy and beat.at < longest_ago
    if trial.attempt(number).read_result() is not None or is_silent:
        raise UsageError(
            f"no job trains in {folder} now; its checkpoints are in {trial.checkpoints}"
        )
    trial.request_save()
    print(f"asked for a checkpoint below {trial.checkpoints}; the job that trains there writes it")


def _last_heartbeat(trial: "TrialDir", attempt: int) -> "Heartbeat | None":
    from hpsearch.cluster.study_dir import StudyDir

    study = StudyDir(trial.root.absolute().parent.parent)
    if study.spec.exists() and trial.root.name.isdecimal():
        return study.heartbeat(int(trial.root.name), attempt)
    own = trial.heartbeat.try_read()
    beat = None if own is None else own.of(0, attempt)
    return trial.attempt(attempt).heartbeat.try_read() if beat is None else beat

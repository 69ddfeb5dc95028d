"""A SLURM profile: what one site's cluster wants of a job, as YAML beside the studies.

Every key but `nodes` and `sbatch` must be present. Names reach a shell and are held to strict
patterns; ``setup`` is shell.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from hpsearch import yaml_file
from hpsearch.schema import NonNegative, Positive, read

_NAME = (r"[A-Za-z0-9_.+-]+", "letters, digits and _ . + -")
_RULES = {
    # The first of a list that can start the job.
    "partition": (r"[A-Za-z0-9_.+,-]+", "letters, digits, commas and _ . + -"),
    "account": _NAME,
    "qos": _NAME,
    "constraint": (
        r"[A-Za-z0-9_.+&|()\[\]*,-]+",
        "letters, digits, commas and _ . + - & | ( ) [ ] *",
    ),
    "gpu_type": _NAME,
}
"""by key, the pattern of a name, and its characters in words"""


SbatchOptions = dict[str, str | int | bool]

TAKEN = {
    **{name: name for name in ("partition", "account", "qos", "constraint", "nodes")},
    **dict.fromkeys(("gres", "gpus", "gpus-per-node", "gpus-per-task"), "gpus_per_task"),
    "gpus-per-socket": "gpus_per_task",
    **dict.fromkeys(("ntasks", "ntasks-per-node", "tasks-per-node"), "tasks_per_job"),
    **{f"ntasks-per-{part}": "tasks_per_job" for part in ("core", "socket", "gpu")},
    **dict.fromkeys(("cpus-per-task", "cpus-per-gpu"), "cpus_per_task"),
    **dict.fromkeys(("mem", "mem-per-cpu", "mem-per-gpu"), "memory_gib"),
    **dict.fromkeys(("time", "time-min"), "walltime_minutes"),
    "signal": "signal_delay_seconds",
    "array": "array_parallelism",
}
"""options of sbatch that a key of the profile says, and which"""
OWN = frozenset(
    (
        *("job-name", "output", "error", "input", "open-mode", "chdir", "wrap", "parsable"),
        *("requeue", "no-requeue", "export", "export-file", "wait", "test-only", "dependency"),
        *("hold", "kill-on-invalid-dep", "overcommit", "clusters", "nodefile", "help", "version"),
        *("quiet", "no-kill"),
    )
)
"""options of sbatch by which hpsearch finds its jobs again, or that would keep it from doing so"""


@dataclass(frozen=True)
class DriverProfile:
    """The job that drives a study: one CPU, no GPU, longer than any of its jobs."""

    partition: str | None
    """where it waits and runs, or a list with commas; none for the site's default"""
    account: str | None
    """who is charged; none for the user's default"""
    qos: str | None
    """quality of service; none for the user's default"""
    memory_gib: Positive
    """GiB of memory"""
    walltime_minutes: Positive
    """minutes after which SLURM ends it"""
    sbatch: SbatchOptions = field(default_factory=dict)
    """more options of sbatch, as below"""

    def check(self) -> Iterator[str]:
        yield from _name_problems(self)
        yield from _sbatch_problems(self)


@dataclass(frozen=True)
class SlurmProfile:
    """What a job of trials asks of SLURM, and how hard the scheduler may be worked."""

    partition: str | None
    """where a job waits and runs, or a list with commas; none for the site's default"""
    account: str | None
    """who is charged; none for the user's default"""
    qos: str | None
    """quality of service; none for the user's default"""
    constraint: str | None
    """features that a node must have, such as a100&nvlink; none for any node"""
    gpu_type: str | None
    """type of the GPUs in the site's gres names, such as a100; none for any"""
    gpus_per_task: NonNegative
    """GPUs of one task"""
    cpus_per_task: Positive
    """CPUs of one task"""
    memory_gib: Positive
    """GiB of memory of one task"""
    walltime_minutes: Positive
    """minutes after which SLURM ends a job"""
    signal_delay_seconds: Positive
    """seconds before the walltime at which a job is told to save and leave"""
    setup: tuple[str, ...]
    """lines of shell that run before the job, such as module load cuda"""
    array_parallelism: Positive
    """jobs of one array that run at once"""
    tasks_per_job: Positive
    """jobs of a study that share one SLURM job; each rank of each is one task"""
    max_calls_per_minute: Positive
    """calls of sbatch, squeue, sacct and scancel together"""
    driver: DriverProfile
    """the job that drives the study"""
    nodes: Positive = 1
    """nodes of one SLURM job, over which its tasks are spread evenly"""
    sbatch: SbatchOptions = field(default_factory=dict)
    """more options of sbatch for jobs of trials, by their long names, such as reservation: june;
    true for one without a value"""

    def check(self) -> Iterator[str]:
        yield from _name_problems(self)
        yield from _sbatch_problems(self)
        if self.gpu_type is not None and self.gpus_per_task == 0:
            yield f"gpu_type must be null while gpus_per_task is 0, but is {self.gpu_type!r}"
        if self.signal_delay_seconds >= self.walltime_minutes * 60:
            yield (
                f"signal_delay_seconds must be less than the {self.walltime_minutes * 60} seconds "
                f"of walltime_minutes, but is {self.signal_delay_seconds}"
            )
        for index, line in enumerate(self.setup):
            if "\n" in line or "\r" in line or "\0" in line:
                yield f"setup[{index}] must be one line, but is {line!r}"


def load_profile(path: Path) -> SlurmProfile:
    return read(SlurmProfile, yaml_file.load(path), source=str(path))


def sbatch_parameters(
    profile: SlurmProfile, ranks: int = 1, min_ranks: int | None = None
) -> dict[str, Any]:
    """Return what submitit's SlurmExecutor.update_parameters takes for jobs of trials."""
    kind = "" if profile.gpu_type is None else f"{profile.gpu_type}:"
    num_tasks = profile.tasks_per_job * ranks // profile.nodes  # of a node
    num_gpus = profile.gpus_per_task * num_tasks
    # Of ranks that train together none goes on without the others; other tasks do, whatever the
    # site's WaitTime and KillOnBadExit say.
    ends_with_one = ranks > 1 and profile.tasks_per_job == 1
    # Since SLURM 22.05 srun doesn't take it from sbatch.
    srun_args = [f"--cpus-per-task={profile.cpus_per_task}"]
    srun_args += [f"--kill-on-bad-exit={int(ends_with_one)}", "--wait=0"]
    # SLURM must not run a job again by itself: it is one attempt with one token.
    plain: dict[str, Any] = {**profile.sbatch, "no-requeue": True}
    fewest = ranks if min_ranks is None else min_ranks
    is_range = fewest < ranks
    if is_range:
        # Submitit counts tasks by its own "nodes". Told of tasks, SLURM would always give the
        # fewest nodes; so sbatch asks for the CPUs of a node, and srun alone knows of tasks.
        plain["nodes"] = f"{fewest // num_tasks}-{profile.nodes}"
        srun_args.append(f"--ntasks-per-node={num_tasks}")
    parameters = {
        "partition": profile.partition,
        "account": profile.account,
        "qos": profile.qos,
        "constraint": profile.constraint,
        "gres": f"gpu:{kind}{num_gpus}" if num_gpus else None,
        "nodes": profile.nodes,
        "ntasks_per_node": None if is_range else num_tasks,
        "cpus_per_task": profile.cpus_per_task * (num_tasks if is_range else 1),
        "mem": f"{profile.memory_gib * num_tasks}G",
        "time": profile.walltime_minutes,
        "signal_delay_s": profile.signal_delay_seconds,
        "setup": list(profile.setup),
        "array_parallelism": profile.array_parallelism,
        "stderr_to_stdout": True,
        "srun_args": srun_args,
        "additional_parameters": plain,
    }
    return {key: value for key, value in parameters.items() if value is not None}


_OPTIONS = (
    *("partition", "account", "qos", "constraint", "gres", "nodes"),
    *("ntasks_per_node", "cpus_per_task", "mem", "time"),
)
"""parameters of submitit that sbatch knows by the same name"""


def trial_options(profile: SlurmProfile, ranks: int = 1, min_ranks: int | None = None) -> list[str]:
    signal = f"--signal=USR2@{profile.signal_delay_seconds}"
    own = _options(sbatch_parameters(profile, ranks, min_ranks))
    return [*own, *_more_options(profile.sbatch), signal, "--no-requeue"]


def step_options(profile: SlurmProfile, ranks: int = 1, min_ranks: int | None = None) -> list[str]:
    """Return the options of the srun that starts the tasks of a job of trials."""
    return list(sbatch_parameters(profile, ranks, min_ranks)["srun_args"])


def driver_options(driver: DriverProfile) -> list[str]:
    parameters = {
        **asdict(driver),
        "nodes": 1,
        "ntasks_per_node": 1,
        "cpus_per_task": 1,
        "mem": f"{driver.memory_gib}G",
        "time": driver.walltime_minutes,
    }
    return [*_options(parameters), *_more_options(driver.sbatch)]


def _more_options(sbatch: SbatchOptions) -> list[str]:
    return [f"--{name}" if value is True else f"--{name}={value}" for name, value in sbatch.items()]


def _options(parameters: Mapping[str, Any]) -> list[str]:
    parameters = {**parameters, **parameters.get("additional_parameters", {})}
    asked = {key: parameters[key] for key in _OPTIONS if parameters.get(key) is not None}
    return [f"--{key.replace('_', '-')}={value}" for key, value in asked.items()]


def setup_lines(profile: SlurmProfile, code: Path) -> list[str]:
    """Return the shell before a job: the site's lines, then where Python finds the copied code."""
    path = f"{shlex.quote(str(code))}${{PYTHONPATH:+:$PYTHONPATH}}"
    # Safe: else what lies in the folder of the submission would come before the copy.
    return [*profile.setup, f"export PYTHONPATH={path}", "export PYTHONSAFEPATH=1"]


def _sbatch_problems(profile: SlurmProfile | DriverProfile) -> Iterator[str]:
    keys = {key.name for key in fields(profile)}
    for name, value in profile.sbatch.items():
        longer = sorted(own for own in (*TAKEN, *OWN) if own.startswith(name))
        if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
            yield f"sbatch must name options by their long names, without --, but names {name!r}"
        elif name in TAKEN:
            key = TAKEN[name]
            remedy = f"say it by {key} instead" if key in keys else "the driver needs one CPU alone"
            yield f"sbatch.{name} is for hpsearch to give; {remedy}"
        elif name in OWN:
            why = "which could lose its jobs by another one"
            yield f"sbatch.{name} is for hpsearch to give, {why}; leave it out"
        elif longer:  # sbatch takes abbreviations
            yield f"sbatch must name options by their whole names, but {name} begins {longer[0]}"
        elif value is False:
            yield f"sbatch.{name} must be true, or have a value; leave it out instead of false"
        elif isinstance(value, str) and not re.fullmatch(r"[\x20-\x5b\x5d-\x7e]+", value):
            # In a script sbatch drops a backslash.
            rule = "must be of printable ASCII on one line, without a backslash"
            yield f"sbatch.{name} {rule}, but is {value!r}"


def _name_problems(profile: SlurmProfile | DriverProfile) -> Iterator[str]:
    names = asdict(profile)
    for key, (pattern, characters) in _RULES.items():
        name = names.get(key)
        if name is not None and not re.fullmatch(pattern, name):
            yield f"{key} must be of {characters}, but is {name!r}"

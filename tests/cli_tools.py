"""Small studies, the command line as a process, and what it left: for the end-to-end tests."""

import copy
import gc
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import optuna
import psutil
from tiny_configs import CONFIGS

from hpsearch import yaml_file
from hpsearch.cli import main
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.trainers import checkpoint

PATIENCE_SECONDS = 300
METRIC = "rho/host/choose_first"
STARTING = ("submit", "resume", "retry", "tick", "drive", "train", "dashboard", "tensorboard")
"""commands that leave processes behind, train in this one, or take signals"""
DRIVING = ("run", "confirm", "replay", "breed")
"""commands that let jobs train and wait for them, unless they are to ``--submit`` them"""
REFUSED = (2, 3)
"""exit codes of what is refused before it starts anything"""

STUDY = {
    "name": "tiny",
    "seed": 3,
    "storage": "sqlite:///runs/tiny.db",
    "base": "trainer.yaml",
    "objectives": [{"metric": METRIC, "goal": "maximize"}],
    "space": {
        "host.optim.args.lr": {"type": "float", "low": 1e-4, "high": 1e-2, "log": True},
        "host.gamma": {"type": "float", "low": 0.8, "high": 0.97},
    },
    "sampler": {"name": "tpe", "n_startup_trials": 3},
    "budget": {"trials": 6},
    "executor": {"name": "local", "jobs": 2, "members_per_job": 3, "cpus_per_job": 1},
}


def with_changes(data: dict, changes: dict) -> dict:
    """Return plain data with values at dotted paths replaced; ... removes a key."""
    data = copy.deepcopy(data)
    for path, value in changes.items():
        *parents, key = path.split("/")
        place = data
        for parent in parents:
            place = place[parent]
        if value is ...:
            del place[key]
        else:
            place[key] = value
    return data


TRAINER = with_changes(
    CONFIGS["dqn"],
    {
        "steps": 60,
        "max_num_points": 5,
        "max_value": 8,
        "max_steps": 20,
        "rollout_length": 1,
        "updates_per_step": 1,
        "learning_starts": 2,
        "host/encoder/num_points": 5,
        "host/optim/lr_schedule": {"mode": "constant"},
        "host/max_grad_norm": 10.0,
        "host/rollout_size": 16,
        "host/er": 0.1,
        "host/er_schedule": {"mode": "linear", "initial": 1.0, "steps": 30},
        "host/tau": 1.0,
        "host/steps_before_update_target": 10,
        "host/huber_delta": 1.0,
        "agent/player": "choose_first",
        "replay_buffer/buffer_size": 400,
        "evaluation/interval": 20,
        "evaluation/num_games": 50,
        "evaluation/final_num_games": 200,
        "evaluation/max_steps": 30,
        "evaluation/er": 0.05,
        "evaluation/opponents": ["choose_first"],
        "checkpoint/interval": 10,
    },
)


def write_trainer(folder: Path, changes: dict | None = None) -> Path:
    """Write trainer.yaml; the paths of ``changes`` are separated by slashes."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "trainer.yaml"
    path.write_text(yaml_file.dump(with_changes(TRAINER, changes or {})))
    return path


def write_study(folder: Path, changes: dict | None = None) -> Path:
    """Write study.yaml, and trainer.yaml if there is none."""
    if not (folder / "trainer.yaml").exists():
        write_trainer(folder)
    path = folder / "study.yaml"
    path.write_text(yaml_file.dump(with_changes(STUDY, changes or {})))
    return path


def hpsearch(folder: Path, *arguments: str, env: dict | None = None, code: int | None = 0):
    """Run one command in a folder; ``code`` is the exit code that it must have.

    What leaves nothing behind, or is refused, runs in this process, which has loaded torch already,
    unless it is given an environment.
    """
    is_starting = arguments[:1] and (arguments[0] in STARTING or "--submit" in arguments)
    is_process = env is not None or (is_starting and code not in REFUSED)
    run = as_process if is_process else in_this_process
    done = run(folder, *arguments, env=env)
    output = (done.stdout + done.stderr).splitlines()
    assert not any(line.startswith("Traceback") for line in output), (
        output
    )  # a log quoted as data may
    if code is not None:
        assert done.returncode == code, done.stdout + done.stderr
    return done


def as_process(folder: Path, *arguments: str, env: dict | None = None):
    """Run one command as users do; return its exit code and what it said."""
    return subprocess.run(
        [sys.executable, "-m", "hpsearch.cli", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        env=os.environ | (env or {}),
    )


def in_this_process(folder: Path, *arguments: str, env: None = None):
    """Run one command without a process of its own; return its exit code and what it said."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    umask = os.umask(0o022)
    try:
        with chdir(folder), redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # as they are where Python runs a module
            try:
                code = main(arguments)
            except SystemExit as end:  # argparse
                code = end.code
            if arguments[:1] and arguments[0] in DRIVING:
                gc.collect()  # Python warns of jobs that a driver has killed and not waited for
    finally:
        os.umask(umask)
    said = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return subprocess.CompletedProcess(arguments, code, *said)


def refused(folder: Path, *arguments: str, code: int, env: dict | None = None) -> str:
    """Run a command that must end with one message on stderr, and return the message."""
    done = hpsearch(folder, *arguments, env=env, code=code)
    assert done.stderr.startswith("hpsearch: "), done.stderr
    assert done.stderr.count("hpsearch: ") == 1, done.stderr
    return done.stderr.removeprefix("hpsearch: ").strip()


def read(folder: Path, *arguments: str):
    """Return what a command prints with --json."""
    done = hpsearch(folder, *arguments, "--json")
    assert done.stderr == ""
    return json.loads(done.stdout)


class Run:
    """`hpsearch run study.yaml` in the background, in a session of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        # Files: a job that outlives the run would keep the end of a pipe open.
        self._out = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._err = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hpsearch.cli", "run", "study.yaml", *arguments],
            cwd=folder,
            stdout=self._out,
            stderr=self._err,
            start_new_session=True,
        )

    def end(self, number: signal.Signals) -> tuple[int, str, str]:
        """Send a signal; return exit code, stdout and stderr."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> tuple[int, str, str]:
        """Return exit code, stdout and stderr."""
        code = self.process.wait(timeout=PATIENCE_SECONDS)
        out, err = self._read(self._out), self._read(self._err)
        assert "Traceback" not in out + err, out + err
        return code, out, err

    def _read(self, file) -> str:
        with file:
            file.seek(0)
            return file.read()

    def wait_until(self, condition) -> None:
        """Wait for a condition, as long as the run runs."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            if self.process.poll() is not None:
                raise AssertionError(("the run ended before its time", self.wait()))
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(0.005)


def jobs_of(folder: Path) -> list[psutil.Process]:
    """Return the processes of the jobs of the studies in a folder."""
    jobs = []
    for process in psutil.process_iter():
        try:
            command = process.cmdline()
            if any(str(folder) in part and "/jobs/" in part for part in command):
                jobs.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return [process for process in jobs if process.status() != psutil.STATUS_ZOMBIE]


def kill_jobs(folder: Path) -> None:
    """Kill the jobs of the studies in a folder without a warning."""
    while jobs := jobs_of(folder):
        for process in jobs:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(jobs, timeout=5)


def kill_study(folder: Path) -> None:
    """Kill what drives the studies in a folder, then their jobs."""
    kill_drivers(folder)
    kill_jobs(folder)


def kill_drivers(folder: Path) -> None:
    """Kill what drives the studies in a folder, supervisors first."""
    for process in psutil.process_iter(["cmdline"]):  # by their numbers: supervisors come first
        words = process.info["cmdline"] or []
        if "drive" in words and any(str(folder) in word for word in words):
            with suppress(psutil.NoSuchProcess):
                process.kill()
                process.wait(10)


def no_jobs_left(folder: Path) -> bool:
    """Return whether all jobs leave, within a few seconds."""
    deadline = time.monotonic() + 20
    while jobs_of(folder):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def plain_optuna(folder: Path, name: str = "tiny") -> optuna.Study:
    """Return the study as plain Optuna loads it."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        # SQLAlchemy's pool leaves the connection to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        return optuna.load_study(study_name=name, storage=f"sqlite:///{folder}/runs/{name}.db")


def outcomes(folder: Path) -> dict[int, tuple]:
    """Return state, values, parameters and learning curve of every trial, from Optuna."""
    return {
        trial.number: (trial.state, trial.values, trial.params, trial.intermediate_values)
        for trial in plain_optuna(folder).trials
    }


def events(folder: Path, kind: str, name: str = "tiny") -> list[int]:
    """Return the trials of the events of a kind, in their order, from the driver's log."""
    log = StudyDir(folder / "runs" / name).log
    lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    return [
        int(words[words.index("trial") + 1])
        for words in lines
        if words[2] == kind and "trial" in words
    ]


def told(folder: Path) -> set[int]:
    """Return the trials that have ended, by their result files."""
    files = (folder / "runs/tiny/trials").glob("*/result.json")
    return {int(path.parent.name) for path in files}


def newest_step(folder: Path, number: int) -> int:
    """Return the step of the newest whole checkpoint of a trial, 0 if there is none."""
    files = StudyDir(folder / "runs/tiny").trial(number)
    return next(checkpoint.valid_steps(files.checkpoints), 0)


def damage(path: Path) -> None:
    """Flip one byte in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)

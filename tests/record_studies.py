"""Records studies that were cut off in the middle, for tests/test_upgrades.py to go on with.

    python tests/record_studies.py

To be run once for each release, with its code; what it writes is committed and never changed again.
"""

import json
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil
from cli_tools import Run, hpsearch, jobs_of, kill_jobs, newest_step, write_study, write_trainer
from recorded import DATABASE, RECORDINGS, pack
from test_population_end_to_end import OPERATORS
from test_population_end_to_end import TRAINER as PAIR

from hpsearch import __version__
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.study import requests
from hpsearch.study.requests import Request
from hpsearch.trainers.checkpoint import keep_last

SMALL = {
    "steps": 400,
    "evaluation/interval": 100,
    "evaluation/num_games": 20,
    "evaluation/final_num_games": 20,
    "checkpoint/interval": 50,
    "replay_buffer/buffer_size": 16,
    "monitor/training_log": False,
}
PLAIN = {
    "space/steps": {"type": "int", "low": 100, "high": 800, "step": 100},
    "space/host.optim.args.lr": {"type": "categorical", "choices": [1.0e-3, 1.0e-2, 1.0e30]},
    "sampler": {"name": "tpe", "n_startup_trials": 3},
    "budget": {"trials": 8},
    "max_failures": 8,
    "executor": {"name": "local", "jobs": 2, "members_per_job": 2, "cpus_per_job": 1},
}
FINISHED = {"budget": {"trials": 2}, "sampler": {"name": "random"}}
POPULATION = {
    "space/agent.gamma": {"type": "float", "low": 0.8, "high": 0.99},
    "sampler": {"name": "random"},
    "budget": {"trials": 8},
    "executor": {"name": "local", "jobs": 2, "members_per_job": 2, "cpus_per_job": 1},
    "population": {
        "members": 3,
        "interval": 40,
        "matches": {"num_games": 16, "num_samples": 20},
        "selection": {"name": "truncation", "share": 0.4, "confidence": 0.6},
        "operators": OPERATORS,
        "floor": 0.2,
        "adoption": {"num_games": 16, "confidence": 0.8},
        "closing": {"operators": OPERATORS[1:], "generations": 1},
    },
}
PAIRS = (
    PAIR
    | SMALL
    | {"steps": 40, "evaluation/interval": 20, "checkpoint/interval": 10, "updates_per_step": 8}
    | {"replay_buffer/buffer_size": 16}
)
ATTEMPTS = 20
"""to cut a study off at the moment that is wanted"""


def main() -> None:
    """Record every study, as often as it takes to cut it off at the right moment."""
    for name, record in {
        "plain": _record_plain,
        "population": _record_population,
        "finished": _record_finished,
    }.items():
        target = RECORDINGS / __version__ / name
        for _ in range(ATTEMPTS):
            with tempfile.TemporaryDirectory() as place:
                moment = record(Path(place))
                if moment is not None:
                    (Path(place) / "moment.json").write_text(json.dumps(moment, indent=1) + "\n")
                    pack(Path(place), target)
                    break
        else:
            raise SystemExit(f"{name} was never cut off where it should be")
        print(target, sum(path.stat().st_size for path in target.rglob("*")))


def _record_plain(folder: Path) -> dict[str, Any] | None:
    """Leave finished, failed and running trials, a lost attempt, and a request to be heard."""
    write_trainer(folder, SMALL)
    write_study(folder, PLAIN)
    run = Run(folder, "--no-export")
    run.wait_until(lambda: bool(jobs_of(folder)) and _in_the_middle(folder) is not None)
    for process in jobs_of(folder):  # those of this moment: the driver starts others
        with suppress(psutil.NoSuchProcess):
            process.kill()
    return _cut_off(folder, run, lambda: _ended(folder, "failed") and _ended(folder, "finished"))


def _record_population(folder: Path) -> dict[str, Any] | None:
    """Leave a match that was judged, and a child in the middle of its interval."""
    write_trainer(folder, PAIRS)
    write_study(folder, POPULATION)
    run = Run(folder, "--no-export")
    return _cut_off(folder, run, lambda: _count(folder, "bred") > 1, child=True)


def _record_finished(folder: Path) -> dict[str, Any]:
    """Leave a study with its exported bundle."""
    write_trainer(folder, SMALL | {"steps": 40, "evaluation/interval": 20})
    write_study(folder, FINISHED)
    hpsearch(folder, "run", "study.yaml")
    return {"running": None, "step": 0}


def _cut_off(
    folder: Path, run: Run, is_time: Callable[[], bool], *, child: bool = False
) -> dict[str, Any] | None:
    """Kill driver and jobs with a trial in its middle; None where the moment has passed."""
    first = 3 if child else 0
    try:
        run.wait_until(lambda: is_time() and _in_the_middle(folder, first) is not None)
    except AssertionError:
        kill_jobs(folder)
        return None  # it ended before
    run.process.kill()
    run.wait()
    kill_jobs(folder)
    running = _in_the_middle(folder, first)
    confirmed = _count(folder, "submitted") == len({*_column(folder, "announced", "job")})
    if running is None or not confirmed or not _ended(folder, "finished"):
        return None
    failed = _told(folder, "failed")
    if failed:
        requests.leave(_study(folder), Request("retry", (failed[0],)))
    hpsearch(folder, "gc", "tiny")  # a checkpoint of each trial is enough, of the others too
    for path in _study(folder).trials.glob("*"):
        keep_last(path / "checkpoints", 1)
    return {"running": running, "step": newest_step(folder, running)}


def _in_the_middle(folder: Path, first: int = 0) -> int | None:
    """Return a running trial, from ``first`` on, with a curve and a checkpoint to go on from."""
    for path in sorted(_study(folder).trials.glob("*")):
        number = int(path.name)
        files = _study(folder).trial(number)
        is_running = number >= first and not files.result.exists()
        if is_running and newest_step(folder, number) and any(files.read_metrics()):
            return number
    return None


def _study(folder: Path) -> StudyDir:
    return StudyDir(folder / "runs/tiny")


def _ended(folder: Path, how: str) -> bool:
    return bool(_told(folder, how))


def _told(folder: Path, how: str) -> list[int]:
    rows = zip(_column(folder, "told", "trial"), _column(folder, "told", "data"), strict=False)
    return [trial for trial, data in rows if json.loads(data)["state"] == how]


def _count(folder: Path, kind: str) -> int:
    return len(_column(folder, kind, "id"))


def _column(folder: Path, kind: str, column: str) -> list[Any]:
    if not (folder / DATABASE).exists():
        return []
    question = f"SELECT {column} FROM hpsearch_events WHERE kind = ? ORDER BY id"
    try:
        with closing(sqlite3.connect(folder / DATABASE, timeout=10)) as database:
            return [row[0] for row in database.execute(question, (kind,))]
    except sqlite3.OperationalError:  # its tables are being made
        return []


if __name__ == "__main__":
    main()

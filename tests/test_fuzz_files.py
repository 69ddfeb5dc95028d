"""Whatever lies below runs/, its readers end with a sentence, and the driver ends the study.

The fast tests repeat fixed seeds; the slow ones take fresh ones for 10 seconds, and print them:
HPSEARCH_FUZZ_SEED=N repeats one.
"""

import dataclasses
import json
import os
import random
import secrets
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from best import write_best
from hostile import PIECES, VALUES, damage, remove
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_configs import CONFIGS

from hpsearch import files, yaml_file
from hpsearch.analysis.activity import read_activity
from hpsearch.analysis.confirmation import whole_confirmation
from hpsearch.cluster.garbage import EndedTrials, find_garbage
from hpsearch.cluster.record_files import CurveFile, read_record
from hpsearch.cluster.records import (
    Answer,
    Answers,
    Assignment,
    AttemptResult,
    Birth,
    Control,
    DeviceReport,
    DonatedCheckpoint,
    Exchanges,
    Exploit,
    Fresh,
    Heartbeat,
    JobHeartbeat,
    JobPlan,
    Lineage,
    MatchPlan,
    MatchPlayer,
    MemberHeartbeat,
    Span,
    Start,
    Timeline,
)
from hpsearch.cluster.study_dir import AttemptDir, MatchGames, StudyDir, pin, pinned
from hpsearch.cluster.supervisor import note_retry
from hpsearch.doctor.study import check_files, check_requests
from hpsearch.errors import HpsearchError
from hpsearch.files import forget_after
from hpsearch.report.page.material import read_curve
from hpsearch.report.tensorboard import points
from hpsearch.study import requests
from hpsearch.study.requests import (
    DriverNote,
    Request,
    awaited_driver,
    note_start,
    read_note,
)
from hpsearch.study.spec import GivenTotal
from hpsearch.study.view import read_study_note
from hpsearch.trainers import checkpoint
from hpsearch.trainers.checkpoint_name import sha256_of
from hpsearch.trainers.config import read_config

METRIC = "rho/host/random"
RHO = {"value": 0.1, "low": 0.05, "high": 0.15, "capped": 0.0, "games": 20}
CONFIRMED = {
    "study": "quick", "trained_by": "quick-confirm", "metric": METRIC, "goal": "maximize",
    "games": 100, "top": 1, "match": None, "favourite": 0, "best": 0, "held_up": True,
    "advice": "take it", "trials": [{
        "trial": 0, "search": RHO, "mean": 0.1, "low": 0.0, "high": 0.2, "iqm": None,
        "chance": 0.9, "failed": 0, "seeds": [{"seed": 1, "trial": 0, "metrics": {METRIC: 0.1}}],
    }],
}  # fmt: skip
Reader = Callable[[StudyDir], Any]


def write_study(root: Path) -> StudyDir:
    """Write one file of every kind, as the driver, jobs and commands do."""
    study = StudyDir(root)
    trial = study.trial(0)
    trial.create(yaml_file.dump(CONFIGS["dqn"]), Lineage(Fresh(), 1))
    trial.birth.write(Birth("clone", True, 0.3))
    takeover = Exploit(4, 1, 4, "ab", {"host.gamma": (0.9, 0.8)}, {"host.gamma": 0.8})
    trial.exchanges.write(Exchanges((takeover,), (DonatedCheckpoint(4, "cd"),)))
    trial.control.write(Control("token", None))
    attempt = trial.attempt(1)
    own = Heartbeat(1.0, 4, 0, 2.0, "node", 7, False)
    files.write_json(attempt.heartbeat.path, dataclasses.asdict(own))
    attempt.start.write(Start(4))
    attempt.write_result(AttemptResult("token", "failed", 4, "code", "no\nlayer", {METRIC: RHO}))
    for step in range(4, 20, 4):
        trial.append_metrics({"step": step, "at": 1.5, "metrics": {METRIC: RHO}, "entropies": {}})
        CurveFile(trial.training_log).append({"step": step, "at": 1.5, "scalars": {"loss": 0.1}})
    job = study.job("00001")
    job.plan.write(JobPlan((Assignment(0, 1, "token"),), 1, 0.0, False))
    job.write_next(1, [Assignment(1, 1, "other")])
    job.heartbeat.replace(
        JobHeartbeat(1.0, "node", 7, False, 2.0, (MemberHeartbeat(0, 1, "token", 4, 0),))
    )
    job.timeline.write(Timeline((Span("actor 0", 1, 1.0, 3.0), Span("learner", 2, 2.0, 4.0))))
    job.report.write(DeviceReport("0", "2.13", ("A100",), None))
    match = study.match(1)
    players = (
        MatchPlayer("0", "trials/0/checkpoints/step-000000004"),
        MatchPlayer("zeillinger", None),
    )
    match.plan.write(MatchPlan(players, players[:1], 3, 20, ("a", "b"), "cpu"))
    match.write_games(MatchGames(np.ones((2, 2, 1, 3), np.int64), np.ones((2, 2, 1, 3), np.bool_)))
    match.answers.write(Answers((Answer("host", 0, 0.1, 0.0, 0.2),)))
    match.give_sign()
    pin(study, StudyDir(root.parent), [trial.checkpoints / "step-000000004"])
    requests.leave(study, Request("retry", (0, 1), id="asked", at=1.0))
    note = DriverNote(1.0, "node", 7, None, 0.1, 1.0, "no more jobs")
    files.write_json(study.driver, dataclasses.asdict(note))
    note_start(study, "process 7")
    note_retry(study, "the database is away")
    where = {"name": "quick", "file": "quick.yaml", "storage": "sqlite:///quick.db"}
    files.write_json(study.spec, where)
    files.write_json(study.given_total, dataclasses.asdict(GivenTotal(32, 16)))
    files.write_json(study.confirmation, CONFIRMED)
    write_checkpoint(trial.checkpoints)
    return study


def write_checkpoint(folder: Path) -> None:
    import torch

    config = CONFIGS["dqn"]
    saved = checkpoint.Checkpoint(4, {"host.net.x": torch.zeros(3)}, config, ("ab",), "periodic")
    checkpoint.save(folder, saved)
    write_best(folder, checkpoint.BestRecord(4, METRIC, 0.1))


def _view(study: StudyDir) -> Any:
    return SimpleNamespace(folder=study, name="quick")


def _whole_page_entry(study: StudyDir) -> None:
    """Use a confirmation as the page does."""
    from hpsearch.report.page.answer import confirmation_section

    entry = whole_confirmation(_view(study))
    if entry is not None:
        material: Any = SimpleNamespace(confirmation=entry, is_confirmed=True)
        list(confirmation_section(material))


def _actors(study: StudyDir) -> None:
    """Use a timeline as the page does."""
    from hpsearch.report.page.actors import actors_section

    view: Any = SimpleNamespace(
        study=SimpleNamespace(has_actors=True),
        folder=study,
        state=SimpleNamespace(jobs={"00001": None}),
    )
    material: Any = SimpleNamespace(activity=read_activity(view))
    list(actors_section(material))


def _garbage(study: StudyDir) -> None:
    ended = EndedTrials((0,), (), (1,), ("00001",), frozenset(), False)
    find_garbage(study, ended, now=time.time(), traces=True)


def _attempt(study: StudyDir) -> AttemptDir:
    return study.trial(0).attempt(1)


def _config(study: StudyDir) -> Any:
    return read_config(yaml_file.load(study.trial(0).config), source="config.yaml")


def _points(study: StudyDir) -> Any:
    trial: Any = SimpleNamespace(asked_at=1.0)
    return list(points(trial, study.trial(0).read_metrics()))


def _given(study: StudyDir) -> Any:
    return study.job("00001").read_next(1)


CHECKPOINTS = "trials/0/checkpoints"
CHECKPOINT = f"{CHECKPOINTS}/step-000000004"
READERS: dict[str, tuple[str, Reader]] = {
    "config": ("trials/0/config.yaml", _config),
    "lineage": ("trials/0/lineage.json", lambda s: s.trial(0).lineage.required()),
    "birth": ("trials/0/birth.json", lambda s: s.trial(0).birth.read()),
    "exchanges": ("trials/0/exchanges.json", lambda s: s.trial(0).read_exchanges()),
    "control": ("trials/0/control.json", lambda s: s.trial(0).control.read()),
    "heartbeat": (
        "jobs/00001/heartbeat.json",
        lambda s: s.job("00001").heartbeat.try_read(),
    ),
    "own heartbeat": (
        "trials/0/attempt-1/heartbeat.json",
        lambda s: _attempt(s).heartbeat.try_read(),
    ),
    "begun": ("trials/0/attempt-1/start.json", lambda s: _attempt(s).has_begun()),
    "timeline": ("jobs/00001/timeline.json", _actors),
    "devices": ("jobs/00001/devices.json", lambda s: s.job("00001").report.read()),
    "retry": ("driver-retry.json", lambda s: s.driver_retry.try_read()),
    "result": ("trials/0/attempt-1/result.json", lambda s: _attempt(s).read_result()),
    "curve": ("trials/0/metrics.jsonl", lambda s: list(s.trial(0).read_metrics())),
    "page curve": ("trials/0/metrics.jsonl", lambda s: read_curve(s.trial(0), 0, METRIC)),
    "board": ("trials/0/metrics.jsonl", _points),
    "training log": ("trials/0/training.jsonl", lambda s: forget_after(s.trial(0).training_log, 8)),
    "job": ("jobs/00001/job.json", lambda s: s.job("00001").plan.required()),
    "next": ("jobs/00001/next-1.json", _given),
    "plan": ("matches/1/plan.json", lambda s: s.match(1).plan.required()),
    "games": ("matches/1/games.npz", lambda s: s.match(1).read_games()),
    "answers": ("matches/1/answers.json", lambda s: s.match(1).answers.read()),
    "alive": ("matches/1/alive.json", lambda s: s.match(1).last_sign()),
    "pins": ("pins/*.json", pinned),
    "garbage": (f"{CHECKPOINTS}/best.json", _garbage),
    "requests": ("requests/asked.json", requests.waiting),
    "request aside": ("requests/asked.json", requests.put_aside),
    "driver": ("driver.json", read_note),
    "start": ("driver-start.json", lambda s: awaited_driver(s, 5.0)),
    "total": ("given-total.json", lambda s: read_record(GivenTotal, s.given_total)),
    "note": ("study.json", lambda s: read_study_note(s.spec)),
    "confirmation": ("confirmation.json", _whole_page_entry),
    "doctor": ("trials/0/control.json", lambda s: [*check_files(s), *check_requests(s)]),
    "best": (f"{CHECKPOINTS}/best.json", lambda s: checkpoint.read_best(s.root / CHECKPOINTS)),
    "manifest": (f"{CHECKPOINT}/manifest.json", lambda s: _checkpoint(s)),
    "state": (f"{CHECKPOINT}/state.json", lambda s: _checkpoint(s)),
    "tensors": (f"{CHECKPOINT}/tensors.safetensors", lambda s: _checkpoint(s)),
}


def _checkpoint(study: StudyDir) -> None:
    folder = study.trial(0).checkpoints
    path = checkpoint.path_of(folder, 4)
    checkpoint.is_whole(path)
    checkpoint.newest(study.trial(0).root)
    checkpoint.parents_below(folder)
    for read in (checkpoint.load, checkpoint.saved_config, checkpoint.identity):
        with suppress(HpsearchError, FileNotFoundError):
            read(path)
    # As one who also writes the manifest anew.
    state = path / checkpoint.STATE
    if state.is_file() and (path / checkpoint.MANIFEST).is_file() and state.stat().st_size < 2**20:
        digests = {name: sha256_of(path / name) for name in (checkpoint.STATE,)}
        with suppress(OSError, HpsearchError):
            digests[checkpoint.TENSORS] = sha256_of(path / checkpoint.TENSORS)
        files.write_json(path / checkpoint.MANIFEST, digests)
        with suppress(HpsearchError):
            checkpoint.load(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> StudyDir:
    return write_study(tmp_path_factory.mktemp("fuzz") / "quick")


@pytest.fixture
def study(whole: StudyDir, tmp_path: Path) -> StudyDir:
    shutil.copytree(whole.root, tmp_path / "quick")
    return StudyDir(tmp_path / "quick")


def file_of(study: StudyDir, name: str) -> Path:
    pattern, _ = READERS[name]
    (path,) = study.root.glob(pattern)
    return path


def readable(study: StudyDir, name: str) -> None:
    """Read; whatever is wrong must be told by an error of ours."""
    with suppress(HpsearchError):
        READERS[name][1](study)


@pytest.mark.parametrize("name", READERS)
def test_what_was_written_is_read(study: StudyDir, name: str) -> None:
    READERS[name][1](study)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.timeout(60)
def test_no_reader_fails_otherwise_or_waits(study: StudyDir, name: str) -> None:
    path = file_of(study, name)
    contents = [*PIECES, *(json.dumps(value).encode() for value in VALUES)]
    for content in contents:
        path.write_bytes(content)
        readable(study, name)
        remove(path)  # a reader may have put it aside
    for make in (os.mkfifo, os.mkdir, lambda there: there.symlink_to(there.name)):
        make(path)
        readable(study, name)
        remove(path)
    if name != "tensors":  # which may be as large as a disk holds
        path.write_bytes(b"")
        os.truncate(path, 2**40)
        readable(study, name)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
keys = st.sampled_from(["step", "metrics", "value", "assignments", "trial", "name", "at", "id"])
trees = st.recursive(
    scalars,
    lambda tree: st.lists(tree, max_size=3) | st.dictionaries(keys | st.text(max_size=3), tree),
    max_leaves=8,
)


@given(content=st.binary(max_size=40) | trees.map(lambda tree: json.dumps(tree).encode()))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_content_fails_otherwise(study: StudyDir, content: bytes) -> None:
    for name in READERS:
        if name not in ("garbage", "doctor", "request aside", "training log"):  # which take long
            file_of(study, name).write_bytes(content)
            readable(study, name)


def rounds(seconds: float, seed: int) -> Iterator[random.Random]:
    """Yield generators for so many seconds, each of its own seed, which is printed."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        print(f"HPSEARCH_FUZZ_SEED={seed}", flush=True)
        yield random.Random(seed)
        seed += 1


def fuzz_readers(whole: StudyDir, folder: Path, rng: random.Random) -> None:
    study = StudyDir(folder)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole.root, folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in rng.sample(files, rng.randint(1, 6)):
        if path.parent.exists():
            damage(path, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in READERS:
            readable(study, name)


def test_mutated_files_fail_no_reader_otherwise(whole: StudyDir, tmp_path: Path) -> None:
    for rng in rounds(2.0, seed=1):
        fuzz_readers(whole, tmp_path / "quick", rng)


@pytest.mark.slow
def test_mutated_files_fail_no_reader_otherwise_for_a_while(
    whole: StudyDir, tmp_path: Path
) -> None:
    for rng in rounds(10.0, fresh_seed()):
        fuzz_readers(whole, tmp_path / "quick", rng)


def fresh_seed() -> int:
    return int(os.environ.get("HPSEARCH_FUZZ_SEED", secrets.randbelow(2**32)))

"""hpsearch gc on real studies: what it frees, what it leaves, and that they go on."""

import json
import signal
import sys
from pathlib import Path

import pytest
from cli_tools import Run, hpsearch, newest_step, read, write_study, write_trainer

from hpsearch.cluster.garbage import KINDS
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.commands.housekeeping import ended_trials, gc, size_text
from hpsearch.study.events import Event
from hpsearch.study.state import StudyState
from hpsearch.study.view import StudyView
from hpsearch.trainers import checkpoint


@pytest.fixture(scope="module", autouse=True)
def without_onnx():
    """Leave out policies that take seconds to write, which gc keeps with the rest of a bundle."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "onnxruntime", None)
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with a finished study whose trials have two checkpoints each."""
    folder = tmp_path_factory.mktemp("finished")
    write_trainer(folder, {"checkpoint/keep_last": 2})
    write_study(folder)
    hpsearch(folder, "run", "study.yaml")
    return folder


def collect(folder: Path, capsys, *, dry_run=False, traces=False) -> dict:
    """Return what `gc --json` prints of the study in a folder."""
    capsys.readouterr()
    options = {"dry_run": dry_run, "traces": traces, "as_json": True}
    gc.function("tiny", folder / "runs", **options)
    return json.loads(capsys.readouterr().out)


def files(folder: Path) -> dict[str, int]:
    """Return the sizes of all files of the study but its database."""
    root = folder / "runs" / "tiny"
    paths = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.stat().st_size for path in paths}


@pytest.mark.slow
def test_gc_frees_what_it_announced_and_nothing_else(finished, capsys, monkeypatch):
    monkeypatch.chdir(finished)
    best = read(finished, "best", "tiny")
    before = files(finished)

    announced = collect(finished, capsys, dry_run=True)
    assert files(finished) == before
    assert announced["dry_run"]
    assert tuple(announced["kinds"]) == KINDS
    assert announced["kinds"]["checkpoints"]["count"] == 6
    assert announced["kinds"]["pickles"]["count"] == 4, "two jobs, each called and returned"

    freed = collect(finished, capsys)
    after = files(finished)
    assert freed == announced | {"dry_run": False}
    assert freed["total"]["bytes"] == sum(before.values()) - sum(after.values()) > 0
    assert after.items() <= before.items()
    gone = before.keys() - after.keys()
    assert all("/checkpoints/step-" in path or path.endswith(".pkl") for path in gone)

    for number in range(6):
        steps = list(checkpoint.valid_steps(StudyDir(Path("runs/tiny")).trial(number).checkpoints))
        assert steps == [60]
    assert collect(finished, capsys)["total"] == {"count": 0, "bytes": 0}
    assert read(finished, "best", "tiny") == best
    assert (finished / "runs/tiny/best/weights.safetensors").exists()

    # The study goes on, and its best can be exported again.
    write_study(finished, {"budget": {"trials": 7}})
    assert "exported to" in hpsearch(finished, "run", "study.yaml").stdout
    assert read(finished, "status", "tiny")["trials"]["finished"] == 7


@pytest.mark.slow
def test_an_interrupted_study_keeps_what_it_goes_on_from(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_trainer(tmp_path, {"steps": 4000, "checkpoint/interval": 20, "checkpoint/keep_last": 3})
    write_study(tmp_path, {"budget": {"trials": 2}})
    run = Run(tmp_path)
    run.wait_until(lambda: newest_step(tmp_path, 0) >= 60)
    driven = collect(tmp_path, capsys)
    assert driven["total"]["count"] == 0, "its trials and jobs have not ended"
    run.end(signal.SIGINT)
    steps = [newest_step(tmp_path, number) for number in range(2)]
    before = {path for path in files(tmp_path) if "checkpoints" in path}

    freed = collect(tmp_path, capsys)
    assert freed["kinds"]["pickles"]["count"] > 0
    assert freed["total"] == freed["kinds"]["pickles"], "its trials have not ended"
    assert {path for path in files(tmp_path) if "checkpoints" in path} == before
    assert [newest_step(tmp_path, number) for number in range(2)] == steps


@pytest.mark.slow
def test_people_see_a_table(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path, {"budget": {"trials": 1}})
    hpsearch(tmp_path, "run", "study.yaml", "--no-export")
    texts = []
    for dry_run in (True, False, False):
        gc.function("tiny", Path("runs"), dry_run=dry_run, traces=False, as_json=False)
        texts.append(capsys.readouterr().out)
    words = [[line.split() for line in text.splitlines()] for text in texts]
    assert words[0][0] == ["kind", "count", "size", "bytes"]
    assert [line[0] for line in words[0][1:-1]] == ["checkpoints", "pickles", "total"]
    assert words[0][-1][2:] == ["would", "be", "freed"]
    assert words[1][-1][2:] == ["freed"]
    assert words[1][:-1] == words[0][:-1]
    assert texts[2] == "nothing to free in tiny\n"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (3 << 30, "3.0 GiB"),
        (5 << 50, "5120.0 TiB"),
    ],
)
def test_sizes_are_readable(size, text):
    assert size_text(size) == text


def test_events_tell_what_hasended_trials():
    """Four trials: one ended in each way, one trains on, in a job that was never confirmed."""
    state = StudyState()
    happened = [("asked", n, None, {"params": {}}) for n in range(4)]
    for job, numbers in (("00001", (0, 1, 2)), ("00002", (3,))):
        trials = [{"trial": n, "attempt": 1, "token": str(n)} for n in numbers]
        happened.append(("announced", None, job, {"trials": trials}))
    happened.append(("submitted", None, "00001", {"id": "77_0"}))
    for number, how in enumerate(("finished", "pruned", "failed")):
        told = {"state": how, "value": None, "metrics": {}, "failure": None, "message": ""}
        happened.append(("told", number, None, told))
    state.apply(_events(happened))
    now = ended_trials(_view(state))
    assert (now.finished, now.given_up, now.jobs) == ((0,), (1, 2), ())
    assert now.live_ids == {"77_0", None}

    state.apply(_events([("job_ended", None, "00001", {})]))
    later = ended_trials(_view(state))
    assert (later.jobs, later.live_ids) == (("00001",), {None})


def _events(happened):
    return [
        Event(number, kind, 0.0, trial, None, job, data)
        for number, (kind, trial, job, data) in enumerate(happened)
    ]


def _view(state):
    return StudyView(None, StudyDir(Path("runs/tiny")), state, is_driven=False)

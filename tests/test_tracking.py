"""Trials as runs of trackers: MLflow in a database, Weights & Biases in files, read back by both.

What is sent how often is tried on a tracker that fails, and against what the study's files hold.
"""

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_tools import hpsearch, kill_drivers, read, refused, write_study
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpsearch.api import tracking, tracking_process
from hpsearch.api.tracking_process import TrackingProcess
from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.record_files import CurveFile, RecordFile
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.report.tracking.mirror import Mirror, SentRuns
from hpsearch.study.tracker_runs import RunStart, SentPoint
from hpsearch.study.view import open_view

TOY = Path(__file__).parent / "programs/toy.py"
STUDY = {
    "base": {
        "command": ["python", str(TOY), "{config}", "{folder}"],
        "parameters": {"rate": 0.5},
        "steps": 4,
    },
    "objectives": [{"metric": "walked", "goal": "maximize"}],
    "space": {"parameters.rate": {"type": "float", "low": 0.1, "high": 1.0}},
    "executor": {"name": "local", "jobs": 1, "members_per_job": 3},
}


class FailingTracker:
    """Keeps what it is sent, and fails at calls of certain numbers, before or after it kept it."""

    def __init__(self, failing: set[int]) -> None:
        self.points: dict[str, list[SentPoint]] = {}
        self.ended: dict[str, tuple[str, Mapping[str, float]]] = {}
        self._failing, self._calls = failing, 0

    def _may_fail(self) -> None:
        self._calls += 1
        if self._calls in self._failing:
            raise ConnectionError("away")

    def begin(self, start: RunStart, run: str | None) -> str:
        self._may_fail()
        name = run or f"{start.study}/{start.trial}"
        self.points.setdefault(name, [])
        return name

    def log(self, run: str, points: Sequence[SentPoint]) -> None:
        self._may_fail()
        assert run not in self.ended
        self.points[run] += points

    def end(self, run: str, state: str, values: Mapping[str, float]) -> None:
        self._may_fail()
        self.ended[run] = state, values

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A study of programs that has finished, without a tracker."""
    folder = tmp_path_factory.mktemp("finished")
    write_study(folder, STUDY)
    hpsearch(folder, "run", "study.yaml")
    return folder


def expected_curve(folder: Path, trial: int) -> list[tuple[int, dict[str, float]]]:
    rows = CurveFile(StudyDir(folder / "runs/tiny").trial(trial).metrics).read()
    return [(row["step"], {n: m["value"] for n, m in row["metrics"].items()}) for row in rows]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(failing=st.sets(st.integers(1, 25), max_size=6))
@pytest.mark.slow
def test_every_point_is_sent_once_however_often_the_tracker_fails(
    finished, monkeypatch, tmp_path_factory, failing
):
    monkeypatch.chdir(finished)
    record = RecordFile(SentRuns, tmp_path_factory.mktemp("record") / "sent.json")
    tracker, view = FailingTracker(failing), open_view("tiny", Path("runs"))
    mirror = Mirror(tracker, record)
    for number in range(len(failing) + 1):
        try:
            mirror.send(view)
        except ConnectionError:
            if number % 2:
                mirror = Mirror(tracker, record)  # as in a new process
    assert Mirror(tracker, record).send(view) == 0
    for trial in range(6):
        sent = [(point.step, point.values) for point in tracker.points[f"tiny/{trial}"]]
        assert sent == expected_curve(finished, trial)
        state, values = tracker.ended[f"tiny/{trial}"]
        assert (state, values) == ("finished", sent[-1][1])


def test_the_record_is_not_written_for_every_trial(finished, monkeypatch, tmp_path):
    """It holds all of them, so that would take a time that grows as their square."""
    monkeypatch.chdir(finished)
    record, written = RecordFile(SentRuns, tmp_path / "sent.json"), []
    monkeypatch.setattr(RecordFile, "write", lambda self, sent: written.append(sent))
    assert Mirror(FailingTracker(set()), record).send(open_view("tiny", Path("runs"))) == 6
    assert len(written) <= 2
    assert len(written[-1].runs) == 6


SENDER = """
import signal, sys, time
from pathlib import Path
number = len(list(Path(".").glob("*.began"))) + 1
Path(f"{number}.began").touch()
if number == 1 and sys.argv[1] == "fails":
    sys.exit(3)
time.sleep(1.0)  # it imports what it needs
signal.signal(signal.SIGTERM, lambda *_: Path("heard").touch())
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
deadline = time.monotonic() + 60
while not Path("heard").exists() and time.monotonic() < deadline:
    time.sleep(0.05)
sys.exit(3 if sys.argv[1] == "fails again" else 0)
"""


@pytest.mark.parametrize(
    ("how", "processes"), [("begins late", 1), ("fails", 2), ("fails again", 1)]
)
def test_the_last_trials_are_sent_whatever_became_of_the_process(
    tmp_path, monkeypatch, how, processes
):
    """It began just before the end, or has ended because the database was away."""
    monkeypatch.chdir(tmp_path)
    told: list[str] = []
    start = partial(subprocess.Popen, [sys.executable, "-c", SENDER, how])
    monkeypatch.setattr(tracking_process, "start_command", lambda words, log: start())
    spec = SimpleNamespace(spec=SimpleNamespace(track=("tracker",)))
    sender = TrackingProcess(
        StudyDir(tmp_path / "runs/tiny"), Path("runs"), StopFlag(), told.append
    )
    sender.see(SimpleNamespace(study=spec))
    if how == "fails":
        sender._process.wait()
    sender.close()
    assert Path("heard").exists()
    assert len([*tmp_path.glob("*.began")]) == processes
    assert told[0] == "trials are being sent to trackers ..."
    assert ("send them with: hpsearch track tiny" in told[-1]) == (how == "fails again")


def until_sent(folder: Path, name: str) -> None:
    """Wait until the record says that all six runs have ended."""
    deadline = time.monotonic() + 120
    while True:
        records = list((folder / "runs/tiny").glob(f"tracked-{name}-*.json"))
        runs = json.loads(records[0].read_text())["runs"] if records else []
        if len(runs) == 6 and all(run["has_ended"] for run in runs):
            return
        log = folder / "runs/tiny/tracking.log"
        assert time.monotonic() < deadline, log.read_text() if log.exists() else runs
        time.sleep(0.3)


READ_MLFLOW = """
import json, sys
from mlflow import MlflowClient
client = MlflowClient(sys.argv[1])
experiment = client.get_experiment_by_name("tiny").experiment_id
print(json.dumps([
    {"tags": run.data.tags, "params": run.data.params, "status": run.info.status,
     "final": run.data.metrics["final/walked"],
     "curve": [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, "walked")]}
    for run in client.search_runs([experiment])
]))
"""


@pytest.mark.slow
def test_a_driver_lets_every_trial_be_a_run_of_mlflow(tmp_path):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    write_study(tmp_path, STUDY | {"track": [{"name": "mlflow", "uri": uri}]})
    hpsearch(tmp_path, "run", "study.yaml")
    until_sent(tmp_path, "mlflow")
    done = subprocess.run(
        [sys.executable, "-c", READ_MLFLOW, uri], capture_output=True, text=True, check=True
    )
    runs = {int(run["tags"]["hpsearch.trial"]): run for run in json.loads(done.stdout)}
    trials = {row["trial"]: row for row in read(tmp_path, "trials", "tiny")}
    assert runs.keys() == trials.keys()
    for number, run in runs.items():
        curve = [(step, values["walked"]) for step, values in expected_curve(tmp_path, number)]
        assert [tuple(point) for point in run["curve"]] == curve
        rate = trials[number]["params"]["parameters.rate"]
        assert float(run["params"]["parameters.rate"]) == pytest.approx(rate)
        assert (run["status"], run["final"]) == ("FINISHED", trials[number]["value"])
    assert "0 trials had something new" in hpsearch(tmp_path, "track", "tiny").stdout


READ_WANDB = """
import json, struct, sys
from wandb.proto import wandb_internal_pb2 as pb

BLOCK, HEADER = 32768, 7  # of LevelDB's log format, in which the file is kept after a header


def records(data):
    place, whole = HEADER, b""
    while place + HEADER <= len(data):
        if BLOCK - place % BLOCK < HEADER:
            place += BLOCK - place % BLOCK
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        whole += data[place + HEADER : place + HEADER + length]
        place += HEADER + length
        if kind in (1, 4):  # whole, or the last part
            record = pb.Record()
            record.ParseFromString(whole)
            yield record
            whole = b""


def named(items):
    return {i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in items}


for path in sys.argv[1:]:
    with open(path, "rb") as file:
        every = list(records(file.read()))
    run = next(record.run for record in every if record.HasField("run"))
    rows = [named(record.history.item) for record in every if record.HasField("history")]
    code = next(record.exit.exit_code for record in every if record.HasField("exit"))
    shown = {"name": run.display_name, "config": named(run.config.update)}
    print(json.dumps(shown | {"rows": rows, "code": code}))
"""


@pytest.mark.slow
def test_runs_of_wandb_are_kept_in_files_without_a_network(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    write_study(tmp_path, STUDY | {"track": [{"name": "wandb", "project": "tests"}]})
    hpsearch(tmp_path, "run", "study.yaml")
    until_sent(tmp_path, "wandb")
    files = sorted(map(str, (tmp_path / "runs/tiny/wandb").rglob("*.wandb")))
    done = subprocess.run(
        [sys.executable, "-c", READ_WANDB, *files], capture_output=True, text=True, check=True
    )
    runs = {own["name"]: own for own in map(json.loads, done.stdout.splitlines())}
    assert set(runs) == {f"tiny {number}" for number in range(6)}
    for number in range(6):
        run = runs[f"tiny {number}"]
        shown = [(row["step"], {"walked": row["walked"]}) for row in run["rows"]]
        assert shown == expected_curve(tmp_path, number)
        assert 0.1 <= run["config"]["parameters.rate"] <= 1.0
        assert run["code"] == 0


@pytest.mark.slow
def test_a_tracker_that_is_not_there_is_told_in_a_sentence_and_holds_nothing_up(tmp_path):
    track = [{"name": "mlflow", "uri": "http://127.0.0.1:9"}]
    write_study(tmp_path, STUDY | {"track": track})
    environment = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    hpsearch(tmp_path, "run", "study.yaml", env=environment)
    sentence = refused(tmp_path, "track", "tiny", code=1, env=environment)
    assert sentence.startswith("mlflow did not take all: ")
    kill_drivers(tmp_path)


@pytest.mark.slow
def test_an_interrupt_is_not_told_as_the_fault_of_a_tracker(tmp_path, monkeypatch):
    class Sender:
        def __init__(self, is_away: bool) -> None:
            self.fault = "it is away" if is_away else None

        def send(self, view: object) -> int:
            if self.fault is None:
                raise KeyboardInterrupt
            return 0

        def close(self) -> None:
            pass

    study = SimpleNamespace(spec=SimpleNamespace(track=(True, False)))
    view = SimpleNamespace(whole_study=lambda _: study, folder=StudyDir(tmp_path), name="tiny")
    monkeypatch.setattr(tracking, "_Sender", Sender)
    with pytest.raises(KeyboardInterrupt):
        tracking.track_once(view)


def test_a_study_without_a_tracker_says_where_to_name_one(finished):
    assert "see its key track" in refused(finished, "track", "tiny", code=2)

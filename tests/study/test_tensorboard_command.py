"""hpsearch tensorboard: a real server on a real study, and what it tells a browser."""

import json
import time

import pytest
from cli_tools import METRIC, hpsearch, refused, write_study
from dashboards import Dashboard
from fakes import FakeExecutor

from hpsearch.api import driving
from hpsearch.cluster.study_dir import StudyDir

PATIENCE_SECONDS = 120
RUNS = [".", "trial-0", "trial-1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a study of two trials, which has ended; its jobs did not train."""
    folder = tmp_path_factory.mktemp("folder")
    write_study(folder, {"budget": {"trials": 2}})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driving, "build_executor", lambda study, folder: FakeExecutor())
        patch.setattr(driving, "poll_seconds", lambda study: 0.0)
        hpsearch(folder, "run", "study.yaml", "--no-export")
    return folder


@pytest.fixture(scope="module")
def board(folder):
    served = Dashboard(folder, "tiny", command="tensorboard")
    yield served
    code, _, err = served.close()
    assert (code, err) == (0, "")


def ask(board, path, data=None):
    status, body = board.ask("GET" if data is None else "POST", path, data)
    assert status == 200, body
    return json.loads(body)


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.5)


def curve(board, number):
    """Return steps and values of a trial's first metric, as TensorBoard draws them."""
    tag = METRIC.replace("/", "%2F")
    points = ask(board, f"/data/plugin/scalars/scalars?run=trial-{number}&tag={tag}")
    return [(step, value) for _, step, value in points]


def measured(folder, number):
    rows = StudyDir(folder / "runs/tiny").trial(number).read_metrics()
    return [(row["step"], pytest.approx(row["metrics"][METRIC]["value"])) for row in rows]


@pytest.mark.slow
def test_what_is_printed(board):
    first, address, _, way = board.said.splitlines()
    assert first.startswith("TensorBoard on ")
    assert first.endswith("/runs/tiny/tensorboard, until Ctrl-C:")
    assert address.strip().startswith("http://127.0.0.1:")
    port = board.base.rpartition(":")[2]
    assert way.strip().startswith(f"ssh -L {port}:127.0.0.1:{port} ")


@pytest.mark.slow
def test_the_runs_are_the_trials(board, folder):
    assert {"scalars", "hparams"} <= ask(board, "/data/plugins_listing").keys()
    wait_for(lambda: ask(board, "/data/runs") == RUNS)
    for number in (0, 1):
        assert curve(board, number) == measured(folder, number)


@pytest.mark.slow
def test_the_parameters_are_listed(board):
    wait_for(lambda: ask(board, "/data/runs") == RUNS)
    experiment = ask(board, "/data/plugin/hparams/experiment", {"experimentName": ""})
    names = {info["name"] for info in experiment["hparamInfos"]}
    assert names == {"host.optim.args.lr", "host.gamma"}
    (metric,) = experiment["metricInfos"]
    assert metric["displayName"] == METRIC
    asked = {
        "experimentName": "",
        "allowedStatuses": ["STATUS_SUCCESS"],
        "colParams": [],
        "startIndex": 0,
        "sliceSize": 10,
    }
    groups = ask(board, "/data/plugin/hparams/session_groups", asked)
    assert {group["name"] for group in groups["sessionGroups"]} == {"trial 0", "trial 1"}


@pytest.mark.slow
def test_a_curve_that_is_made_again_replaces_the_old_one(board, folder):
    files = StudyDir(folder / "runs/tiny").trial(1)
    rows = list(files.read_metrics())
    files.forget_metrics_after(rows[0]["step"])
    for row in rows[1:]:
        row["metrics"][METRIC]["value"] += 0.5
        files.append_metrics(row)
    files.append_metrics(rows[-1] | {"step": rows[-1]["step"] + 20})
    wait_for(lambda: len(curve(board, 1)) > len(rows))
    assert curve(board, 1) == measured(folder, 1)
    assert curve(board, 0) == measured(folder, 0)


@pytest.mark.slow
def test_without_the_token_nothing_is_seen(board):
    for path in ("/", "/data/runs"):
        status, body = board.ask_as_stranger("GET", path)
        assert status == 403
        assert b"with its token" in body


@pytest.mark.slow
def test_it_can_be_written_elsewhere(folder, tmp_path):
    done = hpsearch(folder, "tensorboard", "tiny", "-o", str(tmp_path / "board"))
    assert f"tensorboard --logdir {tmp_path / 'board'}" in done.stdout
    assert sorted(path.name for path in (tmp_path / "board").iterdir() if path.is_dir()) == RUNS[1:]


@pytest.mark.slow
def test_without_the_package(folder, tmp_path):
    (tmp_path / "tensorboard.py").write_text("raise ImportError('not here')")
    env = {"PYTHONPATH": f"{tmp_path}:{__file__.rpartition('/tests/')[0]}"}
    message = refused(folder, "tensorboard", "tiny", code=2, env=env)
    assert "pip install 'hpsearch[monitor]'" in message
    assert message.count("\n") == 0


@pytest.mark.slow
def test_torch_is_not_waited_for(folder):
    done = hpsearch(folder, "tensorboard", "tiny", "-o", "b", env={"PYTHONPROFILEIMPORTTIME": "1"})
    names = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "tensorboard" in names
    assert not {"torch", "tensorflow", "numba"} & names

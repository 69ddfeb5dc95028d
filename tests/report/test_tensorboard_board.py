"""A study as TensorBoard reads it: with its own reader, beside the rows of the curves."""

import errno
import json
import os
import warnings

import pytest
from cli_tools import METRIC, write_study
from views import Story, rho

from hpsearch.cluster.garbage import find_garbage, remove
from hpsearch.commands.housekeeping import ended_trials
from hpsearch.report.tensorboard import Board

SPACE = {
    "host.optim.args.lr": {"type": "float", "low": 1e-4, "high": 1e-2, "log": True},
    "host.net_arch": {"type": "categorical", "choices": [[8], [8, 8]]},
    "host.batch_size": {"type": "categorical", "choices": [16, 32]},
    "deterministic": {"type": "categorical", "choices": [False, True]},
}


@pytest.fixture(scope="module")
def reader():
    """Return a function (folder) -> what TensorBoard's reader finds there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the reader's own imports
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def read(folder):
        events = EventAccumulator(str(folder))
        events.Reload()
        return events

    return read


def scalars(events) -> dict[str, list[tuple[int, float]]]:
    """Return step and value of every scalar, by tag."""
    tags = events.Tags()["scalars"]
    return {tag: [(Scalar.step, Scalar.value) for Scalar in events.Scalars(tag)] for tag in tags}


def ask(story: Story, number: int) -> None:
    """Ask for a trial, with parameters as Optuna stores them."""
    chosen = {"host.net_arch": "[8, 8]", "host.batch_size": 32, "deterministic": True}
    params = {"host.optim.args.lr": 2e-3} | chosen
    story.add("asked", number, at=1000.0 + number, params=params)


def add_rows(story: Story, number: int, *steps: int, value: float = 0.1) -> list[dict]:
    rows = [
        {
            "step": step,
            "attempt": 1,
            "at": 2000.0 + step,
            "metrics": {METRIC: rho(value + step / 1000), "panel/host": rho(value)},
            "entropies": {"entropy/host": 0.5},
        }
        for step in steps
    ]
    for row in rows:
        story.view.folder.trial(number).append_metrics(row)
    return rows


@pytest.fixture
def story(tmp_path):
    return Story(write_study(tmp_path, {"space": SPACE}))


def test_every_number_of_a_curve_is_there(story, tmp_path, reader):
    ask(story, 0)
    rows = add_rows(story, 0, 20, 40)
    assert Board(tmp_path / "board").write(story.view) == 1
    events = reader(tmp_path / "board/trial-0")
    expected = {}
    for row in rows:
        for name, measured in row["metrics"].items():
            for key, value in measured.items():
                tag = name if key == "value" else f"{key}/{name}"
                expected.setdefault(tag, []).append((row["step"], pytest.approx(value)))
        expected.setdefault("entropy/host", []).append((row["step"], 0.5))
    assert scalars(events) == expected
    assert [Scalar.wall_time for Scalar in events.Scalars(METRIC)] == [2020.0, 2040.0]


def test_only_what_has_changed_is_written_again(story, tmp_path, reader):
    board, folder = Board(tmp_path / "board"), tmp_path / "board"
    for number in range(3):
        ask(story, number)
        add_rows(story, number, 20)
    assert board.write(story.view) == 3
    assert board.write(story.view) == 0
    before = {path: path.stat().st_ino for path in folder.rglob("events*")}
    add_rows(story, 1, 40)
    assert board.write(story.view) == 1
    after = {path: path.stat().st_ino for path in folder.rglob("events*")}
    assert {path.parent.name for path in after.keys() - before.keys()} == {"trial-1"}
    assert before.items() < after.items(), "who reads the old file finds the new one"
    add_rows(story, 1, 60)
    board.write(story.view)
    assert len(list((folder / "trial-1").glob("events*"))) == 2
    assert [step for step, _ in scalars(reader(folder / "trial-1"))[METRIC]] == [20, 40, 60]
    assert not [path for path in folder.rglob(".*") if path.is_file()]


def test_a_reader_that_knows_the_old_file_forgets_it(story, tmp_path, reader):
    """Steps that a killed attempt had made are made again."""
    board = Board(tmp_path / "board")
    ask(story, 0)
    add_rows(story, 0, 20, 40)
    board.write(story.view)
    events = reader(tmp_path / "board/trial-0")
    story.view.folder.trial(0).forget_metrics_after(20)
    add_rows(story, 0, 40, 60, value=0.5)
    board.write(story.view)
    events.Reload()
    assert scalars(events)[METRIC] == [
        (20, pytest.approx(0.12)),
        (40, pytest.approx(0.54)),
        (60, pytest.approx(0.56)),
    ]


def test_parameters_and_the_final_value(story, tmp_path, reader):
    from tensorboard.plugins.hparams import api_pb2, metadata

    ask(story, 0)
    add_rows(story, 0, 60)
    story.run(0, job="00001")
    story.tell(0, "finished", 0.25)
    Board(tmp_path / "board").write(story.view)
    events = reader(tmp_path / "board/trial-0")
    assert scalars(events)[f"final/{METRIC}"] == [(60, 0.25)]
    content = events.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
    start = metadata.parse_session_start_info_plugin_data(content)
    assert start.hparams["host.optim.args.lr"].number_value == 2e-3
    assert start.hparams["host.net_arch"].string_value == "[8, 8]"
    assert start.hparams["host.batch_size"].number_value == 32
    assert start.hparams["deterministic"].bool_value is True
    content = events.SummaryMetadata(metadata.SESSION_END_INFO_TAG).plugin_data.content
    assert metadata.parse_session_end_info_plugin_data(content).status == api_pb2.STATUS_SUCCESS
    events = reader(tmp_path / "board")
    content = events.SummaryMetadata(metadata.EXPERIMENT_TAG).plugin_data.content
    experiment = metadata.parse_experiment_plugin_data(content)
    infos = {info.name: info for info in experiment.hparam_infos}
    assert infos.keys() == SPACE.keys()
    assert infos["host.optim.args.lr"].domain_interval.max_value == 1e-2
    assert list(infos["host.net_arch"].domain_discrete) == ["[8, 8]", "[8]"]  # TensorBoard sorts
    assert infos["deterministic"].type == api_pb2.DATA_TYPE_BOOL
    (metric,) = experiment.metric_infos
    assert (metric.name.tag, metric.display_name) == (f"final/{METRIC}", METRIC)


def test_what_a_job_wrote_itself_is_seen_too(story, tmp_path, reader):
    from hpsearch.monitor.tensorboard import EventFile, event_file_name

    ask(story, 0)
    own = story.view.folder.trial(0).tensorboard
    board = Board(tmp_path / "board")
    board.write(story.view)
    own.mkdir(parents=True)
    file = EventFile((own / event_file_name()).open("xb"), keeps=-1)
    file.write(5.0, 7, {"host/loss": 0.75})
    file.close()
    for writer in (board, Board(tmp_path / "board")):  # and once more by another command
        writer.write(story.view)
        assert scalars(reader(tmp_path / "board/trial-0/training")) == {"host/loss": [(7, 0.75)]}


def test_gc_takes_it_with_the_traces_and_nothing_behind_the_links(story):
    ask(story, 0)
    own = story.view.folder.trial(0).tensorboard
    own.mkdir(parents=True)
    (own / "events.out.tfevents.1").write_bytes(b"")
    folder = story.view.folder.tensorboard
    Board(folder).write(story.view)
    for traces in (False, True):
        garbage = find_garbage(story.view.folder, ended_trials(story.view), now=0.0, traces=traces)
        assert [piece.path for piece in garbage] == [folder] * traces
    remove(folder)
    assert not folder.exists()
    assert (own / "events.out.tfevents.1").exists()


def test_a_row_that_lacks_its_time_or_holds_nonsense(story, tmp_path, reader):
    ask(story, 0)
    curve = story.view.folder.trial(0).metrics
    curve.parent.mkdir(parents=True)
    rows = [{"step": 20, "metrics": {METRIC: {"value": 0.5, "low": None}, "odd": 3}}, {"step": 40}]
    curve.write_text("".join(json.dumps(row) + "\n" for row in rows))
    Board(tmp_path / "board").write(story.view)
    events = reader(tmp_path / "board/trial-0")
    assert scalars(events) == {METRIC: [(20, 0.5)]}
    assert [Scalar.wall_time for Scalar in events.Scalars(METRIC)] == [1000.0]


def test_a_curve_that_cannot_be_read_keeps_no_other_away(story, tmp_path, reader, monkeypatch):
    board, opened = Board(tmp_path / "board"), os.open
    for number in range(2):
        ask(story, number)
        add_rows(story, number, 20)
    locked = story.view.folder.trial(0).metrics

    def refuse(path, *arguments, **options):
        if path == locked:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return opened(path, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        assert board.write(story.view) == 2
    assert METRIC not in scalars(reader(tmp_path / "board/trial-0"))
    assert METRIC in scalars(reader(tmp_path / "board/trial-1"))
    assert board.write(story.view) == 1, "it can be read again"
    assert METRIC in scalars(reader(tmp_path / "board/trial-0"))

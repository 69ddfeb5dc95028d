"""The files of a trial: what is written is read, what is damaged is told apart."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from hpsearch import files
from hpsearch.cluster.job_trials import TrialQueue
from hpsearch.cluster.member import Member
from hpsearch.cluster.records import (
    Assignment,
    AttemptResult,
    Birth,
    Control,
    Heartbeat,
    JobPlan,
    JobWork,
    Lineage,
    Parent,
    Start,
)
from hpsearch.cluster.study_dir import StudyDir, owner_of, pin_founders, pinned
from hpsearch.errors import CorruptError
from hpsearch.files import write_json
from hpsearch.population.operators.options import GaussianMutation

RHO = {"value": 0.5, "low": 0.4, "high": 0.6}
RESULT = AttemptResult("t", "failed", 7, "nan", "why", {"rho": RHO})
HEARTBEAT = Heartbeat(12.5, 3, 2, 100.0, "node", 42, False)


@pytest.fixture
def study(tmp_path):
    return StudyDir(tmp_path / "runs" / "name")


@pytest.fixture
def trial(study):
    return study.trial(3)


def test_places(study):
    assert study.trial(12).root == study.root / "trials" / "12"
    assert study.trial(12).attempt(2).root == study.root / "trials" / "12" / "attempt-2"
    assert study.job("j").study == study
    assert study.job("j").name == "j"


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("/runs/tiny/trials/12/checkpoints/step-8", ("tiny", 12)),
        ("tiny/trials/12/checkpoints/step-8", ("tiny", 12)),
        ("/runs/mine/checkpoints/step-8", None),
        ("/runs/tiny/trials/a/checkpoints/step-8", None),
        ("/runs/tiny/trials/12/step-8", None),
        ("/runs/tiny/others/12/checkpoints/step-8", None),
    ],
)
def test_a_checkpoint_is_known_by_its_path(path, owner):
    assert owner_of(Path(path)) == owner


def test_the_queue_knows_studies_of_one_name_in_two_folders_apart(tmp_path, monkeypatch):
    first, second = (StudyDir(tmp_path / folder / "tiny") for folder in ("a", "b"))
    assert first.key != second.key
    assert first.key.startswith("tiny-")
    monkeypatch.chdir(tmp_path / "..")
    assert StudyDir(Path(tmp_path.name) / "a" / "tiny").key == first.key


def test_a_job_is_read_as_it_was_written(study):
    assignments = (Assignment(3, 1, "a"), Assignment(5, 2, "b"))
    plan = JobPlan(assignments, num_threads=4, pilot_seconds=1.5, refills=True)
    study.job("j").plan.write(plan)
    assert study.job("j").plan.required() == plan
    assert study.job("j").read_next(1) is None
    study.job("j").write_next(1, assignments)
    study.job("j").write_next(2, ())
    study.job("j").write_next(3, match=7)
    given = [study.job("j").read_next(number) for number in (1, 2, 3, 4)]
    assert given == [JobWork(assignments), JobWork(()), JobWork((), match=7), None]


CHILD = Lineage(GaussianMutation("gaussian_mutation", 0.1), 7, (Parent(3, "x"),), member=2)


def test_a_trial_is_created_once_and_again(trial):
    for _ in range(2):
        trial.create("seed: 1\n", CHILD)
    assert trial.config.read_text() == "seed: 1\n"
    assert trial.lineage.required() == CHILD


def test_what_became_of_a_child_is_written_and_read(trial):
    assert trial.birth.read() is None
    trial.birth.write(Birth("clone", adopted=True, chance=0.25))
    assert trial.birth.read() == Birth("clone", adopted=True, chance=0.25)


def test_a_damaged_lineage_is_told(trial):
    trial.create("seed: 1\n", CHILD)
    (trial.root / "lineage.json").write_text('{"seed": 1}')
    with pytest.raises(CorruptError, match=r"is damaged .*operator"):
        trial.lineage.required()


def test_control_round_trip(trial):
    assert trial.control.read() is None
    for control in (Control("t", None), Control("u", "pruned")):
        trial.control.write(control)
        assert trial.control.read() == control


def test_heartbeat_of_an_older_version(trial):
    """As versions wrote it whose jobs gave a heartbeat for each attempt."""
    attempt = trial.attempt(1)
    assert attempt.heartbeat.try_read() is None
    write_json(attempt.heartbeat.path, asdict(HEARTBEAT))
    assert attempt.heartbeat.try_read() == HEARTBEAT


def test_a_start_is_read_as_it_was_written(trial):
    assert trial.attempt(1).start.read() is None
    trial.attempt(1).start.write(Start(8))
    assert trial.attempt(1).start.read() == Start(8)


def test_result_round_trip(trial):
    attempt = trial.attempt(1)
    assert attempt.read_result() is None
    attempt.write_result(RESULT)
    assert attempt.read_result() == RESULT


def test_what_an_attempt_says_is_written_as_it_will_be_read(trial):
    """Else `audit`, which reads the file itself, would find that events tell something else."""
    attempt = trial.attempt(1)
    attempt.write_result(replace(RESULT, message="no \x1b[2Jway, " * 1000, kind="n\ran" * 50))
    wrote = json.loads((attempt.root / "result.json").read_text())
    read = attempt.read_result()
    assert (read.message, read.kind) == (wrote["message"], wrote["kind"])
    assert (len(read.message), len(read.kind)) == (4000, 64)
    assert read.message.startswith("no \ufffd[2Jway, no ")


DAMAGED = ["", "{", "[]", "[1]", "3", '{"at": 1}', '{"at": 1, "more": 2}', "\x00\x00"]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_heartbeat_is_none(trial, text):
    attempt = trial.attempt(1)
    write_json(attempt.heartbeat.path, asdict(HEARTBEAT))
    attempt.heartbeat.path.write_text(text)
    assert attempt.heartbeat.try_read() is None


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_result_is_an_error(trial, text):
    attempt = trial.attempt(1)
    attempt.write_result(RESULT)
    (attempt.root / "result.json").write_text(text)
    with pytest.raises(CorruptError, match=r"result\.json"):
        attempt.read_result()


def test_a_last_line_cut_off_is_left_out_wherever_it_is_cut(trial):
    assert list(trial.read_metrics()) == []
    rows = [{"step": step, "metrics": {"rho": step / 10}} for step in (5, 10, 15)]
    for row in rows:
        trial.append_metrics(row)
    assert list(trial.read_metrics()) == rows
    whole = trial.metrics.read_bytes()
    last_line = whole.rindex(b"\n", 0, -1) + 1
    for end in range(last_line, len(whole)):
        trial.metrics.write_bytes(whole[:end])
        assert list(trial.read_metrics()) == rows[:2]


def test_a_damaged_line_is_left_out(trial):
    for step in (5, 10):
        trial.append_metrics({"step": step})
    with trial.metrics.open("a") as file:
        file.write('{"step": 15\n')
    trial.append_metrics({"step": 20})
    assert [row["step"] for row in trial.read_metrics()] == [5, 10, 20]


@pytest.mark.parametrize(("step", "left"), [(0, []), (5, [5]), (12, [5, 10]), (99, [5, 10, 15])])
def test_forgetting_what_will_be_made_again(trial, step, left):
    for row in (5, 10, 15):
        trial.append_metrics({"step": row})
    with trial.metrics.open("a") as file:
        file.write('{"step": 20')
    trial.forget_metrics_after(step)
    trial.append_metrics({"step": 100})
    assert [row["step"] for row in trial.read_metrics()] == [*left, 100]


def test_forgetting_nothing_makes_no_file(trial):
    trial.forget_metrics_after(3)
    assert not trial.metrics.exists()


def test_the_newest_attempt_is_not_the_number_of_folders(trial):
    """One that was announced and never began leaves none."""
    assert trial.newest_attempt() == 0
    for number in (2, 10):
        trial.attempt(number).start.write(Start(0))
    assert trial.newest_attempt() == 10


def test_a_job_whose_file_was_lost_is_told(study):
    with pytest.raises(CorruptError, match=r"j/job\.json is missing"):
        study.job("j").plan.required()


def test_what_cannot_be_read_now_is_no_fault_of_the_trial(study, trial, monkeypatch):
    """Before, a server that did not answer for a moment failed the trial for good."""
    job = study.job("j")
    (study.root / "trials" / "3").mkdir(parents=True)
    trial.create("seed: 1\n", CHILD)
    plan = JobPlan((Assignment(3, 1, "a"),), 1, pilot_seconds=0.0, refills=False)

    def fail(path, limit=None, *, follows_links=True):
        raise OSError(116, "Stale file handle")

    with monkeypatch.context() as patch:
        patch.setattr(files, "open_file", fail)
        assert TrialQueue(job, plan, Member.open).waiting == []
    assert trial.attempt(1).read_result().kind == "disk"


def test_founders_are_kept_by_the_studies_in_which_they_lie(tmp_path):
    """One that lies in no study, as a checkpoint that was copied by hand, is kept by none."""
    first, second, heirs = (StudyDir(tmp_path / "runs" / name) for name in ("a", "b", "heirs"))
    for study in (first, second, heirs):
        write_json(study.spec, {})
    places = [study.trial(n).checkpoints / "step-8" for study, n in ((first, 1), (second, 5))]
    places += [first.trial(2).checkpoints / "step-4", tmp_path / "elsewhere" / "step-8"]
    pin_founders(heirs, places)
    assert pinned(first) == {"heirs": {places[0], places[2]}}
    assert pinned(second) == {"heirs": {places[1]}}
    assert pinned(heirs) == {}
    heirs.root.rename(tmp_path / "gone")
    assert pinned(first) == {}

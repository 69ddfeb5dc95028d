"""When members are measured, what is written of it, and what it ends; without a job around it."""

from contextlib import nullcontext

import pytest
import torch

from hpsearch.cluster.endings import Endings
from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.member import EarlyEnd, Member, Slots
from hpsearch.cluster.schedule import EvaluationSchedule
from hpsearch.cluster.team import Team
from hpsearch.monitor.timing import Sections

METRIC = "rho/host/choose_first"


@pytest.fixture
def slots(tmp_path, new_job, plain_config) -> Slots:
    """Three members that are measured at every fourth step, of twelve."""
    job = new_job(tmp_path, [plain_config({"seed": seed}) for seed in (1, 2, 3)])
    members = [Member.open(job.study, given) for given in job.plan.required().assignments]
    team = Team(StopFlag())
    team.build([member.config for member in members])
    return Slots(members, team)


@pytest.fixture
def schedule(slots: Slots) -> EvaluationSchedule:
    return EvaluationSchedule(slots, slots.members[0].config.evaluation, Endings(slots))


@pytest.fixture
def sections() -> Sections:
    return lambda name: nullcontext()


def at(slots: Slots, *steps: int) -> None:
    slots.trainer.step.copy_(torch.tensor(steps))
    slots.read_steps()


def curves(slots: Slots) -> list[list[int]]:
    """Return the steps in the curve of each member."""
    trials = [member.trial for member in slots.members.values()]
    return [[row["step"] for row in trial.read_metrics()] for trial in trials]


@pytest.mark.parametrize(
    ("steps", "is_due"),
    [((3, 5, 6), False), ((4, 5, 6), True), ((3, 5, 8), True), ((3, 12, 5), True)],
)
def test_members_are_measured_at_steps_of_their_own(slots, schedule, steps, is_due) -> None:
    at(slots, *steps)
    assert schedule.is_due is is_due
    for step in steps:
        ahead = next(ahead for ahead in range(1, 5) if (step + ahead) % 4 == 0)
        assert schedule.steps_until_due(step) == ahead


def test_one_that_has_ended_before_its_steps_is_measured_at_once(slots, schedule) -> None:
    at(slots, 3, 5, 6)
    slots.ended[1] = EarlyEnd("games", "ended early")
    assert schedule.is_due


def test_those_that_are_due_and_wanted_are_measured(slots, schedule, sections) -> None:
    at(slots, 4, 5, 8)
    metrics, broken = schedule.evaluate(sections)
    assert (list(metrics), broken, curves(slots)) == ([0, 2], [], [[4], [], [8]])
    assert list(schedule.samples) == [0, 2]
    assert metrics[0][METRIC].games == 20
    assert schedule.evaluate(sections, [1]) == ({}, [])
    assert list(schedule.evaluate(sections, [1, 2])[0]) == [2]
    assert curves(slots) == [[4], [], [8, 8]]


def test_one_whose_weights_are_no_numbers_has_failed_and_is_said_to_have(
    slots, schedule, sections
) -> None:
    at(slots, 4, 4, 5)
    for row in (1, 2):
        slots.trainer.learners[0].net.weights[row].fill_(torch.nan)
    metrics, broken = schedule.evaluate(sections)
    assert (list(metrics), broken) == ([0, 1], [1])
    results = [member.attempt.read_result() for member in slots.members.values()]
    assert [result and (result.status, result.kind, result.step) for result in results] == [
        None, ("failed", "nan", 4), None,
    ]  # fmt: skip


def test_those_that_have_ended_are_measured_once_more_and_say_how(
    slots, schedule, sections
) -> None:
    at(slots, 12, 5, 12)
    slots.ended[1] = EarlyEnd("games", "ended early")
    slots.trainer.learners[0].net.weights[2].fill_(torch.nan)
    assert schedule.finish(sections) == [0, 1, 2]
    first, second, third = (member.attempt.read_result() for member in slots.members.values())
    assert (first.status, first.step, first.message, first.ended_by) == ("finished", 12, "", None)
    assert first.metrics[METRIC]["games"] == 30
    assert (second.status, second.step, second.ended_by) == ("finished", 5, "games")
    assert second.message == "ended early"
    assert (third.status, third.kind) == ("failed", "nan")
    assert curves(slots) == [[], [], []]
    slots.leave([0, 1, 2])
    assert schedule.finish(sections) == []

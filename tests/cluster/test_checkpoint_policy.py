"""When members are saved, why, and which checkpoints stay; against a plain account of the rules."""

import json
from types import SimpleNamespace

import pytest

from hpsearch.cluster import schedule as schedule_module
from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.member import Member, Slots
from hpsearch.cluster.records import Assignment, Fresh, Lineage
from hpsearch.cluster.schedule import CheckpointPolicy
from hpsearch.cluster.study_dir import TrialDir
from hpsearch.cluster.team import Team
from hpsearch.trainers import checkpoint
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.checkpoint import read_best
from hpsearch.trainers.rho import Rho

HOST, AGENT = "rho/host/choose_first", "rho/agent/zeillinger"
LEARNING_AGENT = {"agent": "learn", "host": {"player": "zeillinger"}}
VALUES = [0.3, 0.2, 0.5, 0.5, 0.1, 0.6, 0.4, 0.4, 0.05, 0.2, 0.3, 0.2]
"""of the metric, at the steps 1, 2, ..."""


@pytest.fixture
def clock(monkeypatch):
    """The policy's clock; tests set ``now``."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(schedule_module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


class Story:
    """A member whose steps are made by hand."""

    def __init__(self, folder, config) -> None:
        folder.mkdir(exist_ok=True)
        trial = TrialDir(folder)
        lineage = Lineage(Fresh(), config.seed)
        assignment = Assignment(0, 1, "t")
        self.member = Member(assignment, trial, trial.attempt(1), config, "m", lineage, ())
        self.trainer, self.team = build_trainer([config]), Team(StopFlag())
        self.team.built = self.trainer
        self.policy = CheckpointPolicy(config, self.team)
        self.folder = trial.checkpoints

    def reach(self, step: int, value: float | None = None) -> None:
        """Let the policy see a step, at which the metric was measured if it has a value."""
        self.trainer.step.fill_(step)
        name = self.member.config.checkpoint.best
        measured = {} if value is None else {0: {name: Rho(value, value, value, 0.0, 9)}}
        slots = Slots([self.member], self.team)
        slots.steps = {0: step}
        self.policy.save_due(slots, measured)
        self.policy.wait()

    def kinds(self) -> dict[int, str]:
        steps = sorted(checkpoint.valid_steps(self.folder))
        states = [checkpoint.path_of(self.folder, step) / checkpoint.STATE for step in steps]
        kinds = [json.loads(state.read_text())["kind"] for state in states]
        paths = [checkpoint.path_of(self.folder, step) for step in steps]
        assert kinds == [checkpoint.load(path).kind for path in paths]
        return dict(zip(steps, kinds, strict=True))


@pytest.fixture
def story(tmp_path, tiny_config):
    """Return a function (checkpoint's keys, other keys) -> Story of twelve steps."""

    def tell(changes=None, others=None):
        rules = {f"checkpoint.{key}": value for key, value in (changes or {}).items()}
        return Story(tmp_path / "trial", tiny_config({"steps": 12, **rules, **(others or {})}))

    return tell


@pytest.mark.parametrize("interval", [1, 4, 5, 100])
def test_periodic_checkpoints_and_the_final_one(story, interval):
    told = story({"interval": interval, "keep_last": 99})
    for step in range(1, 13):
        told.reach(step)
        assert told.policy.steps_until_due(step) == next(
            ahead for ahead in range(1, 101) if (step + ahead) % interval == 0
        )
    expected = {step: "periodic" for step in range(1, 12) if step % interval == 0}
    assert told.kinds() == {**expected, 12: "final"}


@pytest.mark.parametrize("keep_last", [2, 3, 7])
def test_the_last_k_are_kept(story, keep_last):
    told = story({"interval": 1, "keep_last": keep_last})
    for step in range(1, 13):
        told.reach(step)
        assert list(told.kinds()) == list(range(1, step + 1))[-keep_last:]


def test_timed_checkpoints(story, clock):
    told = story({"interval": 100, "seconds": 10.0, "keep_last": 99})
    for step, now in enumerate([105.0, 109.9, 110.0, 119.0, 131.0, 132.0, 141.0], 1):
        clock.now = now
        told.reach(step)
    assert told.kinds() == {3: "timed", 5: "timed", 7: "timed"}


def test_without_seconds_none_is_timed(story, clock):
    told = story({"interval": 100})
    clock.now = 1e9
    told.reach(1)
    assert told.kinds() == {}


def test_a_checkpoint_on_request_once(story):
    told = story({"interval": 100, "keep_last": 99})
    told.reach(1)
    told.member.trial.request_save()
    told.member.trial.request_save()
    told.reach(2)
    told.reach(3)
    assert told.kinds() == {2: "requested"}


@pytest.mark.parametrize(("metric", "others", "sign"), [(HOST, {}, 1), (AGENT, LEARNING_AGENT, -1)])
@pytest.mark.parametrize("keep_last", [2, 3, 99])
def test_the_best_is_kept_beside_the_last_k(story, metric, others, sign, keep_last):
    told = story({"interval": 1, "keep_last": keep_last, "best": metric}, others)
    for step, value in enumerate(VALUES, 1):
        told.reach(step, value)
        so_far = [sign * rho for rho in VALUES[:step]]
        best = 1 + so_far.index(max(so_far))  # the first of equals
        kept = read_best(told.folder)
        assert (kept.step, kept.metric, kept.value) == (best, metric, VALUES[best - 1])
        newest = range(1, step + 1)[-keep_last:]
        assert sorted(told.kinds()) == sorted({*newest, best})
        assert told.kinds()[best] == ("final" if best == 12 else "best")


def test_the_best_is_saved_where_nothing_else_is_due(story):
    told = story({"interval": 100, "keep_last": 99, "best": HOST})
    for step, value in enumerate(VALUES, 1):
        told.reach(step, value if step % 2 == 0 else None)  # measured at every second step
    assert told.kinds() == {2: "best", 4: "best", 6: "best", 12: "final"}


def test_another_metric_begins_anew(story, tmp_path, tiny_config):
    told = story({"interval": 100, "best": HOST})
    told.reach(1, 0.9)
    other = "rho_sampled/host/choose_first"
    again = Story(tmp_path / "trial", tiny_config({"checkpoint.best": other, "steps": 12}))
    again.reach(2, 0.1)
    assert (read_best(again.folder).step, read_best(again.folder).metric) == (2, other)


def test_a_damaged_best_is_given_up_for_one_that_can_be_read(story):
    """Before, it stayed the best for ever, though no one can load it."""
    told = story({"interval": 1, "keep_last": 2, "best": HOST})
    told.reach(1, 0.9)
    told.reach(2, 0.1)
    state = checkpoint.path_of(told.folder, 1) / checkpoint.STATE
    state.write_text("{}")
    told.reach(3, 0.2)
    assert read_best(told.folder).step == 3
    told.reach(4, 0.1)
    told.reach(5, 0.1)
    assert list(told.kinds()) == [3, 4, 5]
    assert not state.parent.exists()


def test_a_run_that_goes_on_keeps_the_best_of_before(story, tmp_path):
    told = story({"interval": 1, "keep_last": 2, "best": HOST})
    for step, value in enumerate(VALUES[:8], 1):
        told.reach(step, value)
    again = story({"interval": 1, "keep_last": 2, "best": HOST})
    for step in range(7, 12):
        again.reach(step, VALUES[step - 1])
    assert read_best(again.folder).step == 6
    assert list(again.kinds()) == [6, 10, 11]


def test_an_older_step_than_the_best_does_not_push_it_out(story):
    """The newest checkpoints were lost; what follows is made again."""
    told = story({"interval": 1, "keep_last": 2, "best": HOST})
    for step, value in enumerate(VALUES[:6], 1):
        told.reach(step, value)
    for step in range(4, 9):
        told.reach(step, VALUES[step - 1])
    assert read_best(told.folder).step == 6
    assert list(told.kinds()) == [6, 7, 8]

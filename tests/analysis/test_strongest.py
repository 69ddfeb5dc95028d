"""Which trials of a study play: the best of each role, of those that have a checkpoint."""

import pytest
from cli_tools import damage
from views import METRIC, rho

from hpsearch.analysis.players import strongest_checkpoints
from hpsearch.errors import HpsearchError, UsageError
from hpsearch.trainers import checkpoint
from hpsearch.trainers.algorithms import build_trainer

PANEL = "panel/agent"
FINE = {"failure": None, "message": ""}


@pytest.fixture(scope="module")
def saved(tmp_path_factory, tiny_config):
    """A checkpoint of any player."""
    folder = tmp_path_factory.mktemp("saved")
    build_trainer([tiny_config()]).save(folder, 0)
    return folder


@pytest.fixture
def finish(story, saved):
    """Return a function that finishes a trial with these metrics, and with a checkpoint or none."""

    def finish(number: int, metrics: dict[str, float], *, with_checkpoint: bool = True) -> None:
        story.ask(number)
        story.run(number, job=f"0000{number}")
        told = {name: rho(value) for name, value in metrics.items()}
        value = metrics.get(METRIC)
        story.add("told", number, state="finished", value=value, metrics=told, **FINE)
        if with_checkpoint:
            folder = story.view.folder.trial(number).checkpoints
            folder.parent.mkdir(parents=True)
            folder.symlink_to(saved)

    return finish


def chosen(story, count: int) -> list[tuple[int, tuple[str, ...]]]:
    return [
        (candidate.trial, candidate.roles) for candidate in strongest_checkpoints(story.view, count)
    ]


def test_the_role_of_the_objective_goes_by_it_and_the_other_by_its_panel(story, finish):
    finish(0, {METRIC: 0.1, "panel/host": 0.9, PANEL: 0.1, "rho/agent/random": 0.3})
    finish(1, {METRIC: 0.3, "panel/host": 0.1, PANEL: 0.3, "rho/agent/random": 0.1})
    finish(2, {METRIC: 0.2, "panel/host": 0.2, PANEL: 0.2, "rho/agent/random": 0.2})
    assert chosen(story, 1) == [(1, ("host",)), (0, ("agent",))]
    assert chosen(story, 2) == [(1, ("host",)), (2, ("host", "agent")), (0, ("agent",))]
    assert len(chosen(story, 9)) == 3


def test_who_was_judged_goes_by_its_strength_in_its_newest_match(story, finish):
    """The objective ranks them the other way round."""
    for number in range(5):
        finish(number, {METRIC: 0.9 - 0.1 * number, PANEL: 0.5})
    # The first match had weaker opponents.
    for match, strengths in ((1, {0: 8.0, 1: 9.0, 2: 7.0}), (2, {2: 0.1, 3: 0.3})):
        members = {str(place): trial for place, trial in enumerate(strengths)}
        story.add("match_called", match=match, members=members, ended=[], archive=[])
        judged = {
            "champion": max(strengths, key=strengths.get),
            "strengths": {str(trial): strength for trial, strength in strengths.items()},
            "intervals": {},
            "game": None,
            "answers": [],
        }
        story.add("bred", match=match, children=[], **judged)
    both = ("host", "agent")
    assert chosen(story, 1) == [(3, both)] == [(story.view.best().number, both)]
    assert chosen(story, 9) == [(trial, both) for trial in (3, 2, 1, 0, 4)]


def test_without_a_panel_it_goes_by_what_there_is(story, finish):
    finish(0, {METRIC: 0.1, "rho/agent/random": 0.3, "rho/agent/zeillinger": 0.1})
    finish(1, {METRIC: 0.2, "rho/agent/random": 0.1, "rho/agent/zeillinger": 0.3})
    assert chosen(story, 1) == [(1, ("host", "agent"))]


def test_who_has_no_checkpoint_makes_room(story, finish, capsys):
    finish(0, {METRIC: 0.1})
    finish(1, {METRIC: 0.2}, with_checkpoint=False)
    assert chosen(story, 1) == [(0, ("host",))]
    assert capsys.readouterr().err == "hpsearch: tiny/1 has no whole checkpoint\n"


def test_no_checkpoint_at_all(story, finish):
    finish(0, {METRIC: 0.1}, with_checkpoint=False)
    with pytest.raises(
        UsageError, match=r"tiny has no whole checkpoint of a trial.*hpsearch train"
    ):
        chosen(story, 1)


def test_no_trial_has_finished(story):
    story.ask(0)
    with pytest.raises(HpsearchError, match="no trial of tiny has finished yet"):
        chosen(story, 1)


def test_a_damaged_checkpoint_is_none(story, tmp_path, tiny_config):
    folder = story.view.folder.trial(0).checkpoints
    path = build_trainer([tiny_config()]).save(folder, 0)
    damage(path / checkpoint.TENSORS)
    story.ask(0)
    story.run(0, job="00000")
    story.tell(0, "finished", 0.1)
    with pytest.raises(UsageError, match="no whole checkpoint"):
        chosen(story, 1)

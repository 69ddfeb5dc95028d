"""Which configurations are confirmed: the best, each once."""

import pytest
from views import METRIC

from hpsearch.analysis.candidates import all_candidates
from hpsearch.errors import HpsearchError
from hpsearch.study.view import StudyView

LR = "host.optim.args.lr"


def tell(story, number: int, value: float | None, lr: float, state: str = "finished") -> None:
    story.ask(number, **{LR: lr})
    story.run(number, job=f"0000{number}")
    story.tell(number, state, value)


def numbers(candidates) -> list[int]:
    return [candidate.trial.number for candidate in candidates]


def test_the_best_come_first_and_others_do_not_count(story):
    for number, value in enumerate([0.1, 0.3, 0.2]):
        tell(story, number, value, lr=1e-3 + number * 1e-4)
    tell(story, 3, 0.9, lr=2e-3, state="pruned")
    tell(story, 4, None, lr=3e-3, state="failed")
    assert numbers(all_candidates(story.view)[:2]) == [1, 2]
    assert numbers(all_candidates(story.view)[:9]) == [1, 2, 0]
    assert all_candidates(story.view)[:1][0].values == {LR: 1.1e-3, "host.gamma": 0.9}
    assert story.view.study.spec.objectives[0].metric == METRIC


def test_a_configuration_counts_once_by_its_best_trial(story):
    for number, (value, lr) in enumerate([(0.1, 1e-3), (0.3, 1e-3), (0.2, 2e-3)]):
        tell(story, number, value, lr)
    assert numbers(all_candidates(story.view)) == [1, 2]


def test_low_is_good_where_it_is_minimized(story):
    study = story.view.study
    object.__setattr__(study.spec.objectives[0], "goal", "minimize")
    assert isinstance(story.view, StudyView)
    for number, value in enumerate([0.2, 0.1, 0.3]):
        tell(story, number, value, lr=1e-3 + number * 1e-4)
    assert numbers(all_candidates(story.view)) == [1, 0, 2]


def test_without_a_finished_trial_it_says_so(story):
    with pytest.raises(HpsearchError, match="no trial of tiny has finished yet"):
        all_candidates(story.view)

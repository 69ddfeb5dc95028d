"""Which waiting trials train together."""

from collections import Counter
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from hpsearch.study.driver import groups
from hpsearch.study.records import Trial


@st.composite
def waiting_trials(draw: st.DrawFn) -> list[Trial]:
    numbers = draw(st.lists(st.integers(0, 40), unique=True, max_size=20))
    jobs = st.sampled_from([None, None, "00001", "00002", "00003"])
    return [Trial(number, {"shape": draw(st.integers(0, 2))}, job=draw(jobs)) for number in numbers]


def shape(trial: Trial) -> int:
    return int(trial.params["shape"])


@given(waiting_trials(), st.integers(1, 5))
def test_groups(waiting: list[Trial], members: int) -> None:
    grouped = groups(waiting, shape, members)
    flat = [trial.number for group in grouped for trial in group]
    assert sorted(flat) == sorted(trial.number for trial in waiting)
    kinds = [{(trial.job, shape(trial)) for trial in group} for group in grouped]
    assert all(len(kind) == 1 for kind in kinds)
    assert all(1 <= len(group) <= members for group in grouped)
    # No more groups than it takes, and those that wait longest first.
    numbers = Counter(kind for (kind,) in kinds)
    sizes = Counter((trial.job, shape(trial)) for trial in waiting)
    assert numbers == {kind: ceil(size / members) for kind, size in sizes.items()}
    assert all(group == sorted(group, key=lambda trial: trial.number) for group in grouped)
    firsts = [group[0].number for group in grouped]
    assert firsts == sorted(firsts)
    assert groups(waiting[::-1], shape, members) == grouped


def test_by_hand() -> None:
    waiting = [
        Trial(7, {"shape": 0}),
        Trial(2, {"shape": 0}, job="00001"),
        Trial(5, {"shape": 1}),
        Trial(3, {"shape": 0}, job="00001"),
        Trial(6, {"shape": 0}),
        Trial(8, {"shape": 0}),
    ]
    numbers = [[trial.number for trial in group] for group in groups(waiting, shape, 2)]
    assert numbers == [[2, 3], [5], [6, 7], [8]]


def test_who_needs_a_gpu_alone_gets_one() -> None:
    waiting = [Trial(n, {"shape": 0}, job="00001", is_alone=n in (1, 2)) for n in range(4)]
    numbers = [[trial.number for trial in group] for group in groups(waiting, shape, 4)]
    assert numbers == [[0, 3], [1], [2]]

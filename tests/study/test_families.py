"""Whose networks began as the same ones, along parents and copies."""

from hpsearch.cluster.records import Exploit
from hpsearch.study.breeding import lineage
from hpsearch.study.records import PlannedTrial, Trial


def trial(number, *parents, founder=None, copies=(), operator="clone", is_adopted=True):
    origin = PlannedTrial(
        key=str(number),
        member=0,
        generation=0,
        parents=parents,
        parent_steps=(4,) * len(parents),
        operator={"name": operator},
        is_child=False,
        params=None,
        steps=8,
        founder=founder,
    )
    takeovers = tuple(Exploit(step, source, step, "hash", {}, {}) for step, source in copies)
    return Trial(number, {}, origin=origin, takeovers=takeovers, is_adopted=is_adopted)


def families(*trials, roles=("host",)):
    """Return the family of each trial's host, or the families of its roles where they are given."""
    known = {trial.number: trial for trial in trials}
    names = [lineage.families(trial, roles, known) for trial in trials]
    return names if len(roles) > 1 else [name for (name,) in names]


def test_a_line_of_first_parents_is_one_family():
    names = families(trial(0), trial(1), trial(2, 0, 1), trial(3, 2), trial(4, 1, 0))
    assert names == ["trial 0", "trial 1", "trial 0", "trial 0", "trial 1"]


def test_those_who_began_as_one_founder_are_kin():
    names = families(trial(0, founder=0), trial(1, founder=1), trial(2, founder=0), trial(3, 2))
    assert names == ["founder 0", "founder 1", "founder 0", "founder 0"]


def test_a_copy_on_an_island_is_of_its_sources_family():
    names = families(trial(0), trial(1, copies=[(2, 0)]), trial(2, 1))
    assert names == ["trial 0"] * 3


def test_what_a_source_became_after_it_was_copied_does_not_count():
    swapped = trial(0, copies=[(2, 1)]), trial(1, copies=[(2, 0)])
    assert families(*swapped) == ["trial 1", "trial 0"]
    later = trial(0, copies=[(3, 2)]), trial(1, copies=[(2, 0)]), trial(2)
    assert families(*later) == ["trial 2", "trial 0", "trial 2"]


def test_a_pair_of_two_parents_has_the_agent_of_the_second():
    joined = {"operator": "host_and_agent"}
    roles = ("host", "agent")
    pairs = trial(0), trial(1), trial(2, 0, 1, **joined), trial(3, 2), trial(4, 3, 1)
    names = families(*pairs, roles=roles)
    assert names[2:] == [("trial 0", "trial 1")] * 3
    copy = trial(2, 0, 1, **joined, is_adopted=False)
    assert families(trial(0), trial(1), copy, roles=roles)[2] == ("trial 0", "trial 0")
    assert families(trial(0), trial(1), trial(2, 0, 1, **joined)) == [
        "trial 0",
        "trial 1",
        "trial 0",
    ]

"""Whose networks began as the same ones, along parents and copies."""

from hpsearch.cluster.island import Takeover
from hpsearch.study.breeding.kinship import family
from hpsearch.study.breeding.records import Origin
from hpsearch.study.records import Trial


def trial(number, *parents, founder=None, copies=()):
    origin = Origin(
        key=str(number),
        member=0,
        generation=0,
        parents=parents,
        parent_steps=(4,) * len(parents),
        operator={"name": "clone"},
        is_child=False,
        params=None,
        steps=8,
        founder=founder,
    )
    takeovers = tuple(Takeover(step, source, step, "hash", {}, {}) for step, source in copies)
    return Trial(number, {}, origin=origin, takeovers=takeovers)


def families(*trials):
    known = {one.number: one for one in trials}
    return [family(one, known) for one in trials]


def test_a_line_of_first_parents_is_one_family():
    found = families(trial(0), trial(1), trial(2, 0, 1), trial(3, 2), trial(4, 1, 0))
    assert found == ["trial 0", "trial 1", "trial 0", "trial 0", "trial 1"]


def test_those_who_began_as_one_founder_are_kin():
    found = families(trial(0, founder=0), trial(1, founder=1), trial(2, founder=0), trial(3, 2))
    assert found == ["founder 0", "founder 1", "founder 0", "founder 0"]


def test_a_copy_on_an_island_is_of_its_sources_family():
    found = families(trial(0), trial(1, copies=[(2, 0)]), trial(2, 1))
    assert found == ["trial 0"] * 3


def test_what_a_source_became_after_it_was_copied_does_not_count():
    swapped = trial(0, copies=[(2, 1)]), trial(1, copies=[(2, 0)])
    assert families(*swapped) == ["trial 1", "trial 0"]
    later = trial(0, copies=[(3, 2)]), trial(1, copies=[(2, 0)]), trial(2)
    assert families(*later) == ["trial 2", "trial 0", "trial 2"]

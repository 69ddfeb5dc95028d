"""Dead ends of a population: members' intervals of which nobody will need a checkpoint again."""

from collections.abc import Iterator

from hpsearch.study.records import COMPLETE
from hpsearch.study.state import StudyState


def dead_ends(state: StudyState) -> Iterator[int]:
    """Yield the finished trials of a population from which nobody comes, or will.

    Parents are kept, for their children may begin again; so are champions, and whoever may be a
    parent or play yet.
    """
    population = state.population
    if not population.has_begun:
        return
    origins = [*population.planned]
    origins += [trial.origin for trial in state.trials.values() if trial.origin is not None]
    wanted = {parent for origin in origins for parent in origin.parents}
    wanted |= {*population.archive, *population.finished.values()}
    if population.match is not None:
        wanted |= {*population.match.members.values()}
    yield from (t.number for t in state.told(COMPLETE) if t.number not in wanted)

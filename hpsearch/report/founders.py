"""The founders of a population: the best checkpoints of several studies, evenly of each."""

from collections.abc import Sequence
from itertools import chain, islice, zip_longest
from typing import TypeVar

from hpsearch.errors import ConflictError
from hpsearch.report.strongest import Found, strongest_checkpoints
from hpsearch.report.view import StudyView
from hpsearch.study.bred import Founder
from hpsearch.study.state import FINISHED, STOPPED
from hpsearch.trainers.checkpoint import saved_config

T = TypeVar("T")


def choose_founders(views: Sequence[StudyView], members: int) -> list[Founder]:
    """Return at most as many founders as there will be members, the best of each study first.

    Args:
        views: finished studies.
        members: at least as many as studies; each study has an even share of them.

    Raises:
        ConflictError: if a study has not finished.
        HpsearchError: if one of them has no checkpoint of a trial that finished.
    """
    for view in views:
        _check_finished(view)
    share, more = divmod(members, len(views))
    return _in_turn([_best(view, share + (index < more)) for index, view in enumerate(views)])


def _check_finished(view: StudyView) -> None:
    if view.state.status not in (FINISHED, STOPPED) or view.state.unfinished():
        name = view.study.spec.name
        raise ConflictError(
            f"{name} is {view.status}, so its best may be others yet; look at it with: "
            f"hpsearch status {name}, and breed when it has finished"
        )


def _best(view: StudyView, count: int) -> list[Founder]:
    """Return the best of a study: those of each role in turn."""
    found = strongest_checkpoints(view, count)
    roles = dict.fromkeys(chain.from_iterable(one.roles for one in found))
    by_role = [[one for one in found if role in one.roles] for role in roles]
    return [_founder(view, one) for one in islice(dict.fromkeys(_in_turn(by_role)), count)]


def _founder(view: StudyView, found: Found) -> Founder:
    config = saved_config(found.checkpoint)
    return Founder(view.study.spec.name, found.trial, found.checkpoint.absolute(), config)


def _in_turn(lists: Sequence[Sequence[T]]) -> list[T]:
    """Return the first of every list, then the second of each, and so on."""
    return [one for ranks in zip_longest(*lists) for one in ranks if one is not None]

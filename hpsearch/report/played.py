"""The last match of a population as it was played: rho of every host against every agent."""

from dataclasses import dataclass

import numpy as np

from hpsearch.errors import CorruptError
from hpsearch.population.arrays import Floats
from hpsearch.report.confirmed import last_match
from hpsearch.report.view import StudyView


@dataclass(frozen=True)
class Played:
    """Rho of all pairs of a match. Axes: P hosts, Q agents."""

    match: int
    hosts: tuple[str, ...]
    agents: tuple[str, ...]
    rho: Floats
    """(P, Q), over the games of all sets of starts together"""
    games: int
    """of each pair"""


def read_played(view: StudyView) -> Played | str:
    """Return the last match that was judged, or why there is none.

    Raises:
        CorruptError: if its files are damaged.
        DiskError: if they cannot be read.
    """
    if view.study.spec.population is None:
        return "a search has no matches: its trials never meet"
    number = last_match(view)
    if number is None:
        return "no match has been judged yet"
    files = view.folder.match(number)
    games = files.read_games()
    if games is None:
        return f"the games of match {number} are gone from {files.root}"
    plan = files.read_plan()
    if games.moves.shape != plan.shape:
        raise CorruptError(f"the games of match {number} in {files.root} are not those of its plan")
    moves = np.concatenate(list(games.moves), axis=2)  # (P, Q, S * G)
    return Played(
        number,
        tuple(one.name for one in plan.hosts),
        tuple(one.name for one in plan.agents),
        1.0 / moves.mean(axis=2),
        moves.shape[2],
    )

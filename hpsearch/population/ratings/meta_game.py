"""What a match says of a population as a whole: its value, who is played, how far it goes round.

Axes: P hosts, Q agents, G games of each pair.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hpsearch.population.arrays import Floats
from hpsearch.population.ratings.cycles import Cycle, best_response_cycles
from hpsearch.population.ratings.equilibrium import max_entropy_equilibrium
from hpsearch.population.ratings.interaction import cyclic_share_beyond_noise
from hpsearch.population.ratings.resampling import rho_errors

SHARE = 0.01
"""of an equilibrium below which a player is not named"""
NUM_CYCLES = 3
"""that are told, the strongest ones"""
NOISE = 2.0
"""standard errors of a difference that a switch must gain"""


@dataclass(frozen=True)
class MetaGame:
    """The game between all hosts and all agents of a match, in rho."""

    value: float
    """what hosts earn in the equilibrium"""
    hosts: dict[int, float]
    """rows that the equilibrium plays, and how often"""
    agents: dict[int, float]
    """columns likewise"""
    host_gaps: Floats
    """(P,) what a best answer in the match takes from each host: value less its worst result"""
    agent_gaps: Floats
    """(Q,) what each agent concedes to its best host above the value"""
    cyclic_share: float
    """of the differences in rho that no strength of single players explains, beyond noise"""
    cycles: tuple[Cycle, ...]
    """of best answers, the strongest first"""


def meta_game(moves: npt.NDArray[np.int64]) -> MetaGame | None:
    """Return the game that is played, None where its equilibrium cannot be told.

    Args:
        moves: (P, Q, G) lengths of games, at least two of each pair.
    """
    rho: Floats = 1.0 / moves.mean(axis=2)
    try:
        found = max_entropy_equilibrium(rho)
    except RuntimeError:  # players are too close
        return None
    errors = rho_errors(moves)
    margin = NOISE * float(np.sqrt(2.0) * errors.max())
    return MetaGame(
        value=found.value,
        hosts=_played(found.hosts),
        agents=_played(found.agents),
        host_gaps=np.maximum(found.value - rho.min(axis=1), 0.0),
        agent_gaps=np.maximum(rho.max(axis=0) - found.value, 0.0),
        cyclic_share=cyclic_share_beyond_noise(rho, errors),
        cycles=tuple(best_response_cycles(rho, margin=margin)[:NUM_CYCLES]),
    )


def _played(shares: Floats) -> dict[int, float]:
    return {at: float(share) for at, share in enumerate(shares) if share >= SHARE}

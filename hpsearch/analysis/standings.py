"""Who is how strong, by everything that a cross-play says of it.

Axes: P hosts, Q agents, G games of each pair, R samples of the starts.

A cross-play as data for programs: JSON, whose keys are published and stay, and CSV.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from hpsearch.analysis.round_robin import HowToPlay, RoundRobinPlayers, Side
from hpsearch.game.random import derive_key
from hpsearch.population.crossplay import CrossPlay
from hpsearch.population.ratings.alpha_rank import AlphaRank, alpha_rank_limit
from hpsearch.population.ratings.bradley_terry import Strengths, bradley_terry, wins_by_speed
from hpsearch.population.ratings.cycles import (
    Cycle,
    best_response_cycles,
    cyclic_share_beyond_noise,
    swap_cycles,
)
from hpsearch.population.ratings.nash import NashRatings, nash_averaging, nash_conv
from hpsearch.population.statistics import Floats, interval, resampled_rho, rho_errors
from hpsearch.trainers.opponents import SavedPlayer

CELL_SAMPLES: Final = 1000
RATING_SAMPLES: Final = 200
"""those of them that are rated too, which takes a linear program each"""
RIDGE: Final = 0.01
"""of Bradley-Terry strengths: hardly moves who has some twenty games"""
RANK_NOISE: Final = 1e-3
"""of alpha-rank: share of takeovers against the gain"""
MAX_RANKED_PAIRS: Final = 1024
"""for alpha-rank, whose time grows with their cube: a second"""
CONFIDENCE: Final = 0.95
"""of all intervals"""
NUM_CYCLES: Final = 5


@dataclass(frozen=True)
class Estimate:
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class PlayerStanding:
    name: str
    nash: Estimate
    """Nash averaging: rho against the opponents of the equilibrium"""
    played: float
    """how often the equilibrium plays it"""
    strength: Estimate
    """Bradley-Terry, in logits; high is strong on both sides"""
    alpha_rank: float | None
    """share of evolution's time; None where there are too many pairs"""
    exploitability: float
    """what its best answer takes from the value of the game, in rho"""
    best_answer: str
    """the opponent that takes most"""


@dataclass(frozen=True)
class Balance:
    """The equilibrium of the game in which both sides choose a player."""

    value: Estimate
    exploitability: float
    """of both its sides together, in the games that it was found in: zero but for rounding"""
    resampled_exploitability: float
    """the same on average over starts drawn again: what a few games may hide"""


@dataclass(frozen=True)
class NamedCycle:
    """``agents[k]`` answers ``hosts[k]``, ``hosts[k + 1]`` answers ``agents[k]``, and so round."""

    kind: Literal["swap", "best answers"]
    hosts: tuple[str, ...]
    agents: tuple[str, ...]
    strength: float
    """the least that a side gains by a switch, in rho; of a swap, beyond its error"""


@dataclass(frozen=True)
class Standings:
    """Everything that is said of a cross-play; the strongest hosts and agents come first."""

    hosts: tuple[PlayerStanding, ...]
    agents: tuple[PlayerStanding, ...]
    rho: Floats
    """(P, Q)"""
    low: Floats
    """(P, Q), the lower end of the 95 % interval"""
    high: Floats
    """(P, Q), the upper end of the 95 % interval"""
    capped: Floats
    """(P, Q), share of games that did not finish"""
    num_games: int
    """of each pair"""
    balance: Balance
    cyclic_share: float
    """part of rho's differences that is cyclic, beyond noise"""
    cyclic_share_log: float
    """the same of log rho, in which a factor of strength is nothing cyclic"""
    cycles: tuple[NamedCycle, ...]
    """the strongest swaps, then those of best answers"""


def standings(played: CrossPlay, seed: int) -> Standings:
    """Rate all players; ``seed`` is that of the starts drawn again."""
    rng = np.random.default_rng(derive_key(seed, "cross-play", "resampling"))
    samples = resampled_rho(played.moves, CELL_SAMPLES, rng)
    rho, errors = played.rho(), rho_errors(played.moves)
    nash = nash_averaging(rho)
    resampled = [nash_averaging(sample) for sample in samples[:RATING_SAMPLES]]
    hosts, agents = _standings(played, rho, nash, resampled)
    low, high = interval(samples, CONFIDENCE)
    # All that the equilibrium plays have the best rating there is, so they differ by how often.
    down = sorted(range(len(hosts)), key=lambda p: (-hosts[p].played, -hosts[p].nash.value))
    across = sorted(range(len(agents)), key=lambda q: (-agents[q].played, agents[q].nash.value))
    place = np.ix_(down, across)
    return Standings(
        tuple(hosts[p] for p in down),
        tuple(agents[q] for q in across),
        rho[place],
        low[place],
        high[place],
        1.0 - played.finished.mean(axis=2)[place],
        played.moves.shape[2],
        _balance(rho, nash, samples, resampled),
        cyclic_share_beyond_noise(rho, errors),
        cyclic_share_beyond_noise(np.log(rho), errors / rho),
        tuple(_cycles(played, rho, errors)),
    )


def _standings(
    played: CrossPlay, rho: Floats, nash: NashRatings, resampled: Sequence[NashRatings]
) -> tuple[list[PlayerStanding], list[PlayerStanding]]:
    num_games = np.full(rho.shape, played.moves.shape[2])
    strengths = bradley_terry(wins_by_speed(played.moves), num_games, ridge=RIDGE)
    rank = alpha_rank_limit(rho, -rho, noise=RANK_NOISE) if rho.size <= MAX_RANKED_PAIRS else None
    equilibrium = nash.equilibrium
    host_strength, agent_strength = _strengths(strengths)
    host_rank, agent_rank = _ranks(rank, rho.shape)
    hosts = zip(
        played.hosts,
        _estimates(
            nash.hosts,
            interval(
                np.stack([ratings_of_sample.hosts for ratings_of_sample in resampled]), CONFIDENCE
            ),
        ),
        equilibrium.hosts.tolist(),
        host_strength,
        host_rank,
        np.maximum(equilibrium.value - rho.min(axis=1), 0.0).tolist(),
        [played.agents[q] for q in rho.argmin(axis=1)],
        strict=True,
    )
    agents = zip(
        played.agents,
        _estimates(
            nash.agents,
            interval(
                np.stack([ratings_of_sample.agents for ratings_of_sample in resampled]), CONFIDENCE
            ),
        ),
        equilibrium.agents.tolist(),
        agent_strength,
        agent_rank,
        np.maximum(rho.max(axis=0) - equilibrium.value, 0.0).tolist(),
        [played.hosts[p] for p in rho.argmax(axis=0)],
        strict=True,
    )
    return [PlayerStanding(*of_it) for of_it in hosts], [PlayerStanding(*of_it) for of_it in agents]


def _strengths(strengths: Strengths) -> tuple[list[Estimate], list[Estimate]]:
    hosts, agents = strengths.intervals(CONFIDENCE)
    return _estimates(strengths.hosts, hosts), _estimates(strengths.agents, agents)


def _estimates(values: Floats, ends: Floats) -> list[Estimate]:
    """Return the values (K,) with the ends of their intervals (2, K)."""
    return [Estimate(*numbers) for numbers in zip(values.tolist(), *ends.tolist(), strict=True)]


def _ranks(
    rank: AlphaRank | None, shape: tuple[int, ...]
) -> tuple[Sequence[float | None], Sequence[float | None]]:
    if rank is None:
        return [None] * shape[0], [None] * shape[1]
    return rank.hosts.tolist(), rank.agents.tolist()


def _balance(
    rho: Floats, nash: NashRatings, samples: Floats, resampled: Sequence[NashRatings]
) -> Balance:
    equilibrium = nash.equilibrium
    low, high = interval(
        np.array([ratings_of_sample.equilibrium.value for ratings_of_sample in resampled]),
        CONFIDENCE,
    )
    gains = [nash_conv(sample, equilibrium.hosts, equilibrium.agents) for sample in samples]
    return Balance(
        Estimate(equilibrium.value, float(low), float(high)),
        nash_conv(rho, equilibrium.hosts, equilibrium.agents),
        float(np.mean(gains)),
    )


def _cycles(played: CrossPlay, rho: Floats, errors: Floats) -> list[NamedCycle]:
    # No player switches for what may well be noise: two errors of a difference of two cells.
    margin = 2.0 * float(np.sqrt(2.0) * errors.max())
    swaps = swap_cycles(rho, errors=errors, confidence=CONFIDENCE, num_cycles=NUM_CYCLES)
    rounds = best_response_cycles(rho, margin=margin)[:NUM_CYCLES]
    return [
        *(_named("swap", cycle, played) for cycle in swaps),
        *(_named("best answers", cycle, played) for cycle in rounds),
    ]


def _named(kind: Literal["swap", "best answers"], cycle: Cycle, played: CrossPlay) -> NamedCycle:
    hosts, agents = (played.hosts[p] for p in cycle.hosts), (played.agents[q] for q in cycle.agents)
    return NamedCycle(kind, tuple(hosts), tuple(agents), cycle.strength)


COLUMNS = ("host", "agent", "rho", "low", "high", "capped", "games")


def plain_standings(
    standings: Standings, entrants: RoundRobinPlayers, how: HowToPlay
) -> dict[str, Any]:
    """Return everything; matrices have a row a host and a column an agent, as these are listed."""
    game, left_out = entrants.game, standings.hosts[0].alpha_rank is None
    return {
        "game": {
            "dimension": game.dimension,
            "max_num_points": game.max_num_points,
            "max_value": game.max_value,
            "reposition": game.reposition,
            "max_steps": entrants.max_steps,
        },
        "games": how.num_games,
        "seed": how.seed,
        "mode": "sampled" if how.sampled else "greedy",
        "hosts": [_plain(host, entrants.host) for host in standings.hosts],
        "agents": [_plain(agent, entrants.agent) for agent in standings.agents],
        "rho": standings.rho.tolist(),
        "low": standings.low.tolist(),
        "high": standings.high.tolist(),
        "capped": standings.capped.tolist(),
        "equilibrium": asdict(standings.balance),
        "best": {"host": standings.hosts[0].name, "agent": standings.agents[0].name},
        "cyclic_share": {"rho": standings.cyclic_share, "log_rho": standings.cyclic_share_log},
        "cycles": [asdict(cycle) for cycle in standings.cycles],
        "alpha_rank_left_out": f"more than {MAX_RANKED_PAIRS} pairs" if left_out else None,
    }


def csv_text(standings: Standings) -> str:
    """Return a line a pair, below the names of the columns."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for p, host in enumerate(standings.hosts):
        for q, agent in enumerate(standings.agents):
            cell = (
                float(m[p, q])
                for m in (standings.rho, standings.low, standings.high, standings.capped)
            )
            writer.writerow((host.name, agent.name, *cell, standings.num_games))
    return text.getvalue()


def _plain(standing: PlayerStanding, side: Side) -> dict[str, Any]:
    """Return a player's ratings and where it comes from, null for a scripted one."""
    return {
        **asdict(standing),
        "checkpoint": _path(side.checkpoints, standing.name),
        "step": _step(side.learned, standing.name),
    }


def _path(checkpoints: Mapping[str, Path], name: str) -> str | None:
    return str(checkpoints[name]) if name in checkpoints else None


def _step(players: Mapping[str, SavedPlayer], name: str) -> int | None:
    return players[name].step if name in players else None

"""The cells of a cross-play, one pair of players each."""

from hpsearch.population.crossplay import CrossPlay
from hpsearch.trainers.rho import Lengths, Rho, rho


def cell(played: CrossPlay, host: str, agent: str) -> Rho:
    """Return one pair's rho with its interval; ValueError if there is no such player."""
    p, q = played.hosts.index(host), played.agents.index(agent)
    return rho(Lengths(played.moves[p, q], played.finished[p, q]))

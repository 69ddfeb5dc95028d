"""The game between all players of a match, by their names, as the events hold it."""

from typing import Any

import numpy as np

from hpsearch.cluster.match_dir import Games
from hpsearch.population.ratings.cycles import Cycle
from hpsearch.population.ratings.meta_game import meta_game
from hpsearch.study.breeding.programme import Programme


def game_of(programme: Programme, games: Games) -> dict[str, Any] | None:
    """Return value, equilibrium, what best answers take, and cycles; None where none was found.

    Trials are named by their numbers, scripted players by their names; values are in rho.
    """
    found = meta_game(np.concatenate(list(games.moves), axis=2))
    if found is None:
        return None
    hosts, agents = programme.names("host"), programme.names("agent")
    return {
        "value": found.value,
        "hosts": {hosts[at]: share for at, share in found.hosts.items()},
        "agents": {agents[at]: share for at, share in found.agents.items()},
        "gaps": {
            "host": dict(zip(hosts, found.host_gaps.tolist(), strict=True)),
            "agent": dict(zip(agents, found.agent_gaps.tolist(), strict=True)),
        },
        "cyclic_share": found.cyclic_share,
        "cycles": [_named(cycle, hosts, agents) for cycle in found.cycles],
    }


def _named(cycle: Cycle, hosts: list[str], agents: list[str]) -> dict[str, Any]:
    return {
        "hosts": [hosts[at] for at in cycle.hosts],
        "agents": [agents[at] for at in cycle.agents],
        "strength": cycle.strength,
    }

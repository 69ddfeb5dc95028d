"""A match: when it is due, who plays in which row or column, and the game between the players."""

from collections.abc import Collection
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from hpsearch.cluster.match_dir import MatchGames, MatchPlan, MatchPlayer, Response
from hpsearch.cluster.study_dir import final_checkpoint
from hpsearch.population.fitness import MatchStanding, Places
from hpsearch.population.options import Matches, Synchronous, scripted_players
from hpsearch.population.ratings.cycles import meta_game
from hpsearch.population.statistics import Floats
from hpsearch.study.records import Ended, Match, Trial
from hpsearch.trainers.config import CommonConfig
from hpsearch.trainers.config.players import ROLES, Role

RESPONSE_SEEDS = 10_000
"""matches of a study, each of which has a seed for the responses that train in it"""
ROUNDING = 1e-9  # 0.28 * 25 is 7.000000000000001


@dataclass(frozen=True)
class MatchRoster:
    """Who plays: the members, past champions that are no members any more, scripted players."""

    members: tuple[Trial, ...]  # by their place in the population
    archive: tuple[Trial, ...]
    roles: tuple[str, ...]  # that they learn
    matches: Matches

    def plan(
        self, match: Match, config: CommonConfig, seed: int, champion: Trial | None
    ) -> MatchPlan:
        """Return what the job is told; ``champion`` is of the match before, None in the first.

        By the study's ``seed``, no two studies meet the same starts.
        """
        starts = f"study {seed} match {match.number}"
        return MatchPlan(
            hosts=self._players("host"),
            agents=self._players("agent"),
            num_games=self.matches.num_games,
            max_steps=self.matches.max_steps,
            splits=(f"{starts} named", f"{starts} fresh"),
            device=config.device,
            responses=self._responses(champion, match, seed),
        )

    def _responses(self, champion: Trial | None, match: Match, seed: int) -> tuple[Response, ...]:
        steps = self.matches.best_response
        if champion is None or steps is None:
            return ()
        where, own_seed = _checkpoint(champion), RESPONSE_SEEDS * seed + match.number
        return tuple(
            Response(role, champion.number, where, steps, own_seed)
            for role in ROLES
            if role in self.roles
        )

    def names(self, role: Role) -> list[str]:
        return [player.name for player in self._players(role)]

    def standing(self, sizes: Floats) -> MatchStanding:
        """Return where the players stand; ``sizes`` are the members' numbers of weights."""
        num_learned = len(self.members) + len(self.archive)
        places = [
            Places(*(index if role in self.roles else None for role in ROLES))
            for index in range(num_learned)
        ]
        panel = Places(*(num_learned if role in self.roles else 0 for role in ROLES))
        num_members = len(self.members)
        return MatchStanding(places[:num_members], places[num_members:], panel, sizes)

    def _players(self, role: Role) -> tuple[MatchPlayer, ...]:
        learned = (*self.members, *self.archive) if role in self.roles else ()
        return (
            *(MatchPlayer(str(trial.number), _checkpoint(trial)) for trial in learned),
            *(MatchPlayer(name, None) for name in scripted_players(role, self.matches.panel)),
        )


def _checkpoint(trial: Trial) -> str:
    assert trial.origin is not None, "members are trials of the population"
    return final_checkpoint(trial.number, trial.origin.steps)


def game_of(roster: MatchRoster, games: MatchGames) -> dict[str, Any] | None:
    """Return value, equilibrium, what best answers take, and cycles; None where none was found.

    Trials are named by their numbers, scripted players by their names; values are in rho.
    """
    analysed = meta_game(np.concatenate(list(games.moves), axis=2))
    if analysed is None:
        return None
    hosts, agents = roster.names("host"), roster.names("agent")
    return {
        "value": analysed.value,
        "hosts": {hosts[at]: share for at, share in analysed.hosts.items()},
        "agents": {agents[at]: share for at, share in analysed.agents.items()},
        "gaps": {
            "host": dict(zip(hosts, analysed.host_gaps.tolist(), strict=True)),
            "agent": dict(zip(agents, analysed.agent_gaps.tolist(), strict=True)),
        },
        "cyclic_share": analysed.cyclic_share,
        "cycles": [
            {
                "hosts": [hosts[at] for at in cycle.hosts],
                "agents": [agents[at] for at in cycle.agents],
                "strength": cycle.strength,
            }
            for cycle in analysed.cycles
        ],
    }


def is_due(
    rules: Synchronous, ended: Collection[Ended], waited_for: Collection[Trial], now: float
) -> bool:
    """Return whether those who have ended their interval should be judged without the others.

    The others, ``waited_for``, are given up when all of them are late. One that trains is late if
    it has trained for so many minutes more than the quorum took. One that does not is late when so
    many minutes have passed since the quorum was there, and it was asked for: a wait for a machine
    is no training, but a job that never begins must not hold up a generation either.
    """
    if not waited_for:
        return True
    quorum = ceil(rules.quorum * (len(waited_for) + len(ended)) - ROUNDING)
    if len(ended) < quorum:
        return False
    more = rules.minutes * 60
    took = sorted(ending.seconds for ending in ended)[quorum - 1]
    quorum_at = sorted(ending.at for ending in ended)[quorum - 1]
    return all(
        now - max(quorum_at, trial.asked_at) >= more
        if trial.began_at is None
        else trial.seconds_trained(now) >= took + more
        for trial in waited_for
    )

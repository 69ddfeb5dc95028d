"""Everything that is measured of a contestant, each role for itself."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypedDict

import torch

from hpsearch.population.best_response import Exploited, exploit
from hpsearch.report.contestants import Contestant
from hpsearch.trainers import match
from hpsearch.trainers.evaluation import (
    Evaluation,
    Measurement,
    evaluate_agents,
    evaluate_hosts,
    evaluate_hosts_against,
)
from hpsearch.trainers.match import MatchResult, play_matches
from hpsearch.trainers.metrics import MODES, PANELS
from hpsearch.trainers.policies import (
    AgentPolicy,
    HostPolicy,
    ScriptedAgentPolicy,
    ScriptedHostPolicy,
)
from hpsearch.trainers.published import RHOS, TRAINED
from hpsearch.trainers.yardstick import Yardstick, check_size, measure_agent, measure_host

CPU: Final = torch.device("cpu")
SPLIT: Final = "confirmation"
"""starts that neither training nor the search uses"""
REFERENCES: Final = {"host": PANELS["agent"], "agent": PANELS["host"]}
"""scripted players of the same role: those that the other role's panel is made of"""
MATCH_AGENTS: Final = ("choose_first", "random")
MATCH_HOSTS: Final = ("random_pair", "all_coord", "zeillinger")


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    num_games: int
    """games an opponent and mode"""
    match_moves: int | None
    """moves of a match; None plays none"""
    response_steps: int | None
    """for which a best response to each role trains; None trains none"""


@dataclass(frozen=True)
class RoleReport:
    """What was measured of one role."""

    role: str
    evaluation: Evaluation
    references: dict[str, Evaluation]
    """scripted players of the role in the same games, by name; greedy only"""
    matches: dict[str, MatchResult] | str
    """by opponent; or why there are none"""
    yardstick: Yardstick | str
    """or why there is none"""
    exploitability: Exploited | None
    """None where no best response was asked for"""


@dataclass(frozen=True)
class Report:
    """What was measured of a contestant."""

    name: str
    num_games: int
    max_steps: int
    """moves after which a game for rho counts as unfinished"""
    match_moves: int | None
    """moves of a match"""
    roles: tuple[RoleReport, ...]
    pair: Evaluation | None
    """the host against the agent that learned with it, as rho/host/agent"""
    published: dict[str, float]
    """published rho of a trained host in such games, by agent"""


def examine(contestant: Contestant, plan: Plan) -> Report:
    """Measure a contestant."""
    return Report(
        contestant.name,
        plan.num_games,
        contestant.max_steps,
        plan.match_moves,
        tuple(_roles(contestant, plan)),
        _pair(contestant, plan),
        _published(contestant),
    )


def _roles(contestant: Contestant, plan: Plan) -> Iterator[RoleReport]:
    if contestant.host is not None:
        yield _host_report(contestant.host, contestant, plan)
    if contestant.agent is not None:
        yield _agent_report(contestant.agent, contestant, plan)


def _host_report(host: HostPolicy, contestant: Contestant, plan: Plan) -> RoleReport:
    how = _measurement(contestant, plan)
    greedy, agents = replace(how, modes=MODES[:1]), PANELS["host"]
    return RoleReport(
        "host",
        evaluate_hosts(host, agents, 1, how)[0],
        {
            name: evaluate_hosts(ScriptedHostPolicy(name), agents, 1, greedy)[0]
            for name in REFERENCES["host"]
        },
        _matches(
            {name: (host, ScriptedAgentPolicy(name)) for name in MATCH_AGENTS}, contestant, plan
        ),
        _why_no_yardstick(contestant) or measure_host(host, **_yardstick_game(contestant)),
        _exploited("host", contestant, plan),
    )


def _agent_report(agent: AgentPolicy, contestant: Contestant, plan: Plan) -> RoleReport:
    how = _measurement(contestant, plan)
    greedy, hosts = replace(how, modes=MODES[:1]), PANELS["agent"]
    return RoleReport(
        "agent",
        evaluate_agents(agent, hosts, 1, how)[0],
        {
            name: evaluate_agents(ScriptedAgentPolicy(name), hosts, 1, greedy)[0]
            for name in REFERENCES["agent"]
        },
        _matches(
            {name: (ScriptedHostPolicy(name), agent) for name in MATCH_HOSTS}, contestant, plan
        ),
        _why_no_yardstick(contestant) or measure_agent(agent, **_yardstick_game(contestant)),
        _exploited("agent", contestant, plan),
    )


def _exploited(role: str, contestant: Contestant, plan: Plan) -> Exploited | None:
    if plan.response_steps is None or contestant.checkpoint is None:
        return None
    return exploit(
        contestant.checkpoint,
        role,
        steps=plan.response_steps,
        num_games=plan.num_games,
        max_steps=contestant.max_steps,
        split=SPLIT,
        device=CPU,
    )


def _pair(contestant: Contestant, plan: Plan) -> Evaluation | None:
    """Measure a host against the agent that learned with it; scripted ones never met."""
    if contestant.host is None or contestant.agent is None or len(contestant.modes) == 1:
        return None
    how = _measurement(contestant, plan)
    return evaluate_hosts_against(contestant.host, {"agent": contestant.agent}, 1, how)[0]


def _measurement(contestant: Contestant, plan: Plan) -> Measurement:
    return Measurement(
        contestant.game,
        plan.num_games,
        contestant.max_steps,
        contestant.exploration,
        SPLIT,
        contestant.modes,
        CPU,
    )


def _matches(
    pairs: Mapping[str, tuple[HostPolicy, AgentPolicy]], contestant: Contestant, plan: Plan
) -> dict[str, MatchResult] | str:
    if plan.match_moves is None:
        return "none was asked for"
    game, published = contestant.game, match.PUBLISHED
    if game.dimension != published.dimension:
        return f"it is played in {published.dimension} dimensions, the player in {game.dimension}"
    if game.max_num_points < published.num_points:
        return (
            f"it begins with {published.num_points} points, the player knows at most "
            f"{game.max_num_points}"
        )
    rules = replace(
        published,
        num_moves=plan.match_moves,
        num_rows=game.max_num_points,
        reposition=game.reposition,
    )
    return play_matches(pairs, rules, seed=0, device=CPU)


def _why_no_yardstick(contestant: Contestant) -> str | None:
    if not contestant.is_deterministic:
        return "the player draws its moves, so it has no worst case"
    return check_size(contestant.game.dimension, contestant.game.max_num_points)


class _YardstickGame(TypedDict):
    num_rows: int
    reposition: bool
    device: torch.device


def _yardstick_game(contestant: Contestant) -> _YardstickGame:
    game = contestant.game
    return {"num_rows": game.max_num_points, "reposition": game.reposition, "device": CPU}


def _published(contestant: Contestant) -> dict[str, float]:
    """Return the published rho of a trained host in the contestant's games, where there is one."""
    game = contestant.game
    if (game.dimension, game.max_value, contestant.max_steps) != (3, 20, 100):
        return {}
    return {
        rho.agent: rho.value
        for rho in RHOS
        if rho.host == TRAINED and rho.num_points == game.max_num_points
    }

"""Measures the player of a checkpoint, or a scripted one, in every way for each of its roles."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import torch

from hpsearch.errors import UsageError
from hpsearch.game.players import AGENTS, HOSTS
from hpsearch.game.rules import GameConfig
from hpsearch.population.best_response import Exploited, exploit
from hpsearch.terminal import say
from hpsearch.trainers import checkpoint
from hpsearch.trainers.config import TrainerConfig
from hpsearch.trainers.evaluation import Evaluation, Measurement, evaluate, scripted
from hpsearch.trainers.match import PUBLISHED, MatchResult, play_match
from hpsearch.trainers.metrics import MODES, PANELS
from hpsearch.trainers.opponents import SavedPlayer, load_player, saved_roles
from hpsearch.trainers.policies import Policy, ScriptedPolicy
from hpsearch.trainers.published import RHOS, TRAINED
from hpsearch.trainers.rollouts import game_config
from hpsearch.trainers.yardstick import Yardstick, check_size, measure

STANDARD_GAME: Final = GameConfig(
    dimension=3, max_num_points=20, max_value=20, max_steps=100, reposition=True, reward="terminal"
)
"""what scripted players, who know any game, are evaluated on"""


@dataclass(frozen=True)
class ExaminedPlayer:
    """A host, an agent, or one of each that learned together."""

    name: str
    checkpoint: Path | None  # where it lies; None of a scripted player
    host: Policy | None
    agent: Policy | None
    game: GameConfig  # the games that they know
    max_steps: int  # moves after which a game counts as unfinished
    exploration: float  # share of its moves that the sampled policy draws
    modes: tuple[str, ...]  # greedy and sampled, or only greedy
    is_deterministic: bool  # whether the greedy policy always answers alike


def find_player(name_or_path: Path, device: torch.device) -> ExaminedPlayer:
    """Return a scripted player, or those of a checkpoint; UsageError or CorruptError if none."""
    name = str(name_or_path)
    if name not in HOSTS and name not in AGENTS:
        return _learned(find_checkpoint(name_or_path), device)
    return ExaminedPlayer(
        name,
        checkpoint=None,
        host=ScriptedPolicy(name) if name in HOSTS else None,
        agent=ScriptedPolicy(name) if name in AGENTS else None,
        game=STANDARD_GAME,
        max_steps=STANDARD_GAME.max_steps,
        exploration=0.0,
        modes=MODES[:1],
        # Those of other packages may draw their moves, as the random ones do.
        is_deterministic=name in {*HOSTS.own, *AGENTS.own} - {"random", "random_pair"},
    )


def _learned(path: Path, device: torch.device) -> ExaminedPlayer:
    players = {role: load_player(path, role, device) for role in saved_roles(path)}
    step = next(iter(players.values())).step
    run = path.parent.parent
    of_study = f"{run.parents[1].name}/" if run.parent.name == "trials" else ""
    return of_saved_players(f"{of_study}{run.name} at step {step:,}", path, players)


def of_saved_players(name: str, place: Path, players: Mapping[str, SavedPlayer]) -> ExaminedPlayer:
    """Return the players of one training, by their roles, who lie at ``place``."""
    policies = {role: player.policy for role, player in players.items()}
    player = next(iter(players.values()))
    return ExaminedPlayer(
        name,
        checkpoint=place,
        host=policies.get("host"),
        agent=policies.get("agent"),
        game=game_config(player.config),
        max_steps=player.config.evaluation.max_steps,
        exploration=player.config.evaluation.er,
        modes=MODES,
        is_deterministic=True,
    )


def find_checkpoint(path: Path) -> Path:
    """Return the checkpoint at ``path``, or the newest whole one below it."""
    newest = checkpoint.newest(path)
    if newest is not None:
        for step in checkpoint.damaged_steps(newest.parent):
            damaged = checkpoint.path_of(newest.parent, step)
            if damaged != newest:
                say(f"{damaged} is damaged and left out")
        return newest
    fault = "holds no whole checkpoint" if path.is_dir() else "is no folder"
    raise UsageError(
        f"{path} {fault}; name a checkpoint, or the folder of a run or a trial, such as runs/NAME "
        "or runs/STUDY/trials/0"
    )


CPU: Final = torch.device("cpu")
SPLIT: Final = "confirmation"  # starts that neither training nor the search uses
REFERENCES: Final = {"host": PANELS["agent"], "agent": PANELS["host"]}
"""scripted players of the same role: those that the other role's panel is made of"""
MATCH_AGENTS: Final = ("choose_first", "random")
MATCH_HOSTS: Final = ("random_pair", "all_coord", "zeillinger")


@dataclass(frozen=True)
class ExaminationPlan:
    num_games: int  # games per opponent and mode
    match_moves: int | None  # moves of a match; None plays none
    response_steps: int | None  # for which a best response to each role trains; None trains none


@dataclass(frozen=True)
class RoleReport:
    role: str
    evaluation: Evaluation
    references: dict[str, Evaluation]  # scripted players in the same games, by name; greedy
    matches: dict[str, MatchResult] | str  # by opponent; or why there are none
    yardstick: Yardstick | str  # or why there is none
    exploitability: Exploited | None  # None where no best response was asked for


@dataclass(frozen=True)
class PlayerReport:
    name: str
    num_games: int
    max_steps: int  # moves after which a game for rho counts as unfinished
    match_moves: int | None  # moves of a match
    roles: tuple[RoleReport, ...]
    pair: Evaluation | None  # the host against the agent that learned with it, as rho/host/agent
    published: dict[str, float]  # published rho of a trained host in such games, by agent


def examine(player: ExaminedPlayer, plan: ExaminationPlan) -> PlayerReport:
    """Return what the plan asks for; UsageError for a best response to a scripted player."""
    if plan.response_steps is not None and player.checkpoint is None:
        raise UsageError(
            f"{player.name} is scripted, and a best response learns by the configuration of the "
            "player that it learns against; name a checkpoint, or leave out the best response"
        )
    how = Measurement(
        player.game, plan.num_games, player.max_steps, player.exploration, SPLIT, player.modes, CPU
    )
    pair = None
    # Scripted players, who have one mode, did not learn together.
    if player.host is not None and player.agent is not None and len(player.modes) > 1:
        pair = evaluate("host", player.host, {"agent": player.agent}, 1, how)[0]
    roles = tuple(
        _role_report(role, policy, player, plan, how)
        for role, policy in (("host", player.host), ("agent", player.agent))
        if policy is not None
    )
    return PlayerReport(
        name=player.name,
        num_games=plan.num_games,
        max_steps=player.max_steps,
        match_moves=plan.match_moves,
        roles=roles,
        pair=pair,
        published=_published(player),
    )


def _role_report(
    role: str, policy: Policy, player: ExaminedPlayer, plan: ExaminationPlan, how: Measurement
) -> RoleReport:
    opponents, greedy = scripted(PANELS[role]), replace(how, modes=MODES[:1])
    return RoleReport(
        role,
        evaluation=evaluate(role, policy, opponents, 1, how)[0],
        references={
            name: evaluate(role, ScriptedPolicy(name), opponents, 1, greedy)[0]
            for name in REFERENCES[role]
        },
        matches=_matches(role, policy, player.game, plan.match_moves),
        yardstick=_yardstick(role, policy, player),
        exploitability=_exploited(role, player, plan),
    )


def _exploited(role: str, player: ExaminedPlayer, plan: ExaminationPlan) -> Exploited | None:
    if plan.response_steps is None or player.checkpoint is None:
        return None
    return exploit(
        player.checkpoint,
        role,
        steps=plan.response_steps,
        num_games=plan.num_games,
        split=SPLIT,
        device=CPU,
    )


def _matches(
    role: str, policy: Policy, game: GameConfig, num_moves: int | None
) -> dict[str, MatchResult] | str:
    dimension, most, start = game.dimension, game.max_num_points, PUBLISHED.num_points
    if num_moves is None:
        return "none was asked for"
    if dimension != PUBLISHED.dimension:
        return f"it is played in {PUBLISHED.dimension} dimensions, the player in {dimension}"
    if most < start:
        return f"it begins with {start} points, the player knows at most {most}"
    rules = replace(PUBLISHED, num_moves=num_moves, num_rows=most, reposition=game.reposition)
    pairs: dict[str, tuple[Policy, Policy]]
    if role == "host":
        pairs = {name: (policy, ScriptedPolicy(name)) for name in MATCH_AGENTS}
    else:
        pairs = {name: (ScriptedPolicy(name), policy) for name in MATCH_HOSTS}
    return {name: play_match(*pair, rules, seed=0, device=CPU) for name, pair in pairs.items()}


def _yardstick(role: str, policy: Policy, player: ExaminedPlayer) -> Yardstick | str:
    game, rows = player.game, player.game.max_num_points
    if not player.is_deterministic:
        return "the player draws its moves, or may do so, which has no worst case"
    if too_large := check_size(game.dimension, rows):
        return too_large
    return measure(role, policy, num_rows=rows, reposition=game.reposition, device=CPU)


def _published(player: ExaminedPlayer) -> dict[str, float]:
    game = player.game
    if (game.dimension, game.max_value, player.max_steps) != (3, 20, 100):
        return {}
    of_game = (rho for rho in RHOS if rho.num_points == game.max_num_points)
    return {rho.agent: rho.value for rho in of_game if rho.host == TRAINED}


CERTIFIED_BESIDE: Final = {
    "host": ("zeillinger", "all_coord", "random"),
    "agent": ("choose_first", "choose_last", "random"),
}
"""scripted players of the same role, in the order of a certificate's rows"""


@dataclass(frozen=True)
class ComparedPlayer:
    player: str
    role: str
    metrics: dict[str, dict[str, float]]  # by metric name: value, low, high, capped, games


def compare(players: Mapping[str, SavedPlayer], num_games: int) -> list[ComparedPlayer]:
    """Return the rows of trained players, by role, host first, and of scripted ones beside them."""
    rows = []
    for role, player in players.items():
        both_modes = held_out_games(player.config, num_games, player.net.weights.device)
        opponents = scripted(player.config.measured_against()[role])
        policies: dict[str, Policy] = {"trained": player.policy}
        policies |= {name: ScriptedPolicy(name) for name in CERTIFIED_BESIDE[role]}
        for name, policy in policies.items():
            # Scripted players have one mode.
            how = both_modes if name == "trained" else replace(both_modes, modes=MODES[:1])
            metrics = evaluate(role, policy, opponents, 1, how)[0].metrics
            rows.append(ComparedPlayer(name, role, {m: asdict(rho) for m, rho in metrics.items()}))
    return rows


def held_out_games(config: TrainerConfig, num_games: int, device: torch.device) -> Measurement:
    """Return how the players of a configuration are measured on starts that it never used."""
    how = config.evaluation
    return Measurement(game_config(config), num_games, how.max_steps, how.er, SPLIT, MODES, device)


def device_of(name: str) -> torch.device:
    """Return where players that learned on a device play: there, if this machine has it."""
    return torch.device("cuda" if name == "cuda" and torch.cuda.is_available() else "cpu")

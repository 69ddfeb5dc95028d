"""Measuring players: games from fixed starts that training never sees.

Axes: P members, G games. Every member, opponent and mode (greedy, sampled) meets the same starts.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpsearch.game.fused_game import FusedGame
from hpsearch.game.kernels import default_backend
from hpsearch.game.random import derive_key
from hpsearch.game.rules import GameConfig
from hpsearch.trainers.config.players import host_first
from hpsearch.trainers.config.weight_layout import num_actions
from hpsearch.trainers.metrics import MODES, PANELS, entropy_name, panel_name, worst_name
from hpsearch.trainers.playing import (
    COLUMNS,
    ActionTally,
    FirstMoves,
    GameRecord,
    Noise,
    member_noise,
    play,
)
from hpsearch.trainers.policies import Policy, ScriptedPolicy
from hpsearch.trainers.ranks import ALONE, Ranks
from hpsearch.trainers.rho import Lengths, Rho, panel, rho, worst

Metrics = dict[str, Rho]


@dataclass(frozen=True)
class Measurement:
    game: GameConfig
    num_games: int  # games per opponent and mode, G
    max_steps: int  # moves after which a game counts as unfinished
    exploration: float  # exploration rate of the sampled policy
    split: str  # name of the set of starts; sets of different names are independent
    modes: tuple[str, ...]  # MODES, or only the first: what never explores plays the same in both
    device: torch.device
    ranks: Ranks = ALONE  # who share the games out among them


def starts_key(split: str) -> int:
    return derive_key("evaluation", split)


def noise_key_of(split: str) -> int:
    return derive_key("evaluation noise", split)


def starts_of(game: GameConfig, split: str, num_games: int, device: torch.device) -> Tensor:
    """Return the starts that a split names, int32 (1, G, N, D)."""
    keys = torch.tensor([starts_key(split)], device=device)
    backend = default_backend(device)
    return FusedGame(game, keys, num_games, device, backend, observes=False).points


def noise_of(split: str, num_members: int, num_games: int, device: torch.device) -> Noise:
    """Return the noise that a split names, alike for all members."""
    keys = torch.tensor([noise_key_of(split)], device=device).repeat(num_members)
    return member_noise(keys, num_games)


MOST_ACTIONS = 1000  # of which a line of JSON says how often each was chosen


@dataclass(frozen=True)
class Games:
    """The games of one role against one opponent in one mode."""

    lengths: tuple[int, ...]  # games that finished after 0, 1, 2, ... moves, up to the longest one
    unfinished: int  # games that did not finish
    actions: tuple[int, ...]  # how often the role chose each of its actions

    @classmethod
    def of(cls, lengths: Lengths, actions: Sequence[int]) -> "Games":
        finished = np.bincount(lengths.moves[lengths.finished])
        return cls(tuple(finished.tolist()), int((~lengths.finished).sum()), tuple(actions))

    def plain(self) -> dict[str, Any]:
        """Return the fields for JSON; of the actions, which may be 2^D, the most frequent."""
        often = sorted(enumerate(self.actions), key=lambda own: -own[1])[:MOST_ACTIONS]
        chosen = {action: count for action, count in often if count}
        return {"lengths": self.lengths, "unfinished": self.unfinished, "actions": chosen}


def entropy(opponents: Iterable[Games]) -> float:
    """Return the entropy in nats of a role's actions against all opponents; 0 without actions."""
    counts = [sum(c) for c in zip(*(games.actions for games in opponents), strict=True) if sum(c)]
    total = sum(counts)
    value: float = -sum(count / total * math.log(count / total) for count in counts)
    return value + 0.0


@dataclass(frozen=True)
class Evaluation:
    metrics: Metrics
    """rho/ROLE/NAME, rho_sampled/ROLE/NAME and, against a whole panel, panel/ROLE, worst/ROLE and
    their like"""
    games: dict[str, Games]  # by the names of rho: the games that it was measured on
    entropies: dict[str, float]
    """entropy/ROLE, entropy_sampled/ROLE: of the role's actions, in nats"""

    def __or__(self, other: "Evaluation") -> "Evaluation":
        return Evaluation(
            self.metrics | other.metrics, self.games | other.games, self.entropies | other.entropies
        )


@dataclass(frozen=True)
class SampleGame:
    """The first of the games that a role was measured on; of the first rank, a greedy one."""

    role: str
    opponent: str
    game: GameRecord

    @property
    def title(self) -> str:
        return f"{self.role} against {self.opponent}, greedy"

    def markdown(self) -> str:
        """Return the game as a table in Markdown, with its title and its ending."""
        lines = [COLUMNS, ("---",) * len(COLUMNS), *self.game.rows()]
        table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        return f"{self.title}\n\n{table}\n\n{self.game.ending()}"


def scripted(names: Iterable[str]) -> dict[str, Policy]:
    return {name: ScriptedPolicy(name) for name in names}


def evaluate(
    role: str,
    policy: Policy,
    opponents: Mapping[str, Policy],
    num_members: int,
    how: Measurement,
    first_moves: FirstMoves | None = None,
) -> list[Evaluation]:
    """Return what each member does in ``role`` against opponents by name; these do not explore.

    ``first_moves`` takes down the first game of this rank against the first opponent. That of the
    first rank is greedy.
    """
    by_name = {
        name: _play_modes(role, policy, opponent, num_members, how, None if place else first_moves)
        for place, (name, opponent) in enumerate(opponents.items())
    }
    return [
        _evaluation(role, {name: games[member] for name, games in by_name.items()})
        for member in range(num_members)
    ]


PlayedGames = tuple[Lengths, Games]  # one member's games in one mode against one opponent


def _play_modes(
    role: str,
    policy: Policy,
    opponent: Policy,
    num_members: int,
    how: Measurement,
    first_moves: FirstMoves | None,
) -> list[list[PlayedGames]]:
    num_modes, ranks = len(how.modes), how.ranks
    num_games = num_modes * how.num_games
    starts = starts_of(how.game, how.split, how.num_games, how.device)
    modes = torch.arange(num_modes, device=how.device).repeat_interleave(how.num_games)
    rates = torch.tensor([0.0, how.exploration], device=how.device)
    noise = noise_of(how.split, num_members, num_games, how.device)
    # What a last rank plays once more is counted in a mode of its own.
    lanes = ranks.lanes(num_games, how.device)
    own = lanes.clamp(max=num_games - 1)
    explore, never = rates[modes[own]], torch.zeros(1, device=how.device)
    counted = modes[own].where(lanes < num_games, num_modes)
    actions = num_actions(role, how.game.dimension)
    tally = ActionTally(role, actions, counted, num_members, num_modes + 1)
    moves, finished, _ = play(
        *host_first(role, policy, opponent),
        starts.repeat(num_members, num_modes, 1, 1)[:, own],
        max_steps=how.max_steps,
        reposition=how.game.reposition,
        exploration=host_first(role, explore, never),
        noise=lambda games: noise(own[games]),
        tally=tally,
        first_moves=first_moves,
    )
    played = ranks.gather_games(torch.stack([moves, finished.long()]), num_games)
    played = played.cpu().unflatten(2, (num_modes, -1))
    counts = ranks.gather(tally.counts).sum(dim=0)[:, :num_modes]
    members = zip(played[0], played[1].bool(), counts.tolist(), strict=True)
    return [[_played(*mode) for mode in zip(*member, strict=True)] for member in members]


def _played(moves: Tensor, finished: Tensor, actions: Sequence[int]) -> PlayedGames:
    lengths = Lengths(moves.numpy(), finished.numpy())
    return lengths, Games.of(lengths, actions)


def _evaluation(role: str, by_name: Mapping[str, Sequence[PlayedGames]]) -> Evaluation:
    result = Evaluation({}, {}, {})
    for mode, *parts in zip(MODES, *by_name.values(), strict=False):
        played = dict(zip(by_name, parts, strict=True))
        for name, (lengths, games) in played.items():
            result.metrics[f"{mode}/{role}/{name}"] = rho(lengths)
            result.games[f"{mode}/{role}/{name}"] = games
        if set(PANELS[role]) <= set(played):
            panel_games = [played[name][0] for name in PANELS[role]]
            result.metrics[panel_name(mode, role)] = panel(panel_games)
            result.metrics[worst_name(mode, role)] = worst(role, panel_games)
        result.entropies[entropy_name(mode, role)] = entropy(games for _, games in parts)
    return result

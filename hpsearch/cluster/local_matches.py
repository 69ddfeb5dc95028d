"""Local generations: members of an island take each other's places between two matches.

Copies of the best replace the worst, by games of all of them and the panel. What is decided follows
from the members as they are: an attempt that goes on from a checkpoint of that step decides so too.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch

from hpsearch.cluster.member import Slots
from hpsearch.cluster.records import DonatedCheckpoint, Exploit, Island
from hpsearch.cluster.resuming import start_step
from hpsearch.cluster.schedule import CheckpointPolicy
from hpsearch.game.random import derive_key
from hpsearch.population.crossplay import PlayerGroup, crossplay, scripted_groups
from hpsearch.population.explore import perturbed_values
from hpsearch.population.fitness import MatchStanding, Places, score
from hpsearch.population.options import Matches, Perturb, scripted_players
from hpsearch.population.selection import by_truncation
from hpsearch.population.statistics import Ints
from hpsearch.schema import apply, to_plain, value_at
from hpsearch.trainers import checkpoint
from hpsearch.trainers.config import TrainerConfig, read_config
from hpsearch.trainers.config.players import ROLES
from hpsearch.trainers.inheriting import copy_of, take_place
from hpsearch.trainers.policies import FixedRatePolicy
from hpsearch.trainers.rollouts import game_config
from hpsearch.trainers.trainer import AnyTrainer

SPLITS: Final = ("named", "fresh")
"""two sets of starts: by the first parents are chosen, by the second the choice is confirmed"""

Copies = list[tuple[int, int]]
"""rows of members whose places are taken, each with the row of the member that is copied"""


class LocalMatches:
    def __init__(self, slots: Slots, checkpoints: CheckpointPolicy) -> None:
        self._slots = slots
        self._checkpoints = checkpoints

    def steps_until_due(self) -> int | None:
        """Return after how many steps a local generation ends, None if none does."""
        ends = [
            member.island.steps - self._age(row) % member.island.steps
            for row, member in self._slots.members.items()
            if member.island is not None
        ]
        return min(ends, default=None)

    @property
    def are_due(self) -> bool:
        return len(self._due()) > 1

    def play(self) -> None:
        rows = self._due()
        island = self._slots.members[rows[0]].island
        assert island is not None, "its local generation ends"
        rng = np.random.default_rng(derive_key(island.name, self._age(rows[0]), "places"))
        self._exchange(island, self._copies(island, rows, rng), rng)

    def _due(self) -> list[int]:
        """Return the rows of those whose local generation ends, and whose interval does not."""
        return [
            row
            for row, member in self._slots.members.items()
            if member.island is not None
            and self._age(row) > 0
            and self._age(row) % member.island.steps == 0
            and self._slots.steps[row] < member.config.steps
        ]

    def _age(self, row: int) -> int:
        """Return how many steps a member has made by itself."""
        return self._slots.steps[row] - start_step(self._slots.members[row])

    # Who takes whose place.

    def _copies(self, island: Island, rows: Sequence[int], rng: np.random.Generator) -> Copies:
        learned, num = self._slots.trainer.config.learning(), len(rows)
        standing = MatchStanding(
            members=[
                Places(*(k if role in learned else None for role in ROLES)) for k in range(num)
            ],
            archive=(),
            panel=Places(*(num if role in learned else 0 for role in ROLES)),
            sizes=np.zeros(num),
        )
        games = np.stack([self._games(island, split, rows) for split in SPLITS])
        scores = score(games, standing, island.matches, None, rng)
        one_shape = [""] * num  # one job trains one shape
        replacements = by_truncation(
            scores.naming, scores.confirming, island.selection, one_shape, rng
        )
        return [
            (row, rows[replacement.source])
            for row, replacement in zip(rows, replacements, strict=True)
            if replacement.is_child
        ]

    def _games(self, island: Island, split: str, rows: Sequence[int]) -> Ints:
        """Return the lengths of the games of some rows and the panel, (P, Q, G)."""
        trainer, name = self._slots.trainer, f"{island.name} at {self._age(rows[0])} {split}"
        moves = self._slots.team.do_together(_play, island.matches, name)
        # Rows without a member play too; their weights are in no checkpoint, so another attempt
        # could not repeat their games.
        for axis, role in enumerate(ROLES):
            if role in trainer.config.learning():
                occupied = [*rows, *range(trainer.num_members, moves.shape[axis])]
                moves = moves.take(occupied, axis=axis)
        return moves

    # What becomes of them.

    def _exchange(self, island: Island, copies: Copies, rng: np.random.Generator) -> None:
        sources, taking = sorted({source for _, source in copies}), []
        names = {row: self._donate(row) for row in sources}
        for row, source_row in copies:
            member, source = self._slots.members[row], self._slots.members[source_row]
            step = self._slots.steps[row]
            plain = to_plain(self._slots.trainer.configs[source_row])
            explore = island.explore
            before = {path: value_at(plain, path) for path in island.parameters}
            params = dict(before)
            if isinstance(explore, Perturb):
                params = perturbed_values(before, island.parameters, lambda *_: True, explore, rng)
            config = apply(to_plain(member.config), params)
            taking.append((row, source_row, read_config(config, source="a copy")))
            pairs = {path: (before[path], value) for path, value in params.items()}
            exploit = Exploit(
                step=step,
                source=source.number,
                source_step=self._slots.steps[source_row],
                sha256=names[source_row],
                changes={path: (was, now) for path, (was, now) in pairs.items() if was != now},
                params=params,
            )
            member.trial.exchanges.write(member.trial.read_exchanges().with_exploit(exploit))
            print(f"{member.name} becomes a copy of {source.name} at step {step}", flush=True)
        self._slots.team.do(_take_places, taking)

    def _donate(self, row: int) -> str:
        member, step = self._slots.members[row], self._slots.steps[row]
        self._checkpoints.save(self._slots, row, checkpoint.LENT)
        self._checkpoints.wait(member.number)
        sha256 = checkpoint.identity(checkpoint.path_of(member.trial.checkpoints, step))
        donation = DonatedCheckpoint(step, sha256)
        member.trial.exchanges.write(member.trial.read_exchanges().with_donation(donation))
        return sha256


def _play(trainer: AnyTrainer, matches: Matches, split: str) -> Ints:
    """Return the lengths of the games of all rows and the panel, (P, Q, G), on every rank."""
    names, sides = tuple(map(str, range(trainer.num_members))), []
    for role, policy in zip(ROLES, (trainer.host_policy, trainer.agent_policy), strict=True):
        side = scripted_groups(scripted_players(role, matches.panel))
        if role in trainer.config.learning():
            greedy = FixedRatePolicy(policy, 0.0)
            side = (PlayerGroup(names, greedy), *side)
        sides.append(side)
    hosts, agents = sides
    with torch.no_grad():
        played = crossplay(
            hosts,
            agents,
            game_config(trainer.config),
            num_games=matches.num_games,
            max_steps=matches.max_steps,
            split=split,
            device=trainer.device,
            ranks=trainer.ranks,
        )
    return played.moves


def _take_places(trainer: AnyTrainer, taking: Sequence[tuple[int, int, TrainerConfig]]) -> None:
    """Let members become copies: of each its row, the row that it copies, its new configuration."""
    states = {source: copy_of(trainer, source) for _, source, _ in taking}
    for row, source, config in taking:
        take_place(trainer, row, config, states[source])

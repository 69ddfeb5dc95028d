"""Trainer: what every training algorithm stands on.

Axes: P members, B games, N points, D coordinates, T moves a step.
Every piece of changing state is a tensor whose first axis is the member: a checkpoint of member p
is row p of each, a copy of a member is an index copy.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Self

import torch
from torch import Tensor

from hpsearch.errors import ConflictError, CorruptError
from hpsearch.monitor.resources import LayerTensors
from hpsearch.monitor.timing import NO_SECTIONS, Sections
from hpsearch.schema import to_plain
from hpsearch.trainers import checkpoint
from hpsearch.trainers.checkpoint import PERIODIC, Checkpoint
from hpsearch.trainers.columns import prefixed
from hpsearch.trainers.config import RewardName, shape_key, training_differences
from hpsearch.trainers.evaluation import (
    Evaluation,
    Measurement,
    Metrics,
    evaluate_agents,
    evaluate_hosts,
    together,
)
from hpsearch.trainers.graphs import Graphs, recorder_of
from hpsearch.trainers.metrics import MODES
from hpsearch.trainers.opponents import load_opponent
from hpsearch.trainers.roles import L, SavedPlayers
from hpsearch.trainers.rollouts import C, Rollouts, game_config


class Trainer(Rollouts[C, L], Generic[C, L]):
    """Trains P members of one shape at once; an algorithm implements `_train`.

    It also says what a role learns with and how much it explores.

    Attributes:
        sections: names the parts of a step, to measure their times.
    """

    def __init__(self, configs: Sequence[C], saved_players: SavedPlayers | None = None) -> None:
        """Build a fresh population; see `Rollouts`."""
        super().__init__(configs, saved_players)
        self.sections: Sections = NO_SECTIONS
        # Anomalies are found in Python, operation by operation.
        recorder = None if self.config.detect_anomaly else recorder_of(self.device)
        self._graphs = Graphs(recorder)
        # What `step` holds, known without waiting for the device.
        self._steps_made = [0] * len(configs)

    # Training.

    def train(self, steps: int) -> None:
        """Make ``steps`` training steps with every member."""
        for _ in range(steps):
            statistics = [learner.net.statistics.clone() for learner in self.learners]
            self._train()
            for learner, before in zip(self.learners, statistics, strict=True):
                learner.keep_statistics(before)
            self.step += 1
            self._steps_made = [made + 1 for made in self._steps_made]
            for name, snapshots in self.snapshots.items():
                if snapshots.is_look(self._steps_made):
                    snapshots.sync(self._learning(name).net, self.step)

    @abstractmethod
    def _train(self) -> None:
        """Make one step: moves of every game, then updates."""

    def run(self, section: str, function: Callable[[], None]) -> None:
        """Do one part of a step under its name; on a GPU as a graph, see `graphs`."""
        with self.sections(section):
            self._graphs.run(section, function)

    def replace_reward_func(self, name: RewardName) -> None:
        """Reward by another function from now on; the configurations say so too.

        Raises:
            ValueError: if there is no reward of that name, with those there are.
        """
        super().replace_reward_func(name)
        self._graphs.forget()

    def layers(self) -> LayerTensors:
        """Return every layer's weights and last gradients, by ROLE/LAYER."""
        weights: dict[str, Tensor] = {}
        gradients: dict[str, Tensor | None] = {}
        for learner in self.learners:
            net = learner.net
            weights |= {f"{learner.name}/{k}": v for k, v in net.parts(net.weights).items()}
            gradients |= {f"{learner.name}/{k}": v for k, v in net.parts(learner.gradients).items()}
        return LayerTensors(weights, gradients)

    def statistics(self) -> dict[str, Tensor]:
        """Return numbers of the last updates, float32 (P,), by ROLE/NAME."""
        by_learner = {
            f"{learner.name}/{name}": value
            for learner in self.learners
            for name, value in learner.statistics.items()
        }
        for name, snapshots in self.snapshots.items():
            steps = snapshots.staleness(self.step).float()
            by_learner[f"{name}/staleness"] = steps.mean(dim=1)
            by_learner[f"{name}/staleness_max"] = steps.amax(dim=1)
        return by_learner

    # Measuring.

    def evaluate_rho(self, *, num_games: int, split: str) -> list[Metrics]:
        """Return each member's metrics: rho/host/NAME, rho_sampled/host/NAME, panel/host and so on.

        Args:
            num_games: games an opponent and mode.
            split: name of the set of starts, none of which training uses.
        """
        return [
            evaluation.metrics for evaluation in self.evaluate(num_games=num_games, split=split)
        ]

    def evaluate(self, *, num_games: int, split: str) -> list[Evaluation]:
        """Return each member's metrics, and the lengths and actions of the games behind them."""
        rules = self.config.evaluation
        how = Measurement(
            game_config(self.config),
            num_games,
            rules.max_steps,
            rules.er,
            split,
            MODES,
            self.device,
        )
        opponents = self.config.measured_against()
        evaluations = [Evaluation({}, {}, {})] * self.num_members
        if self.host is not None:
            more = evaluate_hosts(self.host_policy, opponents["host"], self.num_members, how)
            evaluations = [together(*pair) for pair in zip(evaluations, more, strict=True)]
        if self.agent is not None:
            more = evaluate_agents(self.agent_policy, opponents["agent"], self.num_members, how)
            evaluations = [together(*pair) for pair in zip(evaluations, more, strict=True)]
        return evaluations

    def is_finite(self) -> list[bool]:
        """Return for each member whether all its weights are numbers."""
        rows = [learner.net.weights.isfinite().all(dim=1) for learner in self.learners]
        finite: list[bool] = torch.stack(rows).all(dim=0).tolist()
        return finite

    # State.

    def state(self) -> dict[str, Tensor]:
        """Return every tensor that training changes, each with the member axis first."""
        state = {"step": self.step, "play_stream.counters": self._play_stream.counters}
        state["fused_game.points"] = self.fused_game.points
        state["fused_game.lengths"] = self.fused_game.lengths
        state["fused_game.starts"] = self.fused_game.starts
        for learner in self.learners:
            state |= prefixed(learner.name, learner.state())
        for role, snapshots in self.snapshots.items():
            state |= prefixed(f"{role}.snapshots", snapshots.state())
        return state

    def settings(self) -> dict[str, Tensor]:
        """Return what the configurations say of each member, with the member axis first.

        Computations read these tensors alone, so that a member's place can pass to another.
        """
        tensors = {
            "fused_game.keys": self.fused_game.keys,
            "play_stream.keys": self._play_stream.keys,
        }
        for learner in self.learners:
            tensors |= prefixed(learner.name, learner.settings())
        for table in self.tables:
            if table.draws is not None:
                tensors[f"{table.learner.name}.opponents.keys"] = table.draws.keys
        for role, snapshots in self.snapshots.items():
            tensors |= prefixed(f"{role}.snapshots", snapshots.settings())
        return tensors

    def begin(self, member: int, config: C) -> None:
        """Give one member's place to a fresh one; nothing is built or compiled anew.

        Raises:
            ValueError: if ``config`` is not of the others' shape.
        """
        if shape_key(config) != shape_key(self.config):
            raise ValueError(
                "a member's place can pass only to one that shares every field but per-member ones"
            )
        fresh = type(self)([config], self.saved_players)
        own = self.settings()
        for name, tensor in fresh.settings().items():
            own[name][member].copy_(tensor[0])
        self.load_member(member, {name: tensor[0] for name, tensor in fresh.state().items()})
        self.configs = (*self.configs[:member], config, *self.configs[member + 1 :])
        self.config = self.configs[0]

    def load_member(self, member: int, state: Mapping[str, Tensor]) -> None:
        """Overwrite one member's state with a row of `state`; names not given stay as they are.

        Raises:
            ValueError: if a tensor is unknown or of another shape.
        """
        own = self.state()
        for name, tensor in state.items():
            if name not in own or own[name].shape[1:] != tensor.shape:
                raise ValueError(f"the state {name!r} does not fit this trainer's configuration")
        for name, tensor in state.items():
            own[name][member].copy_(tensor)
        self.fused_game.refresh()
        if "step" in state:
            self._steps_made[member] = int(state["step"])

    def save(
        self, folder: Path, member: int, kind: str = PERIODIC, parents: Sequence[str] = ()
    ) -> Path:
        """Write a checkpoint of one member below ``folder`` and return its path.

        ``kind`` says why it is written; ``parents`` are the sha256 of those it descends from.

        Raises:
            OSError: if the disk is full or not writable; older checkpoints stay.
        """
        tensors = {name: tensor[member] for name, tensor in self.saved_state().items()}
        config = to_plain(self.configs[member])
        step = int(self.step[member])
        return checkpoint.save(folder, Checkpoint(step, tensors, config, tuple(parents), kind))

    def load(self, path: Path, member: int) -> None:
        """Let one member go on from the checkpoint at ``path``.

        Raises:
            CorruptError: if the checkpoint is damaged or incomplete.
            ConflictError: if it was written with another configuration.
        """
        saved = checkpoint.load(path)
        differing = training_differences(saved.config, to_plain(self.configs[member]))
        if differing:
            raise ConflictError(
                f"the checkpoint {path} was written with another configuration, which differs in "
                f"{', '.join(differing)}; remove it, or give the run another name"
            )
        missing = self.saved_state().keys() - saved.tensors.keys()
        if missing:
            raise CorruptError(
                f"the checkpoint {path} lacks {', '.join(sorted(missing))}; "
                "remove the folder to go on from an older one"
            )
        self.load_member(member, saved.tensors)

    def saved_state(self) -> dict[str, Tensor]:
        """Return the part of the state that checkpoints hold."""
        return self.state()

    def warm_start(self, path: Path, member: int) -> None:
        """Let one member begin with the networks of the checkpoint at ``path``.

        Raises:
            CorruptError: if the checkpoint is damaged.
            ConflictError: if it holds no networks of this structure.
        """
        saved = {
            learner.name: load_opponent(path, learner.name, self.config, self.device)
            for learner in self.learners
        }
        for learner in self.learners:
            if saved[learner.name].net.structure != learner.net.structure:
                raise ConflictError(
                    f"warm_start needs networks of the same structure, but those of the "
                    f"{learner.name} in {path} differ; use its algorithm, encoder, net_arch and "
                    "activation"
                )
        for learner in self.learners:
            learner.begin_with(saved[learner.name].net, member)
            self.begin_snapshots(learner.name, member)

    def select(self, members: Sequence[int]) -> Self:
        """Return a trainer of some of the members, each going on from where it is."""
        selected = type(self)([self.configs[member] for member in members], self.saved_players)
        state = self.state()
        for row, member in enumerate(members):
            selected.load_member(row, {name: tensor[member] for name, tensor in state.items()})
        return selected

    def copy(self) -> Self:
        """Return a trainer with the same members in memory of its own."""
        return self.select(range(self.num_members))


AnyTrainer = Trainer[Any, Any]

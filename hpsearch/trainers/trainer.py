"""Trainer: what every training algorithm stands on.

Axes: P members, B games, N points, D coordinates, T moves a step.
Every piece of changing state is a tensor whose first axis is the member: a checkpoint of member p
is row p of each, a copy of a member is an index copy.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from hpsearch.errors import ConflictError, CorruptError
from hpsearch.game.encoding import HostActionEncoder
from hpsearch.game.fused_game import FusedGame, GameConfig
from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.game.rewards import reward_function
from hpsearch.plain import to_plain
from hpsearch.trainers import checkpoint
from hpsearch.trainers.checkpoint import Checkpoint
from hpsearch.trainers.config import RewardName, TrainerConfig, shape_key
from hpsearch.trainers.evaluation import Measurement, Metrics, measure_agents, measure_hosts
from hpsearch.trainers.learner import Learner, member_stream
from hpsearch.trainers.metrics import MODES
from hpsearch.trainers.replay_buffer import Transitions
from hpsearch.trainers.roles import Roles


class Trainer(Roles, ABC):
    """Trains P members of one shape at once; an algorithm implements `_train` and nothing else.

    Attributes:
        config: the configuration of the first member, for the fields that all members share.
        step: int64 (P,), training steps that each member has made.
        fused_game: P x B games; the first lanes are the host's, the last ones the agent's.
    """

    def __init__(self, configs: Sequence[TrainerConfig]) -> None:
        """Build a fresh population, one member for each of ``configs``.

        Raises:
            ValueError: if the configurations are not of one shape.
        """
        if len({shape_key(config) for config in configs}) != 1:
            raise ValueError("members of one population must share every field but per-member ones")
        self.configs = tuple(configs)
        self.config = config = configs[0]
        self.device = torch.device(config.device)
        backend = default_backend(self.device)
        self.kernel = BACKENDS[backend]
        super().__init__(configs, self.device, self.kernel.observe)
        self.step = torch.zeros(len(configs), dtype=torch.int64, device=self.device)
        seeds = [member.seed for member in configs]
        starts = member_stream(seeds, self.device, "starts")
        num_games = sum(learner.config.rollout_size for learner in self.learners)
        host_size = 0 if self.host is None else self.host.config.rollout_size
        self._host_lanes, self._agent_lanes = slice(0, host_size), slice(host_size, num_games)
        self.fused_game = FusedGame(
            game_config(config), starts.keys, num_games, self.device, backend
        )
        self._play_stream = member_stream(seeds, self.device, "play")
        self._encoder = HostActionEncoder(config.dimension)
        self._reward_func = reward_function(config.reward)

    @property
    def num_members(self) -> int:
        """Return P."""
        return len(self.configs)

    def replace_reward_func(self, name: RewardName) -> None:
        """Reward by another function from now on; the configurations say so too.

        Raises:
            ValueError: if there is no reward of that name, with those there are.
        """
        self._reward_func = reward_function(name)
        self.configs = tuple(replace(config, reward=name) for config in self.configs)
        self.config = self.configs[0]

    # Training.

    def train(self, steps: int) -> None:
        """Make ``steps`` training steps with every member."""
        for _ in range(steps):
            self._train()
            self.step += 1

    @abstractmethod
    def _train(self) -> None:
        """Make one step: moves of every game, then updates."""

    @torch.no_grad()
    def _roll_out(self) -> None:
        """Play one move of every game and remember what the learning roles saw."""
        game = self.fused_game
        points = game.points.clone()
        noise = self._noise(game.num_games)
        host_rate, agent_rate = self._exploration()
        action = self.host_policy(points, noise[..., 0:2], host_rate)
        subset = self._encoder.decode(action)
        axis = self.agent_policy(points, subset, noise[..., 2:4], agent_rate)
        step = game.step(action, axis)
        reward = self._reward_func(points, step.next_points, step.done)
        nothing = torch.zeros_like(action)
        if self.host is not None:
            seen = Transitions(points, action, action, reward, step.next_points, nothing, step.done)
            self.host.replay_buffer.add(_lanes(seen, self._host_lanes))
        if self.agent is not None:
            # The agent next moves when the host, who does not explore here, has chosen.
            next_action = self.host_policy(step.next_points, noise[..., 4:6], nothing)
            seen = Transitions(
                points, action, axis, -reward, step.next_points, next_action, step.done
            )
            self.agent.replay_buffer.add(_lanes(seen, self._agent_lanes))

    def _noise(self, num_games: int) -> Tensor:
        noise: Tensor = self._play_stream.uniform(num_games * 6).unflatten(1, (num_games, 6))
        return noise

    def _exploration(self) -> tuple[Tensor, Tensor]:
        """Return how much each role explores in each game, float32 (P, B): only in its own."""
        return (
            self._role_exploration(self.host, self._host_lanes),
            self._role_exploration(self.agent, self._agent_lanes),
        )

    def _role_exploration(self, learner: Learner | None, lanes: slice) -> Tensor:
        rates = torch.zeros_like(self.fused_game.lengths, dtype=torch.float32)
        if learner is not None:
            rates[:, lanes] = learner.er_scheduler(self.step)[:, None]
        return rates

    # Measuring.

    def evaluate_rho(self, *, num_games: int, split: str) -> list[Metrics]:
        """Return each member's metrics: rho/host/NAME, rho_sampled/host/NAME, panel/host and so on.

        Args:
            num_games: games an opponent and mode.
            split: name of the set of starts, none of which training uses.
        """
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
        metrics: list[Metrics] = [{} for _ in self.configs]
        opponents = self.config.opponents()
        found = []
        if self.host is not None:
            found.append(measure_hosts(self.host_policy, opponents["host"], self.num_members, how))
        if self.agent is not None:
            found.append(
                measure_agents(self.agent_policy, opponents["agent"], self.num_members, how)
            )
        for role_metrics in found:
            for member, more in zip(metrics, role_metrics, strict=True):
                member.update(more)
        return metrics

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
            tensors = learner.state().items()
            state |= {f"{learner.name}.{name}": tensor for name, tensor in tensors}
        return state

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

    def save(self, folder: Path, member: int, parents: Sequence[str] = ()) -> Path:
        """Write a checkpoint of one member below ``folder`` and return its path.

        Raises:
            OSError: if the disk is full or not writable; older checkpoints stay.
        """
        tensors = {name: tensor[member] for name, tensor in self._saved_state().items()}
        config = to_plain(self.configs[member])
        step = int(self.step[member])
        return checkpoint.save(folder, Checkpoint(step, tensors, config, tuple(parents)))

    def load(self, path: Path, member: int) -> None:
        """Let one member go on from the checkpoint at ``path``.

        Raises:
            CorruptError: if the checkpoint is damaged or incomplete.
            ConflictError: if it was written with another configuration.
        """
        saved = checkpoint.load(path)
        if saved.config != to_plain(self.configs[member]):
            raise ConflictError(
                f"the checkpoint {path} was written with another configuration; "
                "remove it, or give the study another name"
            )
        missing = self._saved_state().keys() - saved.tensors.keys()
        if missing:
            raise CorruptError(
                f"the checkpoint {path} lacks {', '.join(sorted(missing))}; "
                "remove the folder to go on from an older one"
            )
        self.load_member(member, saved.tensors)

    def _saved_state(self) -> dict[str, Tensor]:
        """Return the part of the state that checkpoints hold: the buffers only if asked for."""
        keep_buffer = self.config.replay_buffer.save
        return {
            name: tensor
            for name, tensor in self.state().items()
            if keep_buffer or "replay_buffer" not in name
        }

    def select(self, members: Sequence[int]) -> "Trainer":
        """Return a trainer of some of the members, each going on from where it is."""
        selected = type(self)([self.configs[member] for member in members])
        state = self.state()
        for row, member in enumerate(members):
            selected.load_member(row, {name: tensor[member] for name, tensor in state.items()})
        return selected

    def copy(self) -> "Trainer":
        """Return a trainer with the same members in memory of its own."""
        return self.select(range(self.num_members))


def game_config(config: TrainerConfig) -> GameConfig:
    """Return the game that a trainer configuration describes."""
    return GameConfig(
        dimension=config.dimension,
        max_num_points=config.max_num_points,
        max_value=config.max_value,
        max_steps=config.max_steps,
        reposition=config.reposition,
    )


def _lanes(transitions: Transitions, lanes: slice) -> Transitions:
    return Transitions(*(tensor[:, lanes] for tensor in transitions))

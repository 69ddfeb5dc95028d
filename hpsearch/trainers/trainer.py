"""Trainer: the base class of every training algorithm.

Axes: P members.
Every piece of changing state is a tensor whose first axis is the member: a checkpoint of member p
is row p of each, a copy of a member is an index copy.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from torch import Tensor

from hpsearch.errors import ConflictError, CorruptError
from hpsearch.monitor.resources import LayerTensors
from hpsearch.monitor.timing import NO_SECTIONS, Sections
from hpsearch.schema import to_plain
from hpsearch.trainers import checkpoint
from hpsearch.trainers.actors import ActorGames, Actors
from hpsearch.trainers.callbacks import NO_CALLBACKS, Callbacks, look_into_updates
from hpsearch.trainers.checkpoint import PERIODIC, Checkpoint
from hpsearch.trainers.config import CommonConfig, RewardName, shape_key, training_differences
from hpsearch.trainers.evaluation import (
    Evaluation,
    Measurement,
    Metrics,
    SampleGame,
    evaluate,
    scripted,
)
from hpsearch.trainers.graphs import Graphs, recorder_of
from hpsearch.trainers.learner import Scheduler
from hpsearch.trainers.members import prefixed
from hpsearch.trainers.metrics import MODES
from hpsearch.trainers.networks import Network
from hpsearch.trainers.opponents import load_opponent
from hpsearch.trainers.optim import Optimizer
from hpsearch.trainers.playing import FirstMoves
from hpsearch.trainers.ranks import ALONE, Ranks
from hpsearch.trainers.rollouts import L, Roles, Rollouts, SavedPlayers, game_config

C = TypeVar("C", bound=CommonConfig)
SAMPLE_MOVES = 8  # that are kept of a sample game


class Trainer(ABC, Generic[C, L]):
    """Trains P members of one shape at once; a subclass defines a role's learner and a step.

    Attributes:
        configs: of each member; config: the first one, for the fields that all members share.
        ranks: the processes that train these members together.
        step: int64 (P,), training steps that each member has made.
        learners: the roles that learn; host, agent: by name, None where it does not learn.
        roles: how they play, and their opponents; rollouts: the games in which they learn.
        sections: names the parts of a step, to measure their times.
        samples: of each member, a game of each role that learns, from the last evaluation.
        callbacks: what is called around steps and their parts.
    """

    looks_ahead: ClassVar[bool]
    """whether it learns from what the host would choose next, too"""

    def __init__(
        self,
        configs: Sequence[C],
        saved: SavedPlayers | None = None,
        ranks: Ranks = ALONE,
        actors: Actors | None = None,
    ) -> None:
        """Build a fresh population, one member for each of ``configs``, all of one shape.

        ``saved`` players by role and path have been loaded already; others are loaded now. Of
        several ``ranks`` each makes the same calls. Without ``actors`` it plays itself, whatever
        the configurations say. ValueError if they are not of one shape or the ranks do not divide
        its shards, ConflictError if the machine has no such device.
        """
        if len({shape_key(config) for config in configs}) != 1:
            raise ValueError("members of one population must share every field but per-member ones")
        self.configs = tuple(configs)
        self.config = configs[0]
        self.ranks = ranks
        self.device = _prepared_device(self.config)
        self.step = torch.zeros(len(configs), dtype=torch.int64, device=self.device)
        learners = {name: self._learner(name) for name in self.config.learning()}
        self.learners = tuple(learners.values())
        self.host, self.agent = learners.get("host"), learners.get("agent")
        self.roles = Roles(learners, configs, self.device, saved or {}, ranks)
        self.host_policy, self.agent_policy = self.roles.host_policy, self.roles.agent_policy
        self._actors = actors
        # The games, where actors play them.
        self.actor_games: ActorGames[L] | None = None
        if actors is not None:
            self.actor_games = ActorGames(configs, self.roles, self.step, ranks, actors)
        self.rollouts = self.actor_games or Rollouts(configs, self.roles, self.step)
        self.fused_game = self.rollouts.fused_game
        self.sections: Sections = NO_SECTIONS
        self.callbacks: Callbacks[Any] = NO_CALLBACKS
        # Anomalies are found in Python, operation by operation.
        self._graphs = Graphs(None if self.config.detect_anomaly else recorder_of(self.device))
        # What `step` holds, known without waiting for the device.
        self._steps_made = [0] * len(configs)
        self.samples: list[list[SampleGame]] = [[] for _ in configs]

    @abstractmethod
    def _learner(self, role: str) -> L:
        """Build what a role learns with by this algorithm."""

    @abstractmethod
    def _play(self) -> None:
        """Make a step's moves of every game."""

    @abstractmethod
    def _learn(self) -> None:
        """Make a step's updates."""

    @property
    def num_members(self) -> int:
        return len(self.configs)

    # Training.

    def train(self, steps: int) -> None:
        """Make ``steps`` training steps with every member."""
        call = self.callbacks
        is_replayed = not look_into_updates(call)
        call.before_training(self)
        for _ in range(steps):
            call.before_step(self)
            statistics = [learner.net.statistics.clone() for learner in self.learners]
            if self.actor_games is not None:
                with self.sections("actors"):
                    self.actor_games.prepare(self.configs, self.playing_state())
            call.before_rollout(self)
            self.run("rollout", self._play)
            call.after_rollout(self)
            call.before_update(self)
            self.run("update", self._learn, is_replayed=is_replayed)
            for learner, before in zip(self.learners, statistics, strict=True):
                learner.keep_statistics(before)
            call.after_update(self)
            self.step += 1
            self._steps_made = [made + 1 for made in self._steps_made]
            for name, snapshots in self.roles.snapshots.items():
                if snapshots.is_look(self._steps_made):
                    snapshots.sync(self.learner(name).net, self.step)
            call.after_step(self)
        call.after_training(self)

    def run(self, section: str, function: Callable[[], None], *, is_replayed: bool = True) -> None:
        """Do one part of a step under its name; on a GPU as a graph, see `graphs`."""
        with self.sections(section):
            if is_replayed:
                self._graphs.run(section, function)
            else:
                function()

    def replace_reward_func(self, name: RewardName) -> None:
        """Reward by another function from now on; a ValueError if `rules.REWARDS` has none such."""
        self.fused_game.replace_reward(name)
        self.configs = tuple(replace(config, reward=name) for config in self.configs)
        self.config = self.configs[0]
        self._graphs.forget()
        self._change()

    def set_trainable(self, roles: Sequence[str]) -> None:
        """Let only these of the learning roles go on learning; the others play on as they are.

        ValueError if one of them is no learning role.
        """
        for name in roles:
            self.learner(name)
        for learner in self.learners:
            learner.trainable.fill_(learner.name in roles)

    def replace_nets(self, *, host: Network | None = None, agent: Network | None = None) -> None:
        """Give learning roles the weights of networks of their shape, and begin to learn anew.

        ValueError if a role does not learn, or its network has another shape.
        """
        new = {name: net for name, net in (("host", host), ("agent", agent)) if net is not None}
        for name, net in new.items():
            self.learner(name).check_fits(net)
        for name, net in new.items():
            self.learner(name).replace_net(net)
            for member in range(net.weights.shape[0]):
                self.begin_snapshots(name, member)
        self._change()

    def _change(self) -> None:
        """Take note that more than training has changed the members."""
        self.rollouts.change()
        for learner in self.learners:
            learner.change()

    def begin_snapshots(self, role: str, member: int) -> None:
        """Let the other role meet one member's present networks instead of earlier ones."""
        if role in self.roles.snapshots:
            self.roles.snapshots[role].begin_with(self.learner(role).net, self.step, member)

    # The parts of a role.

    def learner(self, role: str) -> L:
        """Return what a role learns with; a ValueError if it does not learn."""
        for learner in self.learners:
            if learner.name == role:
                return learner
        raise ValueError(
            f"the {role} of this trainer does not learn, it is a scripted player or a saved one"
        )

    @property
    def host_net(self) -> Network:
        return self.learner("host").net

    @property
    def agent_net(self) -> Network:
        return self.learner("agent").net

    @property
    def host_optimizer(self) -> Optimizer:
        return self.learner("host").optimizer

    @property
    def agent_optimizer(self) -> Optimizer:
        return self.learner("agent").optimizer

    @property
    def host_lr_scheduler(self) -> Scheduler:
        return self.learner("host").lr_scheduler

    @property
    def agent_lr_scheduler(self) -> Scheduler:
        return self.learner("agent").lr_scheduler

    # Measuring.

    def games_ended(self) -> list[int]:
        """Return how many training games of each member have ended; waits for the device.

        A game that is over or truncated has ended. All ranks call this, and count all their games.
        """
        games: list[int] = self.ranks.gather(self.rollouts.games_ended()).sum(dim=0).tolist()
        return games

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
        numbers = {
            f"{learner.name}/{name}": value
            for learner in self.learners
            for name, value in learner.statistics.items()
        }
        for name, snapshots in self.roles.snapshots.items():
            steps = snapshots.staleness(self.step).float()
            numbers[f"{name}/staleness"] = steps.mean(dim=1)
            numbers[f"{name}/staleness_max"] = steps.amax(dim=1)
        return numbers

    def evaluate_rho(self, *, num_games: int, split: str) -> list[Metrics]:
        """Return each member's metrics: rho/host/NAME, rho_sampled/host/NAME, panel/host and so on.

        ``num_games`` is played with each opponent and mode, from the starts that ``split`` names,
        none of which training uses.
        """
        evaluations = self.evaluate(num_games=num_games, split=split)
        return [evaluation.metrics for evaluation in evaluations]

    def evaluate(self, *, num_games: int, split: str) -> list[Evaluation]:
        """Return each member's metrics, and the lengths and actions of the games behind them.

        Ranks share the games out, and all return the same.
        """
        rules = self.config.evaluation
        game, device = game_config(self.config), self.device
        moves, er = rules.max_steps, rules.er
        how = Measurement(game, num_games, moves, er, split, MODES, device, self.ranks)
        evaluations = [Evaluation({}, {}, {})] * self.num_members
        self.samples = [[] for _ in evaluations]
        for role, names in self.config.measured_against().items():
            policy = self.host_policy if role == "host" else self.agent_policy
            first_moves = FirstMoves(SAMPLE_MOVES)
            more = evaluate(role, policy, scripted(names), self.num_members, how, first_moves)
            for samples, played in zip(self.samples, first_moves.records(), strict=True):
                samples.append(SampleGame(role, names[0], played))
            evaluations = [first | second for first, second in zip(evaluations, more, strict=True)]
        return evaluations

    def is_finite(self) -> list[bool]:
        """Return for each member whether all its weights are numbers."""
        rows = [learner.net.weights.isfinite().all(dim=1) for learner in self.learners]
        finite: list[bool] = torch.stack(rows).all(dim=0).tolist()
        return finite

    # State.

    def state(self) -> dict[str, Tensor]:
        """Return every tensor that training changes, each with the member axis first."""
        state = {"step": self.step, **self.rollouts.state(), **self.roles.state()}
        for learner in self.learners:
            state |= prefixed(learner.name, learner.state())
        return state

    def places(self) -> dict[str, Tensor]:
        """Return of each tensor of the state that is shared out which places are this rank's.

        They are int64, of the axis after the members'. All other tensors are the same on all ranks,
        but for a few counts, which are added up now and then.
        """
        places = self.rollouts.places()
        for learner in self.learners:
            places |= prefixed(learner.name, learner.places())
        return places

    def settings(self) -> dict[str, Tensor]:
        """Return what the configurations say of each member, with the member axis first.

        Computations read these tensors alone, so that a member's place can pass to another.
        """
        tensors = {**self.rollouts.settings(), **self.roles.settings()}
        for learner in self.learners:
            tensors |= prefixed(learner.name, learner.settings())
        return tensors

    def playing_state(self) -> dict[str, Tensor]:
        """Return the part of the state by which the roles play: an actor's weights."""
        state = {"step": self.step, **self.roles.state()}
        for learner in self.learners:
            state |= prefixed(f"{learner.name}.net", learner.net.state())
        return state

    def saved_state(self) -> dict[str, Tensor]:
        """Return the part of the state that checkpoints hold."""
        return self.state()

    def begin(self, member: int, config: C) -> None:
        """Give one member's place to a fresh one of the others' shape; nothing is compiled anew.

        ValueError if it is of another shape.
        """
        if shape_key(config) != shape_key(self.config):
            raise ValueError(
                "a member's place can pass only to one that shares every field but per-member ones"
            )
        fresh = type(self)([config], self.roles.saved_players, self.ranks)
        own = self.settings()
        for name, tensor in fresh.settings().items():
            own[name][member].copy_(tensor[0])
        self.load_member(member, {name: tensor[0] for name, tensor in fresh.state().items()})
        self.configs = (*self.configs[:member], config, *self.configs[member + 1 :])
        self.config = self.configs[0]

    def load_member(self, member: int, state: Mapping[str, Tensor]) -> None:
        """Overwrite one member's state with a row of `state`; names not given stay as they are.

        ValueError if a tensor is unknown or of another shape.
        """
        own = self.state()
        for name, tensor in state.items():
            if name not in own or own[name].shape[1:] != tensor.shape:
                raise ValueError(f"the state {name!r} does not fit this trainer's configuration")
        for name, tensor in state.items():
            own[name][member].copy_(tensor)
        self.fused_game.refresh()
        self._change()
        if "step" in state:
            self._steps_made[member] = int(state["step"])

    def save(
        self,
        folder: Path,
        member: int,
        kind: str = PERIODIC,
        parents: Sequence[str] = (),
        seconds: float = 0.0,
    ) -> Path:
        """Write a checkpoint of one member below ``folder`` and return its path.

        ``kind`` says why it is written; ``parents`` are the sha256 of those it descends from, and
        ``seconds`` of training led to it, where they are counted. All ranks write one checkpoint,
        which any number of ranks can go on from.
        OSError if the disk is full or not writable; older checkpoints stay.
        """
        self.callbacks.before_checkpoint(self, member)
        saved = self.checkpoint(member, kind, parents, seconds)
        path = checkpoint.save(folder, saved, self.ranks, self.places())
        self.callbacks.after_checkpoint(self, member, path)
        return path

    def checkpoint(
        self, member: int, kind: str, parents: Sequence[str], seconds: float
    ) -> Checkpoint:
        """Return what `save` writes of this rank; its tensors change with the next step.

        All ranks call it together.
        """
        tensors = {name: tensor[member] for name, tensor in self.saved_state().items()}
        config = to_plain(self.configs[member])
        step = int(self.step[member])
        for name in self._counts():
            if name in tensors:
                tensors[name] = self.ranks.average(tensors[name].clone()) * self.ranks.size
        if self.ranks.rank > 0:
            tensors = {name: tensors[name] for name in self.places() if name in tensors}
        return Checkpoint(step, tensors, config, tuple(parents), kind, seconds)

    def load(self, path: Path, member: int) -> None:
        """Let one member go on from the checkpoint at ``path``.

        Raises CorruptError if the checkpoint is damaged or incomplete, ConflictError if it was
        written with another configuration.
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
        self.load_member(member, self.own_part(saved.tensors))

    def own_part(self, whole: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return what this rank has of one member's whole state."""
        own, places = dict(whole), self.places()
        if self.ranks.size > 1:
            for name in places.keys() & own.keys():
                own[name] = own[name][places[name].to(own[name].device)]
        if self.ranks.rank > 0:
            own |= {name: torch.zeros_like(own[name]) for name in self._counts() if name in own}
        return own

    def _counts(self) -> list[str]:
        """Return the names of what each rank counts of its own games until all are added up."""
        counts = ("moves", "finished", "own")
        return [f"{role}.snapshots.{count}" for role in self.roles.snapshots for count in counts]

    def warm_start(self, path: Path, member: int) -> None:
        """Let one member begin with the networks of the checkpoint at ``path``.

        CorruptError or ConflictError if it is damaged, or holds no networks of this structure.
        """
        saved = {
            learner.name: load_opponent(path, learner.name, self.config, self.device).net
            for learner in self.learners
        }
        for learner in self.learners:
            if saved[learner.name].structure != learner.net.structure:
                raise ConflictError(
                    f"warm_start needs networks of the same structure, but those of the "
                    f"{learner.name} in {path} differ; use its algorithm, encoder, net_arch and "
                    "activation"
                )
        for learner in self.learners:
            learner.begin_with(saved[learner.name], member)
            self.begin_snapshots(learner.name, member)
        self._change()

    def select(self, members: Sequence[int]) -> Self:
        """Return a trainer of some of the members, each going on from where it is."""
        configs = [self.configs[member] for member in members]
        selected = type(self)(configs, self.roles.saved_players, self.ranks, self._actors)
        state = self.state()
        for row, member in enumerate(members):
            selected.load_member(row, {name: tensor[member] for name, tensor in state.items()})
        return selected

    def copy(self) -> Self:
        """Return a trainer with the same members in new memory."""
        return self.select(range(self.num_members))


AnyTrainer = Trainer[Any, Any]


def _prepared_device(config: CommonConfig) -> torch.device:
    """Return the device that a configuration names, with torch set to compute as it says."""
    if config.device == "cuda":
        if not torch.cuda.is_available():
            raise ConflictError(
                "device is cuda, but torch finds no CUDA device on this machine; write "
                "device: cpu, or train where there is a GPU"
            )
        # One process trains one configuration, so a switch of the whole process will do.
        torch.backends.cuda.matmul.allow_tf32 = config.precision == "tf32"
    # use_deterministic_algorithms would load the compiler besides, which takes each job 2 s.
    torch.set_deterministic_debug_mode("warn" if config.deterministic else "default")
    torch.autograd.set_detect_anomaly(config.detect_anomaly)
    return torch.device(config.device)

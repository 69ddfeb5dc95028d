"""Configurations of hironaka.trainer as ours: an old one in, a complete one of ours out.

Its keys are mandatory, but for lr_schedule, er_schedule and replay_buffer.deactivate; arguments of
an optimizer that it may leave out have torch's defaults. A `Note` says in a sentence what became
of a key: keys that were never read are left out, numbers with a comma behind them are numbers.

A step of theirs is one gradient step, and their rollout of T moves comes every U of them. Ours
makes T / g moves and then U / g updates each step, g = gcd(T, U): the same moves for the same
updates, evenly spread.
"""

import dataclasses
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, get_args

from hpsearch import yaml_file
from hpsearch.errors import ConfigError
from hpsearch.schema import Positive, Range, field_hints, read
from hpsearch.trainers.config import read_config
from hpsearch.trainers.config.ending import NEVER
from hpsearch.trainers.config.net_arch import net_arch_faults
from hpsearch.trainers.config.optim import (
    NonNegativeNumber,
    PositiveNumber,
    PositiveRate,
    Rate,
    RateBelowOne,
)
from hpsearch.trainers.metrics import PANELS


@dataclass(frozen=True)
class OldLrSchedule:
    mode: Literal["constant", "exponential", "inverse"]
    initial_lr: PositiveNumber | None = None
    rate: PositiveNumber | None = None

    def check(self) -> Iterator[str]:
        yield from _mode_faults(self.mode, "initial_lr", self.initial_lr, self.rate)


@dataclass(frozen=True)
class OldErSchedule:
    mode: Literal["constant", "exponential"]
    initial_er: PositiveRate | None = None
    rate: PositiveNumber | None = None

    def check(self) -> Iterator[str]:
        yield from _mode_faults(self.mode, "initial_er", self.initial_er, self.rate)


def _mode_faults(mode: str, key: str, initial: float | None, rate: float | None) -> Iterator[str]:
    if mode == "constant":
        return
    for name, value in ((key, initial), ("rate", rate)):
        if value is None:
            yield f"{name} is missing"
    if mode == "exponential" and rate is not None and rate > 1:
        yield f"rate must lie in (0, 1] for an exponential schedule, but is {rate!r}"


@dataclass(frozen=True)
class OldAdamArgs:
    lr: PositiveNumber
    betas: tuple[RateBelowOne, ...] = (0.9, 0.999)
    eps: PositiveNumber = 1.0e-8
    weight_decay: NonNegativeNumber = 0.0

    def check(self) -> Iterator[str]:
        if len(self.betas) != 2:
            yield f"betas must hold two numbers, but holds {len(self.betas)}"


@dataclass(frozen=True)
class OldSGDArgs:
    lr: PositiveNumber
    momentum: RateBelowOne = 0.0
    weight_decay: NonNegativeNumber = 0.0


@dataclass(frozen=True)
class OldAdam:
    name: Literal["adam"]
    args: OldAdamArgs
    lr_schedule: OldLrSchedule | None = None


@dataclass(frozen=True)
class OldSGD:
    name: Literal["sgd"]
    args: OldSGDArgs
    lr_schedule: OldLrSchedule | None = None


@dataclass(frozen=True)
class OldRole:
    """A role that learns. A step is one gradient step."""

    batch_size: Positive
    initial_rollout_size: Positive  # games played before the first step
    steps_before_rollout: Positive  # steps between two rollouts
    steps_before_update_target: Positive
    rollout_size: Positive  # games of a rollout, all from fresh starts
    max_rollout_step: Positive  # moves of a rollout's game
    optim: OldAdam | OldSGD
    er: Rate
    net_arch: tuple[Any, ...]
    gamma: Rate
    tau: PositiveRate
    er_schedule: OldErSchedule | None = None

    def check(self) -> Iterator[str]:
        yield from net_arch_faults("net_arch", self.net_arch)


@dataclass(frozen=True)
class OldReplayBuffer:
    type: Literal["base"]
    buffer_size: Positive
    use_cuda: bool
    deactivate: bool = False


@dataclass(frozen=True)
class OldConfig:
    use_tensorboard: bool
    layerwise_logging: bool
    log_time: bool
    use_cuda: bool
    scale_observation: bool
    version_string: Any
    dimension: Annotated[int, Range(low=2, high=16)]
    max_num_points: Annotated[int, Range(low=2)]
    max_value: Positive
    max_grad_norm: PositiveNumber
    replay_buffer: OldReplayBuffer
    host: OldRole | None = None
    agent: OldRole | None = None

    def check(self) -> Iterator[str]:
        if not self.roles():
            yield "host or agent must be there to learn, but both are missing"

    def roles(self) -> dict[str, OldRole]:
        named = {"host": self.host, "agent": self.agent}
        return {name: role for name, role in named.items() if role is not None}


@dataclass(frozen=True)
class Note:
    kind: Literal["changed", "left out", "chosen"]
    """it has another meaning, it is gone, or the old file said nothing of it"""
    key: str  # dotted; ours where it was chosen, else the old one
    text: str


def _tidy(hint: Any, data: Any, notes: list[Note], path: str = "") -> Any:
    """Return ``data`` without what hironaka.trainer did not read; ``notes`` tells of it."""
    fields = _fields(hint)
    if isinstance(data, Mapping) and fields:
        kept = {}
        for key, value in data.items():
            place = f"{path}.{key}" if path else str(key)
            if key in fields:
                kept[key] = _tidy(fields[key], value, notes, place)
            else:
                why = "hironaka.trainer does not read it either"
                if place.endswith(".optim.lr"):
                    why = "was never read; the learning rate is optim.args.lr"
                notes.append(Note("left out", place, why))
        return kept
    if isinstance(data, str) and data.rstrip().endswith(","):
        return _without_comma(data, notes, path)
    return data


def _fields(hint: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, or of all dataclasses of a union."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return dict(field_hints(hint))
    fields: dict[str, Any] = {}
    for option in get_args(hint):
        for name, own in _fields(option).items():
            fields[name] = fields[name] | own if name in fields else own
    return fields


def _without_comma(text: str, notes: list[Note], path: str) -> Any:
    try:
        value = yaml_file.parse(text.rstrip()[:-1])
    except ConfigError:
        return text
    if not isinstance(value, bool | int | float):
        return text
    sentence = f"the comma made it the text {text!r}; it is read as {value!r}"
    notes.append(Note("changed", path, sentence))
    return value


@dataclass(frozen=True)
class OldPace:
    rollout_length: int  # moves a step of ours
    updates_per_step: int  # gradient steps, which are their steps, a step of ours

    @classmethod
    def of(cls, role: OldRole) -> "OldPace":
        common = math.gcd(role.max_rollout_step, role.steps_before_rollout)
        return cls(role.max_rollout_step // common, role.steps_before_rollout // common)

    def steps(self, old_steps: int) -> int:
        """Return how many of our steps make so many gradient steps, rounded, at least 1."""
        return max(1, round(old_steps / self.updates_per_step))

    def schedule(self, mode: str, initial: float | None, rate: float | None) -> dict[str, Any]:
        """Return a schedule that has the same value after as many gradient steps."""
        if initial is None or rate is None or mode == "constant":
            return {"mode": "constant"}
        if mode == "inverse":  # rate / (t + rate / initial), t in our steps
            converted = rate / self.updates_per_step
        else:
            converted = max(rate**self.updates_per_step, sys.float_info.min)
        return {"mode": mode, "initial": initial, "rate": _short(converted)}

    def tau(self, role: OldRole) -> float:
        """Return the share that takes over as much; several old updates may fall into one."""
        times = self.updates_per_step / role.steps_before_update_target
        return _short(1 - (1 - role.tau) ** times) if times > 1 else role.tau

    def first_batch(self, role: OldRole) -> int:
        """Return the steps without updates until a batch of transitions has been played."""
        return math.ceil(role.batch_size / (role.rollout_size * self.rollout_length)) - 1


def _short(number: float) -> float:
    # Without the digits that only rounding made.
    return float(f"{number:.10g}")


OLD_STEPS: Final = 100_000
"""gradient steps; the old number was an argument of train(), and this one was much used"""
SCRIPTED: Final = {"host": "random", "agent": "choose_first"}
"""who plays a role that does not learn"""


@dataclass(frozen=True)
class Converted:
    config: dict[str, Any]  # plain and complete
    notes: tuple[Note, ...]


def convert(data: object, *, source: str) -> Converted:
    """Return the configuration that does what an old one, as plain data, meant to do.

    Raises ConfigError listing every missing or wrong key of the old file by its old name.
    """
    notes: list[Note] = []
    old: OldConfig = read(OldConfig, _tidy(OldConfig, data, notes), source=source)
    pace = OldPace.of(next(iter(old.roles().values())))
    config = _config(old, pace)
    read_config(config, source=source)
    return Converted(config, (*notes, *_notes(old, pace, config)))


def _config(old: OldConfig, pace: OldPace) -> dict[str, Any]:
    roles = old.roles().values()
    opponents = [name for role in old.roles() for name in PANELS[role]]
    return {
        "algorithm": "dqn",
        "seed": 1,
        "device": "cuda" if old.use_cuda else "cpu",
        "precision": "fp32",
        "compile": "off",
        "deterministic": False,
        "detect_anomaly": False,
        "steps": pace.steps(OLD_STEPS),
        "end": NEVER,
        "dimension": old.dimension,
        "max_num_points": old.max_num_points,
        "max_value": old.max_value,
        "max_steps": max(role.max_rollout_step for role in roles),
        "reposition": True,
        "reward": "terminal",
        "rollout_length": pace.rollout_length,
        "shards": 1,
        "rollouts": {"mode": "inline"},
        "updates_per_step": pace.updates_per_step,
        "learning_starts": max(pace.first_batch(role) for role in roles),
        "host": _player("host", old, pace),
        "agent": _player("agent", old, pace),
        "opponents": None,
        "replay_buffer": {
            "buffer_size": max(old.replay_buffer.buffer_size, *(r.rollout_size for r in roles)),
            "save": False,
            "prioritised": None,
        },
        "dqn": {"double": False, "dueling": False, "n_step": 1, "minimax": False},
        "evaluation": {
            "interval": pace.steps(1000),
            "num_games": 500,
            "final_num_games": 4000,
            "max_steps": 100,
            "er": 0.05,
            "opponents": list(dict.fromkeys(opponents)),
        },
        "checkpoint": {
            "interval": pace.steps(10_000),
            "seconds": None,
            "keep_last": 2,
            "best": None,
            "resume": "auto",
            "warm_start": None,
        },
        "monitor": {
            "interval": pace.steps(100),
            "training_log": True,
            "tensorboard": old.use_tensorboard,
            "layer_statistics": old.layerwise_logging,
            "timings": old.log_time,
            "resources": False,
            "prometheus": None,
            "profiler": None,
            "max_loss": None,
            "hang_timeout": None,
        },
    }


def _player(name: str, old: OldConfig, pace: OldPace) -> dict[str, Any]:
    role = old.roles().get(name)
    if role is None:
        return {"player": SCRIPTED[name]}
    er = role.er_schedule or OldErSchedule("constant")
    return {
        "encoder": {"name": "flatten", "num_points": old.max_num_points},
        "net_arch": list(role.net_arch),
        "activation": "relu",
        "optim": _optim(role.optim, pace),
        "max_grad_norm": old.max_grad_norm,
        "gamma": role.gamma,
        "rollout_size": role.rollout_size,
        "batch_size": role.batch_size,
        "er": role.er,
        "er_schedule": pace.schedule(er.mode, er.initial_er, er.rate),
        "tau": pace.tau(role),
        "steps_before_update_target": pace.steps(role.steps_before_update_target),
        "huber_delta": 1.0,
    }


def _optim(optim: OldAdam | OldSGD, pace: OldPace) -> dict[str, Any]:
    args: dict[str, float]
    if isinstance(optim, OldAdam):
        beta1, beta2 = optim.args.betas
        args = {"lr": optim.args.lr, "beta1": beta1, "beta2": beta2, "eps": optim.args.eps}
    else:
        args = dataclasses.asdict(optim.args)
    old = optim.lr_schedule or OldLrSchedule("constant")
    schedule = pace.schedule(old.mode, old.initial_lr, old.rate)
    return {"name": optim.name, "args": args, "lr_schedule": schedule}


LARGE_BUFFER = 4e9  # bytes


def _notes(old: OldConfig, pace: OldPace, config: Mapping[str, Any]) -> Iterator[Note]:
    changed = _of_the_file(old, config)
    left_out = {"version_string": "hpsearch train --name names a run, its folder says the rest"}
    for name, role in old.roles().items():
        own = _of_a_role(name, role, pace) | _of_schedules(role)
        changed |= {f"{name}.{key}": text for key, text in own.items()}
        left_out[f"{name}.initial_rollout_size"] = (
            "learning begins as soon as a batch has been played (learning_starts), because "
            "schedules count those steps too"
        )
        if isinstance(role.optim, OldAdam) and role.optim.args.weight_decay:
            text = "adam has none here; adamw has it, applied to the weights, not to the gradients"
            left_out[f"{name}.optim.args.weight_decay"] = text
    if old.replay_buffer.deactivate:
        left_out["replay_buffer.deactivate"] = "Q-learning always learns from a buffer"
    yield from (Note("changed", key, text) for key, text in changed.items())
    yield from (Note("left out", key, text) for key, text in left_out.items())
    yield from (Note("chosen", key, text) for key, text in _chosen(old, config).items())


def _of_the_file(old: OldConfig, config: Mapping[str, Any]) -> dict[str, str]:
    texts = {
        "max_value": f"a start may hold {old.max_value} itself, as in hironaka.trainer; the "
        "validator, the gym environments and the JAX code of hironaka stop at "
        f"{old.max_value - 1}",
        "scale_observation": "always on, and of what networks see alone: the game stays in whole "
        "numbers"
        if old.scale_observation
        else "was false; networks here always see points divided by the largest coordinate",
    }
    if old.replay_buffer.use_cuda != old.use_cuda:
        text = f"the buffer lies where training runs, device: {config['device']}"
        texts["replay_buffer.use_cuda"] = text
    # Two positions of coordinates of 4 bytes.
    size = 2 * old.max_num_points * old.dimension * 4 * config["replay_buffer"]["buffer_size"]
    if size * len(old.roles()) > LARGE_BUFFER:
        texts["replay_buffer.buffer_size"] = (
            f"room for all of it is taken at the start, about {size / 1e9:.0f} GB for each role "
            "that learns; a smaller one may do"
        )
    for key, place in (
        ("use_tensorboard", "tensorboard"),
        ("layerwise_logging", "layer_statistics"),
        ("log_time", "timings"),
    ):
        texts[key] = f"is monitor.{place}: {str(config['monitor'][place]).lower()}"
    return texts


def _of_a_role(name: str, role: OldRole, pace: OldPace) -> dict[str, str]:
    rollouts = (
        f"{role.rollout_size} games go on all the time, each of at most max_steps moves, and one "
        f"that ends begins anew; a step is {pace.rollout_length} of their moves and "
        f"{pace.updates_per_step} gradient steps"
    )
    if pace != OldPace.of(role):
        rollouts += f"; the host decides, the {name} had another pace"
    explores = "explores legal actions alone"
    if name == "agent":
        explores += (
            "; it used to draw coordinates that the host had not chosen, which wasted the move"
        )
    texts = {
        "rollout_size, max_rollout_step, steps_before_rollout": rollouts,
        "er": explores,
        "net_arch": "begins with a linear layer; a ReLU before it used to make absent points look "
        "like points at the origin",
    }
    if pace.updates_per_step > 1:
        target = role.steps_before_update_target
        texts["steps_before_update_target, tau"] = (
            f"{target} gradient steps are {pace.steps(target)} steps of "
            f"{pace.updates_per_step} updates; tau is {pace.tau(role):g}"
        )
    return texts


def _of_schedules(role: OldRole) -> dict[str, str]:
    moves = "moves every step; it stood still within a call of train()"
    texts = {}
    lr, er = role.optim.lr_schedule, role.er_schedule
    if lr is not None and lr.mode != "constant":
        assert lr.rate is not None
        assert lr.initial_lr is not None
        halved = f"it is halved after {lr.rate / lr.initial_lr:.0f} gradient steps"
        pace = halved if lr.mode == "inverse" else _half(lr.rate)
        long_call = "so one long call trained at initial_lr throughout"
        texts["optim.lr_schedule"] = f"{moves}, {long_call}; {pace}"
    if er is not None and er.mode == "exponential" and er.rate is not None:
        texts["er_schedule"] = f"{moves}; {_half(er.rate)}"
    return texts


def _half(rate: float) -> str:
    if rate == 1:
        return "its rate of 1 keeps it where it begins"
    return f"half of its way is gone after {math.log(0.5) / math.log(rate):.0f} gradient steps"


def _chosen(old: OldConfig, config: Mapping[str, Any]) -> dict[str, str]:
    updates = config["steps"] * config["updates_per_step"]
    return {
        "steps": f"{config['steps']}, which are {updates} gradient steps; it was an argument of "
        "train()",
        "seed": "1; there was none",
        "reposition": "true; keeps numbers small, game lengths stay the same",
        "dqn.double": "false, as it was in spite of the name DDQN; true is better",
        **{
            name: f"the scripted player {player}; the old {name} was passed in code"
            for name, player in SCRIPTED.items()
            if name not in old.roles()
        },
        "evaluation": f"every {config['evaluation']['interval']} steps; more games than 100, so "
        "less noise",
        "checkpoint": "without the replay buffer, as before; replay_buffer.save: true resumes bit "
        "for bit",
    }

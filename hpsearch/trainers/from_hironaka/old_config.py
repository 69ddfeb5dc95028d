"""What a configuration of hironaka.trainer says: read with all of its faults at once.

Its keys are mandatory, but for lr_schedule, er_schedule and replay_buffer.deactivate. The arguments
of an optimizer that it may leave out have torch's defaults.

Old files as they were typed: keys that were never read, numbers with a comma behind them.

What a conversion has to say: one sentence a key.
"""

import dataclasses
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from hpsearch import yaml_file
from hpsearch.errors import ConfigError
from hpsearch.schema import Positive, Range, field_hints
from hpsearch.trainers.config.optim import (
    NonNegativeNumber,
    PositiveNumber,
    PositiveRate,
    Rate,
    RateBelowOne,
)
from hpsearch.trainers.config.players import net_arch_faults


@dataclass(frozen=True)
class OldLrSchedule:
    """How the learning rate moves, from initial_lr to optim.args.lr."""

    mode: Literal["constant", "exponential", "inverse"]
    initial_lr: PositiveNumber | None = None
    rate: PositiveNumber | None = None

    def check(self) -> Iterator[str]:
        """Yield the keys that the mode needs."""
        yield from _schedule_faults(self.mode, {"initial_lr": self.initial_lr}, self.rate)


@dataclass(frozen=True)
class OldErSchedule:
    """How the exploration rate moves, from initial_er to er."""

    mode: Literal["constant", "exponential"]
    initial_er: PositiveRate | None = None
    rate: PositiveNumber | None = None

    def check(self) -> Iterator[str]:
        """Yield the keys that the mode needs."""
        yield from _schedule_faults(self.mode, {"initial_er": self.initial_er}, self.rate)


def _schedule_faults(
    mode: str, initial: dict[str, float | None], rate: float | None
) -> Iterator[str]:
    if mode == "constant":
        return
    for key, value in (*initial.items(), ("rate", rate)):
        if value is None:
            yield f"{key} is missing"
    if mode == "exponential" and rate is not None and rate > 1:
        yield f"rate must lie in (0, 1] for an exponential schedule, but is {rate!r}"


@dataclass(frozen=True)
class OldAdamArgs:
    """Arguments of torch.optim.Adam."""

    lr: PositiveNumber
    betas: tuple[RateBelowOne, ...] = (0.9, 0.999)
    eps: PositiveNumber = 1.0e-8
    weight_decay: NonNegativeNumber = 0.0

    def check(self) -> Iterator[str]:
        """Yield that there are two betas."""
        if len(self.betas) != 2:
            yield f"betas must hold two numbers, but holds {len(self.betas)}"


@dataclass(frozen=True)
class OldSGDArgs:
    """Arguments of torch.optim.SGD."""

    lr: PositiveNumber
    momentum: RateBelowOne = 0.0
    weight_decay: NonNegativeNumber = 0.0


@dataclass(frozen=True)
class OldAdam:
    """Adam."""

    name: Literal["adam"]
    args: OldAdamArgs
    lr_schedule: OldLrSchedule | None = None


@dataclass(frozen=True)
class OldSGD:
    """Gradient descent."""

    name: Literal["sgd"]
    args: OldSGDArgs
    lr_schedule: OldLrSchedule | None = None


@dataclass(frozen=True)
class OldRole:
    """A role (host or agent) that learns. A step is one gradient step."""

    batch_size: Positive
    initial_rollout_size: Positive
    """games played before the first step"""
    steps_before_rollout: Positive
    """steps between two rollouts"""
    steps_before_update_target: Positive
    rollout_size: Positive
    """games of a rollout, all from fresh starts"""
    max_rollout_step: Positive
    """moves of a rollout's game"""
    optim: OldAdam | OldSGD
    er: Rate
    net_arch: tuple[Any, ...]
    gamma: Rate
    tau: PositiveRate
    er_schedule: OldErSchedule | None = None

    def check(self) -> Iterator[str]:
        """Yield what is wrong with the network."""
        yield from net_arch_faults("net_arch", self.net_arch)


@dataclass(frozen=True)
class OldReplayBuffer:
    """Transitions kept for learning."""

    type: Literal["base"]
    buffer_size: Positive
    use_cuda: bool
    deactivate: bool = False


@dataclass(frozen=True)
class OldConfig:
    """A whole file."""

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
        """Yield that no role learns."""
        if not self.roles():
            yield "host or agent must be there to learn, but both are missing"

    def roles(self) -> dict[str, OldRole]:
        """Return the roles that learn, by name."""
        named = {"host": self.host, "agent": self.agent}
        return {name: role for name, role in named.items() if role is not None}


Kind = Literal["changed", "left out", "chosen"]
CHANGED: Final = "changed"
LEFT_OUT: Final = "left out"
CHOSEN: Final = "chosen"


@dataclass(frozen=True)
class Remark:
    """What became of one key."""

    kind: Kind
    """it has another meaning, it is gone, or the old file said nothing of it"""
    key: str
    """dotted; ours where it was chosen, else the old one"""
    text: str


def tidy(hint: Any, data: Any, remarks: list[Remark], path: str = "") -> Any:
    """Return ``data`` without what hironaka.trainer did not read; ``remarks`` tells of it."""
    fields = _fields(hint)
    if isinstance(data, Mapping) and fields:
        kept = {}
        for key, value in data.items():
            place = f"{path}.{key}" if path else str(key)
            if key in fields:
                kept[key] = tidy(fields[key], value, remarks, place)
            else:
                remarks.append(Remark(LEFT_OUT, place, _why_left_out(place)))
        return kept
    if isinstance(data, str) and data.rstrip().endswith(","):
        return _without_comma(data, remarks, path)
    return data


def _fields(hint: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, or of all dataclasses of a union."""
    if dataclasses.is_dataclass(hint):
        cls: Any = hint
        return dict(field_hints(cls))
    if get_origin(hint) is Annotated:
        return _fields(get_args(hint)[0])
    fields: dict[str, Any] = {}
    if get_origin(hint) in (Union, types.UnionType):
        for option in get_args(hint):
            for name, own in _fields(option).items():
                fields[name] = fields[name] | own if name in fields else own
    return fields


def _why_left_out(path: str) -> str:
    if path.endswith(".optim.lr"):
        return "was never read; the learning rate is optim.args.lr"
    return "hironaka.trainer does not read it either"


def _without_comma(text: str, remarks: list[Remark], path: str) -> Any:
    try:
        value = yaml_file.parse(text.rstrip()[:-1])
    except ConfigError:
        return text
    if isinstance(value, bool | int | float):
        sentence = f"the comma made it the text {text!r}; it is read as {value!r}"
        remarks.append(Remark(CHANGED, path, sentence))
        return value
    return text

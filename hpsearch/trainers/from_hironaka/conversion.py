"""The conversion itself: an old configuration in, a complete one of ours out.

What a conversion changes: the sentences that its user should read.

Old steps and ours: a step of theirs is one gradient step, with a rollout now and then.

Their rollout of T moves comes every U gradient steps. Ours makes T / g moves and then U / g updates
each step, g = gcd(T, U): the same moves for the same updates, evenly spread.
"""

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hpsearch.schema import read
from hpsearch.trainers.config import read_config
from hpsearch.trainers.config.players import ROLES
from hpsearch.trainers.from_hironaka.old_config import (
    CHANGED,
    CHOSEN,
    LEFT_OUT,
    OldAdam,
    OldConfig,
    OldLrSchedule,
    OldRole,
    OldSGD,
    Remark,
    tidy,
)


@dataclass(frozen=True)
class OldPace:
    """How moves and updates alternate."""

    rollout_length: int
    """moves a step of ours"""
    updates_per_step: int
    """gradient steps, which are their steps, a step of ours"""

    def steps(self, old_steps: int) -> int:
        """Return how many of our steps make so many gradient steps, rounded, at least 1."""
        return max(1, round(old_steps / self.updates_per_step))

    def factor(self, old_rate: float) -> float:
        """Return the factor a step of ours of what shrinks by ``old_rate`` a gradient step."""
        return _short(max(old_rate**self.updates_per_step, sys.float_info.min))

    def inverse_rate(self, old_rate: float) -> float:
        """Return the rate of an inverse schedule: rate / (t + rate / initial), t in our steps."""
        return _short(old_rate / self.updates_per_step)

    def tau(self, role: OldRole) -> float:
        """Return the share that takes over as much; several old updates may fall into one."""
        times = self.updates_per_step / role.steps_before_update_target
        return _short(1 - (1 - role.tau) ** times) if times > 1 else role.tau

    def first_batch(self, role: OldRole) -> int:
        """Return the steps without updates until a batch of transitions has been played."""
        return math.ceil(role.batch_size / (role.rollout_size * self.rollout_length)) - 1


def pace_of(role: OldRole) -> OldPace:
    """Return the pace of a role."""
    common = math.gcd(role.max_rollout_step, role.steps_before_rollout)
    return OldPace(role.max_rollout_step // common, role.steps_before_rollout // common)


def _short(number: float) -> float:
    """Return a number without the digits that only rounding made."""
    return float(f"{number:.10g}")


BYTES_OF_A_COORDINATE = 4
POSITIONS_OF_A_TRANSITION = 2
LARGE_BUFFER = 4e9


def changes(old: OldConfig, pace: OldPace, config: Mapping[str, Any]) -> Iterator[Remark]:
    """Yield what changed meaning, what is left out, what had to be chosen."""
    yield from _of_the_game(old)
    for name, role in old.roles().items():
        yield from _of_a_role(name, role, pace)
    yield from _of_the_buffer(old, config)
    yield from _of_the_monitor(old)
    yield from _chosen(old, config)


def _of_the_game(old: OldConfig) -> Iterator[Remark]:
    yield Remark(
        CHANGED,
        "max_value",
        f"a start may hold {old.max_value} itself, as in hironaka.trainer; the validator, the gym "
        f"environments and the JAX code of hironaka stop at {old.max_value - 1}",
    )
    if old.scale_observation:
        meaning = "always on, and of what networks see alone: the game stays in whole numbers"
    else:
        meaning = "was false; networks here always see points divided by the largest coordinate"
    yield Remark(CHANGED, "scale_observation", meaning)
    yield Remark(
        LEFT_OUT, "version_string", "hpsearch train --name names a run, its folder says the rest"
    )


def _of_a_role(name: str, role: OldRole, pace: OldPace) -> Iterator[Remark]:
    yield from _of_rollouts(name, role, pace)
    yield from _of_the_optimizer(name, role)
    er = role.er_schedule
    if er is not None and er.mode == "exponential" and er.rate is not None:
        text = f"moves every step; it stood still within a call of train(); {_half(er.rate)}"
        yield Remark(CHANGED, f"{name}.er_schedule", text)
    text = "explores legal actions alone"
    if name == "agent":
        text += "; it used to draw coordinates that the host had not chosen, which wasted the move"
    yield Remark(CHANGED, f"{name}.er", text)
    target = role.steps_before_update_target
    if pace.updates_per_step > 1:
        yield Remark(
            CHANGED,
            f"{name}.steps_before_update_target, tau",
            f"{target} gradient steps are {pace.steps(target)} steps of "
            f"{pace.updates_per_step} updates; tau is {pace.tau(role):g}",
        )
    yield Remark(
        CHANGED,
        f"{name}.net_arch",
        "begins with a linear layer; a ReLU before it used to make absent points look like "
        "points at the origin",
    )


def _of_rollouts(name: str, role: OldRole, pace: OldPace) -> Iterator[Remark]:
    text = (
        f"{role.rollout_size} games go on all the time, each of at most max_steps moves, and one "
        f"that ends begins anew; a step is {pace.rollout_length} of their moves and "
        f"{pace.updates_per_step} gradient steps"
    )
    if pace != pace_of(role):
        text += f"; the host decides, the {name} had another pace"
    yield Remark(CHANGED, f"{name}.rollout_size, max_rollout_step, steps_before_rollout", text)
    yield Remark(
        LEFT_OUT,
        f"{name}.initial_rollout_size",
        "learning begins as soon as a batch has been played (learning_starts), because schedules "
        "count those steps too",
    )


def _of_the_optimizer(name: str, role: OldRole) -> Iterator[Remark]:
    optim = role.optim
    if (schedule := optim.lr_schedule) is not None and schedule.mode != "constant":
        yield Remark(
            CHANGED,
            f"{name}.optim.lr_schedule",
            "moves every step; it stood still within a call of train(), so one long call trained "
            f"at initial_lr throughout; {_pace_of_decay(schedule)}",
        )
    if isinstance(optim, OldAdam) and optim.args.weight_decay:
        yield Remark(
            LEFT_OUT,
            f"{name}.optim.args.weight_decay",
            "Adam has none here; adamw takes it away from the weights directly",
        )


def _pace_of_decay(schedule: OldLrSchedule) -> str:
    assert schedule.rate is not None
    assert schedule.initial_lr is not None
    if schedule.mode == "exponential":
        return _half(schedule.rate)
    return f"it is halved after {schedule.rate / schedule.initial_lr:.0f} gradient steps"


def _half(rate: float) -> str:
    """Say how fast an exponential schedule moves."""
    if rate == 1:
        return "its rate of 1 keeps it where it begins"
    return f"half of its way is gone after {math.log(0.5) / math.log(rate):.0f} gradient steps"


def _of_the_buffer(old: OldConfig, config: Mapping[str, Any]) -> Iterator[Remark]:
    if old.replay_buffer.use_cuda != old.use_cuda:
        text = f"the buffer lies where training runs, device: {config['device']}"
        yield Remark(CHANGED, "replay_buffer.use_cuda", text)
    if old.replay_buffer.deactivate:
        text = "Q-learning always learns from a buffer"
        yield Remark(LEFT_OUT, "replay_buffer.deactivate", text)
    numbers = POSITIONS_OF_A_TRANSITION * old.max_num_points * old.dimension
    size = config["replay_buffer"]["buffer_size"] * numbers * BYTES_OF_A_COORDINATE
    if size * len(old.roles()) > LARGE_BUFFER:
        yield Remark(
            CHANGED,
            "replay_buffer.buffer_size",
            f"room for all of it is taken at the start, about {size / 1e9:.0f} GB for each role "
            "that learns; a smaller one may do",
        )


def _of_the_monitor(old: OldConfig) -> Iterator[Remark]:
    switches = {
        "use_tensorboard": ("tensorboard", old.use_tensorboard),
        "layerwise_logging": ("layer_statistics", old.layerwise_logging),
        "log_time": ("timings", old.log_time),
    }
    for key, (name, value) in switches.items():
        text = f"is monitor.{name}: {str(value).lower()}"
        yield Remark(CHANGED, key, text)


def _chosen(old: OldConfig, config: Mapping[str, Any]) -> Iterator[Remark]:
    updates = config["steps"] * config["updates_per_step"]
    text = f"{config['steps']}, which are {updates} gradient steps; it was an argument of train()"
    yield Remark(CHOSEN, "steps", text)
    yield Remark(CHOSEN, "seed", "1; there was none")
    yield Remark(CHOSEN, "reposition", "true; keeps numbers small, game lengths stay the same")
    yield Remark(CHOSEN, "dqn.double", "false, as it was in spite of the name DDQN; true is better")
    for name in ROLES:
        if name not in old.roles():
            player = config[name]["player"]
            text = f"the scripted player {player}; the old {name} was passed in code"
            yield Remark(CHOSEN, name, text)
    text = f"every {config['evaluation']['interval']} steps; more games than 100, so less noise"
    yield Remark(CHOSEN, "evaluation", text)
    text = "without the replay buffer, as before; replay_buffer.save: true resumes bit for bit"
    yield Remark(CHOSEN, "checkpoint", text)


OLD_STEPS: Final = 100_000
"""gradient steps; the old number was an argument of train(), and this one was much used"""
SCRIPTED: Final = {"host": "random", "agent": "choose_first"}
"""who plays a role that does not learn"""
MEASURED_AGAINST: Final = {
    "host": ("choose_first", "choose_last", "random"),
    "agent": ("random", "all_coord", "zeillinger"),
}


@dataclass(frozen=True)
class Converted:
    """A configuration of ours and what there is to know of it."""

    config: dict[str, Any]
    """plain and complete"""
    remarks: tuple[Remark, ...]


def convert(data: object, *, source: str) -> Converted:
    """Return the configuration that does what an old one, as plain data, meant to do.

    Raises:
        ConfigError: listing every missing or wrong key of the old file by its old name.
    """
    remarks: list[Remark] = []
    old: OldConfig = read(OldConfig, tidy(OldConfig, data, remarks), source=source)
    pace = pace_of(next(iter(old.roles().values())))
    config = _config(old, pace)
    read_config(config, source=source)
    return Converted(config, (*remarks, *changes(old, pace, config)))


def _config(old: OldConfig, pace: OldPace) -> dict[str, Any]:
    roles = old.roles().values()
    return {
        "algorithm": "dqn",
        "seed": 1,
        "device": "cuda" if old.use_cuda else "cpu",
        "precision": "fp32",
        "compile": "off",
        "deterministic": False,
        "detect_anomaly": False,
        "steps": pace.steps(OLD_STEPS),
        "dimension": old.dimension,
        "max_num_points": old.max_num_points,
        "max_value": old.max_value,
        "max_steps": max(role.max_rollout_step for role in roles),
        "reposition": True,
        "reward": "terminal",
        "rollout_length": pace.rollout_length,
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
        **_measuring(old, pace),
    }


def _measuring(old: OldConfig, pace: OldPace) -> dict[str, Any]:
    opponents = [name for role in old.roles() for name in MEASURED_AGAINST[role]]
    return {
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
        "er_schedule": _er_schedule(role, pace),
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
        momentum, decay = optim.args.momentum, optim.args.weight_decay
        args = {"lr": optim.args.lr, "momentum": momentum, "weight_decay": decay}
    schedule = _lr_schedule(optim.lr_schedule, pace)
    return {"name": optim.name, "args": args, "lr_schedule": schedule}


def _lr_schedule(old: OldLrSchedule | None, pace: OldPace) -> dict[str, Any]:
    if old is None or old.initial_lr is None or old.rate is None or old.mode == "constant":
        return {"mode": "constant"}
    rate = pace.factor(old.rate) if old.mode == "exponential" else pace.inverse_rate(old.rate)
    return {"mode": old.mode, "initial": old.initial_lr, "rate": rate}


def _er_schedule(role: OldRole, pace: OldPace) -> dict[str, Any]:
    old = role.er_schedule
    if old is None or old.initial_er is None or old.rate is None or old.mode == "constant":
        return {"mode": "constant"}
    return {"mode": old.mode, "initial": old.initial_er, "rate": pace.factor(old.rate)}

"""The conversion itself: an old configuration in, a complete one of ours out."""

from dataclasses import dataclass
from typing import Any, Final

from hpsearch.schema import read
from hpsearch.trainers.config import read_config
from hpsearch.trainers.from_hironaka.changes import changes
from hpsearch.trainers.from_hironaka.old_config import (
    OldAdam,
    OldConfig,
    OldLrSchedule,
    OldRole,
    OldSGD,
)
from hpsearch.trainers.from_hironaka.pace import Pace, pace_of
from hpsearch.trainers.from_hironaka.remarks import Remark
from hpsearch.trainers.from_hironaka.tidying import tidy

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


def _config(old: OldConfig, pace: Pace) -> dict[str, Any]:
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


def _measuring(old: OldConfig, pace: Pace) -> dict[str, Any]:
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


def _player(name: str, old: OldConfig, pace: Pace) -> dict[str, Any]:
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


def _optim(optim: OldAdam | OldSGD, pace: Pace) -> dict[str, Any]:
    args: dict[str, float]
    if isinstance(optim, OldAdam):
        beta1, beta2 = optim.args.betas
        args = {"lr": optim.args.lr, "beta1": beta1, "beta2": beta2, "eps": optim.args.eps}
    else:
        momentum, decay = optim.args.momentum, optim.args.weight_decay
        args = {"lr": optim.args.lr, "momentum": momentum, "weight_decay": decay}
    schedule = _lr_schedule(optim.lr_schedule, pace)
    return {"name": optim.name, "args": args, "lr_schedule": schedule}


def _lr_schedule(old: OldLrSchedule | None, pace: Pace) -> dict[str, Any]:
    if old is None or old.initial_lr is None or old.rate is None or old.mode == "constant":
        return {"mode": "constant"}
    rate = pace.factor(old.rate) if old.mode == "exponential" else pace.inverse_rate(old.rate)
    return {"mode": old.mode, "initial": old.initial_lr, "rate": rate}


def _er_schedule(role: OldRole, pace: Pace) -> dict[str, Any]:
    old = role.er_schedule
    if old is None or old.initial_er is None or old.rate is None or old.mode == "constant":
        return {"mode": "constant"}
    return {"mode": old.mode, "initial": old.initial_er, "rate": pace.factor(old.rate)}

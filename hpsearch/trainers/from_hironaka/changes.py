"""What a conversion changes: the sentences that its user should read."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from hpsearch.trainers.config.players import ROLES
from hpsearch.trainers.from_hironaka.old_config import OldAdam, OldConfig, OldLrSchedule, OldRole
from hpsearch.trainers.from_hironaka.pace import Pace, pace_of
from hpsearch.trainers.from_hironaka.remarks import CHANGED, CHOSEN, LEFT_OUT, Remark

BYTES_OF_A_COORDINATE = 4
POSITIONS_OF_A_TRANSITION = 2
LARGE_BUFFER = 4e9


def changes(old: OldConfig, pace: Pace, config: Mapping[str, Any]) -> Iterator[Remark]:
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


def _of_a_role(name: str, role: OldRole, pace: Pace) -> Iterator[Remark]:
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


def _of_rollouts(name: str, role: OldRole, pace: Pace) -> Iterator[Remark]:
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

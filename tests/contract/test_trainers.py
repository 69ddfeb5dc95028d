"""What every training algorithm promises. A new name in TRAINERS is tested here.

The promises that other packages' algorithms are held to as well are in hpsearch/testing;
tests/conftest.py holds a small complete configuration of each algorithm.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numba
import pytest
import torch

from hpsearch.errors import ConflictError, CorruptError
from hpsearch.schema import own_options, to_plain
from hpsearch.testing.algorithms import (
    PROMISES,
    a_place_passes_to_another_member,
    assert_same,
    members_can_be_selected,
    members_train_as_they_do_alone,
    only_legal_moves_are_played,
    state_of,
)
from hpsearch.trainers import checkpoint
from hpsearch.trainers.algorithms import TRAINERS, build_trainer
from hpsearch.trainers.config import TrainerConfig

every_algorithm = pytest.mark.parametrize("algorithm", TRAINERS)

ROLES = {
    "host": {"agent": {"player": "random"}},
    "agent": {"agent": "learn", "host": {"player": "zeillinger"}},
    "both": {"agent": "learn"},
}
DEEP_SETS = {"name": "deep_sets", "widths": [6, 5], "pool": "mean"}
ATTENTION = {"name": "attention", "width": 4, "heads": 2, "blocks": 1}
POOL = {
    "size": 3,
    "at_once": 2,
    "choice": {"mode": "prioritised", "power": 1.0},
    "sync": {"mode": "fixed", "interval": 2},
    "max_staleness": 4,
}
AGENTS = [{"player": "choose_first", "weight": 1.0}, {"player": "random", "weight": 3.0}]
LISTED = [*AGENTS, {"player": "learner", "weight": 2.0}, {"snapshots": POOL, "weight": 2.0}]
ADAMW = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.99, "eps": 1e-6, "weight_decay": 0.01}
SGD = {"lr": 1e-2, "momentum": 0.9, "weight_decay": 0.01}
PRIORITISED = {"alpha": 0.6, "beta": 0.4, "beta_steps": 8, "eps": 1e-3}


@dataclass(frozen=True)
class Case:
    """A way to train that every promise is kept in."""

    role: str
    both: dict[str, Any]
    """changes of every learning role, by dotted key"""
    options: dict[str, Any]
    """changes of the whole"""


CASES = {
    "plain host": ("dqn ppo", Case("host", {}, {})),
    "batch norms, agent": ("dqn ppo", Case("agent", {"net_arch": ["b", 8, "b"]}, {})),
    "residual blocks, both": ("dqn ppo", Case("both", {"net_arch": ["r8", 6]}, {})),
    "deep sets, AdamW": (
        "dqn ppo",
        Case(
            "agent",
            {
                "encoder": DEEP_SETS,
                "net_arch": ["l", "rl6"],
                "optim.name": "adamw",
                "optim.args": ADAMW,
            },
            {},
        ),
    ),
    "attention, SGD, tanh": (
        "dqn ppo",
        Case(
            "host",
            {
                "encoder": ATTENTION,
                "activation": "tanh",
                "optim.name": "sgd",
                "optim.args": SGD,
            },
            {},
        ),
    ),
    "pool of snapshots": ("dqn ppo", Case("both", {}, {"opponents": POOL})),
    "dynamic pool": (
        "dqn ppo",
        Case(
            "both",
            {},
            {
                "opponents": {
                    **POOL,
                    "choice": {"mode": "uniform"},
                    "sync": {"mode": "dynamic", "interval": 1, "margin": 0.01},
                }
            },
        ),
    ),
    "several agents": ("dqn ppo", Case("host", {}, {"agent": None, "opponents": AGENTS})),
    "several hosts": (
        "dqn ppo",
        Case("agent", {}, {"host": None, "opponents": [{"player": "zeillinger", "weight": 1.0}]}),
    ),
    "now, earlier and scripted": ("dqn ppo", Case("both", {}, {"opponents": LISTED})),
    "n-step, prioritised, dueling": (
        "dqn",
        Case(
            "both",
            {},
            {"dqn.n_step": 3, "dqn.dueling": True, "replay_buffer.prioritised": PRIORITISED},
        ),
    ),
    "minimax": ("dqn", Case("host", {}, {"dqn.minimax": True, "dqn.double": False})),
    "KL stop, no clipping of values": (
        "ppo",
        Case("both", {}, {"ppo.target_kl": 0.001, "ppo.value_clip_range": None}),
    ),
}


def some_cases(chosen: Collection[str]) -> pytest.MarkDecorator:
    """Try these, and the others with the slow tests."""
    return pytest.mark.parametrize(
        ("algorithm", "case"),
        [
            pytest.param(
                algorithm,
                case,
                id=f"{algorithm}: {name}",
                marks=() if name in chosen else pytest.mark.slow,
            )
            for name, (algorithms, case) in CASES.items()
            for algorithm in algorithms.split()
        ],
    )


cases = some_cases(CASES)
few_cases = some_cases(
    (
        "plain host",
        "batch norms, agent",
        "pool of snapshots",
        "several agents",
        "n-step, prioritised, dueling",
    )
)
PLAIN = CASES["plain host"][1]
BOTH = Case("both", {}, {})
IN_EVERY_CASE = (
    members_train_as_they_do_alone,
    members_can_be_selected,
    only_legal_moves_are_played,
)

# By algorithm: numbers that differ from member to member p, of a role and of the whole.
PER_MEMBER: dict[str, Callable[[int], tuple[dict[str, Any], dict[str, Any]]]] = {
    "dqn": lambda p: (
        {
            "er": 0.1 * p + 0.05,
            "er_schedule": {"mode": "linear", "initial": 1.0, "steps": 4 + p},
            "tau": (p + 1) / 3,
            "steps_before_update_target": p + 1,
            "huber_delta": 0.1 + 0.5 * p,
        },
        {},
    ),
    "ppo": lambda p: (
        {},
        {
            "ppo.gae_lambda": 0.8 + 0.09 * p,
            "ppo.clip_range": 0.1 * (p + 1),
            "ppo.vf_coef": 0.3 * (p + 1),
            "ppo.ent_coef": 0.01 * p,
        },
    ),
}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    numba.get_num_threads()  # launches its threads, which sets torch's number to all
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def members_of(tiny_config, algorithm, case=PLAIN, **changes):
    """Return three configurations of one shape that differ wherever members may."""
    learning = ["host", "agent"] if case.role == "both" else [case.role]
    configs = []
    for p in range(3):
        of_role, of_all = PER_MEMBER[algorithm](p)
        common = {
            "optim.args.lr": 1e-3 * (p + 1),
            "optim.lr_schedule": {"mode": "cosine", "initial": 1e-2, "steps": 5 + p},
            "max_grad_norm": 0.1 * 3**p,
            "gamma": 0.8 + 0.09 * p,
        }
        mine = {
            f"{name}.{key}": value
            for name in learning
            for key, value in {**case.both, **common, **of_role}.items()
        }
        options = {**ROLES[case.role], **mine, **of_all, **case.options, "seed": 10 + p}
        configs.append(tiny_config({**options, **changes}, algorithm))
    return configs


@pytest.fixture
def members(tiny_config):
    return partial(members_of, tiny_config)


@cases
@pytest.mark.parametrize("promise", IN_EVERY_CASE, ids=lambda promise: promise.__name__)
def test_a_promise_in_every_case(members, algorithm, case, promise, tmp_path):
    promise(members(algorithm, case), tmp_path)


@few_cases
def test_a_place_passes_to_another_member(members, algorithm, case, tmp_path):
    a_place_passes_to_another_member(members(algorithm, case), tmp_path)


@pytest.mark.parametrize("case", [PLAIN, BOTH], ids=["host", "both"])
@pytest.mark.parametrize(
    "promise",
    [each for each in PROMISES if each not in (*IN_EVERY_CASE, a_place_passes_to_another_member)],
    ids=lambda promise: promise.__name__,
)
@every_algorithm
def test_a_promise(members, algorithm, case, promise, tmp_path):
    promise(members(algorithm, case), tmp_path)


@every_algorithm
def test_members_differ(members, algorithm):
    state = build_trainer(members(algorithm, BOTH)).state()
    for name in ("host.net.weights", "agent.net.weights", "fused_game.points"):
        assert not torch.equal(state[name][0], state[name][1])
    assert not torch.equal(state["host.net.weights"][0, :8], state["agent.net.weights"][0, :8])


@every_algorithm
def test_another_seed_gives_other_weights(members, algorithm):
    """seeds.md B12; that the same one gives the same is among the promises."""
    first, other = build_trainer(members(algorithm)), build_trainer(members(algorithm, seed=99))
    first.train(4)
    other.train(4)
    difference = other.state()["host.net.weights"] - first.state()["host.net.weights"]
    assert (difference.abs().amax(dim=1) > 1e-3).all()


CONTINUE = """
import json, sys
from pathlib import Path
import numba, torch
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import read_config

numba.get_num_threads()
torch.set_num_threads(1)
for case in json.loads(sys.stdin.read()):
    folder = Path(case["folder"])
    trainer = build_trainer([read_config(config, source="test") for config in case["configs"]])
    for member in range(trainer.num_members):
        trainer.load(folder / str(member) / "step-000000003", member)
    trainer.train(3)
    for member in range(trainer.num_members):
        trainer.save(folder / str(member), member)
"""


@pytest.mark.slow
@every_algorithm
def test_training_goes_on_bitwise_in_a_new_process(members, algorithm, tmp_path):
    """Weights, optimizer, schedules, games, random numbers and replay buffer."""
    jobs, whole = [], {}
    for name, (algorithms, case) in CASES.items():
        if algorithm not in algorithms.split():
            continue
        configs, folder = members(algorithm, case), tmp_path / name
        trainer = build_trainer(configs)
        trainer.train(3)
        for member in range(3):
            trainer.save(folder / str(member), member)
        trainer.train(3)
        whole[folder] = trainer.state()
        jobs.append({"folder": str(folder), "configs": [to_plain(c) for c in configs]})
    command = [sys.executable, "-c", CONTINUE]
    subprocess.run(command, input=json.dumps(jobs), text=True, check=True)
    for folder, state in whole.items():
        for member in range(3):
            saved = checkpoint.load(folder / str(member) / "step-000000006")
            assert saved.step == 6
            assert_same({k: v[member] for k, v in state.items()}, saved.tensors)


@every_algorithm
def test_loading_one_member_leaves_the_others_alone(members, algorithm, tmp_path):
    trainer = build_trainer(members(algorithm))
    trainer.train(2)
    saved = state_of(trainer)
    path = trainer.save(tmp_path, 1)
    trainer.train(2)
    moved = state_of(trainer)
    trainer.load(path, 1)
    assert_same({k: v[1] for k, v in trainer.state().items()}, {k: v[1] for k, v in saved.items()})
    for p in (0, 2):
        mine = {name: tensor[p] for name, tensor in trainer.state().items()}
        assert_same(mine, {name: tensor[p] for name, tensor in moved.items()})
    assert trainer.step.tolist() == [4, 2, 4]


@every_algorithm
def test_a_checkpoint_of_another_configuration_is_refused(members, algorithm, tmp_path):
    trainer = build_trainer(members(algorithm))
    path = trainer.save(tmp_path, 0)
    before = state_of(trainer)
    with pytest.raises(ConflictError, match="another configuration"):
        trainer.load(path, 1)
    (path / "state.json").unlink()
    with pytest.raises(CorruptError):
        trainer.load(path, 0)
    assert_same(before, trainer.state())


def test_without_its_buffer_a_checkpoint_is_smaller_and_loads(members, tmp_path):
    algorithm = "dqn"
    options = {"replay_buffer.save": False, "replay_buffer.buffer_size": 4000}
    trainer = build_trainer(members(algorithm, **options))
    trainer.train(2)
    path = trainer.save(tmp_path, 0)
    assert sum(file.stat().st_size for file in Path(path).iterdir()) < 50_000
    fresh = build_trainer(members(algorithm, **options))
    fresh.load(path, 0)
    assert torch.equal(fresh.host_net.weights[0], trainer.host_net.weights[0])
    fresh.train(1)
    assert fresh.is_finite() == [True] * 3


@every_algorithm
def test_a_place_passes_to_no_other_shape(members, algorithm):
    trainer, other = build_trainer(members(algorithm)), members(algorithm, max_steps=7)[0]
    with pytest.raises(ValueError, match="shares every field but per-member ones"):
        trainer.begin(0, other)


@every_algorithm
def test_a_copy_is_equal_and_has_memory_of_its_own(members, algorithm):
    trainer = build_trainer(members(algorithm, BOTH))
    trainer.train(2)
    copied, before = trainer.copy(), state_of(trainer)
    assert_same(before, copied.state())
    copied.train(2)
    assert_same(before, trainer.state())
    trainer.train(2)
    assert_same(trainer.state(), copied.state())


@every_algorithm
def test_a_member_may_take_over_anothers_state(members, algorithm):
    """The exploit of population-based training: the weights of one, the numbers of the other."""
    trainer = build_trainer(members(algorithm))
    trainer.train(3)
    names = [name for name in trainer.state() if ".net." in name or ".optimizer." in name]
    trainer.load_member(0, {name: trainer.state()[name][2].clone() for name in names})
    assert torch.equal(trainer.host_net.weights[0], trainer.host_net.weights[2])
    trainer.train(1)
    assert not torch.equal(trainer.host_net.weights[0], trainer.host_net.weights[2])


@every_algorithm
def test_a_state_that_does_not_fit_is_refused(members, algorithm):
    trainer = build_trainer(members(algorithm))
    for state in ({"host.net.weights": torch.zeros(3)}, {"host.net.waits": torch.zeros(3)}):
        with pytest.raises(ValueError, match=next(iter(state))):
            trainer.load_member(0, state)


@every_algorithm
def test_what_is_seen_follows_the_games_that_are_loaded(members, algorithm):
    trainer = build_trainer(members(algorithm))
    early = {name: tensor[1].clone() for name, tensor in trainer.state().items()}
    trainer.train(5)
    game = trainer.fused_game
    assert torch.equal(game.observation, game.observe())
    trainer.load_member(1, early)
    assert torch.equal(game.observation, game.observe())


@every_algorithm
def test_members_of_two_shapes_are_refused(tiny_config, algorithm):
    config, other = tiny_config({}, algorithm), tiny_config({"host.net_arch": [9]}, algorithm)
    with pytest.raises(ValueError, match="share every field"):
        build_trainer([config, other])


@every_algorithm
def test_a_scripted_role_has_no_network(members, algorithm):
    trainer = build_trainer(members(algorithm))
    with pytest.raises(ValueError, match="scripted player"):
        _ = trainer.agent_net


def test_every_algorithm_has_a_configuration():
    hints = [get_type_hints(config)["algorithm"] for config in own_options(get_args(TrainerConfig))]
    assert list(TRAINERS) == [get_args(hint)[0] for hint in hints]

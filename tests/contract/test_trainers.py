"""What every training algorithm promises. A new name in TRAINERS is tested here.

tests/conftest.py holds a small complete configuration of each.
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
from hpsearch.schema import to_plain
from hpsearch.trainers import checkpoint
from hpsearch.trainers.algorithms import TRAINERS, build
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


def assert_same(state, other, exact=True) -> None:
    assert state.keys() == other.keys()
    for name, tensor in state.items():
        if exact or not tensor.is_floating_point():
            assert torch.equal(tensor, other[name]), name
        else:
            torch.testing.assert_close(tensor, other[name], rtol=1e-3, atol=1e-4, msg=name)


def snapshot(trainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.state().items()}


@cases
def test_a_member_of_a_population_is_the_member_trained_alone(members, algorithm, case):
    configs = members(algorithm, case)
    population = build(configs)
    first = snapshot(population)
    population.train(6)
    together = population.state()
    for p, config in enumerate(configs):
        alone = build([config])
        assert_same(
            {k: v[p] for k, v in first.items()}, {k: v[0] for k, v in alone.state().items()}
        )
        alone.train(6)
        mine = {name: tensor[p] for name, tensor in together.items()}
        assert_same(mine, {name: tensor[0] for name, tensor in alone.state().items()}, exact=False)


@every_algorithm
def test_members_differ(members, algorithm):
    state = build(members(algorithm, BOTH)).state()
    for name in ("host.net.weights", "agent.net.weights", "fused_game.points"):
        assert not torch.equal(state[name][0], state[name][1])
    assert not torch.equal(state["host.net.weights"][0, :8], state["agent.net.weights"][0, :8])


@every_algorithm
def test_the_same_seed_gives_the_same_weights_and_another_seed_others(members, algorithm):
    """seeds.md B12; whatever has been drawn from torch's own generator in between."""
    first, again = build(members(algorithm)), build(members(algorithm))
    first.train(4)
    torch.rand(7)
    again.train(4)
    assert_same(first.state(), again.state())
    other = build(members(algorithm, seed=99))
    other.train(4)
    difference = other.state()["host.net.weights"] - first.state()["host.net.weights"]
    assert (difference.abs().amax(dim=1) > 1e-3).all()


@every_algorithm
def test_steps_may_be_made_in_any_portions(members, algorithm):
    whole, parts = build(members(algorithm)), build(members(algorithm))
    whole.train(6)
    for steps in (1, 0, 3, 2):
        parts.train(steps)
    assert_same(whole.state(), parts.state())
    assert whole.step.tolist() == [6, 6, 6]


CONTINUE = """
import json, sys
from pathlib import Path
import numba, torch
from hpsearch.trainers.algorithms import build
from hpsearch.trainers.config import read_config

numba.get_num_threads()
torch.set_num_threads(1)
for case in json.loads(sys.stdin.read()):
    folder = Path(case["folder"])
    trainer = build([read_config(config, source="test") for config in case["configs"]])
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
        trainer = build(configs)
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
def test_saving_changes_nothing(members, algorithm, tmp_path):
    trainer = build(members(algorithm))
    trainer.train(2)
    before = snapshot(trainer)
    trainer.save(tmp_path, 1)
    trainer.evaluate_rho(num_games=5, split="test")
    assert_same(before, trainer.state())


@every_algorithm
def test_loading_one_member_leaves_the_others_alone(members, algorithm, tmp_path):
    trainer = build(members(algorithm))
    trainer.train(2)
    saved = snapshot(trainer)
    path = trainer.save(tmp_path, 1)
    trainer.train(2)
    moved = snapshot(trainer)
    trainer.load(path, 1)
    assert_same({k: v[1] for k, v in trainer.state().items()}, {k: v[1] for k, v in saved.items()})
    for p in (0, 2):
        mine = {name: tensor[p] for name, tensor in trainer.state().items()}
        assert_same(mine, {name: tensor[p] for name, tensor in moved.items()})
    assert trainer.step.tolist() == [4, 2, 4]


@every_algorithm
def test_a_checkpoint_of_another_configuration_is_refused(members, algorithm, tmp_path):
    trainer = build(members(algorithm))
    path = trainer.save(tmp_path, 0)
    before = snapshot(trainer)
    with pytest.raises(ConflictError, match="another configuration"):
        trainer.load(path, 1)
    (path / "state.json").unlink()
    with pytest.raises(CorruptError):
        trainer.load(path, 0)
    assert_same(before, trainer.state())


def test_without_its_buffer_a_checkpoint_is_smaller_and_loads(members, tmp_path):
    algorithm = "dqn"
    options = {"replay_buffer.save": False, "replay_buffer.buffer_size": 4000}
    trainer = build(members(algorithm, **options))
    trainer.train(2)
    path = trainer.save(tmp_path, 0)
    assert sum(file.stat().st_size for file in Path(path).iterdir()) < 50_000
    fresh = build(members(algorithm, **options))
    fresh.load(path, 0)
    assert torch.equal(fresh.host_net.weights[0], trainer.host_net.weights[0])
    fresh.train(1)
    assert fresh.is_finite() == [True] * 3


@cases
def test_select_goes_on_as_if_nothing_had_happened(members, algorithm, case):
    trainer = build(members(algorithm, case))
    trainer.train(3)
    selected = trainer.select([2, 0])
    assert selected.configs == (trainer.configs[2], trainer.configs[0])
    trainer.train(3)
    selected.train(3)
    chosen = {name: tensor[[2, 0]] for name, tensor in trainer.state().items()}
    assert_same(chosen, selected.state(), exact=False)


@few_cases
def test_a_members_place_passes_to_another(members, algorithm, case):
    """The new one trains as it would alone, and the others notice nothing."""
    first, other, last = members(algorithm, case)
    undisturbed, trainer = build([first, first, last]), build([first, first, last])
    for run in (undisturbed, trainer):
        run.train(3)
    trainer.begin(1, other)
    assert trainer.configs == (first, other, last)
    alone = build([other])
    for run in (undisturbed, trainer, alone):
        run.train(5)
    state = trainer.state()
    mine = {name: tensor[1] for name, tensor in state.items()}
    assert_same(mine, {name: tensor[0] for name, tensor in alone.state().items()}, exact=False)
    for p in (0, 2):
        assert_same(
            {name: tensor[p] for name, tensor in state.items()},
            {name: tensor[p] for name, tensor in undisturbed.state().items()},
        )


@every_algorithm
def test_a_place_passes_to_no_other_shape(members, algorithm):
    trainer, other = build(members(algorithm)), members(algorithm, max_steps=7)[0]
    with pytest.raises(ValueError, match="shares every field but per-member ones"):
        trainer.begin(0, other)


@every_algorithm
def test_a_copy_is_equal_and_has_memory_of_its_own(members, algorithm):
    trainer = build(members(algorithm, BOTH))
    trainer.train(2)
    copied, before = trainer.copy(), snapshot(trainer)
    assert_same(before, copied.state())
    copied.train(2)
    assert_same(before, trainer.state())
    trainer.train(2)
    assert_same(trainer.state(), copied.state())


@every_algorithm
def test_a_member_may_take_over_anothers_state(members, algorithm):
    """The exploit of population-based training: the weights of one, the numbers of the other."""
    trainer = build(members(algorithm))
    trainer.train(3)
    names = [name for name in trainer.state() if ".net." in name or ".optimizer." in name]
    trainer.load_member(0, {name: trainer.state()[name][2].clone() for name in names})
    assert torch.equal(trainer.host_net.weights[0], trainer.host_net.weights[2])
    trainer.train(1)
    assert not torch.equal(trainer.host_net.weights[0], trainer.host_net.weights[2])


@every_algorithm
def test_a_state_that_does_not_fit_is_refused(members, algorithm):
    trainer = build(members(algorithm))
    for state in ({"host.net.weights": torch.zeros(3)}, {"host.net.waits": torch.zeros(3)}):
        with pytest.raises(ValueError, match=next(iter(state))):
            trainer.load_member(0, state)


@every_algorithm
def test_what_is_seen_follows_the_games_that_are_loaded(members, algorithm):
    trainer = build(members(algorithm))
    early = {name: tensor[1].clone() for name, tensor in trainer.state().items()}
    trainer.train(5)
    game = trainer.fused_game
    assert torch.equal(game.observation, game.observe())
    trainer.load_member(1, early)
    assert torch.equal(game.observation, game.observe())


@cases
def test_no_illegal_move_is_played(members, algorithm, case):
    trainer = build(members(algorithm, case))
    step, moves = trainer.fused_game.step, []

    def watched(host_action, agent_axis):
        moves.append((host_action.clone(), agent_axis.clone()))
        return step(host_action, agent_axis)

    trainer.fused_game.step = watched
    trainer.train(5)
    subsets = ((0, 1), (0, 2), (1, 2), (0, 1, 2))
    for actions, axes in moves:
        pairs = zip(actions.flatten().tolist(), axes.flatten().tolist(), strict=True)
        assert all(axis in subsets[action] for action, axis in pairs)
    assert len(moves) >= 5


@every_algorithm
def test_members_of_two_shapes_are_refused(tiny_config, algorithm):
    config, other = tiny_config({}, algorithm), tiny_config({"host.net_arch": [9]}, algorithm)
    with pytest.raises(ValueError, match="share every field"):
        build([config, other])


@every_algorithm
def test_a_scripted_role_has_no_network(members, algorithm):
    trainer = build(members(algorithm))
    with pytest.raises(ValueError, match="scripted player"):
        _ = trainer.agent_net


@every_algorithm
def test_a_member_that_diverges_is_known_and_harms_itself_alone(members, algorithm):
    configs = members(algorithm, BOTH)
    trainer, healthy = build(configs), build(configs)
    for learner in trainer.learners:
        learner.net.weights[1] = float("inf")
    trainer.train(4)
    healthy.train(4)
    assert trainer.is_finite() == [True, False, True]
    for p in (0, 2):
        mine = {name: tensor[p] for name, tensor in trainer.state().items()}
        assert_same(mine, {name: tensor[p] for name, tensor in healthy.state().items()})


def test_every_algorithm_has_a_configuration():
    hints = [get_type_hints(config)["algorithm"] for config in get_args(TrainerConfig)]
    assert list(TRAINERS) == [get_args(hint)[0] for hint in hints]

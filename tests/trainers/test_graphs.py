"""Recorded steps against steps made one launch after another.

On a machine without a GPU a tape takes the part of CUDA graphs, see tests/tape.py.
"""

from types import SimpleNamespace

import pytest
import torch
from tape import TapeRecorder

from hpsearch.game.kernels import BACKENDS, cpu
from hpsearch.game.rules import HostActionEncoder
from hpsearch.trainers import graphs, optim, playing, trainer
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.graphs import SWITCH, WARM_UPS, Graphs, recorder_of

POOL = {
    "size": 3,
    "at_once": 2,
    "choice": {"mode": "prioritised", "power": 1.0},
    "sync": {"mode": "dynamic", "interval": 2, "margin": 0.1},
    "max_staleness": 4,
}
PRIORITIES = {"alpha": 0.6, "beta": 0.4, "beta_steps": 8, "eps": 1e-3}
BOTH = {"agent": "learn"}
LISTED = [
    {"player": "random", "weight": 1.0},
    {"player": "learner", "weight": 1.0},
    {"snapshots": POOL, "weight": 2.0},
]
CASES = {
    "a host": ("dqn", {}),
    "both": ("dqn", BOTH),
    "priorities and n-step": ("dqn", {"replay_buffer.prioritised": PRIORITIES, "dqn.n_step": 3}),
    "minimax and dueling": ("dqn", {"dqn.minimax": True, "dqn.dueling": True}),
    "batch norm": ("dqn", {**BOTH, "host.net_arch": [8, "b"]}),
    "a pool": ("dqn", {**BOTH, "opponents": POOL}),
    "several opponents": ("dqn", {**BOTH, "opponents": LISTED}),
    "schedules": (
        "dqn",
        {
            "host.er_schedule": {"mode": "linear", "initial": 1.0, "steps": 4},
            "host.optim.lr_schedule": {"mode": "cosine", "initial": 1e-2, "steps": 6},
        },
    ),
    "a late start": ("dqn", {"learning_starts": 5, "host.steps_before_update_target": 3}),
    "policies": ("ppo", {}),
    "both policies": ("ppo", {**BOTH, "ppo.target_kl": 0.01, "ppo.recompute_advantages": True}),
    "policies and several opponents": ("ppo", {**BOTH, "opponents": LISTED}),
    "policies and a pool": ("ppo", {**BOTH, "opponents": POOL}),
}
STEPS = 7


@pytest.fixture
def on_tape(monkeypatch):
    """Let steps be recorded on the CPU; return what says how many recordings there are."""
    recorder = TapeRecorder()
    compiled = SimpleNamespace(**{name: recorder.kernel(vars(cpu)[name]) for name in cpu.__all__})
    monkeypatch.setitem(BACKENDS, "cpu", compiled)
    monkeypatch.setitem(optim.PASSES, "cpu", recorder.kernel(optim.PASSES["cpu"]))
    # What learners compute as on a GPU.
    monkeypatch.setattr(graphs, "default_backend", lambda device: "reference")
    monkeypatch.setattr(HostActionEncoder, "decode", recorder.kernel(HostActionEncoder.decode))
    for module in (trainer, playing):
        monkeypatch.setattr(module, "recorder_of", lambda device: recorder)
    return lambda: recorder.num_recorded


def members(tiny_config, case):
    algorithm, changes = CASES[case]
    return [tiny_config({**changes, "seed": seed}, algorithm) for seed in (1, 2)]


def recorded_and_plain(configs, monkeypatch):
    """Return two trainers, of which only the first has a recorder."""
    recorded = build_trainer(configs)
    with monkeypatch.context() as patch:
        patch.setattr(trainer, "recorder_of", lambda device: None)
        return recorded, build_trainer(configs)


@pytest.mark.parametrize("case", CASES)
def test_recorded_steps_are_the_steps_themselves(tiny_config, monkeypatch, on_tape, case):
    recorded, plain = recorded_and_plain(members(tiny_config, case), monkeypatch)
    for _ in range(STEPS):
        recorded.train(1)
        plain.train(1)
        assert_same(recorded.state(), plain.state())
        assert_same(recorded.statistics(), plain.statistics())
    assert on_tape() == 2  # rollout and update


def assert_same(tensors, expected) -> None:
    assert tensors.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(tensors[name], tensor, rtol=0, atol=0, equal_nan=True, msg=name)


@pytest.mark.parametrize("case", ["both", "both policies"])
def test_whatever_changes_between_two_steps_is_heeded(tiny_config, monkeypatch, on_tape, case):
    """A member's place passes to another, networks are replaced, roles stop learning."""
    configs = members(tiny_config, case)
    recorded, plain = pair = recorded_and_plain(configs, monkeypatch)
    algorithm, changes = CASES[case]
    faster = {"host.optim.args.lr": 3e-2, "host.gamma": 0.5}
    other = tiny_config({**changes, **faster, "seed": 9}, algorithm)
    start = {name: tensor[0].clone() for name, tensor in plain.state().items()}
    for twin in pair:
        twin.train(WARM_UPS + 2)
        twin.begin(1, other)
        twin.train(1)
        twin.set_trainable(["agent"])
        twin.train(1)
        twin.load_member(0, start)
        twin.set_trainable(["agent", "host"])
        twin.replace_nets(host=twin.host_net.like(2))
        twin.train(2)
    assert_same(recorded.state(), plain.state())
    assert on_tape() == 2  # nothing was recorded anew


def test_another_reward_is_recorded_anew(tiny_config, monkeypatch, on_tape):
    recorded, plain = pair = recorded_and_plain(members(tiny_config, "both"), monkeypatch)
    for twin in pair:
        twin.train(WARM_UPS + 1)
        twin.replace_reward_func("step_penalty")
        twin.train(WARM_UPS + 2)
    assert_same(recorded.state(), plain.state())
    assert on_tape() == 4


@pytest.mark.parametrize("case", ["both", "both policies"])
def test_recorded_evaluations_are_the_evaluations_themselves(
    tiny_config, monkeypatch, on_tape, case
):
    recorded = build_trainer(members(tiny_config, case))
    recorded.train(2)
    # A CPU looks which games are over; a GPU does not.
    monkeypatch.setattr(playing._Games, "leave_out_stopped", lambda games: True)
    evaluations = recorded.evaluate(num_games=20, split="evaluation")
    num_matches = sum(map(len, recorded.config.measured_against().values()))
    assert on_tape() == num_matches
    monkeypatch.undo()
    texts = [sample.markdown() for samples in recorded.samples for sample in samples]
    assert evaluations == recorded.evaluate(num_games=20, split="evaluation")
    again = [sample.markdown() for samples in recorded.samples for sample in samples]
    assert texts == again != []


def test_who_looks_for_anomalies_makes_every_launch(tiny_config, on_tape):
    build_trainer([tiny_config({"detect_anomaly": True})]).train(WARM_UPS + 2)
    assert on_tape() == 0


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES)
def test_graphs_of_a_gpu_are_the_steps_themselves(tiny_config, monkeypatch, case):
    algorithm, changes = CASES[case]
    configs = [
        tiny_config({**changes, "device": "cuda", "seed": seed}, algorithm) for seed in (1, 2)
    ]
    recorded, plain = recorded_and_plain(configs, monkeypatch)
    for twin in (recorded, plain):
        twin.train(STEPS)
    for name, tensor in plain.state().items():
        # A recorded product may be computed by another routine, which rounds otherwise.
        torch.testing.assert_close(recorded.state()[name], tensor, rtol=1e-3, atol=1e-4, msg=name)
    assert recorded._graphs._replays.keys() == {"rollout", "update"}


# Graphs by themselves, and the tape.


class Counting:
    """A recorder that keeps what it is asked for."""

    def __init__(self):
        self.asked = []

    def warm_up(self, function):
        self.asked.append("warm up")
        function()

    def record(self, function):
        self.asked.append("record")
        return lambda: self.asked.append("replay")


def test_a_function_is_called_then_recorded_then_replayed():
    recorder, calls = Counting(), []
    graphs = Graphs(recorder)
    for _ in range(WARM_UPS + 3):
        graphs.run("a", lambda: calls.append(1))
    assert len(calls) == WARM_UPS
    assert recorder.asked == ["warm up"] * WARM_UPS + ["record"] + ["replay"] * 3
    graphs.forget()
    graphs.run("a", lambda: calls.append(1))
    assert recorder.asked[-1] == "warm up"


def test_without_a_recorder_functions_are_called():
    calls = []
    graphs = Graphs(None)
    for _ in range(5):
        graphs.run("a", lambda: calls.append(1))
    assert len(calls) == 5


def test_only_a_gpu_records_and_only_if_all_can(monkeypatch):
    monkeypatch.delenv(SWITCH, raising=False)
    assert recorder_of(torch.device("cpu")) is None
    assert recorder_of(torch.device("cuda")) is not None
    monkeypatch.setenv(SWITCH, "1")
    assert recorder_of(torch.device("cuda")) is None


def test_the_tape_notices_what_a_graph_would_not_do_again():
    """A number that Python knows, a tensor that Python swaps."""
    tensor, count = torch.zeros(3), 0

    def add():
        nonlocal count
        count += 1
        tensor.add_(count)

    replay = TapeRecorder().record(add)
    assert tensor.tolist() == [0.0] * 3  # nothing is done while recording
    replay()
    replay()
    assert tensor.tolist() == [2.0] * 3  # and not 1 + 2


@pytest.mark.parametrize(
    "function",
    [
        lambda tensor: tensor.sum().item(),
        lambda tensor: tensor[tensor > 0],
        lambda tensor: bool(tensor.any()),
        lambda tensor: tensor.add_(torch.tensor([1.0, 2.0])),
    ],
)
def test_the_tape_refuses_what_would_make_a_gpu_wait(function):
    tensor = torch.ones(2)
    with pytest.raises(AssertionError, match="would make a GPU wait"):
        TapeRecorder().record(lambda: function(tensor))

"""The faults of the systems we descend from (seeds.md, section 7), and that none is here.

FAULTS has a row for each that concerns a trainer: what was wrong, and the tests that say that it
is not so here. Those whose names begin with the fault's stand below.
"""

import re
import traceback
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config.net_arch import parse
from hpsearch.trainers.policies import Position, Turn

ALGORITHMS = pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
TESTS = Path(__file__).parents[1]

FAULTS = {
    "B1": (
        "agents explore outside the host's subset",
        "test_players_that_always_explore_stay_legal",
    ),
    "B2": (
        "targets take axes outside the subset",
        "test_an_axis_outside_the_subset_never_backs_up",
    ),
    "B3": (
        "the next subset is drawn at the agent's rate",
        "test_the_agents_next_subset_is_the_one_it_will_meet",
    ),
    "B4": (
        "schedules stand still inside train()",
        "test_schedules_move_inside_one_call_of_train",
    ),
    "B5": (
        "an agent alone has no schedule",
        "test_b5_an_agent_that_learns_alone_has_its_schedule",
    ),
    "B6": (
        "padding looks like the origin; two linear layers in a row",
        "test_padding_differs_from_a_point_at_the_origin",
        "test_b6_an_activation_between_any_two_linear_layers",
    ),
    "B7": (
        "'double' is plain Q-learning",
        "test_target_by_hand",
        "test_double_and_single_disagree_somewhere",
    ),
    "B8": (
        "target nets use the batch's statistics",
        "test_target_nets_use_running_statistics_and_leave_them_alone",
    ),
    "B9": (
        "a rate of 0 explores now and then",
        "test_without_exploration_a_host_is_exactly_greedy",
        "test_b9_a_rate_of_zero_never_explores",
    ),
    "B10": (
        "the host looks at the device all the time",
        "test_b10_no_step_looks_at_a_tensor",
        "test_b10_no_step_waits_for_the_device",
    ),
    "B11": (
        "checkpoints lack half of the state",
        "test_training_goes_on_bitwise_in_a_new_process",
    ),
    "B12": (
        "nothing is seeded",
        "test_a_promise",
        "test_another_seed_gives_other_weights",
    ),
    "B13": (
        "the buffer lies elsewhere; it must be more than full",
        "test_b13_a_buffer_of_one_moves_size_is_enough",
    ),
    "B14": (
        "replaced nets keep old target nets and buffers",
        "test_other_nets_bring_their_target_net_and_an_empty_memory",
    ),
    "B15": (
        "rollouts use stale copies of the weights",
        "test_b15_the_policy_plays_by_the_weights_as_they_are_now",
    ),
    "B16": (
        "losses pile up; statistics of one weight are NaN",
        "test_b16_statistics_are_finite_and_do_not_pile_up",
    ),
    "B18": (
        "the state is rescaled in floats",
        "test_b18_positions_stay_whole_numbers",
    ),
    "B19": (
        "observations depend on the order of points",
        "test_order_of_the_input_does_not_matter",
    ),
    "B20": (
        "rho without intervals, on changing starts",
        "test_the_interval_covers_the_truth_95_times_in_100",
        "test_a_split_is_a_fixed_set_of_starts",
    ),
    "B21": (
        "two random hosts, two ranges of coordinates",
        "test_coordinates_are_uniform",
    ),
    "B30": (
        "a checkpoint is written under one name, read under another",
        "test_training_goes_on_bitwise_in_a_new_process",
    ),
    "B31": (
        "optimizers and counters are not saved",
        "test_b31_optimizers_and_counters_are_saved",
    ),
    "B33": (
        "advantages leak over resets",
        "test_the_next_game_says_nothing_about_this_one",
        "test_a_truncated_game_is_worth_what_its_last_position_is",
    ),
    "B34": (
        "minibatches must divide the moves",
        "test_every_pass_goes_over_every_move_once",
    ),
    "B35": (
        "the loss is multiplied by the priority",
        "test_the_loss_is_multiplied_by_the_weight_and_not_by_the_priority",
    ),
    "B40": (
        "no normalised advantages, entropy bonus, KL stop",
        "test_an_updates_loss_and_gradient",
        "test_a_step_stops_for_exactly_the_members_that_went_too_far",
    ),
    "B46": (
        "the old checkpoint goes before the new one is there",
        "test_a_whole_checkpoint_of_the_same_step_is_kept",
        "test_a_disk_that_is_full_leaves_the_older_checkpoint_and_no_rubbish",
    ),
    "B47": (
        "every episode begins alike, in all workers",
        "test_b47_every_game_of_every_member_begins_elsewhere",
    ),
    "B48": (
        "states of schedules and random numbers are not saved",
        "test_b48_random_numbers_go_on_where_they_were",
    ),
}


@ALGORITHMS
def test_b5_an_agent_that_learns_alone_has_its_schedule(tiny_config, algorithm):
    """Linear from 1e-2 to 1e-3 in 6 steps, as tests/conftest.py has it."""
    roles = {"agent": "learn", "host": {"player": "random"}}
    trainer = build_trainer([tiny_config(roles, algorithm)])
    rates = []
    for _ in range(7):
        trainer.train(1)
        rates.append(trainer.statistics()["agent/lr"].item())
    assert rates == pytest.approx([1e-2, 8.5e-3, 7e-3, 5.5e-3, 4e-3, 2.5e-3, 1e-3])


def test_b6_an_activation_between_any_two_linear_layers(tiny_config):
    """A net of two layers is no linear map: it bends."""
    assert len(parse([8, 8])) == 2
    trainer = build_trainer([tiny_config({"host.net_arch": [8, 8]})])
    ends = torch.randn(1, 2, 12, generator=torch.Generator().manual_seed(1))
    middle = trainer.host_net(ends.mean(dim=1, keepdim=True))
    assert (middle - trainer.host_net(ends).mean(dim=1, keepdim=True)).abs().max() > 1e-3


def test_b9_a_rate_of_zero_never_explores(tiny_config):
    """Not even where the noise is exactly 0."""
    trainer = build_trainer([tiny_config()])
    num_games = trainer.fused_game.num_games
    position = Position.of(trainer.fused_game.points)
    noise = torch.zeros(1, num_games, 2)
    noise[..., 1] = torch.linspace(0, 0.99, num_games)
    greedy = trainer.host_net(trainer.fused_game.observe()).argmax(dim=2)
    assert torch.equal(trainer.host_policy(Turn(position, None, noise, torch.zeros(1, 1))), greedy)
    always = trainer.host_policy(Turn(position, None, noise, torch.full((1, 1), 2.0**-24)))
    assert not torch.equal(always, greedy)


class NoLooks(TorchDispatchMode):
    """Fails where code of the trainers reads a tensor's value or makes shapes depend on one."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket in LOOKS:
            check_caller(str(func))
        return func(*args, **(kwargs or {}))


def check_caller(what: str) -> None:
    frames = [f.filename for f in traceback.extract_stack() if "/hpsearch/" in f.filename]
    # The game's kernels check their input where it costs nothing, on the CPU.
    assert "/hpsearch/game/" in frames[-1], f"{what} in {frames[-1]}"


LOOKS = {
    torch.ops.aten._local_scalar_dense,
    torch.ops.aten.nonzero,
    torch.ops.aten.masked_select,
    torch.ops.aten.equal,
    torch.ops.aten.is_nonzero,
}
POOL = {
    "size": 2,
    "at_once": 2,
    "choice": {"mode": "prioritised", "power": 1.0},
    "sync": {"mode": "dynamic", "interval": 1, "margin": 0.1},
    "max_staleness": 2,
}
WAYS = {
    "host": ("dqn ppo", {}),
    "both": ("dqn ppo", {"agent": "learn", "host.net_arch": ["b", 8]}),
    "pool": ("dqn ppo", {"agent": "learn", "opponents": POOL}),
    "minimax": ("dqn", {"dqn.minimax": True}),
    "prioritised": (
        "dqn",
        {
            "dqn.n_step": 3,
            "replay_buffer.prioritised": {"alpha": 0.5, "beta": 0.5, "beta_steps": 4, "eps": 0.1},
        },
    ),
    "KL stop": ("ppo", {"ppo.target_kl": 1e-4}),
}
ways = pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        pytest.param(algorithm, changes, id=f"{algorithm}: {way}")
        for way, (algorithms, changes) in WAYS.items()
        for algorithm in algorithms.split()
    ],
)


@pytest.fixture
def no_lists(monkeypatch):
    """Let lists be forbidden as well: torch makes them without a dispatch."""
    inner = torch.Tensor.tolist

    def tolist(tensor):
        check_caller("tolist")
        return inner(tensor)

    monkeypatch.setattr(torch.Tensor, "tolist", tolist)


@ways
@pytest.mark.usefixtures("no_lists")
def test_b10_no_step_looks_at_a_tensor(tiny_config, algorithm, changes):
    trainer = build_trainer([tiny_config(changes, algorithm)])
    with NoLooks():
        trainer.train(3)


@pytest.mark.usefixtures("no_lists")
def test_b10_a_look_would_be_noticed(tiny_config, tmp_path):
    trainer = build_trainer([tiny_config({})])
    with NoLooks(), pytest.raises(AssertionError, match="_local_scalar_dense"):
        trainer.save(tmp_path, 0)
    with NoLooks(), pytest.raises(AssertionError, match="tolist"):
        trainer.is_finite()


@pytest.mark.gpu
@ways
def test_b10_no_step_waits_for_the_device(tiny_config, algorithm, changes):
    trainer = build_trainer([tiny_config({**changes, "device": "cuda"}, algorithm)])
    trainer.train(3)  # whatever is compiled or looked up once
    torch.cuda.synchronize()
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        trainer.train(3)
    finally:
        torch.cuda.set_sync_debug_mode(before)


def test_b13_a_buffer_of_one_moves_size_is_enough(tiny_config):
    trainer = build_trainer([tiny_config({"replay_buffer.buffer_size": 8, "learning_starts": 0})])
    before = trainer.host_net.weights.clone()
    trainer.train(1)
    assert not torch.equal(trainer.host_net.weights, before)
    tensors = trainer.host_replay_buffer.state().values()
    assert {tensor.device for tensor in tensors} == {trainer.device}


@ALGORITHMS
@pytest.mark.parametrize("pool", [False, True])
def test_b15_the_policy_plays_by_the_weights_as_they_are_now(tiny_config, algorithm, pool):
    options = {
        "size": 2,
        "at_once": 1,
        "choice": {"mode": "uniform"},
        "sync": {"mode": "fixed", "interval": 5},
        "max_staleness": 5,
    }
    changes = {"agent": "learn", "opponents": options if pool else None}
    constant = {"mode": "constant"}
    if algorithm == "dqn":
        changes |= {"host.er": 0.0, "host.er_schedule": constant}
    trainer = build_trainer([tiny_config(changes, algorithm)])
    trainer.train(2)
    last = "0.1.bias" if algorithm == "ppo" else "1.bias"
    for favourite in (0, 3, 1):
        bias = trainer.host_net.parts(trainer.host_net.weights)[last]
        bias[:] = 0.0
        bias[:, 0, favourite] = 1e4
        played = next(trainer.rollouts.play(1, looks_ahead=True))[0]
        assert (played.action == favourite).all()


@ALGORITHMS
def test_b16_statistics_are_finite_and_do_not_pile_up(tiny_config, algorithm):
    changes = {"agent": "learn", "host.net_arch": [1], "agent.net_arch": [1]}
    trainer = build_trainer([tiny_config({**changes, "seed": seed}, algorithm) for seed in (1, 2)])
    trainer.train(2)
    names = set(trainer.statistics())
    trainer.train(2)
    assert set(trainer.statistics()) == names
    for name, value in trainer.statistics().items():
        assert value.shape == (2,)
        assert value.isfinite().all(), name
        assert not value.requires_grad, name


@ALGORITHMS
def test_b18_positions_stay_whole_numbers(tiny_config, algorithm):
    """Whatever the network sees is scaled; the game is not."""
    trainer = build_trainer([tiny_config({"agent": "learn", "reposition": False}, algorithm)])
    for _ in range(5):
        for seen in next(trainer.rollouts.play(1, looks_ahead=True)):
            assert seen.points.dtype == seen.next_points.dtype == torch.int32
            sums = [{tuple(row) for row in seen.points[0, game].tolist()} for game in range(8)]
            assert all(len(rows) > 1 for rows in sums)
    assert trainer.fused_game.points.dtype == torch.int32


@ALGORITHMS
def test_b31_optimizers_and_counters_are_saved(tiny_config, algorithm):
    names = set(build_trainer([tiny_config({"agent": "learn"}, algorithm)]).saved_state())
    for role in ("host", "agent"):
        assert {f"{role}.optimizer.{part}" for part in ("mean", "square", "updates")} <= names
        assert {f"{role}.net.weights", f"{role}.net.statistics", f"{role}.trainable"} <= names
    assert {"step", "fused_game.points", "fused_game.lengths", "fused_game.starts"} <= names


@ALGORITHMS
def test_b47_every_game_of_every_member_begins_elsewhere(tiny_config, algorithm):
    """Lanes, members and games one after another have starts of their own."""
    changes = {"agent": "learn", "max_value": 50, "max_steps": 1}
    changes |= {"host.gamma": 0.0, "agent.gamma": 0.0}
    configs = [tiny_config({**changes, "seed": seed}, algorithm) for seed in (1, 2)]
    trainer = build_trainer(configs)
    starts = []
    for _ in range(4):
        starts += [str(start) for start in trainer.fused_game.points.flatten(0, 1).tolist()]
        next(trainer.rollouts.play(1, looks_ahead=True))
    assert len(starts) == len(set(starts)) == 4 * 2 * 16


@ALGORITHMS
def test_b48_random_numbers_go_on_where_they_were(tiny_config, algorithm, tmp_path):
    """Every stream's counter is saved; a loaded trainer draws the next numbers, not the first."""
    trainer = build_trainer([tiny_config({"agent": "learn"}, algorithm)])
    counters = {name for name in trainer.state() if name.endswith("counters")}
    own = {"dqn": "replay_buffer", "ppo": "shuffle"}[algorithm]
    expected = {"play_stream.counters"} | {f"{r}.{own}.counters" for r in ("host", "agent")}
    assert counters == expected
    trainer.train(2)
    assert all((trainer.state()[name] > 0).all() for name in counters)
    fresh = build_trainer(trainer.configs)
    fresh.load(trainer.save(tmp_path, 0), 0)
    played = (next(each.rollouts.play(1, looks_ahead=True)) for each in (trainer, fresh))
    for rollout, other in zip(*played, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(rollout, other, strict=True))


def test_every_test_that_the_table_names_exists():
    """So that a row does not outlive its test, and no fault is left out."""
    files = [path.read_text() for path in TESTS.rglob("test_*.py")]
    defined = {name for text in files for name in re.findall(r"^def (test_\w+)", text, re.M)}
    assert {test for _, *tests in FAULTS.values() for test in tests} - defined == set()
    concerned = [*range(1, 17), *range(18, 22), 30, 31, 33, 34, 35, 40, 46, 47, 48]
    assert list(FAULTS) == [f"B{number}" for number in concerned]

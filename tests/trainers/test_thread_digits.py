"""Training gives the same digits by any number of threads, also where it changes on the way."""

import math
from itertools import cycle, product

import pytest
import torch

from hpsearch.game.fused_game import FusedGame
from hpsearch.game.kernels import interface
from hpsearch.game.kernels.threads import THREADS_MAY_CHANGE, threads
from hpsearch.trainers import kernel_cache, layers_cpu, policies, products_cpu
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.layers_cpu import derive_weight
from hpsearch.trainers.networks import MANY_GAMES
from hpsearch.trainers.norms_cpu import batch_norm, derive_batch_norm
from hpsearch.trainers.ppo import normalized
from hpsearch.trainers.products_cpu import LinearViews, apply_linear, derive_biased
from hpsearch.trainers.ranks import ALONE

NUMBERS = (1, 2, 3, 16)
DEEP_SETS = {"name": "deep_sets", "widths": [40, 130], "pool": "sum"}
ATTENTION = {"name": "attention", "width": 130, "heads": 2, "blocks": 1}
NETS = {  # of odd widths, whose columns no number of threads divides
    "batch norms": {"net_arch": [150, "b", "r130"]},
    "layer norms": {"net_arch": ["l", 130, "rl50"]},
    "points": {"net_arch": [33], "encoder": DEEP_SETS},
    "attention": {"net_arch": [33], "encoder": ATTENTION},
}
ALGORITHMS = {
    "dqn": {"host.batch_size": 256, "replay_buffer.buffer_size": 512},
    "ppo": {"ppo.minibatch_size": 256, "ppo.train_epochs": 1, "host.value_net_arch": [130]},
}
SIZES = {"host.rollout_size": 32, "rollout_length": 8, "max_num_points": 8}


@pytest.fixture(autouse=True)
def may_change():
    THREADS_MAY_CHANGE.set()


def trained(config, num_members, numbers):
    """Return the state after each step has had the next number of threads."""
    trainer = build_trainer([config] * num_members)
    assert config.can_change_threads()
    for _, count in zip(range(5), cycle(numbers), strict=False):
        with threads(count):
            trainer.train(1)
    return trainer.state()


def assert_equal(states):
    for state in states[1:]:
        for name, tensor in states[0].items():
            assert torch.equal(tensor, state[name]), name


TRIED = [
    pytest.param(*case, marks=pytest.mark.slow if case[0] == "attention" else ())
    for case in product(NETS, ALGORITHMS, (1, 2), (32, MANY_GAMES))
]


@pytest.mark.parametrize(("net", "algorithm", "num_members", "num_games"), TRIED)
def test_training_is_the_same_to_the_last_digit(
    tiny_config, net, algorithm, num_members, num_games
):
    changes = {f"host.{name}": value for name, value in NETS[net].items()}
    changes |= {"host.rollout_size": num_games}
    config = tiny_config({**SIZES, **ALGORITHMS[algorithm], **changes}, algorithm)
    assert_equal([trained(config, num_members, numbers) for numbers in [(1,), NUMBERS]])


def test_a_single_member_plays_few_games_by_one_thread(tiny_config, monkeypatch):
    numbers, step = [], FusedGame.step

    def watched(*given):
        numbers.append(torch.get_num_threads())
        return step(*given)

    monkeypatch.setattr(FusedGame, "step", watched)
    with threads(2):
        for num_members, num_games in ((1, 8), (2, 8), (1, MANY_GAMES)):
            changes = {**SIZES, **ALGORITHMS["dqn"], "host.rollout_size": num_games}
            config = tiny_config(changes)
            rollouts = build_trainer([config] * num_members).rollouts
            next(rollouts.play(1, looks_ahead=False))
            assert torch.get_num_threads() == 2
    assert numbers == [1, 2, 2]


def test_so_are_the_values_of_many_games(tiny_config):
    config = tiny_config({"host.net_arch": [150, "b"], **SIZES})
    net = policies.build_net("host", config, [1], torch.device("cpu"))
    x = torch.randn(1, 300, 24, generator=torch.Generator().manual_seed(1))
    found = []
    for count in NUMBERS:
        with threads(count):
            found.append(net(x))
    assert all(torch.equal(found[0], other) for other in found[1:])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("num_members", [3, 4])
@pytest.mark.parametrize("many_rows", [1, layers_cpu.MANY_ROWS])
def test_so_is_that_of_narrow_layers_by_a_thread_for_each_member(
    tiny_config, monkeypatch, algorithm, num_members, many_rows
):
    monkeypatch.setattr(layers_cpu, "MANY_ROWS", many_rows)
    changes = {"host.net_arch": [50, 33], **SIZES, **ALGORITHMS[algorithm]}
    if algorithm == "ppo":
        changes["host.value_net_arch"] = [100]
    config = tiny_config(changes, algorithm)
    numbers = tuple(range(1, num_members + 1))
    assert_equal([trained(config, num_members, given) for given in [(1,), numbers]])


def test_so_are_the_advantages_of_many_moves_of_a_single_member():
    """From 32,768 numbers on, torch shares out the sum of a row that is alone."""
    advantages = torch.randn(1, 100_000, generator=torch.Generator().manual_seed(1))
    found = []
    for count in NUMBERS:
        with threads(count):
            found.append(normalized(advantages, ALONE))
    assert all(torch.equal(found[0], other) for other in found[1:])


@pytest.mark.parametrize("width", [1, 64])
def test_so_are_a_layers_derivatives_of_many_rows(width):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(70_000, 40, generator=generator)
    grad = torch.randn(70_000, width, generator=generator)
    found = []
    for count in NUMBERS:
        with threads(count):
            found.append(derivatives(x, grad, shift=count))
    for of_weight, of_bias in found:
        assert torch.equal(of_weight, found[0][0])
        assert torch.equal(of_bias, found[0][1])
    exact = x.double().T @ grad.double()
    torch.testing.assert_close(found[0][0].double(), exact, rtol=1e-3, atol=1e-2)


@pytest.fixture(params=[0, 256 * 256, math.inf], ids=["oneDNN", "both", "MKL"])
def library(request, monkeypatch):
    if request.param and products_cpu.MKL_WEIGHTS == 0:
        pytest.skip("MKL multiplies on AMD's processors up to Zen 4 alone")
    monkeypatch.setattr(products_cpu, "MKL_WEIGHTS", request.param)


@pytest.mark.parametrize(
    ("limit", "by_mkl"),
    [
        (0, []),
        (256 * 256, ["a narrower layer", "its derivative", "a weight's"]),
        (math.inf, ["a layer", "a narrower layer", "its derivative", "a weight's"]),
    ],
)
def test_a_limit_says_which_products_are_mkls(monkeypatch, limit, by_mkl):
    """Whatever the rows: a weight's derivative is a product of them."""
    calls, found = [], []
    monkeypatch.setattr(products_cpu, "MKL_WEIGHTS", limit)
    monkeypatch.setattr(products_cpu, "_by_mkl", lambda *_: calls.append(1) or torch.empty(1))
    rows, weight, narrower = torch.ones(300, 256), torch.ones(256, 256), torch.ones(256, 255)
    views, few = (LinearViews(each, each.T, each[0].clone()) for each in (weight, narrower))
    works = {
        "a layer": lambda: apply_linear(rows, views, "none"),
        "a narrower layer": lambda: apply_linear(rows, few, "none"),
        "its derivative": lambda: products_cpu.product(torch.ones(300, 255), narrower.T),
        "a weight's": lambda: products_cpu.product(rows.T, rows),
    }
    for name, work in works.items():
        calls.clear()
        work()
        found += [name] if calls else []
    assert found == by_mkl


PARTS = ((0, 1), (7, 2), (1, 3), (0, 4), (2, 5), (3, 17), (9, 31), (5, 33), (50, 129), (0, 1024))


@pytest.mark.parametrize("num_inputs", [1, 257, 1024])
@pytest.mark.parametrize("width", [1, 11, 12, 33, 256])
def test_so_is_a_layer_of_any_part_of_the_rows_wherever_it_lies(library, num_inputs, width):
    """A member's weights begin anywhere in the bank, and rows are copied to anywhere in memory."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(1100, num_inputs, generator=generator)
    weight = torch.randn(num_inputs, width, generator=generator)
    views = LinearViews(weight, weight.T, torch.randn(width, generator=generator))
    with threads(1):
        whole = apply_linear(x, views, "none")
    exact = x.double() @ weight.double() + views.bias
    torch.testing.assert_close(whole.double(), exact, rtol=1e-4, atol=1e-4)
    for count, (first, num_rows) in product(NUMBERS, PARTS):
        rows = slice(first, first + num_rows)
        moved = elsewhere(weight, count)
        with threads(count):
            assert torch.equal(apply_linear(x[rows], views, "none"), whole[rows])
            seen, moved_views = elsewhere(x[rows], 1), LinearViews(moved, moved.T, views.bias)
            assert torch.equal(apply_linear(seen, moved_views, "none"), whole[rows])


def derivatives(x, grad, shift):
    """Return those of weight and bias, in memory that begins so many numbers behind a border."""
    of_weight = elsewhere(torch.empty(x.shape[1], grad.shape[1]), shift)
    of_bias = elsewhere(torch.empty(1, grad.shape[1]), shift)
    derive_biased(grad, grad, "none", of_bias)
    derive_weight(x, grad, of_weight)
    return of_weight, of_bias


def elsewhere(matrix, shift):
    """Return a copy that begins so many numbers behind a border of memory."""
    room = torch.empty(matrix.numel() + shift)[shift:]
    return room.view(matrix.shape).copy_(matrix)


@pytest.mark.parametrize("width", [64, 150])
@pytest.mark.parametrize("num_inputs", [150, 1024])
@pytest.mark.parametrize("num_rows", [300, 2100])
def test_so_are_derivatives_by_several_threads(library, num_inputs, width, num_rows):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(num_rows, num_inputs, generator=generator)
    grad = torch.randn(num_rows, width, generator=generator)
    weight = torch.randn(num_inputs, width, generator=generator)
    found = []
    for count in NUMBERS:
        with threads(count):
            of_x = products_cpu.product(grad, weight.T)
            found.append((*derivatives(x, grad, shift=count), of_x))
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))


@pytest.mark.parametrize("can_change", [False, True])
def test_one_thread_runs_the_programs_of_several_where_their_number_may_change(
    monkeypatch, can_change
):
    is_shared, marks = [], []

    def compiled(function, *, parallel):
        return lambda: is_shared.append(parallel)

    monkeypatch.setattr(interface, "_compiled", compiled)
    loop = interface.batched(lambda: None)
    if not can_change:
        THREADS_MAY_CHANGE.clear()
    for count in (1, 2):
        with threads(count):
            loop()
            marks.append(kernel_cache._mark(3))
    assert is_shared == [can_change, True]
    assert (marks[0] == marks[1]) == can_change


def test_a_batch_norm_of_large_numbers_that_differ_little():
    """As in exact arithmetic: in float32 numbers near 1,000 have four digits after the point."""
    generator = torch.Generator().manual_seed(1)
    x = 1000 + torch.randn(3000, 5, generator=generator) / 16
    grad = torch.randn(x.shape, generator=generator)
    scale, shift = torch.rand(2, 5, generator=generator)
    moments = torch.zeros(5), torch.ones(5)
    y, mean, inverse = batch_norm(x, scale, shift, moments, training=True)
    found = (y, *derive_batch_norm(grad, x, scale, mean, inverse, training=True))

    exact, weights = x.double().requires_grad_(), [scale.double(), shift.double()]
    for weight in weights:
        weight.requires_grad_()
    normed = torch.nn.functional.batch_norm(exact, None, None, *weights, training=True)
    expected = (normed, *torch.autograd.grad(normed, [exact, *weights], grad.double()))
    for own, other in zip(found, expected, strict=True):
        torch.testing.assert_close(own.double(), other.detach(), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(moments[0].double(), x.double().mean(dim=0) / 10)
    torch.testing.assert_close(moments[1].double(), 0.9 + x.double().var(dim=0) / 10)


def test_a_batch_norm_of_a_single_row_is_its_shift():
    row, scale, shift = torch.tensor([[3.0, -2.0]]), torch.ones(2), torch.tensor([5.0, 7.0])
    moments = torch.zeros(2), torch.ones(2)
    y, mean, inverse = batch_norm(row, scale, shift, moments, training=True)
    assert y.tolist() == [[5.0, 7.0]]
    assert (mean.tolist(), moments[1].tolist()) == ([3.0, -2.0], pytest.approx([0.9, 0.9]))
    assert torch.isfinite(inverse).all()

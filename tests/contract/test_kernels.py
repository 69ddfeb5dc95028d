"""Every backend against the reference, bit for bit. A new name in BACKENDS is tested here."""

import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kernel_states import (
    FEW_SIZES,
    NUM_GAMES,
    REFERENCE,
    SIZES,
    OnDevice,
    check_many_states,
    check_operators,
    check_states,
    device_of,
    minimal_points,
    random_moves,
    random_points,
)
from tried import tried

from hpsearch.game import FusedGame, GameConfig, HostActionEncoder
from hpsearch.game.kernels import BACKENDS, cuda, default_backend
from hpsearch.game.kernels.cpu_loops import REWARD_KINDS
from hpsearch.game.kernels.cuda import _power_of_two
from hpsearch.game.random import derive_key
from hpsearch.game.rules import REWARDS, subset_bits

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
every_backend = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs_triton if name == "cuda" else ()) for name in BACKENDS]
)

every_backend_but_the_reference = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=needs_triton if name == "cuda" else ())
        for name in BACKENDS
        if name != "reference"
    ],
)
"""where that would be compared with itself"""

every_backend_slowly = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[needs_triton, pytest.mark.slow] if name == "cuda" else ())
        for name in BACKENDS
    ],
)
"""with the one that is interpreted among the slow tests"""


def moderate(name: str) -> Callable:
    """Choose how many examples a test tries: triton interprets slowly, and compiles each size."""
    return settings(deadline=None, max_examples=6 if name == "cuda" else 60)


@pytest.mark.slow
@every_backend
def test_operators(name):
    @given(
        seed=st.integers(0, 2**32),
        num_points=st.integers(1, 40),
        dimension=st.integers(2, 10),
        largest=st.sampled_from([0, 1, 2, 5, 20, 1000, 2**30 - 1, 2**30]),
    )
    @example(seed=0, num_points=1, dimension=2, largest=0)
    @moderate(name)
    def check(seed, num_points, dimension, largest):
        points = random_points(seed, num_points, dimension, largest)
        check_operators(OnDevice(name), points, *random_moves(seed, dimension))

    check()


@every_backend_but_the_reference
@pytest.mark.parametrize(("num_points", "dimension"), [(2, 2), (8, 3), (9, 5)])
def test_games_of_many_minimal_points(name, num_points, dimension):
    """Whose order and best pair are not told by a few."""
    check_states(name, num_points, minimal_points(num_points, num_points, dimension))


@needs_triton
@pytest.mark.parametrize(
    ("num_points", "dimension", "largest", "num_games"),
    [(2, 2, 20, 17), (5, 3, 2**30, 7), (3, 5, 2, 11), (33, 4, 9, 2)],
)
def test_programs_that_share_games(monkeypatch, num_points, dimension, largest, num_games):
    """As many rows in a program as on a GPU: several programs, the last one not full.

    None writes behind the last game.
    """
    run = cuda._run

    def run_with_margins(program, points, tensors, numbers=()):
        margin = cuda.LANES * num_points * dimension
        longer = [torch.cat([each.flatten(), each.new_ones(margin)]) for each in tensors]
        views = [long[:-margin].view_as(each) for long, each in zip(longer, tensors, strict=True)]
        run(program, points, views, numbers)
        for long, view, each in zip(longer, views, tensors, strict=True):
            assert (long[-margin:] == 1).all()
            each.copy_(view)

    monkeypatch.setattr(cuda, "INTERPRETED_LANES", cuda.LANES)
    monkeypatch.setattr(cuda, "_run", run_with_margins)
    check_states("cuda", num_games, random_points(0, num_points, dimension, largest, num_games))


@every_backend
@pytest.mark.parametrize("batch", [(), (1,), (4, 6), (2, 3, 4), (0,)])
def test_any_batch_shape(name, batch):
    backend = OnDevice(name)
    points = random_points(0, 7, 3, 20)[: torch.Size(batch).numel()].reshape(*batch, 7, 3)
    subset, axis = torch.tensor([True, True, False]), torch.tensor(1)
    reduced = backend.newton_polytope(points)
    assert torch.equal(reduced, REFERENCE.newton_polytope(points))
    moved, capped = backend.move(points, subset, axis, True)
    assert torch.equal(moved, REFERENCE.move(points, subset, axis, True)[0])
    assert capped.shape == torch.Size(batch)
    assert torch.equal(backend.observe(reduced), REFERENCE.observe(reduced))
    assert torch.equal(backend.zeillinger(reduced), REFERENCE.zeillinger(reduced))


@every_backend
def test_views_are_read_as_they_are(name):
    points = random_points(1, 8, 3, 20)
    view = points.flip(0).transpose(0, 1).contiguous().transpose(0, 1)[::2].to(device_of(name))
    assert not view.is_contiguous()
    backend = BACKENDS[name]
    expected = REFERENCE.newton_polytope(view)
    assert torch.equal(backend.newton_polytope(view), expected)
    assert torch.equal(backend.observe(expected[::2]), REFERENCE.observe(expected[::2]))


@every_backend
def test_an_illegal_move_is_an_error(name):
    if device_of(name).type == "cuda":
        pytest.skip("an assertion of the device, after which the process can use it no more")
    points = random_points(0, 5, 3, 20)
    subset, axis = random_moves(0, 3)
    subset[5], axis[5] = torch.tensor([True, True, False]), 2
    with pytest.raises(ValueError, match=r"subset=\[0, 1\], axis=2 in game \(5,\)"):
        BACKENDS[name].move(points, subset, axis, False)


@needs_triton
@pytest.mark.parametrize("dimension", [2, 3, 5])
def test_which_moves_a_step_on_a_gpu_takes_for_legal(dimension):
    """Those with an action and an axis in its subset, and none of those around them."""
    from legal_program import legal_moves

    subsets = subset_bits(dimension)
    moves = [
        (action, axis)
        for action in range(-1, len(subsets) + 1)
        for axis in range(-1, dimension + 1)
    ]
    moves += [(-1, 0)] * (_power_of_two(len(moves)) - len(moves))
    actions, axes = torch.tensor(moves, device=device_of("cuda")).T.contiguous()
    legal = torch.zeros_like(actions, dtype=torch.bool)
    legal_moves[(1,)](actions, axes, legal, dimension, len(moves))
    assert legal.tolist() == [
        0 <= action < len(subsets) and axis >= 0 and subsets[action] >> axis & 1 == 1
        for action, axis in moves
    ]


@every_backend
def test_an_illegal_move_is_an_error_of_a_step_and_changes_nothing(name):
    if device_of(name).type == "cuda":
        pytest.skip("an assertion of the device, after which the process can use it no more")
    config = GameConfig(
        dimension=3, max_num_points=4, max_value=9, max_steps=6, reposition=True, reward="terminal"
    )
    game = FusedGame(config, torch.tensor([1]), 2, "cpu", name, observes=True)
    before = [tensor.clone() for tensor in game.state().values()]
    with pytest.raises(ValueError, match="subset"):
        game.step(torch.tensor([[0, 0]]), torch.tensor([[1, 2]]))
    assert all(map(torch.equal, game.state().values(), before))


@every_backend
@pytest.mark.parametrize("reposition", [False, True])
def test_the_largest_coordinate_that_is_no_cap(name, reposition):
    """A sum of 2^30 is exact and goes on, a larger one ends the game."""
    half = 2**29
    points = torch.tensor(
        [[[half, half, 5], [half - 1, half, 9]], [[half, half + 1, 5], [half - 1, half, 9]]],
        dtype=torch.int32,
    )
    subset, axis = torch.tensor([True, True, False]), torch.tensor(0)
    moved, capped = OnDevice(name).move(points, subset, axis, reposition)
    assert capped.tolist() == [False, True]
    rows = torch.tensor([[2 * half, half, 5], [2 * half - 1, half, 9]], dtype=torch.int32)
    if reposition:
        rows -= rows.amin(dim=0)
    assert torch.equal(moved[0], rows)


@every_backend_slowly
def test_random_starts(name):
    @given(
        seed=st.integers(0, 2**32),
        num_points=st.integers(2, 30),
        dimension=st.integers(2, 6),
        max_value=st.sampled_from([1, 2, 20, 2**30]),
    )
    @example(seed=0, num_points=2, dimension=2, max_value=1)
    @moderate(name)
    def check(seed, num_points, dimension, max_value):
        keys = torch.tensor([derive_key(seed), derive_key(seed, 1)])
        generator = torch.Generator().manual_seed(seed)
        starts = torch.randint(0, 2**40, (2, 5), generator=generator)
        lanes = torch.randint(0, 2**31, (5,), generator=generator) if seed % 2 else None
        size = {"num_points": num_points, "dimension": dimension, "max_value": max_value}
        drawn, expected = (
            backend.random_starts(keys, starts, lanes=lanes, **size)
            for backend in (OnDevice(name), REFERENCE)
        )
        assert torch.equal(drawn, expected)

    check()


@every_backend_but_the_reference
@pytest.mark.parametrize(
    ("num_points", "dimension", "max_value"), [(2, 2, 2), (3, 3, 20), (6, 6, 1), (3, 5, 2**30)]
)
def test_starts_of_any_lanes_and_numbers(name, num_points, dimension, max_value):
    """Of two points with three values in a plane, one start of 56 is over sixteen times."""
    keys = torch.tensor([derive_key("starts"), derive_key("starts", 1)])
    starts = torch.arange(2 * 50).view(2, 50) * (2**32 + 1)
    lanes = 2**31 - 1 - 3 * torch.arange(50)
    size = {"num_points": num_points, "dimension": dimension, "max_value": max_value}
    drawn = OnDevice(name).random_starts(keys, starts, lanes=lanes, **size)
    assert torch.equal(drawn, REFERENCE.random_starts(keys, starts, lanes=lanes, **size))


@every_backend_slowly
def test_a_start_that_stays_over_becomes_the_simplest(name):
    """One of 2^16 starts of two points in a plane with few values is over sixteen times."""
    keys = torch.tensor([derive_key("over and over")])
    starts = torch.arange(2**17).unsqueeze(0).T.contiguous().T
    size = {"num_points": 2, "dimension": 2, "max_value": 1}
    expected = BACKENDS["cpu"].random_starts(keys, starts, **size)
    assert torch.equal(OnDevice(name).random_starts(keys, starts, **size), expected)


@every_backend
@pytest.mark.parametrize("num_numbers", [1, 3, 4, 5, 1000])
def test_uniform(name, num_numbers, monkeypatch):
    monkeypatch.setattr(cuda, "INTERPRETED_LANES", 128)  # as on a GPU
    keys = torch.tensor([derive_key("uniform", member) for member in range(3)])
    counters = torch.tensor([0, 2**32 - 2, 2**40 + 1])
    numbers = OnDevice(name).uniform(keys, counters, num_numbers)
    assert numbers.shape == (3, num_numbers)
    assert torch.equal(numbers, REFERENCE.uniform(keys, counters, num_numbers))


@every_backend_but_the_reference
@pytest.mark.parametrize("reposition", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize(
    ("dimension", "num_points", "max_value", "max_steps"),
    [
        (2, 2, 1, 5),
        (3, 20, 20, 100),
        (3, 5, 2**28, 50),
        *tried([(5, 12, 9, 7), (7, 33, 3, 20)], slow=[(7, 33, 3, 20)]),
    ],
)
def test_step(name, reposition, dimension, num_points, max_value, max_steps):
    config = GameConfig(
        dimension=dimension,
        max_num_points=num_points,
        max_value=max_value,
        max_steps=max_steps,
        reposition=reposition,
        reward="terminal",
    )
    keys = torch.tensor([derive_key("step", member) for member in range(2)])
    num_games = NUM_GAMES // 2
    lanes = torch.randperm(3 * num_games, generator=torch.Generator().manual_seed(1))[:num_games]
    game, expected = (
        FusedGame(config, keys, num_games, device, backend, observes=True, lanes=lanes)
        for device, backend in ((device_of(name), name), ("cpu", "reference"))
    )
    rewards = cycle(REWARDS)
    encoder = HostActionEncoder(dimension)
    for t in range(6 if name == "cuda" else 40):
        subset, axis = random_moves(t, dimension)
        action, axis = encoder.encode(subset).view(2, -1), axis.view(2, -1)
        reward = next(rewards)
        game.replace_reward(reward)
        expected.replace_reward(reward)
        step = game.step(action.to(game.device), axis.to(game.device))
        for ours, theirs in zip(step, expected.step(action, axis), strict=True):
            assert ours.dtype == theirs.dtype
            assert torch.equal(ours.cpu(), theirs)
        for tensor, value in zip(game.state().values(), expected.state().values(), strict=True):
            assert tensor.dtype == value.dtype
            assert torch.equal(tensor.cpu(), value)
        assert torch.equal(game.observation.cpu(), expected.observation)
        assert torch.equal(game.observe().cpu(), expected.observation)


few_sizes_or_all = pytest.mark.parametrize(
    "sizes",
    [
        pytest.param(FEW_SIZES, marks=pytest.mark.slow, id="few sizes"),
        pytest.param(SIZES, marks=pytest.mark.exhaustive, id="all sizes"),
    ],
)


@few_sizes_or_all
def test_many_states_on_the_cpu(sizes):
    check_many_states("cpu", num_games=300, sizes=sizes)


@needs_triton
@few_sizes_or_all
def test_many_states(sizes):
    """In the interpreter, where the size of a program takes time and the number of games none."""
    check_many_states("cuda", num_games=300, sizes=sizes)


@needs_triton
@pytest.mark.gpu
def test_a_million_states():
    check_many_states("cuda", num_games=17_000, sizes=SIZES)


def test_the_default_for_each_device(monkeypatch):
    assert default_backend(torch.device("cpu")) == "cpu"
    assert default_backend(torch.device("meta")) == "reference"
    monkeypatch.setattr("hpsearch.game.kernels._has_triton", lambda: True)
    assert default_backend(torch.device("cuda", 0)) == "cuda"
    monkeypatch.setattr("hpsearch.game.kernels._has_triton", lambda: False)
    assert default_backend(torch.device("cuda", 0)) == "reference"


WITHOUT_TRITON = """
import sys
sys.modules["triton"] = None  # as if it were not installed
import torch
from hpsearch.game.kernels import BACKENDS
try:
    BACKENDS["cuda"].newton_polytope(torch.zeros((1, 2, 2), dtype=torch.int32))
except ModuleNotFoundError as error:
    print(error)
"""

WITHOUT_INTERPRETER = """
import os, sys
os.environ["TRITON_INTERPRET"] = "0"
import torch
from hpsearch.game.kernels import BACKENDS
assert "triton" not in sys.modules
try:
    BACKENDS["cuda"].newton_polytope(torch.zeros((1, 2, 2), dtype=torch.int32))
except ValueError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "message"),
    [
        (WITHOUT_TRITON, "backend 'cuda' needs triton, which is not installed"),
        pytest.param(WITHOUT_INTERPRETER, "needs a device of type 'cuda', or", marks=needs_triton),
    ],
)
def test_what_the_gpu_backend_needs(program, message):
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert message in done.stdout


@pytest.mark.slow
@needs_triton
def test_the_gpu_programs_compile_for_an_a100_and_an_h200():
    """The interpreter takes what the compiler refuses; compiling needs no device."""
    program = Path(__file__).parent.parent / "compile_programs.py"
    subprocess.run([sys.executable, program], check=True, timeout=300)


@pytest.mark.parametrize("num_points", [1, 2, 3, 4, 5, 8, 9, 20, 1024, 1025])
def test_a_gpu_program_has_no_more_rows_than_the_next_power_of_two(num_points):
    """Triton knows no other sizes; twice as many rows would take twice the registers."""
    powers = [2**exponent for exponent in range(12)]
    assert _power_of_two(num_points) == min(p for p in powers if p >= num_points)


def test_a_step_on_a_cpu_knows_every_reward():
    """An unknown kind would be taken for the last one."""
    assert REWARD_KINDS.keys() == REWARDS.keys()

"""Every backend against the reference, bit for bit. A new name in BACKENDS is tested here."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hpsearch.game import FusedGame, GameConfig, HostActionEncoder, rules
from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.game.philox import derive_key

REFERENCE = BACKENDS["reference"]
NUM_GAMES = 24


def random_points(seed: int, num_points: int, dimension: int, largest: int) -> torch.Tensor:
    """Draw int32 (24, N, D) in no order, with padding and duplicates."""
    generator = torch.Generator().manual_seed(seed)
    shape = (NUM_GAMES, num_points, dimension)
    points = torch.randint(0, largest + 1, shape, generator=generator, dtype=torch.int32)
    # A third of the games near the largest value, where sums saturate; a third with duplicates.
    points[::3] = largest - points[::3] % 3 if largest > 3 else points[::3]
    twins = torch.randint(num_points, shape[:2], generator=generator)
    points[1::3] = points.take_along_dim(twins.unsqueeze(-1), dim=1)[1::3]
    removed = torch.rand(shape[:2], generator=generator) < 0.2
    return points.masked_fill(removed.unsqueeze(-1), rules.PADDING)


def random_moves(seed: int, dimension: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw legal moves: subsets bool (24, D) and axes int64 (24,)."""
    generator = torch.Generator().manual_seed(seed)
    encoder = HostActionEncoder(dimension)
    subset = encoder.decode(torch.randint(encoder.num_actions, (NUM_GAMES,), generator=generator))
    return subset, torch.multinomial(subset.float(), 1, generator=generator).squeeze(-1)


batches = given(
    seed=st.integers(0, 2**32),
    num_points=st.integers(1, 40),
    dimension=st.integers(2, 10),
    largest=st.sampled_from([0, 1, 2, 5, 20, 1000, 2**30 - 1, 2**30]),
)
odd_sizes = example(seed=0, num_points=1, dimension=2, largest=0)
moderate = settings(deadline=None, max_examples=60)
every_backend = pytest.mark.parametrize("name", BACKENDS)


@every_backend
@batches
@odd_sizes
@moderate
def test_operators(name, seed, num_points, dimension, largest):
    backend = BACKENDS[name]
    points = random_points(seed, num_points, dimension, largest)
    reduced = backend.newton_polytope(points)
    assert reduced.dtype == torch.int32
    assert torch.equal(reduced, REFERENCE.newton_polytope(points))
    assert torch.equal(backend.zeillinger(reduced), REFERENCE.zeillinger(reduced))
    subset, axis = random_moves(seed, dimension)
    for reposition in (False, True):
        moved, capped = backend.move(points, subset, axis, reposition)
        expected, expected_capped = REFERENCE.move(points, subset, axis, reposition)
        assert torch.equal(moved, expected)
        assert torch.equal(capped, expected_capped)
        observed = backend.observe(moved)
        assert observed.dtype == torch.float32
        assert torch.equal(observed, REFERENCE.observe(moved))


@every_backend
@pytest.mark.parametrize("batch", [(), (1,), (4, 6), (2, 3, 4)])
def test_any_batch_shape(name, batch):
    backend = BACKENDS[name]
    points = random_points(0, 7, 3, 20)[: max(1, torch.Size(batch).numel())].reshape(*batch, 7, 3)
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
    view = points.flip(0).transpose(0, 1).contiguous().transpose(0, 1)[::2]
    assert not view.is_contiguous()
    expected = REFERENCE.newton_polytope(view)
    assert torch.equal(BACKENDS[name].newton_polytope(view), expected)
    assert torch.equal(BACKENDS[name].observe(expected[::2]), REFERENCE.observe(expected[::2]))


@every_backend
def test_an_illegal_move_is_an_error(name):
    points = random_points(0, 5, 3, 20)
    subset, axis = random_moves(0, 3)
    subset[5], axis[5] = torch.tensor([True, True, False]), 2
    with pytest.raises(ValueError, match=r"subset=\[0, 1\], axis=2 in game \(5,\)"):
        BACKENDS[name].move(points, subset, axis, False)


@every_backend
@given(
    seed=st.integers(0, 2**32),
    num_points=st.integers(2, 30),
    dimension=st.integers(2, 6),
    max_value=st.sampled_from([1, 2, 20, 2**30]),
)
@moderate
def test_random_starts(name, seed, num_points, dimension, max_value):
    keys = torch.tensor([derive_key(seed), derive_key(seed, 1)])
    starts = torch.randint(0, 2**40, (2, 5), generator=torch.Generator().manual_seed(seed))
    drawn, expected = (
        backend.random_starts(
            keys, starts, num_points=num_points, dimension=dimension, max_value=max_value
        )
        for backend in (BACKENDS[name], REFERENCE)
    )
    assert torch.equal(drawn, expected)


@every_backend
@pytest.mark.parametrize("num_numbers", [1, 3, 4, 5, 1000])
def test_uniform(name, num_numbers):
    keys = torch.tensor([derive_key("uniform", member) for member in range(3)])
    counters = torch.tensor([0, 2**32 - 2, 2**40 + 1])
    numbers = BACKENDS[name].uniform(keys, counters, num_numbers)
    assert numbers.shape == (3, num_numbers)
    assert torch.equal(numbers, REFERENCE.uniform(keys, counters, num_numbers))


@every_backend
@pytest.mark.parametrize("reposition", [False, True])
@pytest.mark.parametrize(
    ("dimension", "num_points", "max_value", "max_steps"),
    [(2, 2, 1, 5), (3, 20, 20, 100), (3, 5, 2**28, 50), (5, 12, 9, 7), (7, 33, 3, 20)],
)
def test_step(name, reposition, dimension, num_points, max_value, max_steps):
    config = GameConfig(
        dimension=dimension,
        max_num_points=num_points,
        max_value=max_value,
        max_steps=max_steps,
        reposition=reposition,
    )
    keys = torch.tensor([derive_key("step", member) for member in range(2)])
    game, expected = (
        FusedGame(config, keys, NUM_GAMES // 2, "cpu", backend) for backend in (name, "reference")
    )
    encoder = HostActionEncoder(dimension)
    for t in range(40):
        subset, axis = random_moves(t, dimension)
        action, axis = encoder.encode(subset).view(2, -1), axis.view(2, -1)
        for ours, theirs in zip(game.step(action, axis), expected.step(action, axis), strict=True):
            assert ours.dtype == theirs.dtype
            assert torch.equal(ours, theirs)
        for tensor, value in zip(game.state().values(), expected.state().values(), strict=True):
            assert tensor.dtype == value.dtype
            assert torch.equal(tensor, value)
        assert torch.equal(game.observe(), expected.observe())


def test_the_default_for_each_device():
    assert default_backend(torch.device("cpu")) == "cpu"
    assert default_backend(torch.device("cuda", 0)) == "reference"

"""Random states and moves, and the comparison of a backend with the reference.

    python tests/contract/kernel_states.py 17000

compares the GPU backend on 60 times as many states; it needs torch, numba and triton alone.

Without a CUDA device the GPU's programs run in Triton's interpreter, on the CPU. Triton asks for it
when it is imported, which the first call of a program does.
"""

import os
import sys
from collections.abc import Collection

import torch

from hpsearch.game import FusedGame, GameConfig, HostActionEncoder, rules
from hpsearch.game.kernels import BACKENDS, Backend
from hpsearch.game.random import derive_key
from hpsearch.game.rules import REWARDS

HAS_GPU = torch.cuda.is_available()
if not HAS_GPU:
    os.environ.setdefault("TRITON_INTERPRET", "1")

REFERENCE = BACKENDS["reference"]
NUM_GAMES = 24


def device_of(name: str) -> torch.device:
    """Return where the tests run a backend."""
    return torch.device("cuda" if name == "cuda" and HAS_GPU else "cpu")


def random_points(
    seed: int, num_points: int, dimension: int, largest: int, num_games: int = NUM_GAMES
) -> torch.Tensor:
    """Draw int32 (G, N, D) in no order, with padding and duplicates."""
    generator = torch.Generator().manual_seed(seed)
    shape = (num_games, num_points, dimension)
    points = torch.randint(0, largest + 1, shape, generator=generator, dtype=torch.int32)
    # A third of the games near the largest value, where sums saturate; a third with duplicates.
    points[::3] = largest - points[::3] % 3 if largest > 3 else points[::3]
    twins = torch.randint(num_points, shape[:2], generator=generator)
    points[1::3] = points.take_along_dim(twins.unsqueeze(-1), dim=1)[1::3]
    removed = torch.rand(shape[:2], generator=generator) < 0.2
    return points.masked_fill(removed.unsqueeze(-1), rules.PADDING)


def minimal_points(
    seed: int, num_points: int, dimension: int, num_games: int = NUM_GAMES
) -> torch.Tensor:
    """Draw int32 (G, N, D) of which most are minimal, as all have one sum; in no order.

    Of points that are drawn one by one few are left, too few to need an order or a best pair.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = (num_games, num_points, dimension)
    points = torch.randint(0, 6, shape, generator=generator, dtype=torch.int32)
    points[..., -1] = 5 * dimension - points[..., :-1].sum(-1)
    removed = torch.rand(shape[:2], generator=generator) < 0.2
    removed[0] = False
    return points.masked_fill(removed.unsqueeze(-1), rules.PADDING)


def random_moves(
    seed: int, dimension: int, num_games: int = NUM_GAMES
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw legal moves: subsets bool (G, D) and axes int64 (G,)."""
    generator = torch.Generator().manual_seed(seed)
    encoder = HostActionEncoder(dimension)
    subset = encoder.decode(torch.randint(encoder.num_actions, (num_games,), generator=generator))
    return subset, torch.multinomial(subset.float(), 1, generator=generator).squeeze(-1)


class OnDevice:
    """A backend that copies what it is given to its device, and the results back to the CPU."""

    def __init__(self, name: str) -> None:
        self.backend: Backend = BACKENDS[name]
        self.device = device_of(name)

    def newton_polytope(self, points):
        return self.backend.newton_polytope(points.to(self.device)).cpu()

    def move(self, points, subset, axis, reposition):
        tensors = (tensor.to(self.device) for tensor in (points, subset, axis))
        moved, capped = self.backend.move(*tensors, reposition)
        return moved.cpu(), capped.cpu()

    def observe(self, points):
        return self.backend.observe(points.to(self.device)).cpu()

    def zeillinger(self, points):
        return self.backend.zeillinger(points.to(self.device)).cpu()

    def random_starts(self, keys, starts, *, num_points, dimension, max_value, lanes=None):
        return self.backend.random_starts(
            keys.to(self.device),
            starts.to(self.device),
            num_points=num_points,
            dimension=dimension,
            max_value=max_value,
            lanes=None if lanes is None else lanes.to(self.device),
        ).cpu()

    def uniform(self, keys, counters, num_numbers):
        return self.backend.uniform(
            keys.to(self.device), counters.to(self.device), num_numbers
        ).cpu()


def check_operators(
    backend: Backend, points: torch.Tensor, subset: torch.Tensor, axis: torch.Tensor
) -> None:
    reduced = backend.newton_polytope(points)
    assert reduced.dtype == torch.int32
    assert torch.equal(reduced, REFERENCE.newton_polytope(points))
    assert torch.equal(backend.zeillinger(reduced), REFERENCE.zeillinger(reduced))
    for reposition in (False, True):
        moved, capped = backend.move(points, subset, axis, reposition)
        expected, expected_capped = REFERENCE.move(points, subset, axis, reposition)
        assert torch.equal(moved, expected)
        assert torch.equal(capped, expected_capped)
        observed = backend.observe(moved)
        assert observed.dtype == torch.float32
        assert torch.equal(observed, REFERENCE.observe(moved))


SIZES = [
    (num_points, dimension, largest)
    for num_points in (2, 5, 8, 20, 32)
    for dimension in (2, 3, 4, 5)
    for largest in (1, 20, 2**30)
]
FEW_SIZES = [
    size for place, size in enumerate(SIZES) if place % 3 == place // 3 % 3 and size[0] <= 20
]
"""a third of those of up to 20 points, in which any two numbers stand together as they do in all"""


def check_many_states(name: str, num_games: int, sizes: Collection[tuple[int, ...]]) -> None:
    """Compare one move in games of all ``sizes``, operator by operator and as a step."""
    for seed, (num_points, dimension, largest) in enumerate(SIZES):
        if (num_points, dimension, largest) not in sizes:
            continue
        check_states(name, seed, random_points(seed, num_points, dimension, largest, num_games))


def check_states(name: str, seed: int, points: torch.Tensor) -> None:
    """Compare one move in each of some games, operator by operator and as a step."""
    num_games, num_points, dimension = points.shape
    subset, axis = random_moves(seed, dimension, num_games)
    check_operators(OnDevice(name), points, subset, axis)
    config = GameConfig(
        dimension=dimension,
        max_num_points=num_points,
        max_value=max(1, int(points.max())),
        max_steps=5,
        reposition=seed % 2 == 0,
        reward=list(REWARDS)[seed // 3 % len(REWARDS)],
    )
    check_steps(name, config, REFERENCE.newton_polytope(points), subset, axis)


def check_steps(
    name: str,
    config: GameConfig,
    points: torch.Tensor,
    subset: torch.Tensor,
    axis: torch.Tensor,
) -> None:
    """Compare a step from given positions, a quarter of them in their last move."""
    action = HostActionEncoder(config.dimension).encode(subset)
    key = torch.tensor([derive_key("many states")])
    results = []
    for backend in ("reference", name):
        game = FusedGame(config, key, len(points), device_of(backend), backend, observes=True)
        game.points.copy_(points.unsqueeze(0))
        game.lengths[:, ::4] = config.max_steps - 1
        game.refresh()
        step = game.step(action[None].to(game.device), axis[None].to(game.device))
        tensors = (*step, *game.state().values(), game.observation)
        results.append([tensor.cpu() for tensor in tensors])
    assert all(map(torch.equal, *results))


if __name__ == "__main__":
    check_many_states("cuda", num_games=int(sys.argv[1]), sizes=SIZES)
    print(f"equal on {len(SIZES) * int(sys.argv[1]):,} states on {device_of('cuda')}")

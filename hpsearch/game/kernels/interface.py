"""What a backend is: a module with the functions of `Backend`; how CPU code is compiled.

Axes: P members, B games, N points, D coordinates; ``...`` any batch shape.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from threading import local
from types import FunctionType
from typing import NamedTuple, ParamSpec, Protocol, TypeVar

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpsearch.game.kernels.loop_cache import LoopCache
from hpsearch.game.kernels.threads import THREADS_MAY_CHANGE
from hpsearch.game.rules import GameConfig

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


class GameState(NamedTuple):
    """P x B games in progress. `Backend.step` changes all but ``keys`` in place."""

    points: Tensor  # int32 (P, B, N, D), canonical, never over
    lengths: Tensor  # int32 (P, B), the moves made so far in the present game
    starts: Tensor  # int64 (P, B), the number of the present game's start position in its lane
    keys: Tensor  # int64 (P,), what the start positions are drawn from
    lanes: Tensor  # int64 (B,), the number of each lane
    observation: Tensor
    """float32 (P, B, N * D), that of ``points``; (P, B, 0) where none is asked for."""

    @property
    def observes(self) -> bool:
        return self.observation.shape[-1] > 0


class Step(NamedTuple):
    """What one move led to, before the games that ended were started again."""

    next_points: Tensor  # int32 (P, B, N, D)
    done: Tensor  # bool (P, B): at most one point is left
    truncated: Tensor  # bool (P, B): ended by max_steps or by a coordinate above 2^30, and not done
    last: Tensor  # bool (P, B): no further move was allowed, whether the game is done or not
    reward: Tensor  # float32 (P, B): what the host gets for this move
    next_observation: Tensor
    """float32 (P, B, N * D), that of ``next_points``; (P, B, 0) where none is asked for."""


class Backend(Protocol):
    """The operators of `rules` and `random`, and all of a step at once."""

    def newton_polytope(self, points: Tensor) -> Tensor:
        """As `rules.newton_polytope`."""

    def move(
        self, points: Tensor, subset: Tensor, axis: Tensor, reposition: bool
    ) -> tuple[Tensor, Tensor]:
        """As `rules.move`, followed by `rules.reposition` where that is asked for.

        Returns also whether the game is capped, bool (...). A capped game has no result: points
        that saturated may have merged.
        """

    def observe(self, points: Tensor) -> Tensor:
        """As `rules.observe`."""

    def random_starts(
        self,
        keys: Tensor,
        starts: Tensor,
        *,
        num_points: int,
        dimension: int,
        max_value: int,
        lanes: Tensor | None = None,
    ) -> Tensor:
        """As `random.random_starts`."""

    def uniform(self, keys: Tensor, counters: Tensor, num_numbers: int) -> Tensor:
        """As `random.uniform`."""

    def zeillinger(self, points: Tensor) -> Tensor:
        """As `rules.zeillinger`."""

    def step(
        self, state: GameState, host_action: Tensor, agent_axis: Tensor, config: GameConfig
    ) -> Step:
        """Play one move in every game and start again those that ended; changes ``state``.

        ``host_action`` int64 (P, B) holds indices of `HostActionEncoder`, ``agent_axis`` int64
        (P, B) coordinates of these subsets. ValueError if a move is illegal (tensors on the CPU);
        the state is as before.
        """


# numba has no type stubs; these decorators keep the types of what they compile: lazily, once,
# and kept on disk.
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def scalar(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Compile what is done to one game."""
    return _compiled(function, parallel=False)


def summing(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Compile a loop whose sums are reordered, so that several numbers are added at once.

    The order depends on the processor, neither on other rows nor on the number of threads.
    """
    return _compiled(function, parallel=False, reorders=True)


def batched(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Compile a loop over games; as many threads share its ``prange`` as torch may use.

    One thread has a program of its own: to compile the one that threads share takes twice as long.
    """
    shared = _compiled(function, parallel=True)
    # By its name numba would take it for the same program on disk, or an older version's.
    renamed = FunctionType(function.__code__, function.__globals__)
    renamed.__qualname__ = f"{function.__qualname__}_alone"
    alone: Callable[Arguments, Result] = _compiled(renamed, parallel=False)

    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        num_threads = torch.get_num_threads()
        if num_threads == 1 and not THREADS_MAY_CHANGE.is_set():
            return alone(*args, **kwargs)
        _share_threads(num_threads)
        return shared(*args, **kwargs)

    return call


def _compiled(
    function: Callable[Arguments, Result], *, parallel: bool, reorders: bool = False
) -> Callable[Arguments, Result]:
    # Sums by vectors, and a product and its sum rounded once.
    fastmath = {"reassoc", "contract"} if reorders else False
    compiler = numba.njit(nogil=True, error_model="numpy", parallel=parallel, fastmath=fastmath)
    compiled: Callable[Arguments, Result] = compiler(function)
    with suppress(RuntimeError):  # numba may write neither beside the code nor in the user's folder
        compiled._cache = LoopCache(function)  # type: ignore[attr-defined, arg-type]
    return compiled


class _NumbaThreads(local):
    """How many threads numba was told to use for what this thread starts; 0 before that."""

    count = 0


_numba_threads = _NumbaThreads()


def _share_threads(num_threads: int) -> None:
    if _numba_threads.count == num_threads:  # to tell numba takes longer than a short loop
        return
    numba.set_num_threads(min(num_threads, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
    # numba's first launch sets OpenMP's number of threads, which is torch's too, to all there are.
    if torch.get_num_threads() != num_threads:
        torch.set_num_threads(num_threads)
    _numba_threads.count = num_threads

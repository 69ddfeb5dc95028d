"""How the functions of the CPU backend are compiled: lazily, once, and kept on disk.

numba has no type stubs; these two decorators keep the types of what they compile.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def scalar(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Compile what is done to one game."""
    compiled: Callable[Arguments, Result] = numba.njit(cache=True, nogil=True, error_model="numpy")(
        function
    )
    return compiled


def batched(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Compile a loop over games; its ``prange`` is shared among the threads."""
    compiled: Callable[Arguments, Result] = numba.njit(
        cache=True, nogil=True, parallel=True, error_model="numpy"
    )(function)
    return compiled

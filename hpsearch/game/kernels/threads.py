"""How many threads torch's operations and numba's loops have on a CPU."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Final

import torch

THREADS_MAY_CHANGE: Final = Event()
"""set for good in a process whose number of threads changes while it trains: one thread then runs
the programs that several share, so that the process needs no others, and products whose digits
depend on the number have one thread each"""


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch use so many threads in the block."""
    before = torch.get_num_threads()
    _set_num_threads(count)
    try:
        yield
    finally:
        _set_num_threads(before)


def _set_num_threads(count: int) -> None:
    if torch.get_num_threads() != count:  # to ask is quicker than to set
        torch.set_num_threads(count)

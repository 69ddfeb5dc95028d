"""How many threads a process may have to train on a CPU, and how they wait for each other."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpsearch.trainers.config import CommonConfig

SHORT = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}
LONG = SHORT | {"GOMP_SPINCOUNT": "10000"}
"""environments in which OpenMP's threads spin so many times before they sleep"""
PRODUCT_A_THREAD = 4_000_000
"""multiplications of the largest matrix product of an update that are worth a thread; measured, see
reports/benchmarks/README.md#threads"""
FIXED_PRODUCT_A_THREAD = 50_000_000
"""the same where the number cannot change: with less to do, threads mostly wait for each other"""


def let_threads_wait() -> None:
    """Let threads that wait for each other sleep soon; read when torch is imported, and by jobs.

    By default they spin for milliseconds, and starve where other programs run too.
    """
    if _waits_as_told_here():
        os.environ |= SHORT


def let_threads_spin() -> None:
    """Let threads spin longer, in a process that trains; read when torch is imported."""
    if _waits_as_told_here():
        os.environ |= LONG


def may_spin() -> bool:
    """Return whether threads spin longer, as `let_threads_spin` says and no user."""
    return os.environ.items() >= LONG.items()


def _waits_as_told_here() -> bool:
    """Return whether no user's choice says how threads wait."""
    said = {name: os.environ[name] for name in SHORT if name in os.environ}
    return said in ({}, SHORT, LONG)


def useful_threads(config: "CommonConfig", *, members: int, ranks: int, cores: int) -> int:
    """Return how many threads each of the ranks should have that train so many ``members``.

    All ranks together have ``cores``.
    """
    most = max(1, cores // ranks)
    if config.device == "cuda":  # which computes the products
        return most
    worth = PRODUCT_A_THREAD if config.can_change_threads() else FIXED_PRODUCT_A_THREAD
    return max(1, min(most, members * config.largest_product() // ranks // worth))

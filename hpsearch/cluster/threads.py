"""How many threads a process may have to train on a CPU, and how they wait for each other."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpsearch.trainers.config import CommonConfig

SPIN_SHORTLY = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}
SPIN_LONG = SPIN_SHORTLY | {"GOMP_SPINCOUNT": "10000"}
"""environments in which OpenMP's threads spin so many times before they sleep"""
BOUND = {"GOMP_CPU_AFFINITY", "OMP_PLACES", "OMP_PROC_BIND"}
"""variables by which a user binds threads to cores"""
PRODUCT_A_THREAD = 4_000_000
"""multiplications of the largest matrix product of an update that are worth a thread; measured, see
reports/benchmarks/README.md#threads"""
FIXED_PRODUCT_A_THREAD = 50_000_000
"""the same where the number cannot change: with less to do, threads mostly wait for each other"""


def let_threads_wait() -> None:
    """Let threads that wait for each other sleep soon; read when torch is imported, and by jobs.

    By default they spin for milliseconds, and starve where other programs run too.
    """
    if _is_left_to_us():
        os.environ |= SPIN_SHORTLY


def let_threads_spin() -> None:
    """Let threads spin longer, in a process that trains; read when torch is imported."""
    if _may_be_told_to_spin():
        os.environ |= SPIN_LONG


def may_spin() -> bool:
    """Return whether threads spin longer, as `let_threads_spin` says and no user."""
    return os.environ.items() >= SPIN_LONG.items()


def _is_left_to_us() -> bool:
    """Return whether no user says how threads wait; what a parent process said is our own."""
    said = {name: os.environ[name] for name in SPIN_SHORTLY if name in os.environ}
    return said in ({}, SPIN_SHORTLY, SPIN_LONG)


def _may_be_told_to_spin() -> bool:
    return _is_left_to_us() and not BOUND & os.environ.keys()


def useful_threads(config: "CommonConfig", *, members: int, ranks: int, cores: int) -> int:
    """Return how many threads each of the ranks should have that train so many ``members``.

    All ranks together have ``cores``.
    """
    most = max(1, cores // ranks)
    if config.device == "cuda":  # which computes the products
        return most
    may_change = config.can_change_threads() and _may_be_told_to_spin()
    worth = PRODUCT_A_THREAD if may_change else FIXED_PRODUCT_A_THREAD
    return max(1, min(most, members * config.largest_product() // ranks // worth))

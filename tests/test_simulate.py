"""Simulated studies on which everything fails: a few seeds that never change, and fresh ones."""

import time
from pathlib import Path
from random import SystemRandom

import pytest
from simulate import simulate

SECONDS = 10.0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 31, 39])
def test_fixed_seeds(tmp_path: Path, seed: int) -> None:
    run = simulate(seed, tmp_path)
    assert run.problems == []
    assert run.counts


@pytest.mark.slow
def test_fresh_seeds(tmp_path: Path) -> None:
    end, number = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        seed = SystemRandom().randrange(2**32)
        run = simulate(seed, tmp_path / str(number))
        print(f"python tests/simulate.py --seed {seed}", dict(run.counts))
        assert run.problems == [], seed
        number += 1
    assert number > 0

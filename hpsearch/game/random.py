"""Random numbers by counter: Philox4x32-10, its seeds, and start positions.

Philox is a fixed bijection on 128-bit counters, chosen by a 64-bit key: the n-th number of a
stream is a function of (key, n) and of nothing else. So every member of a population has the
numbers it would have alone, on every device and in every order.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
Words are uint32 numbers held in int64 tensors. Axes: P members, B games (lanes), N points, D
coordinates.
"""

import hashlib
import json
import math
from typing import Final

import torch
from torch import Tensor

from hpsearch.game import rules

WORD: Final = 0xFFFFFFFF
WORDS_PER_BLOCK: Final = 4
NUM_ROUNDS: Final = 10
MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS: Final = (0x9E3779B9, 0xBB67AE85)


def derive_key(*parts: int | str) -> int:
    """Hash what a stream of numbers belongs to into its key, a number of 63 bits.

    The one source of seeds. The order of the parts counts, and 1 is not "1". For example
    ``derive_key(study_seed, trial_number, member, "host", "exploration")``.
    """
    digest = hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def split_words(numbers: Tensor) -> Tensor:
    """Split int64 (...) into its low and high words, int64 (..., 2)."""
    return torch.stack([numbers & WORD, (numbers >> 32) & WORD], dim=-1)


def philox4x32(counter: Tensor, key: Tensor) -> Tensor:
    """Encrypt counters by ten rounds of Philox4x32: words int64 (..., 4), uniform on 0..2^32 - 1.

    ``counter`` int64 (..., 4) and ``key`` int64 (..., 2), broadcast against it, hold words.
    """
    c0, c1, c2, c3 = counter.unbind(-1)
    k0, k1 = key.unbind(-1)
    for _ in range(NUM_ROUNDS):
        # The product of two words fills 64 bits; int64 wraps, which leaves its bits as they are.
        left, right = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c2 = ((right >> 32) & WORD) ^ c1 ^ k0, ((left >> 32) & WORD) ^ c3 ^ k1
        c1, c3 = right & WORD, left & WORD
        k0, k1 = (k0 + KEY_STEPS[0]) & WORD, (k1 + KEY_STEPS[1]) & WORD
    return torch.stack([c0, c1, c2, c3], dim=-1)


def uniform(keys: Tensor, counters: Tensor, num_numbers: int) -> Tensor:
    """Draw numbers in [0, 1) of each member, float32 (P, num_numbers), multiples of 2^-24.

    ``keys`` and ``counters`` are int64 (P,); a counter is that of the first block of four words.
    """
    blocks = torch.arange(num_blocks(num_numbers), device=keys.device)
    low_and_high = split_words(counters.unsqueeze(-1) + blocks)
    counter = torch.cat([low_and_high, torch.zeros_like(low_and_high)], dim=-1)
    words = philox4x32(counter, split_words(keys).unsqueeze(-2))
    return (words.flatten(-2)[:, :num_numbers] >> 8).to(torch.float32) * 2.0**-24


def num_blocks(num_words: int) -> int:
    return math.ceil(num_words / WORDS_PER_BLOCK)


MAX_ATTEMPTS: Final = 16
"""How often a start that is already over is drawn again.

A fixed number, so that a batch needs no look at its own results. At 20 points in 3 coordinates
2 % of the draws are over, and sixteen in a row never happen; the worst case is two points in two
coordinates, half of which are over. What is still over then becomes `simplest_start`.
"""


def random_starts(
    keys: Tensor,
    starts: Tensor,
    *,
    num_points: int,
    dimension: int,
    max_value: int,
    lanes: Tensor | None = None,
) -> Tensor:
    """Draw start positions: uniform on {0..max_value}, reduced, never over.

    The words of attempt ``a`` for start ``s`` of lane ``b`` under key ``k`` are the Philox blocks
    of key ``k`` with counters (block, b, s, a). ``keys`` is int64 (P,), ``starts`` int64 (P, B),
    the number of each lane's start, ``lanes`` int64 (B,) the lanes' own numbers, 0 to B - 1 where
    none are given; the positions are int32 (P, B, N, D), canonical.
    """
    lanes = lanes_of(starts) if lanes is None else lanes
    fallback = simplest_start(num_points, dimension, max_value, starts.device)
    points = fallback.expand(*starts.shape, -1, -1)
    over = torch.ones_like(starts, dtype=torch.bool)
    for attempt in range(MAX_ATTEMPTS):
        if over.device.type == "cpu" and not over.any():  # elsewhere, looking would wait
            break
        drawn = _draw(keys, starts, lanes, attempt, (num_points, dimension), max_value)
        reduced = rules.newton_polytope(drawn)
        success = over & ~rules.is_over(reduced)
        points = torch.where(success[..., None, None], reduced, points)
        over = over & ~success
    return points


def simplest_start(num_points: int, dimension: int, max_value: int, device: torch.device) -> Tensor:
    """Return the two points max_value on axis 0 and on axis 1, int32 (N, D), canonical."""
    points = torch.full((num_points, dimension), rules.PADDING, dtype=torch.int32, device=device)
    points[:2] = max_value * torch.eye(2, dimension, dtype=torch.int32, device=device)
    return points


def lanes_of(starts: Tensor) -> Tensor:
    """Return 0 to B - 1 for ``starts`` (P, B), int64 (B,)."""
    return torch.arange(starts.shape[1], device=starts.device)


def _draw(
    keys: Tensor,
    starts: Tensor,
    lanes: Tensor,
    attempt: int,
    shape: tuple[int, int],
    max_value: int,
) -> Tensor:
    """Return one attempt for every lane, int32 (P, B, *shape), not reduced."""
    num_words = shape[0] * shape[1]
    blocks = torch.arange(num_blocks(num_words), device=starts.device)
    counter = torch.empty(*starts.shape, len(blocks), 4, dtype=torch.int64, device=starts.device)
    counter[..., 0] = blocks
    counter[..., 1] = lanes[:, None]
    counter[..., 2] = (starts & WORD)[..., None]
    counter[..., 3] = attempt
    words = philox4x32(counter, split_words(keys)[:, None, None, :])
    coordinates = (words.flatten(-2)[..., :num_words] * (max_value + 1)) >> 32
    return coordinates.to(torch.int32).reshape(*starts.shape, *shape)

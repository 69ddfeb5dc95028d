"""Random numbers by counter: Philox4x32-10, and the seeds it starts from.

Philox is a fixed bijection on 128-bit counters, chosen by a 64-bit key: the n-th number of a
stream is a function of (key, n) and of nothing else. So every member of a population has the
numbers it would have alone, on every device and in every order.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
Words are uint32 numbers held in int64 tensors.
"""

import hashlib
import json
import math
from typing import Final

import torch
from torch import Tensor

WORD: Final = 0xFFFFFFFF
WORDS_PER_BLOCK: Final = 4
NUM_ROUNDS: Final = 10
MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS: Final = (0x9E3779B9, 0xBB67AE85)


def derive_key(*parts: int | str) -> int:
    """Hash what a stream of numbers belongs to into its key, a number of 63 bits.

    The one source of seeds. For example
    ``derive_key(study_seed, trial_number, member, "host", "exploration")``.

    Args:
        parts: What distinguishes the stream; their order counts, and 1 is not "1".
    """
    text = json.dumps(parts).encode()
    digest = hashlib.blake2b(text, digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def split_words(numbers: Tensor) -> Tensor:
    """Split int64 (...) into its low and high words, int64 (..., 2)."""
    return torch.stack([numbers & WORD, (numbers >> 32) & WORD], dim=-1)


def philox4x32(counter: Tensor, key: Tensor) -> Tensor:
    """Encrypt counters: ten rounds of Philox4x32.

    Args:
        counter: Words, int64 (..., 4).
        key: Words, int64 (..., 2), broadcast against ``counter``.

    Returns:
        Words, int64 (..., 4), each uniform on 0..2^32 - 1.
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
    """Draw numbers in [0, 1) from the blocks that begin at each member's counter.

    Args:
        keys: int64 (P,).
        counters: int64 (P,), in blocks of four words.
        num_numbers: How many to draw for each member.

    Returns:
        float32 (P, num_numbers), multiples of 2^-24.
    """
    blocks = torch.arange(num_blocks(num_numbers), device=keys.device)
    low_and_high = split_words(counters.unsqueeze(-1) + blocks)
    counter = torch.cat([low_and_high, torch.zeros_like(low_and_high)], dim=-1)
    words = philox4x32(counter, split_words(keys).unsqueeze(-2))
    return (words.flatten(-2)[:, :num_numbers] >> 8).to(torch.float32) * 2.0**-24


def num_blocks(num_words: int) -> int:
    """Count the blocks that hold ``num_words`` words."""
    return math.ceil(num_words / WORDS_PER_BLOCK)

"""A Triton program that says which moves a step takes for legal: there an assertion asks it."""

import triton
import triton.language as tl

from hpsearch.game.kernels.cuda_programs import _decode, _is_legal


@triton.jit
def legal_moves(
    actions: tl.tensor, axes: tl.tensor, result: tl.tensor, D: tl.constexpr, BLOCK: tl.constexpr
) -> None:
    """Answer for int64 ``actions`` and ``axes`` (BLOCK,) by bool (BLOCK,)."""
    move = tl.arange(0, BLOCK)
    action, axis = tl.load(actions + move), tl.load(axes + move)
    tl.store(result + move, _is_legal(action, _decode(action, D), axis, D))

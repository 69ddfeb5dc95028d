"""The Triton programs of the GPU backend. Importing them imports triton."""

import triton

from hpsearch.game.kernels.cuda_operators import newton_polytope, observe, random_starts, uniform
from hpsearch.game.kernels.cuda_step import move, step
from hpsearch.game.kernels.cuda_zeillinger import zeillinger

__all__ = [
    "INTERPRETED",
    "move",
    "newton_polytope",
    "observe",
    "random_starts",
    "step",
    "uniform",
    "zeillinger",
]

INTERPRETED: bool = triton.knobs.runtime.interpret
"""Whether the programs run in Triton's interpreter, also on tensors on the CPU."""

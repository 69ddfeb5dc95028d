"""What torch.compile compiles, where a configuration asks for it."""

import warnings
from collections.abc import Callable
from typing import Literal, ParamSpec, TypeVar

import torch

MAX_COMPILED_CASES = 64
"""of one function; beyond torch's own 8 it would go on uncompiled in silence"""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def compiled(
    function: Callable[Arguments, Result], how: Literal["off", "default"]
) -> Callable[Arguments, Result]:
    """Return the function itself, or what computes the same in fewer passes over memory.

    Settings of torch and a filter of warnings then hold for the whole process, which trains one
    configuration.
    """
    if how == "off":
        return function
    # All networks share one function: each role, tower and batch size is a case of it.
    torch._dynamo.config.recompile_limit = MAX_COMPILED_CASES
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    # Said by torch of tensors of its own, whose gradients nobody looks at.
    warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf")
    found: Callable[Arguments, Result] = torch.compile(function)
    return found

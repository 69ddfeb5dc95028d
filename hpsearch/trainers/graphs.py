"""CUDA graphs: the launches of a function, recorded once and from then on replayed as one.

A network of ours keeps a GPU busy for microseconds, and each of a step's hundreds of launches costs
the CPU as many; a graph costs one launch. What is recorded must change tensors in place, from
tensors that stay where they are, and must not look at what they hold: a number that Python knows
is part of the recording. See docs.nvidia.com/dl-cuda-graph. Also what torch.compile compiles.
"""

import os
import warnings
from collections.abc import Callable
from typing import Final, Literal, ParamSpec, TypeVar

import torch

from hpsearch.game.kernels import default_backend

SWITCH: Final = "HPSEARCH_NO_CUDA_GRAPHS"
"""variable of the environment; set to anything, every launch is made by itself"""

WARM_UPS: Final = 2
"""real calls before the recording, in which libraries prepare what they may not while recorded"""

Function = Callable[[], None]


class CudaRecorder:
    def warm_up(self, function: Function) -> None:
        """Call a function in another stream, as it will be recorded."""
        stream, present = torch.cuda.Stream(), torch.cuda.current_stream()
        stream.wait_stream(present)
        with torch.cuda.stream(stream):
            function()
        present.wait_stream(stream)

    def record(self, function: Function) -> Function:
        """Record the function without executing it; return a callable that replays the recording.

        Memory that the function allocates belongs to the recording.
        """
        graph = torch.cuda.CUDAGraph()
        # The thread that watches the GPU's memory must not break the recording.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            function()
        return graph.replay


def recorder_of(device: torch.device) -> CudaRecorder | None:
    """Return what records on a device; None for a CPU, or where it is switched off."""
    return CudaRecorder() if device.type == "cuda" and SWITCH not in os.environ else None


class Graphs:
    """Functions that are called again and again, by name, recorded where there is a recorder.

    A function takes and returns nothing. Attributes that it sets hold the tensors of its recording
    from then on, and each replay changes these.
    """

    def __init__(self, recorder: CudaRecorder | None) -> None:
        self._recorder = recorder
        self._calls: dict[str, int] = {}
        self._replays: dict[str, Function] = {}

    def run(self, name: str, function: Function) -> None:
        """Run ``function``; from the third call on replay its recording. One function a name."""
        if self._recorder is None:
            function()
            return
        calls = self._calls[name] = self._calls.get(name, 0) + 1
        if calls <= WARM_UPS:
            self._recorder.warm_up(function)
            return
        if name not in self._replays:
            self._replays[name] = self._recorder.record(function)
        self._replays[name]()

    def forget(self) -> None:
        """Record everything anew, because something that Python knows has changed."""
        self._calls.clear()
        self._replays.clear()


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
    torch._inductor.config.deterministic = torch.are_deterministic_algorithms_enabled()
    # torch warns of tensors that it made itself, whose gradients are not read.
    warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf")
    program: Callable[Arguments, Result] = torch.compile(function)
    return program


def quickest(
    function: Callable[Arguments, Result],
    loop: Callable[Arguments, Result],
    device: torch.device,
    how: Literal["off", "default"],
) -> Callable[Arguments, Result]:
    """Return ``loop``, the same in one pass, on a CPU; else, or to compile, see `compiled`."""
    return loop if has_loops(device, how) else compiled(function, how)


def has_loops(device: torch.device, how: Literal["off", "default"]) -> bool:
    """Return whether loops in one pass are quickest."""
    return default_backend(device) == "cpu" and how == "off"

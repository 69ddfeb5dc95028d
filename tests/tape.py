"""A recorder for the CPU that keeps what a CUDA graph would: operations, tensors and nothing else.

What Python did while recording (a number it read, a branch it took, a tensor it swapped) is not
done again by a replay, as on a GPU; and whatever would make a GPU wait fails, as on a GPU.
Where there is a GPU, tests/trainers/test_graphs.py trains by real graphs too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, UntypedStorage
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_map_only

WAITING = {
    "aten::_local_scalar_dense",
    "aten::lift_fresh",
    "aten::nonzero",
    "aten::masked_select",
    "aten::unique_dim",
    "aten::_unique2",
    "aten::equal",
}
"""operations whose result Python has to wait for, or that copy from its memory"""


BY_INDEX = {"aten::index", "aten::index_put", "aten::index_put_"}
"""operations that count the chosen elements where the index is a mask"""


def waits(name: str, arguments: tuple[Any, ...]) -> bool:
    """Return whether an operation cannot be recorded."""
    masks = [tensor for tensor in tree_flatten(arguments[1:2])[0] if isinstance(tensor, Tensor)]
    by_mask = name in BY_INDEX and any(mask.dtype == torch.bool for mask in masks)
    return name in WAITING or by_mask


@dataclass(frozen=True)
class Operation:
    """One operation on the tensors of the recording, and where its results lie."""

    function: Any
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    results: list[Tensor]

    def again(self) -> None:
        """Do it on the same tensors; results are written where they were."""
        repeated = self.function(*self.arguments, **self.named)
        new = [tensor for tensor in tree_flatten(repeated)[0] if isinstance(tensor, Tensor)]
        for old, result in zip(self.results, new, strict=True):
            if place(old) != place(result):
                old.copy_(result)


class Tape(TorchDispatchMode):
    """Keeps every operation that is done under it, also those of a backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self._operations: list[Operation] = []
        self._own: set[int] = set()
        self._before: dict[int, tuple[UntypedStorage, UntypedStorage]] = {}

    def __torch_dispatch__(
        self,
        function: Any,
        types: Any,
        arguments: tuple[Any, ...] = (),
        named: dict[str, Any] | None = None,
    ) -> Any:
        if waits(function._schema.name, arguments):
            raise AssertionError(f"{function._schema.name} would make a GPU wait")
        return self.do(function, arguments, named or {})

    def do(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        """Do and keep one operation, or a call that is to be one."""
        given = [
            tensor for tensor in tree_flatten((arguments, named))[0] if isinstance(tensor, Tensor)
        ]
        for tensor in given:
            self._remember(tensor)
        returned = function(*arguments, **named)
        results = [
            tensor.detach() for tensor in tree_flatten(returned)[0] if isinstance(tensor, Tensor)
        ]
        known = {place(argument) for argument in given}
        self._own |= {place(result) for result in results} - known
        arguments, named = tree_map_only(Tensor, Tensor.detach, (arguments, named))
        self._operations.append(Operation(function, arguments, named, results))
        return returned

    def _remember(self, tensor: Tensor) -> None:
        """Keep what was there before the recording."""
        if place(tensor) not in self._own | self._before.keys():
            storage = tensor.untyped_storage()
            self._before[place(tensor)] = (storage, storage.clone())

    def undo(self) -> None:
        """Put back what was there before the recording: a GPU's does nothing."""
        for storage, before in self._before.values():
            storage.copy_(before)

    @torch.no_grad()
    def replay(self) -> None:
        """Do every operation again."""
        for operation in self._operations:
            operation.again()


class TapeRecorder:
    """Records on a CPU as `graphs.CudaRecorder` does on a GPU."""

    def __init__(self) -> None:
        self.num_recorded = 0
        self._tape: Tape | None = None

    def kernel(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose calls are one operation each, as the launch of a kernel is.

        For what is compiled, of which a tape sees nothing, and what on a CPU looks at a result.
        """

        def call(*arguments: Any, **named: Any) -> Any:
            if self._tape is None:
                return function(*arguments, **named)
            with _disable_current_modes():
                return self._tape.do(function, arguments, named)

        return call

    def warm_up(self, function: Callable[[], None]) -> None:
        """Call a function that will be recorded."""
        function()

    def record(self, function: Callable[[], None]) -> Callable[[], None]:
        """Return the replay."""
        self.num_recorded += 1
        self._tape = tape = Tape()
        with tape:
            function()
        self._tape = None
        tape.undo()
        return tape.replay


def place(tensor: Tensor) -> int:
    """Return where a tensor's memory begins."""
    return tensor.untyped_storage().data_ptr()

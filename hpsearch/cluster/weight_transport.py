"""How newer weights travel from a learner to an actor: in memory, in a file, or by NCCL.

Each way has two halves: the learner's sends, then tells the actor so; the actor's was given to its
process as that began, and receives. The learner sends the next ones after the actor has received.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
import torch.distributed
from torch.distributed import Store, TCPStore  # type: ignore[attr-defined]

from hpsearch.cluster.block import Block
from hpsearch.cluster.served_store import LOOPBACK, serve
from hpsearch.files import write_bytes
from hpsearch.trainers.acting import Tensors

LEARNER, ACTOR = 0, 1  # ranks of their group
READY = "actor"  # key of the store, which the actor sets
_FOREVER = timedelta(days=365)

distributed: Any = torch.distributed  # whose classes of groups have no types

Device = Literal["cpu", "cuda"]


class Receiver(Protocol):
    def connect(self) -> None:
        """Connect to the learner, which is told before that the actor is ready."""

    def receive(self, shared: Block) -> Tensors:
        """Return the weights; ``shared`` is the memory of those with which the actor began."""


class Sender(Protocol):
    @property
    def receiver(self) -> Receiver: ...

    def connect(self) -> None:
        """Connect to an actor that is ready; RuntimeError if that does not answer."""

    def send(self, weights: Tensors, shared: Block) -> None:
        """Let the actor receive weights; RuntimeError if it is gone."""

    def end(self) -> None:
        """Leave nothing behind, whether or not the actor lives."""


class ByMemory:
    """Both halves; the memory is shared anyway."""

    @property
    def receiver(self) -> "ByMemory":
        return self

    def connect(self) -> None:
        """Do nothing: it is."""

    def send(self, weights: Tensors, shared: Block) -> None:
        shared.fill(0, weights)

    def receive(self, shared: Block) -> Tensors:
        return shared.place(0)

    def end(self) -> None:
        """Leave the memory to both processes."""


@dataclass(frozen=True)
class ByFile:
    """Both halves; each actor has a file: what it has not read yet must not be replaced."""

    path: Path

    @property
    def receiver(self) -> "ByFile":
        return self

    def connect(self) -> None:
        """Do nothing: both know the path."""

    def send(self, weights: Tensors, shared: Block) -> None:
        from safetensors.torch import save

        plain = {name: tensor.cpu().contiguous() for name, tensor in weights.items()}
        write_bytes(self.path, save(plain), is_flushed=False)

    def receive(self, shared: Block) -> Tensors:
        from safetensors.torch import load_file

        return load_file(self.path)

    def end(self) -> None:
        self.path.unlink(missing_ok=True)


class ByGroup:
    """The learner's half of a group of torch.distributed for these two processes.

    torch's `init_process_group` makes one group a process, which may be that of the ranks, and
    never replaces a member that is lost.
    """

    def __init__(self, device: Device, seconds: float) -> None:
        """Wait at most so many seconds for the actor as it connects."""
        self._device, self._seconds = device, seconds
        self._store = serve(LOOPBACK)
        self._group: Any = None
        self._block: Block | None = None

    @property
    def receiver(self) -> "FromGroup":
        return FromGroup(self._device, self._store.port)

    def connect(self) -> None:
        # NCCL itself would wait for ever for an actor that is lost.
        self._store.wait([READY], timedelta(seconds=self._seconds))
        self._group = _group(self._store, LEARNER, self._device)

    def send(self, weights: Tensors, shared: Block) -> None:
        if self._block is None or self._block.layout != shared.layout:
            self._block = Block.on(self._device, shared.layout)
        self._block.fill(0, weights)
        # Nothing waits for its end: an actor that is lost would let the learner wait for ever.
        self._group.broadcast(self._block.data, LEARNER)

    def end(self) -> None:
        if self._group is not None:
            self._group.abort()


@dataclass
class FromGroup:
    device: Device
    port: int
    _group: Any = field(default=None, init=False)
    _block: Block | None = field(default=None, init=False)

    def connect(self) -> None:
        store = TCPStore(LOOPBACK, self.port, is_master=False)
        store.set_timeout(_FOREVER)  # the learner comes between two of its steps
        store.set(READY, "")
        self._group = _group(store, ACTOR, self.device)

    def receive(self, shared: Block) -> Tensors:
        if self._block is None or self._block.layout != shared.layout:
            self._block = Block.on(self.device, shared.layout)
        self._group.broadcast(self._block.data, LEARNER).wait()
        if self.device == "cuda":  # the learner may send again once it is told, on which none waits
            torch.cuda.current_stream().synchronize()
        return self._block.place(0)


def _group(store: Store, rank: int, device: Device) -> Any:
    """Return a group of two, in which one call was made."""
    if device == "cuda":
        options = distributed.ProcessGroupNCCL.Options()
        options._timeout = _FOREVER  # what is lost, the pipe tells
        group = distributed.ProcessGroupNCCL(store, rank, 2, options)
    else:
        options = distributed.ProcessGroupGloo._Options()
        options._timeout = _FOREVER
        options._devices = [distributed.ProcessGroupGloo.create_device(hostname=LOOPBACK)]
        group = distributed.ProcessGroupGloo(store, rank, 2, options)
    # NCCL forms its group in the first call, in which both must be.
    group.broadcast(torch.zeros(1, device=device), LEARNER).wait()
    return group

"""How newer weights travel from a learner to an actor: in memory, in a file, or by NCCL.

Each way has two halves. The learner's half sends, and the learner then tells the actor. The actor's
half is given to its process at the start, and receives. The learner sends again only after that.
"""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any, Literal, Protocol

import torch
import torch.distributed
from torch import Tensor
from torch.distributed import Store, TCPStore  # type: ignore[attr-defined]

from hpsearch.cluster.block import Block
from hpsearch.cluster.served_store import LOOPBACK, serve
from hpsearch.files import write_bytes
from hpsearch.trainers.acting import Tensors

LEARNER_RANK, ACTOR_RANK = 0, 1  # of their group
CONNECTS = "connects"  # key of the store, which the actor sets
_FOREVER = timedelta(days=365)

distributed: Any = torch.distributed  # whose classes of groups have no types

Device = Literal["cpu", "cuda"]


class NotConnectedError(Exception):
    """The actor is gone, or could not be reached."""


class Receiver(Protocol):
    def connect(self) -> None:
        """Connect to the learner, whose half does the same meanwhile."""

    def receive(self, shared: Block) -> Tensors:
        """Return the weights; ``shared`` is the memory of those with which the actor began."""


class Sender(Protocol):
    @property
    def receiver(self) -> Receiver: ...

    def connect(self) -> None:
        """Begin to connect to an actor that has started, and wait for nothing."""

    def send(self, weights: Tensors, shared: Block) -> None:
        """Let an actor that has connected receive weights; may raise NotConnectedError."""

    def end(self) -> None:
        """Leave nothing behind, whether or not the actor lives."""


class ByMemory:
    """Both halves; the memory is shared anyway."""

    @property
    def receiver(self) -> "ByMemory":
        return self

    def connect(self) -> None:
        """Do nothing: both have the memory."""

    def send(self, weights: Tensors, shared: Block) -> None:
        shared.fill(0, weights)

    def receive(self, shared: Block) -> Tensors:
        return shared.place(0)

    def end(self) -> None:
        """Do nothing: the memory goes with both processes."""


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
        """Wait at most so many seconds for the actor to connect, once it has said that it does."""
        self._device, self._seconds = device, seconds
        self._store = serve(LOOPBACK)
        # NCCL would wait for ever for an actor that is lost meanwhile.
        self._connecting = Thread(target=self._connect, daemon=True)
        self._group: Any = None
        self._fault = f"it did not connect within {seconds:g} s"
        self._block: Block | None = None

    @property
    def receiver(self) -> "FromGroup":
        return FromGroup(self._device, self._store.port)

    def connect(self) -> None:
        self._connecting.start()

    def _connect(self) -> None:
        try:
            self._store.wait([CONNECTS], timedelta(seconds=self._seconds))
            group = _group(self._store, LEARNER_RANK, self._device)
            group.broadcast(torch.zeros(1, device=self._device), LEARNER_RANK)
            self._group = group
        except RuntimeError as error:  # of torch
            self._fault = f"it cannot be connected ({error})"

    def send(self, weights: Tensors, shared: Block) -> None:
        self._connecting.join(self._seconds)
        if self._group is None:
            raise NotConnectedError(self._fault)
        if self._block is None or self._block.layout != shared.layout:
            self._block = Block.local(self._device, shared.layout)
        self._block.fill(0, weights)
        try:
            # Nothing waits for its end: an actor that is lost would let the learner wait for ever.
            self._group.broadcast(self._block.data, LEARNER_RANK)
        except RuntimeError as error:  # of torch
            raise NotConnectedError(f"it cannot be sent weights ({error})") from error

    def end(self) -> None:
        if self._group is not None:
            self._group.abort()


class FromGroup:
    """The actor's half."""

    def __init__(self, device: Device, port: int) -> None:
        self._device, self._port = device, port
        self._group: Any = None
        self._block: Block | None = None

    def connect(self) -> None:
        store = TCPStore(LOOPBACK, self._port, is_master=False)
        store.set_timeout(_FOREVER)  # whether the learner lives, another thread looks
        store.set(CONNECTS, "")
        self._group = _group(store, ACTOR_RANK, self._device)
        self._take(torch.zeros(1, device=self._device))  # NCCL connects with the first call

    def receive(self, shared: Block) -> Tensors:
        if self._block is None or self._block.layout != shared.layout:
            self._block = Block.local(self._device, shared.layout)
        self._take(self._block.data)
        return self._block.place(0)

    def _take(self, data: Tensor) -> None:
        self._group.broadcast(data, LEARNER_RANK).wait()
        if self._device == "cuda":  # once it is told, the learner overwrites what it sent
            torch.cuda.current_stream().synchronize()


def _group(store: Store, rank: int, device: Device) -> Any:
    """Return a group of two: of NCCL, or of gloo on a CPU, where tests have no GPUs."""
    if device == "cuda":
        options = distributed.ProcessGroupNCCL.Options()
        options._timeout = _FOREVER
        return distributed.ProcessGroupNCCL(store, rank, 2, options)
    options = distributed.ProcessGroupGloo._Options()
    options._timeout = _FOREVER
    options._devices = [distributed.ProcessGroupGloo.create_device(hostname=LOOPBACK)]
    return distributed.ProcessGroupGloo(store, rank, 2, options)

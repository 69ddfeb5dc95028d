"""The parts of checkpoints that the ranks of a job write beside training.

Each rank writes its part into a folder that the first one has made. What it has written it says
after the next call that all make together. Once the first rank has heard of all parts, it writes
the manifest: without that no checkpoint counts, whichever rank is lost meanwhile.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from torch import Tensor

from hpsearch.trainers import checkpoint
from hpsearch.trainers.checkpoint import Checkpoint, CheckpointPart
from hpsearch.trainers.ranks import Ranks

PartsWritten = dict[str, CheckpointPart | str]
"""by the name of a checkpoint's unfinished folder: a rank's part, or why it could not write it"""


class PartWriter:
    """What a rank that is not the first writes beside training."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        self._thread = ThreadPoolExecutor(1, "parts")
        self._in_flight: dict[str, Future[CheckpointPart]] = {}

    def write(self, temporary: Path, saved: Checkpoint, places: Mapping[str, Tensor]) -> None:
        """Begin to write this rank's part; ``saved`` must not change meanwhile."""
        part = self._thread.submit(checkpoint.write_part, temporary, saved, self._ranks, places)
        self._in_flight[temporary.name] = part

    def wait(self) -> None:
        wait(self._in_flight.values())

    def take_written(self) -> PartsWritten:
        """Return what has been written since the last call; raises what is no fault of the disk.

        Never a part without those before it: the first rank's thread finishes one after another.
        """
        done = list(takewhile(lambda name: self._in_flight[name].done(), self._in_flight))
        return {name: self._result(self._in_flight.pop(name)) for name in done}

    def _result(self, part: Future[CheckpointPart]) -> CheckpointPart | str:
        try:
            return part.result()
        except OSError as error:
            return f"rank {self._ranks.rank}: {error}"


@dataclass(frozen=True)
class _Awaited:
    parts: Future[list[CheckpointPart]] = field(default_factory=Future)
    heard: dict[int, CheckpointPart | str] = field(default_factory=dict)  # by rank


class AwaitedParts:
    """What the first rank hears of the others' parts."""

    def __init__(self, num_others: int) -> None:
        self._num_others = num_others
        self._awaited: dict[str, _Awaited] = {}  # by the unfinished folder's name

    def begin(self, temporary: Path) -> Future[list[CheckpointPart]]:
        """Return what will hold the other ranks' parts, or an OSError if one was not written."""
        awaited = _Awaited()
        if self._num_others == 0:
            awaited.parts.set_result([])
        else:
            self._awaited[temporary.name] = awaited
        return awaited.parts

    def give_up(self, temporary: Path) -> None:
        self._awaited.pop(temporary.name, None)

    def hear(self, said: Sequence[PartsWritten]) -> None:
        """Take in what each rank has written."""
        for name, awaited in [*self._awaited.items()]:
            heard = awaited.heard
            heard |= {rank: written[name] for rank, written in enumerate(said) if name in written}
            if len(heard) < self._num_others:  # some are still being written
                continue
            del self._awaited[name]
            by_rank = [heard[rank] for rank in sorted(heard)]
            faults = [part for part in by_rank if isinstance(part, str)]
            if faults:
                awaited.parts.set_exception(OSError("; ".join(faults)))
            else:
                parts = [part for part in by_rank if isinstance(part, CheckpointPart)]
                awaited.parts.set_result(parts)

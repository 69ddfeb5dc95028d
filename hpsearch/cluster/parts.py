"""The parts of checkpoints that the ranks of a job write beside training.

Each rank writes its part into a folder that the first one has made. What it has written it says
after the next call that all make together. Once the first rank has heard of all parts, it writes
the manifest: without that no checkpoint counts, whichever rank is lost meanwhile.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from torch import Tensor

from hpsearch.trainers import checkpoint
from hpsearch.trainers.checkpoint import Checkpoint, CheckpointPart
from hpsearch.trainers.ranks import Ranks

PartsWritten = dict[str, CheckpointPart | str]
"""by the name of a checkpoint's unfinished folder: a rank's part, or why it could not write it"""


class PartWriter:
    """What one rank writes, or the first one awaits of the others."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        self._thread = ThreadPoolExecutor(1, "parts")
        self._in_flight: dict[str, Future[CheckpointPart]] = {}
        self._others: dict[str, Future[list[CheckpointPart]]] = {}
        """by folder: what will hold the other ranks' parts"""
        self._heard: dict[str, dict[int, CheckpointPart | str]] = {}
        """by folder and rank: what is known of them"""

    # A rank that is not the first.

    def write(self, temporary: Path, saved: Checkpoint, places: Mapping[str, Tensor]) -> None:
        """Begin to write this rank's part; ``saved`` must not change meanwhile."""
        how = temporary, saved, self._ranks, places
        self._in_flight[temporary.name] = self._thread.submit(checkpoint.write_part, *how)

    def wait(self) -> None:
        wait(self._in_flight.values())

    def take_written(self) -> PartsWritten:
        """Return what has been written since the last call; raises what is no fault of the disk."""
        done = [name for name, part in self._in_flight.items() if part.done()]
        return {name: self._result(self._in_flight.pop(name)) for name in done}

    def _result(self, part: "Future[CheckpointPart]") -> CheckpointPart | str:
        try:
            return part.result()
        except OSError as error:
            return f"rank {self._ranks.rank}: {error}"

    # The first rank.

    def of_others(self, temporary: Path) -> "Future[list[CheckpointPart]]":
        """Return what will hold the other ranks' parts, or an OSError if one was not written."""
        others: Future[list[CheckpointPart]] = Future()
        if self._ranks.size == 1:
            others.set_result([])
        else:
            self._others[temporary.name], self._heard[temporary.name] = others, {}
        return others

    def hear(self, said: Sequence[PartsWritten]) -> None:
        """Take in what each rank has written."""
        for name, heard in [*self._heard.items()]:
            heard |= {rank: written[name] for rank, written in enumerate(said) if name in written}
            if len(heard) == self._ranks.size - 1:  # else some are still being written
                del self._heard[name]
                others = self._others.pop(name)
                by_rank = [heard[rank] for rank in sorted(heard)]
                parts = [part for part in by_rank if isinstance(part, CheckpointPart)]
                faults = [part for part in by_rank if isinstance(part, str)]
                if faults:
                    others.set_exception(OSError("; ".join(faults)))
                else:
                    others.set_result(parts)

"""Looks for TensorBoard: one folder a member, one event file an attempt."""

from pathlib import Path

from hpsearch.monitor.event_file import EventFile, check_tensorboard, event_file_name
from hpsearch.monitor.snapshot import MemberSnapshot, MonitorSnapshot


class TensorBoard:
    """Writes every look as one event for each member."""

    def __init__(self) -> None:
        """Import what events are made of.

        Raises:
            UsageError: if tensorboard is not installed.
        """
        check_tensorboard()
        self._files: dict[Path, EventFile] = {}

    def write(self, look: MonitorSnapshot) -> None:
        """Append an event to the file of each member."""
        for member in look.members:
            place = member.place
            if place.tensorboard not in self._files:
                self._files[place.tensorboard] = _begin(place.tensorboard, place.step)
            file = self._files[place.tensorboard]
            file.write(look.at, member.step, _values(look, member))
            file.flush()
        # Thousands may come and go while a job runs.
        for path in self._files.keys() - {member.place.tensorboard for member in look.members}:
            self._files.pop(path).close()

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()


def _begin(folder: Path, step: int) -> EventFile:
    """Return the file of an attempt that goes on from ``step``."""
    folder.mkdir(parents=True, exist_ok=True)
    return EventFile((folder / event_file_name()).open("xb"), keeps=step)


def _values(look: MonitorSnapshot, member: MemberSnapshot) -> dict[str, float]:
    """Return the values by tag; TensorBoard groups what shares the text before the first slash."""
    values = dict(member.scalars)
    values |= {f"layers/{name}": value for name, value in member.layers.items()}
    values |= {f"milliseconds/{name}": timing.mean for name, timing in look.timings.items()}
    values |= {f"job/{name}": value for name, value in look.job.items()}
    return values

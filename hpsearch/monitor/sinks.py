"""Where looks go. A sink that fails is switched off with a sentence; training goes on."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

from hpsearch.monitor.look import Look


class Sink(Protocol):
    """One place that looks are written to."""

    def write(self, look: Look) -> None:
        """Write a look; may raise whatever a disk or a network raises."""
        ...

    def close(self) -> None:
        """Finish what was written."""
        ...


class Sinks:
    """The sinks that are switched on and work."""

    def __init__(self, makers: Mapping[str, Callable[[], Sink]]) -> None:
        """Make the sinks, by the name that a sentence about one gives it."""
        self._sinks: dict[str, Sink] = {}
        for name, make in makers.items():
            try:
                self._sinks[name] = make()
            except Exception as error:
                print(switched_off(name, error), flush=True)

    def write(self, look: Look) -> None:
        """Write a look to every sink; one that fails gets no further one."""
        for name, sink in list(self._sinks.items()):
            try:
                sink.write(look)
            except Exception as error:
                print(switched_off(name, error), flush=True)
                self._close(name)

    def __len__(self) -> int:
        return len(self._sinks)

    def close(self) -> None:
        """Close every sink."""
        for name in list(self._sinks):
            self._close(name)

    def _close(self, name: str) -> None:
        with suppress(Exception):  # it may be closed because its disk is full
            self._sinks.pop(name).close()


def switched_off(name: str, error: Exception) -> str:
    """Return the sentence for a part that failed."""
    reason = str(error) or type(error).__name__
    return f"{name} is switched off and training goes on without it: {reason}"

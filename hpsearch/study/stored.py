"""Mappings of which a part is in memory, and the rest is read when it is asked for."""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Generic, Protocol, TypeVar

from hpsearch.errors import StorageUnavailableError

K = TypeVar("K")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


class Source(Protocol[K, V_co]):
    """Where the rest is."""

    def read(self, key: K) -> V_co | None:
        """Return a value, None if there is none."""

    def read_all(self) -> Mapping[K, V_co]:
        """Return everything, with what may be in memory too."""


class Stored(MutableMapping[K, V], Generic[K, V]):
    """What is in memory, and what a table holds besides.

    What is written into it stays in memory; a key that is new here must not be in the table.

    Attributes:
        known: what is in memory.
        num_stored: how many others there are.
    """

    def __init__(self, known: dict[K, V], num_stored: int, source: Source[K, V]) -> None:
        """``num_stored`` counts what the source alone holds."""
        self.known = known
        self.num_stored = num_stored
        self._source = source

    def __getitem__(self, key: K) -> V:
        """Return a value, read if it must be."""
        if key not in self.known and self.num_stored:
            value = self._source.read(key)
            if value is not None:
                self.known[key] = value
                self.num_stored -= 1
        return self.known[key]

    def __setitem__(self, key: K, value: V) -> None:
        """Hold a value in memory."""
        self.known[key] = value

    def __delitem__(self, key: K) -> None:
        """Forget what is in memory."""
        del self.known[key]

    def __len__(self) -> int:
        """Return how many there are, read or not."""
        return len(self.known) + self.num_stored

    def __iter__(self) -> Iterator[K]:
        """Yield the keys in the order of their numbers; everything is read."""
        if self.num_stored:
            every = {**self._source.read_all(), **self.known}
            if len(every) != len(self):
                raise StorageUnavailableError(
                    "a newer hpsearch has taken the study meanwhile; run the command again"
                )
            self.known = {key: every[key] for key in sorted(every, key=_number)}
            self.num_stored = 0
        return iter(self.known)


def _number(key: object) -> tuple[int, str]:
    """Sort by number, whether it is one or a name with as many digits as are needed."""
    return len(str(key)), str(key)

"""When Python looks for circles of garbage while a driver runs, which keeps millions of objects.

By itself it looks at all of them now and then, of a hundred thousand trials for many seconds.
"""

import gc
from types import TracebackType
from typing import Final

COLLECTIONS: Final = (20_000, 20, 20)
"""new objects, and collections of younger ones, after which Python looks: a driver makes few
circles"""


class RareCollections:
    """A block in which Python looks rarely, at what has grown old since the last `settle` alone."""

    def __init__(self) -> None:
        self._usual = gc.get_threshold()
        self._has_frozen = False
        self._others_had_frozen = False

    def __enter__(self) -> "RareCollections":
        gc.set_threshold(*COLLECTIONS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        gc.set_threshold(*self._usual)
        if self._has_frozen and not self._others_had_frozen:
            gc.unfreeze()

    def settle(self) -> None:
        """Look for circles among what came since the last call, and never there again.

        A circle that is given up after a later call stays in memory, until the block ends; there
        are few.
        """
        has_grown = gc.get_count()[2] > 0  # by some 400,000 objects, see `COLLECTIONS`
        if not has_grown:
            return
        if not self._has_frozen:  # not before: Python counts them one by one
            self._others_had_frozen = gc.get_freeze_count() > 0
        gc.collect()
        gc.freeze()
        self._has_frozen = True

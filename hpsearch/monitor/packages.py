"""Packages that only a switched-on part needs: imported then, and named if they are missing."""

from collections.abc import Iterator
from contextlib import contextmanager

from hpsearch.errors import UsageError


@contextmanager
def needed(package: str) -> Iterator[None]:
    """Turn the failing import of ``package`` into a sentence with the remedy.

    Raises:
        UsageError: if something cannot be imported inside the block.
    """
    try:
        yield
    except ImportError as error:
        raise UsageError(
            f"the package {package} cannot be imported ({error}); "
            "install it with: pip install 'hpsearch[monitor]'"
        ) from error

"""Recorded studies, unpacked once."""

from pathlib import Path

import pytest
from recorded import RECORDINGS, unpack
from tampering import Tampered

NEWEST = "0.1.0"


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory):
    """Return a function from the name of a recording to where it lies, not to be changed."""
    places: dict[str, Path] = {}

    def place(name: str) -> Path:
        if name not in places:
            places[name] = tmp_path_factory.mktemp(name)
            unpack(RECORDINGS / NEWEST / name, places[name])
        return places[name]

    return place


@pytest.fixture
def copy_of(unpacked, tmp_path):
    """Return a function from the name of a recording to a copy of it."""
    return lambda name: Tampered(unpacked(name), tmp_path / "copy")

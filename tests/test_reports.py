"""The finished study that is shipped: its page and its bundle belong together."""

import json
import re
from pathlib import Path
from zipfile import ZipFile, is_zipfile

import pytest

from hpsearch.report.bundle.reading import read_bundle, reproduce

STUDY = Path(__file__).parent.parent / "reports/quickstart"
PAGE = (STUDY / "index.html").read_text()
MOST_BYTES = 15e6


def test_page_and_bundle_tell_of_one_trial():
    assert len(PAGE.encode()) < MOST_BYTES
    certificate = json.loads((STUDY / "best/evaluation.json").read_text())
    assert f"Trial {certificate['trial']}, the best when compared" in PAGE
    assert "16 finished, of 16" in PAGE


def test_no_path_of_a_machine_is_told():
    files = [STUDY / "index.html", *(STUDY / "best").iterdir()]
    assert len(files) == 8
    for file in files:
        for part in parts(file):
            assert not re.search(rb"[\" =>]/(tmp|home|root|work|dev/shm)/", part), file


def parts(file: Path) -> list[bytes]:
    """Return what a file holds, of an archive its members."""
    if not is_zipfile(file):
        return [file.read_bytes()]
    with ZipFile(file) as archive:
        return [archive.read(name) for name in archive.namelist()]


def test_the_bundle_is_whole():
    assert set(read_bundle(STUDY / "best").players) == {"host"}


@pytest.mark.slow
def test_the_bundle_plays_as_it_is_certified():
    """As far as another processor allows: what differs lies within the certified intervals."""
    bundle = read_bundle(STUDY / "best")
    for line in reproduce(bundle):
        name, _, numbers = line.partition(": certified ")
        # A torch of another version writes other programs.
        assert "is not the program of the weights" not in line, line
        if numbers:
            before, after = map(float, re.findall(r"[\d.e-]+", numbers))
            assert after == pytest.approx(before, rel=0.02), name

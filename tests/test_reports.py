"""The finished studies that are shipped: pages and bundles belong together."""

import json
import re
from pathlib import Path
from zipfile import ZipFile, is_zipfile

import pytest

from hpsearch.export.reading import read_bundle, reproduce

REPORTS = Path(__file__).parent.parent / "reports"
STUDY = REPORTS / "quickstart"
BUNDLES = [STUDY / "best", REPORTS / "choose_first/best"]
"""of today's format and of the first one"""
PAGE = (STUDY / "index.html").read_text()
MOST_BYTES = 1.5e6


def test_page_and_bundle_tell_of_one_trial():
    assert len(PAGE.encode()) < MOST_BYTES
    certificate = json.loads((STUDY / "best/evaluation.json").read_text())
    assert f"Trial {certificate['trial']}, the best when compared" in PAGE
    assert "16 finished, of 16" in PAGE


def test_no_path_of_a_machine_is_told():
    files = [STUDY / "index.html", *(file for bundle in BUNDLES for file in bundle.iterdir())]
    assert len(files) == 15
    for file in files:
        for part in parts(file):
            assert not re.search(rb"[\" =>]/(tmp|home|root|work|dev/shm)/", part), file


def parts(file: Path) -> list[bytes]:
    """Return what a file holds, of an archive its members."""
    if not is_zipfile(file):
        return [file.read_bytes()]
    with ZipFile(file) as archive:
        return [archive.read(name) for name in archive.namelist()]


@pytest.mark.parametrize("bundle", BUNDLES)
def test_the_bundles_are_whole(bundle):
    assert set(read_bundle(bundle).players) == {"host"}


@pytest.mark.slow
@pytest.mark.parametrize("bundle", BUNDLES)
def test_the_bundles_play_as_they_are_certified(bundle):
    """As far as another processor allows: what differs lies within the certified intervals."""
    for line in reproduce(read_bundle(bundle)):
        name, _, numbers = line.partition(": certified ")
        # A torch of another version writes other programs.
        assert "is not the program of the weights" not in line, line
        if numbers:
            before, after = map(float, re.findall(r"[\d.e-]+", numbers))
            assert after == pytest.approx(before, rel=0.02), name

"""A bundle's folder is whole or absent, whatever the disk does."""

import os

import pytest
from full_disk import fill_disk_at

from hpsearch.errors import DiskError
from hpsearch.report.bundle.files import MARK
from hpsearch.report.bundle.placing import replacing


def write(folder, text):
    with replacing(folder) as new:
        (new / "policies").mkdir(parents=True)
        (new / MARK).write_text(text)
        (new / "policies/host.txt").write_text(text)


def content(folder):
    return {one.name: one.read_text() for one in folder.rglob("*") if one.is_file()}


def test_everything_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    flushed, fsync = [], os.fsync

    def note(descriptor):
        flushed.append(os.fstat(descriptor).st_ino)
        at_the_end = flushed[-1] == tmp_path.stat().st_ino
        assert folder.exists() == at_the_end
        fsync(descriptor)

    folder = tmp_path / "best"
    monkeypatch.setattr(os, "fsync", note)
    write(folder, "new")
    inodes = {one.stat().st_ino for one in (*folder.rglob("*"), folder, tmp_path)}
    assert inodes <= set(flushed)


@pytest.mark.parametrize("fatal", range(4))
def test_a_disk_that_is_full_leaves_the_older_bundle(tmp_path, monkeypatch, fatal):
    folder = tmp_path / "best"
    write(folder, "old")
    fill_disk_at(monkeypatch, fatal)
    with pytest.raises(DiskError, match="free some space"):
        write(folder, "new")
    assert content(folder) == {MARK: "old", "host.txt": "old"}
    assert [one.name for one in tmp_path.iterdir()] == ["best"]

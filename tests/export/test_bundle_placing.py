"""A bundle's folder is whole or absent, whatever the disk does."""

import errno
import os

import pytest
from full_disk import fill_disk_at

from hpsearch.errors import DiskError, UsageError
from hpsearch.export.folder import INDEX, replacing

BUNDLE = ("README.md", "config.yaml", "weights.safetensors", "evaluation.json", "provenance.json")


def write_bundle(folder, text):
    folder.mkdir(parents=True, exist_ok=True)
    for name in BUNDLE:
        (folder / name).write_text(text)


def write_index(folder, text):
    write_bundle(folder / "1-trial-7", text)
    (folder / INDEX).write_text(text)


def write(folder, text):
    with replacing(folder) as new:
        write_index(new, text)


def holding(text):
    """Return what `content` finds in a folder that was written."""
    return dict.fromkeys((INDEX, *BUNDLE), text)


def content(folder):
    return {path.name: path.read_text() for path in folder.rglob("*") if path.is_file()}


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
    inodes = {path.stat().st_ino for path in (*folder.rglob("*"), folder, tmp_path)}
    assert inodes <= set(flushed)


@pytest.mark.parametrize("fatal", range(4))
def test_a_disk_that_is_full_leaves_the_older_bundle(tmp_path, monkeypatch, fatal):
    folder = tmp_path / "best"
    write(folder, "old")
    fill_disk_at(monkeypatch, fatal)
    with pytest.raises(DiskError, match="free some space"):
        write(folder, "new")
    assert content(folder) == holding("old")
    assert [path.name for path in tmp_path.iterdir()] == ["best"]


def refuse(folder, error, words):
    """Check that a place is refused before anything would be measured, and nothing is left."""
    before = sorted(folder.parent.parent.rglob("*"))
    with pytest.raises(error, match=words), replacing(folder):
        pytest.fail("it was measured")
    assert sorted(folder.parent.parent.rglob("*")) == before


def test_what_is_in_the_way_is_refused_before_anything_is_measured(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    for name in ("file", "file/best", "file/a/best", "pipe", "pipe/best"):
        refuse(tmp_path / name, UsageError, f"{name.partition('/')[0]} is a file; choose another")
    for name in ("link", "link/best"):
        refuse(tmp_path / name, UsageError, "link is a link to nothing; choose another folder")


def test_a_bundle_and_an_index_of_bundles_are_replaced(tmp_path):
    write_bundle(tmp_path / "one", "old")
    write_index(tmp_path / "several", "old")
    for name in ("one", "several"):
        write(tmp_path / name, "new")
        assert content(tmp_path / name) == holding("new")


@pytest.mark.parametrize(
    ("names", "other"),
    [
        (("thesis.tex",), "thesis.tex"),
        (("evaluation.json", "thesis.tex"), "evaluation.json"),
        (("provenance.json",), "provenance.json"),
        (("bundles.json",), "bundles.json"),
        ((*BUNDLE, "notes.txt"), "notes.txt"),
        ((*BUNDLE, "policy-host.pt2/notes.txt"), "policy-host.pt2"),
        (("bundles.json", "notes.txt", *(f"1-trial-7/{name}" for name in BUNDLE)), "notes.txt"),
        (("bundles.json", *(f"thesis/{name}" for name in BUNDLE)), "bundles.json"),
        (("bundles.json", *(f"1-trial-7/{name}" for name in BUNDLE), "1-trial-7/a"), "1-trial-7"),
    ],
)
def test_a_folder_with_anything_else_is_refused_before_anything_is_measured(tmp_path, names, other):
    for name in names:
        (tmp_path / "best" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "best" / name).write_text("mine")
    refuse(tmp_path / "best", UsageError, f"holds '{other}', and only a folder with nothing but")


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "free some space"),
        (errno.EROFS, "make its folder writable"),
        (errno.EACCES, "make its folder writable"),
    ],
)
@pytest.mark.parametrize("call", ["mkdir", "fsync"])
def test_a_place_that_takes_nothing_is_refused_before_anything_is_measured(
    tmp_path, monkeypatch, call, code, remedy
):
    def refuse_it(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, refuse_it)
    words = f"{os.strerror(code)}.*; {remedy}, then export again, or choose another folder"
    refuse(tmp_path / "best", DiskError, words)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused_before_anything_is_measured(tmp_path):
    write(tmp_path / "shared/best", "old")
    for locked in (tmp_path / "shared", tmp_path / "shared/best"):
        locked.chmod(0o500)
        refuse(tmp_path / "shared/best", DiskError, "Permission denied.*; make its folder writable")
        locked.chmod(0o700)


def test_a_link_leads_to_the_new_bundle(tmp_path):
    write(tmp_path / "there", "old")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    for text in ("new", "newer"):
        write(tmp_path / "link", text)
        assert (tmp_path / "link").is_symlink()
        assert content(tmp_path / "there") == holding(text)
    assert {path.name for path in tmp_path.iterdir()} == {"there", "link"}


def test_folders_that_are_missing_are_made(tmp_path):
    write(tmp_path / "a/b/best", "new")
    assert content(tmp_path / "a/b/best") == holding("new")


def test_an_older_bundle_that_was_cut_off_is_put_back_or_removed_by_its_own_folder_alone(tmp_path):
    cut_off = {name: tmp_path / f".{name}-{'0a' * 16}-old" for name in ("a", "a-b", "[ab]")}
    for older in cut_off.values():
        write_bundle(older, "old")
    write(tmp_path / "a", "new")
    assert not cut_off["a"].exists()
    assert cut_off["a-b"].exists()
    write(tmp_path / "[ab]", "new")
    assert content(tmp_path / "a") == holding("new")
    assert {path.name for path in tmp_path.iterdir()} == {"a", "[ab]", cut_off["a-b"].name}

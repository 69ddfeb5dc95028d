"""The simulated file system: without faults it is the real one; a crash keeps what was flushed."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from faulty_files import CACHE_SECONDS, FaultyFiles, FileFaults

from hpsearch.cluster.record_files import CurveFile
from hpsearch.errors import DiskError
from hpsearch.files import forget_after, read_json, replace_json, write_json, write_text

Action = Callable[[Path, Random], object]


class Time:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def new(root: Path, seed: int = 0, time: Time | None = None, **faults: float) -> FaultyFiles:
    root.mkdir(parents=True, exist_ok=True)
    return FaultyFiles(root, FileFaults(**faults), Random(seed), time or Time())


def _name(random: Random) -> str:
    return random.choice(("a.json", "b.json", "x/c.json", "x/y/d.json"))


def _remove(root: Path, random: Random) -> None:
    (root / _name(random)).unlink(missing_ok=True)


ACTIONS: tuple[Action, ...] = (
    lambda root, random: write_json(root / _name(random), random.random()),
    lambda root, random: replace_json(root / _name(random), random.random()),
    lambda root, random: CurveFile(root / "x" / "curve").append({"step": random.randint(0, 99)}),
    lambda root, random: forget_after(root / "x" / "curve", random.randint(0, 99)),
    lambda root, random: list(CurveFile(root / "x" / "curve").read()),
    lambda root, random: read_json(root / _name(random)),
    lambda root, random: sorted(str(path.relative_to(root)) for path in root.rglob("*")),
    lambda root, random: sorted(path.name for path in root.iterdir()),
    lambda root, random: (root / _name(random)).exists(),
    lambda root, random: (root / "touched").touch(),
    _remove,
)


def tree(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


@pytest.mark.parametrize("seed", range(5))
def test_without_faults_it_is_the_real_file_system(tmp_path: Path, seed: int) -> None:
    def play(root: Path) -> list[object]:
        root.mkdir(exist_ok=True)
        random = Random(seed)
        return [random.choice(ACTIONS)(root, random) for _ in range(200)]

    real = play(tmp_path / "real")
    files = new(tmp_path / "faulty")
    with files.mounted():
        assert play(tmp_path / "faulty") == real
    assert tree(tmp_path / "faulty") == tree(tmp_path / "real")
    assert not any(files.counts.values())


@pytest.mark.parametrize("seed", range(20))
def test_what_was_written_atomically_survives_a_crash(tmp_path: Path, seed: int) -> None:
    """In folders too that were made for it: before, these were not flushed."""
    files, path = new(tmp_path / "r", seed), tmp_path / "r" / "trials" / "0" / "result.json"
    with files.mounted():
        write_json(path, 1)
        write_json(path, 2)
        CurveFile(path.with_name("curve")).append({"step": 4})
        with path.with_name("curve").open("a") as file:
            file.write('{"step": 8}\n')
        files.crash()
        assert read_json(path) == 2
        assert {row["step"] for row in CurveFile(path.with_name("curve")).read()} in ({4}, {4, 8})


def test_what_was_not_flushed_is_lost_torn_or_kept(tmp_path: Path) -> None:
    seen = set()
    for seed in range(60):
        root = tmp_path / str(seed)
        files = new(root, seed)
        with files.mounted():
            write_text(root / "file", "old")
            replace_json(root / "file", "new!")
            files.crash()
            seen.add((root / "file").read_text())
    assert {"old", '"new!"\n', ""} <= seen
    assert '"new!"\n'.startswith(min(seen - {"old"}, key=len))
    assert any("\0" in text for text in seen)


def test_a_flush_may_be_a_lie(tmp_path: Path) -> None:
    kept = 0
    for seed in range(20):
        root = tmp_path / str(seed)
        files = new(root, seed, lies=1.0)
        with files.mounted():
            write_text(root / "file", "t")
            files.crash()
            kept += (root / "file").exists() and (root / "file").read_text() == "t"
    assert 0 < kept < 20


def test_writes_and_reads_fail_and_leave_what_was_there(tmp_path: Path) -> None:
    root = tmp_path / "r"
    files = new(root, write_errors=0.3, read_errors=0.3)
    possible, failed = set(), 0  # where only the last flush failed, the file is the new one
    with files.mounted():
        for number in range(100):
            possible.add(f"{number}")
            try:
                write_text(root / "file", f"{number}")
                possible = {f"{number}"}
            except DiskError:
                failed += 1
            try:
                assert (root / "file").read_text() in possible
            except OSError:
                failed += 1
    assert 20 < failed < 180


def test_a_client_goes_on_seeing_what_it_saw(tmp_path: Path) -> None:
    time, root = Time(), tmp_path / "r"
    files = new(root, time=time, cached=1.0)
    with files.mounted():
        write_text(root / "file", "old")
        files.client = "another"
        assert (root / "file").read_text() == "old"
        before = (root / "file").stat()
        assert [path.name for path in root.iterdir()] == ["file"]
        files.client, time.now = "driver", time.now + 0.001
        write_text(root / "file", "newer")
        write_text(root / "other", "")
        assert (root / "file").read_text() == "newer"  # what it wrote itself
        files.client = "another"
        assert (root / "file").read_text() == "old"
        assert (root / "file").stat() == before
        assert [path.name for path in root.iterdir()] == ["file"]
        time.now += CACHE_SECONDS
        assert (root / "file").read_text() == "newer"
        assert {path.name for path in root.iterdir()} == {"file", "other"}


def test_the_file_system_has_a_clock_of_its_own(tmp_path: Path) -> None:
    time, root = Time(), tmp_path / "r"
    files = new(root, time=time, ahead=600.0)
    with files.mounted():
        write_text(root / "file", "text")
        assert (root / "file").stat().st_mtime == time.now + 600.0
        os.utime(root / "file", (5.0, 5.0))
        assert (root / "file").stat().st_mtime == 605.0


def test_a_kill_in_the_middle_of_an_append_costs_that_line_alone(tmp_path: Path) -> None:
    torn = 0
    for number in itertools.count():
        root = tmp_path / str(number)
        files = new(root)
        with files.mounted():
            curve = CurveFile(root / "curve")
            curve.append({"step": 4})
            files.strike = _killing_at(number)
            try:
                curve.append({"step": 8})
                break
            except KeyboardInterrupt:
                files.strike = lambda: None
            torn += not (root / "curve").read_bytes().endswith(b"\n")
            curve.append({"step": 12})
            assert [row["step"] for row in curve.read()] in ([4, 12], [4, 8, 12])
    assert torn


def _killing_at(number: int) -> Callable[[], None]:
    """Return what kills at the strike after so many others."""
    strikes = itertools.count()

    def kill() -> None:
        if next(strikes) == number:
            raise KeyboardInterrupt

    return kill

"""Checkpoints are whole or refused, whatever happens to their files."""

import dataclasses
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from full_disk import fill_disk_at

from hpsearch.errors import CorruptError
from hpsearch.trainers import checkpoint
from hpsearch.trainers.checkpoint import Checkpoint
from hpsearch.trainers.ranks import Ranks

FILES = ("tensors.safetensors", "state.json", "manifest.json")


def sample(step: int = 3) -> Checkpoint:
    tensors = {
        "net.weights": torch.arange(6.0).reshape(2, 3) + step,
        "step": torch.tensor(step),
        "done": torch.tensor([True, False]),
        "points": torch.full((2, 2), -1, dtype=torch.int32),
    }
    return Checkpoint(
        step, tensors, {"seed": 1, "host": {"net_arch": [8, "b"]}}, ("ab", "cd"), "periodic"
    )


def names(folder) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def three(tmp_path):
    for step in (10, 2, 300):
        checkpoint.save(tmp_path, sample(step))
    return tmp_path


def test_round_trip(tmp_path):
    path = checkpoint.save(tmp_path / "new" / "folder", sample())
    loaded = checkpoint.load(path)
    assert (loaded.step, loaded.config, loaded.parents, loaded.kind) == (
        3,
        sample().config,
        ("ab", "cd"),
        "periodic",
    )
    assert loaded.tensors.keys() == sample().tensors.keys()
    for name, tensor in sample().tensors.items():
        assert loaded.tensors[name].dtype == tensor.dtype
        assert torch.equal(loaded.tensors[name], tensor)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ThreadRanks(Ranks):
    """Ranks that are threads of this process and meet here instead of in torch.distributed."""

    said: dict[int, object]  # by rank
    meeting: threading.Barrier

    def told_by_all(self, data):
        self.said[self.rank] = data
        self.meeting.wait()
        heard = [self.said[rank] for rank in range(self.size)]
        self.meeting.wait()
        return heard

    def told_by_first(self, data):
        return self.told_by_all(data)[0]


@pytest.mark.parametrize(
    "places",
    [
        [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]],
        [[0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11]],  # several runs
        [[6, 7, 0, 1], [8, 9, 2, 3], [4, 5, 10, 11]],  # not in order
        [[0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9, 11]],  # runs of one
        [[11], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]],
    ],
)
def test_what_ranks_wrote_of_a_tensor_is_put_together_in_its_order(tmp_path, places):
    whole = torch.arange(36.0).reshape(12, 3)
    own = [torch.tensor(of_rank) for of_rank in places]

    def save(ranks):
        parts = {"games": whole[own[ranks.rank]]}
        if ranks.rank == 0:
            parts["net"] = torch.ones(4)
        written = dataclasses.replace(sample(), tensors=parts)
        return checkpoint.save(tmp_path, written, ranks, {"games": own[ranks.rank]})

    size, said = len(places), {}
    meeting = threading.Barrier(size, timeout=30)
    ranks = [ThreadRanks(rank, size, said=said, meeting=meeting) for rank in range(size)]
    with ThreadPoolExecutor(size) as pool:
        (path,) = set(pool.map(save, ranks))
    loaded = checkpoint.load(path).tensors
    assert loaded.keys() == {"net", "games"}
    assert torch.equal(loaded["games"], whole)
    assert torch.equal(loaded["net"], torch.ones(4))


def test_rows_of_a_bank_are_saved_alone(tmp_path):
    bank = torch.arange(4000.0).reshape(4, 1000)
    path = checkpoint.save(
        tmp_path, Checkpoint(1, {"row": bank[2], "part": bank[:, 3]}, {}, (), "periodic")
    )
    loaded = checkpoint.load(path).tensors
    assert torch.equal(loaded["row"], bank[2])
    assert torch.equal(loaded["part"], bank[:, 3])
    assert (path / "tensors.safetensors").stat().st_size < 5000


@pytest.mark.parametrize("file", FILES)
def test_one_wrong_byte_is_noticed_wherever_it_is(tmp_path, file):
    path = checkpoint.save(tmp_path, sample())
    whole = (path / file).read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 60)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x11
        (path / file).write_bytes(damaged)
        # White space between the manifest's entries carries nothing; all else does.
        if file != "manifest.json" or not chr(whole[place]).isspace():
            with pytest.raises(CorruptError, match=path.name):
                checkpoint.load(path)
            assert list(checkpoint.valid_steps(tmp_path)) == []
    (path / file).write_bytes(whole)
    checkpoint.verify(path)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_cut_file_is_noticed(tmp_path, file, share):
    path = checkpoint.save(tmp_path, sample())
    os.truncate(path / file, int((path / file).stat().st_size * share))
    with pytest.raises(CorruptError, match="damaged"):
        checkpoint.load(path)


@pytest.mark.parametrize("file", FILES)
def test_a_missing_file_is_noticed(tmp_path, file):
    path = checkpoint.save(tmp_path, sample())
    (path / file).unlink()
    with pytest.raises(CorruptError, match="remove the folder"):
        checkpoint.load(path)


@pytest.mark.parametrize("manifest", ["[]", "null", "{}", '{"state.json": 3}', '"x"'])
def test_a_manifest_of_another_kind_is_noticed(tmp_path, manifest):
    path = checkpoint.save(tmp_path, sample())
    (path / "manifest.json").write_text(manifest)
    with pytest.raises(CorruptError):
        checkpoint.load(path)


def test_valid_steps_come_newest_first_without_the_damaged(three):
    assert list(checkpoint.valid_steps(three)) == [300, 10, 2]
    (checkpoint.path_of(three, 300) / "manifest.json").unlink()
    assert list(checkpoint.valid_steps(three)) == [10, 2]
    assert list(checkpoint.valid_steps(three / "nowhere")) == []


def test_leftovers_and_strangers_are_no_checkpoints(three):
    leftover = three / ".step-000000400-0123456789abcdef"
    checkpoint.path_of(three, 300).rename(leftover)
    (three / "step-best").mkdir()
    (three / "notes.txt").write_text("step-1")
    assert list(checkpoint.valid_steps(three)) == [10, 2]
    checkpoint.keep_last(three, 1)
    assert names(three) >= {"step-000000010", "step-best", "notes.txt"}


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_keep_last_removes_the_oldest(three, count):
    checkpoint.keep_last(three, count)
    assert list(checkpoint.valid_steps(three)) == [300, 10, 2][:count]


def test_keep_last_counts_whole_checkpoints_alone(three):
    (checkpoint.path_of(three, 300) / "state.json").write_text("{}")
    checkpoint.keep_last(three, 2)
    assert list(checkpoint.valid_steps(three)) == [10, 2]
    checkpoint.keep_last(three, 1)
    assert list(checkpoint.valid_steps(three)) == [10]


def test_a_whole_checkpoint_of_the_same_step_is_kept(tmp_path):
    path = checkpoint.save(tmp_path, sample())
    before = (path / "tensors.safetensors").stat().st_mtime_ns
    other = Checkpoint(3, {"step": torch.tensor(99)}, {}, (), "periodic")
    assert checkpoint.save(tmp_path, other) == path
    assert (path / "tensors.safetensors").stat().st_mtime_ns == before
    assert checkpoint.load(path).tensors["step"] == 3


def test_a_damaged_checkpoint_of_the_same_step_is_replaced(tmp_path):
    path = checkpoint.save(tmp_path, sample())
    (path / "state.json").write_text("{}")
    checkpoint.save(tmp_path, sample())
    assert checkpoint.load(path).step == 3
    assert names(tmp_path) == {path.name}


@pytest.mark.parametrize("fatal", range(5))
def test_a_disk_that_is_full_leaves_the_older_checkpoint_and_no_rubbish(
    tmp_path, monkeypatch, fatal
):
    """Let the first, second, ... flush to disk fail."""
    checkpoint.save(tmp_path, sample(1))
    fill_disk_at(monkeypatch, fatal)
    if fatal < 4:  # the state, the tensors, the manifest, the folder
        with pytest.raises(OSError, match="No space left"):
            checkpoint.save(tmp_path, sample(2))
    else:
        checkpoint.save(tmp_path, sample(2))
    monkeypatch.undo()
    assert names(tmp_path) <= {"step-000000001", "step-000000002"}
    for step in checkpoint.valid_steps(tmp_path):
        assert checkpoint.load(checkpoint.path_of(tmp_path, step)).step == step
    assert 1 in checkpoint.valid_steps(tmp_path)


FULL_DISK = """
import resource, sys
from pathlib import Path
import torch
from hpsearch.trainers import checkpoint
from hpsearch.trainers.checkpoint import Checkpoint

folder = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
checkpoint.save(folder, Checkpoint(1, {"small": torch.zeros(10)}, {}, (), "periodic"))
try:
    checkpoint.save(folder, Checkpoint(2, {"large": torch.zeros(10_000)}, {}, (), "periodic"))
except OSError as error:
    print("OSError:", error)
"""


def test_a_real_limit_on_file_sizes_is_an_os_error(tmp_path):
    """What the tensors' library raises when a write fails must not pass for a fault of the code."""
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "OSError" in done.stdout
    assert names(tmp_path) == {"step-000000001"}
    assert list(checkpoint.valid_steps(tmp_path)) == [1]


def test_a_folder_that_cannot_be_made_is_an_os_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        checkpoint.save(tmp_path / "file", sample())


def test_leftovers_of_a_killed_save_are_removed(tmp_path):
    checkpoint.save(tmp_path, sample(1))
    (tmp_path / ".step-000000002-0123").mkdir()
    (tmp_path / ".step-000000002-0123" / "tensors.safetensors").write_bytes(b"half")
    checkpoint.remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001"]


def test_damaged_checkpoints_are_named(tmp_path):
    for step in (1, 2, 3):
        checkpoint.save(tmp_path, sample(step))
    (checkpoint.path_of(tmp_path, 2) / checkpoint.STATE).write_text("{}")
    assert list(checkpoint.damaged_steps(tmp_path)) == [2]
    assert list(checkpoint.valid_steps(tmp_path)) == [3, 1]


@pytest.mark.parametrize("count", [1, 2])
def test_pinned_checkpoints_are_kept_and_do_not_count(three, count):
    checkpoint.save(three, sample(400))
    checkpoint.keep_last(three, count, pinned=(2, 77))
    assert list(checkpoint.valid_steps(three)) == [*[400, 300][:count], 2]


def test_remove_all_leaves_what_is_no_checkpoint(three):
    (checkpoint.path_of(three, 300) / "state.json").write_text("{}")
    (three / "best.json").write_text("{}")
    checkpoint.remove_after(three, -1)
    assert names(three) == {"best.json"}
    checkpoint.remove_after(three / "nowhere", -1)


@pytest.mark.parametrize("kind", ["periodic", "timed", "best", "requested", "preempted", "final"])
def test_the_kind_stands_in_the_state(tmp_path, kind):
    path = checkpoint.save(tmp_path, dataclasses.replace(sample(), kind=kind))
    assert json.loads((path / "state.json").read_text())["kind"] == kind
    assert checkpoint.load(path).kind == kind

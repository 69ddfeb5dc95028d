"""What is garbage of a study is told by what has ended; everything else stays."""

import os
import re
import time
from pathlib import Path
from uuid import uuid4

import pytest
import torch
from best import write_best

from hpsearch.cluster.garbage import (
    CHECKPOINTS,
    CODE,
    PICKLES,
    STALE_SECONDS,
    TEMPORARY,
    TRACES,
    EndedTrials,
    find_garbage,
    remove,
)
from hpsearch.cluster.study_dir import StudyDir, pin
from hpsearch.errors import DiskError
from hpsearch.trainers import checkpoint
from hpsearch.trainers.checkpoint import BestRecord, Checkpoint

STEPS = (10, 20, 30, 40)


@pytest.fixture
def study(tmp_path):
    return StudyDir(tmp_path / "runs" / "tiny")


def ended(**changes):
    nothing = {
        "finished": (),
        "given_up": (),
        "matches": (),
        "jobs": (),
        "live_ids": frozenset(),
        "is_driven": False,
    }
    return EndedTrials(**(nothing | changes))


def find(study, kind=None, traces=False, after=0.0, **changes):
    """Return the garbage of a kind, as paths below the study's folder."""
    now = time.time() + after
    garbage = find_garbage(study, ended(**changes), now=now, traces=traces)
    return [
        str(piece.path.relative_to(study.root)) for piece in garbage if kind in (None, piece.kind)
    ]


def save(study, number, steps=STEPS):
    folder = study.trial(number).checkpoints
    for step in steps:
        tensors = {"weight": torch.full((100,), float(step))}
        checkpoint.save(folder, Checkpoint(step, tensors, {"seed": 1}, (), "periodic"))
    return folder


def damage(path):
    with (path / checkpoint.TENSORS).open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")


def write(path, text="x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def named(number, *steps):
    return [f"trials/{number}/checkpoints/step-{step:09d}" for step in steps]


# Checkpoints.


def test_a_finished_trial_keeps_its_newest_and_its_best(study):
    folder = save(study, 0)
    write_best(folder, BestRecord(20, "rho/host/choose_first", 0.1))
    assert find(study, finished=(0,)) == named(0, 10, 30)


def test_a_damaged_newest_checkpoint_does_not_count(study):
    folder = save(study, 0)
    damage(checkpoint.path_of(folder, 40))
    assert find(study, finished=(0,)) == named(0, 10, 20, 40)


def test_where_every_checkpoint_is_damaged_all_stay(study):
    folder = save(study, 0, (10, 20))
    for step in (10, 20):
        damage(checkpoint.path_of(folder, step))
    assert find(study, finished=(0,)) == []


def test_the_folder_of_a_program_goes_with_the_trial_that_was_given_up(study):
    for number in (0, 1):
        study.trial(number).program.mkdir(parents=True)
    assert find(study, given_up=(1,)) == ["trials/1/program"]


def test_a_trial_that_was_given_up_keeps_its_best_alone(study):
    save(study, 0)
    write_best(save(study, 1), BestRecord(20, "rho/host/choose_first", 0.1))
    assert find(study, given_up=(0, 1)) == named(0, *STEPS) + named(1, 10, 30, 40)


def test_what_another_study_needs_stays_while_that_one_is_there(study, tmp_path):
    other = StudyDir(tmp_path / "runs" / "other")
    other.root.mkdir(parents=True)
    folders = [save(study, number) for number in (0, 1)]
    response = study.match(1).response("host") / "step-000000010"
    response.mkdir(parents=True)
    needed = [checkpoint.path_of(folder, 20) for folder in folders]
    ended = {"finished": (0,), "given_up": (1,), "matches": (1,)}
    others = ["matches/1/response-host/step-000000010"]
    pin(study, other, [*needed, response])
    assert find(study, CHECKPOINTS, **ended) == named(0, 10, 30) + named(1, 10, 30, 40)
    other.root.rename(tmp_path / "gone")
    assert find(study, CHECKPOINTS, **ended) == (named(0, 10, 20, 30) + named(1, *STEPS) + others)


def test_what_its_writer_has_just_renamed_is_not_stale(study, monkeypatch):
    """It was there when its folder was listed."""
    path, lstat = write(study.trial(0).root / f".result.json-{uuid4().hex}"), Path.lstat
    late = {"kind": TEMPORARY, "after": 2 * STALE_SECONDS, "finished": (0,)}
    assert find(study, **late) == [str(path.relative_to(study.root))]

    def renamed(self):
        if self == path:
            raise FileNotFoundError
        return lstat(self)

    monkeypatch.setattr(Path, "lstat", renamed)
    assert find(study, **late) == []


def test_trials_that_have_not_ended_keep_everything(study):
    save(study, 0)
    assert find(study, traces=True, after=1e9) == []


def test_trials_without_a_folder_have_no_garbage(study):
    assert find(study, finished=(0,), given_up=(1,), jobs=("00001",), traces=True) == []


def test_sizes_are_bytes_of_files(study):
    folder = save(study, 0, (10,))
    [garbage] = find_garbage(study, ended(given_up=(0,)), now=time.time(), traces=False)
    files = checkpoint.path_of(folder, 10).iterdir()
    assert garbage.size == sum(path.stat().st_size for path in files) > 400


# Jobs.


def test_pickles_of_ended_jobs_go(study):
    for name in ("7_submitted.pkl", "7_0_result.pkl", f"{uuid4().hex}.pkl", "7.pkl.save_tmp"):
        write(study.job("00001").root / name)
    write(study.job("00001").root / "7_0_log.out")
    write(study.job("00002").root / "8_submitted.pkl")
    paths = find(study, PICKLES, jobs=("00001",), live_ids=frozenset({"8"}))
    assert len(paths) == 4
    assert all(path.startswith("jobs/00001/") and ".pkl" in path for path in paths)


@pytest.mark.parametrize("live", ["77_1", "77_1:3", None])
def test_pickles_of_an_array_stay_while_one_of_its_jobs_lives(study, live):
    write(study.job("00001").root / "77_0_submitted.pkl")
    write(study.job("00001").root / "77_1_submitted.pkl")
    assert find(study, PICKLES, jobs=("00001",), live_ids=frozenset({live})) == []
    assert len(find(study, PICKLES, jobs=("00001",), live_ids=frozenset({"7", "770_1"}))) == 2


# What killed processes left.


def test_weights_for_the_actors_of_an_ended_job_go(study):
    for job in ("00001", "00002"):
        write(study.job(job).weights / "actor-0.safetensors")
    assert find(study, TEMPORARY, jobs=("00001",)) == ["jobs/00001/weights"]


def test_half_written_files_go_when_no_process_can_be_writing_them(study):
    unique = uuid4().hex
    left = {
        f"trials/0/.result.json-{unique}",
        f"trials/0/attempt-2/.heartbeat.json-{unique}",
        f"trials/0/checkpoints/.step-000000010-{unique}/state.json",
        f"jobs/00001/.submission_file_{unique}.sh",
        f"code/.0123456789ab-{unique}/code.json",
    }
    kept = {"trials/0/result.json", "trials/0/.nfs0000", f"trials/1/.result.json-{unique}"}
    for path in left | kept:
        write(study.root / path)
    of_ended = {"finished": (0,), "jobs": ("00001",)}
    assert find(study, TEMPORARY, **of_ended) == []
    paths = find(study, TEMPORARY, after=STALE_SECONDS + 60, **of_ended)
    assert set(paths) == {re.sub("/(state|code).json$", "", path) for path in left}


def test_a_removal_that_was_cut_off_is_brought_to_its_end(study, monkeypatch):
    folder = save(study, 0)
    path = checkpoint.path_of(folder, 10)

    def killed(path):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            remove(path)
    assert not path.exists()
    assert list(checkpoint.valid_steps(folder)) == [40, 30, 20]
    [rest] = find(study, TEMPORARY, finished=(0,))
    remove(study.root / rest)
    assert sorted(path.name for path in folder.iterdir()) == [f"step-{n:09d}" for n in (20, 30, 40)]


def test_what_is_gone_is_removed(tmp_path):
    remove(tmp_path / "gone")
    file = write(tmp_path / "file")
    remove(file)
    assert not file.exists()


def test_what_cannot_be_removed_is_named(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(DiskError, match=r"file cannot be removed \(Permission denied\); check"):
        remove(write(tmp_path / "file"))


# Code.


@pytest.fixture
def copies(study):
    """Three copies of the code, the last one the newest, and a job that imports the first."""
    for digest in ("aaa", "bbb", "ccc"):
        write(study.code / digest / "hpsearch" / "cli.py")
        time.sleep(0.02)
    line = f"export PYTHONPATH={study.code}/aaa\n"
    write(study.job("00001").root / "77_submission.sh", line)
    return study


def test_code_that_a_live_job_or_the_next_driver_imports_stays(copies):
    live = {"live_ids": frozenset({"77_4"}), "jobs": ("00001",)}
    assert find(copies, CODE, **live) == ["code/bbb"]
    assert find(copies, CODE, jobs=("00001",)) == ["code/aaa", "code/bbb"]


@pytest.mark.parametrize(
    "changes",
    [{"is_driven": True}, {"live_ids": frozenset({None})}, {"live_ids": frozenset({"78"})}],
)
def test_code_stays_while_it_is_not_known_which_is_imported(copies, changes):
    assert find(copies, CODE, **changes) == []


# Traces.


def test_traces_go_only_if_that_is_wanted(study):
    write(study.trial(0).tensorboard / "events.1")
    write(study.trial(1).tensorboard / "events.1")
    write(study.job("00001").traces / "trace.json")
    assert find(study, finished=(0,), jobs=("00001",)) == []
    paths = find(study, TRACES, traces=True, finished=(0,), jobs=("00001",))
    assert paths == ["trials/0/tensorboard", "jobs/00001/traces"]


def test_responses_of_judged_matches_go_and_those_of_others_stay(study):
    for number in (1, 2):
        match = study.match(number)
        (match.response("host") / "step-000000010").mkdir(parents=True)
        (match.root / "games.npz").write_bytes(b"x")
    paths = find(study, CHECKPOINTS, matches=(1,))
    assert paths == ["matches/1/response-host/step-000000010"]

"""A run of its own: one process at a time, one configuration, the files of a trial."""

import os
import subprocess
import sys

import pytest
import torch

from hpsearch import yaml_file
from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.records import Fresh, Lineage
from hpsearch.cluster.single_run import open_run, train_alone
from hpsearch.cluster.study_dir import TrialDir
from hpsearch.cluster.team import Team
from hpsearch.errors import ConflictError
from hpsearch.schema import to_plain
from hpsearch.trainers import checkpoint


def no_watcher(standing) -> None:
    """Watch nothing."""


def train(config, folder, flag=None, watcher=no_watcher):
    with open_run(config, folder) as member:
        flag = flag or StopFlag()
        return train_alone(member, flag, watcher, Team(flag))


def test_a_run_leaves_what_a_trial_leaves(tmp_path, tiny_config):
    config, folder = tiny_config(), tmp_path / "runs" / "mine"
    ended = train(config, folder)
    assert (ended.status, ended.step, ended.kind) == ("finished", 12, None)
    assert set(ended.metrics) == {"rho/host/choose_first", "rho_sampled/host/choose_first"}
    trial = TrialDir(folder)
    assert trial.attempt(1).read_result() == ended
    assert [row["step"] for row in trial.read_metrics()] == [4, 8, 12]
    assert yaml_file.load(trial.config) == to_plain(config)
    assert trial.control.read().token == ended.token
    assert trial.newest_attempt() == 1
    assert list(checkpoint.valid_steps(trial.checkpoints)) == [12, 8]


def test_the_watcher_hears_every_evaluation_once(tmp_path, tiny_config):
    standings = []
    train(tiny_config(), tmp_path / "mine", watcher=standings.append)
    steps = [standing.steps for standing in standings]
    assert steps == sorted(set(steps))
    assert steps[-1] == (12,)
    measured = {s.steps: set(s.measured) for s in standings if s.measured}
    assert measured == {(4,): {0}, (8,): {0}, (12,): {0}}
    assert all(standing.steps_per_second > 0 for standing in standings)


def test_a_watcher_hears_nothing_of_a_run_that_broke(tmp_path, tiny_config):
    standings = []
    config = tiny_config({"monitor.max_loss": 1e-12})
    ended = train(config, tmp_path / "mine", watcher=standings.append)
    assert (ended.status, ended.kind) == ("failed", "diverged")
    assert all(len(standing.steps) == 1 for standing in standings)


def test_a_finished_run_says_its_result_again(tmp_path, tiny_config):
    first = train(tiny_config(), tmp_path / "mine")
    again = train(tiny_config(), tmp_path / "mine")
    assert (again.status, again.step, again.metrics) == ("finished", 12, first.metrics)
    assert TrialDir(tmp_path / "mine").newest_attempt() == 2


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_interrupted_after_every_look_it_ends_the_same(tmp_path, tiny_config, algorithm):
    config = tiny_config({}, algorithm)
    whole = train(config, tmp_path / "whole")
    attempts = 0
    while attempts < 99:
        attempts += 1
        flag = StopFlag()
        ended = train(config, tmp_path / "mine", flag, lambda _, flag=flag: flag.set(0, None))
        if ended.status == "finished":
            break
        assert ended.status == "interrupted"
    assert attempts > 2
    assert ended.metrics == whole.metrics
    path = checkpoint.path_of(TrialDir(tmp_path / "whole").checkpoints, 12)
    expected = checkpoint.load(path).tensors
    tensors = checkpoint.load(
        checkpoint.path_of(TrialDir(tmp_path / "mine").checkpoints, 12)
    ).tensors
    assert tensors.keys() == expected.keys()
    assert all(torch.equal(tensors[name], expected[name]) for name in tensors)


def test_stopped_before_the_first_step(tmp_path, tiny_config):
    flag = StopFlag()
    flag.set(0, None)
    ended = train(tiny_config(), tmp_path / "mine", flag)
    assert (ended.status, ended.step) == ("interrupted", 0)
    assert (
        train(tiny_config(), tmp_path / "mine").metrics
        == train(tiny_config(), tmp_path / "other").metrics
    )


def test_one_process_at_a_time(tmp_path, tiny_config):
    folder = tmp_path / "mine"
    with open_run(tiny_config(), folder):
        before = {path.name: path.read_bytes() for path in folder.glob("*.*")}
        with (
            pytest.raises(ConflictError, match=r"another process trains .*mine; stop it first"),
            open_run(tiny_config({"seed": 9}), folder),
        ):
            pass
        assert {path.name: path.read_bytes() for path in folder.glob("*.*")} == before
    assert train(tiny_config(), folder).status == "finished"


HOLD = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_the_lock_goes_with_the_process_that_held_it(tmp_path, tiny_config):
    folder = tmp_path / "mine"
    folder.mkdir()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(TrialDir(folder).lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(ConflictError, match="another process"):
            train(tiny_config(), folder)
        holder.kill()
    assert os.path.exists(TrialDir(folder).lock)
    assert train(tiny_config(), folder).status == "finished"


def test_the_folder_of_a_study_is_refused(tmp_path, tiny_config):
    (tmp_path / "study.json").write_text("{}")
    with pytest.raises(
        ConflictError, match="is the folder of a study or of its trial; give the run another"
    ):
        train(tiny_config(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["study.json"]


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"seed": 2}, "seed"),
        ({"host.optim.args.lr": 0.5, "rollout_length": 3}, "host, rollout_length"),
    ],
)
def test_another_configuration_is_refused_by_the_key_and_changes_nothing(
    tmp_path, tiny_config, changes, names
):
    folder = tmp_path / "mine"
    train(tiny_config(), folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(ConflictError, match=f"differs in {names}; give the run another --name"):
        train(tiny_config(changes), folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    ended = train(tiny_config({**changes, "checkpoint.resume": "never"}), folder)
    assert (ended.status, ended.step) == ("finished", 12)
    assert yaml_file.load(TrialDir(folder).config)["seed"] == changes.get("seed", 1)
    train(tiny_config(changes), folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": 16},
        {"evaluation.num_games": 9},
        {"checkpoint.interval": 3, "checkpoint.best": "rho/host/choose_first"},
        {"monitor.training_log": True, "monitor.interval": 1},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_may_change_goes_on(tmp_path, tiny_config, changes):
    folder = tmp_path / "mine"
    train(tiny_config({"steps": 8}), folder)
    ended = train(tiny_config(changes), folder)
    assert (ended.status, ended.step) == ("finished", changes.get("steps", 12))
    kinds = {
        step: checkpoint.load(checkpoint.path_of(folder / "checkpoints", step)).kind
        for step in checkpoint.valid_steps(folder / "checkpoints")
    }
    assert kinds[ended.step] == "final"


def test_fewer_steps_than_were_made_end_where_it_is(tmp_path, tiny_config):
    train(tiny_config(), tmp_path / "mine")
    ended = train(tiny_config({"steps": 6}), tmp_path / "mine")
    assert (ended.status, ended.step) == ("finished", 12)


def test_an_error_is_how_a_run_ends(tmp_path, tiny_config):
    def broken(standing):
        raise RuntimeError("no such thing")

    result = train(tiny_config(), tmp_path / "mine", watcher=broken)
    assert "RuntimeError: no such thing" in (tmp_path / "mine/fault.log").read_text()
    ended = TrialDir(tmp_path / "mine").attempt(1).read_result()
    assert ended == result
    assert (ended.status, ended.kind) == ("failed", "code")
    assert "no such thing" in ended.message
    assert TrialDir(tmp_path / "mine").lineage.required() == Lineage(Fresh(), seed=1)

"""What the first rank learns of the others."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fake_actors import FIXED

from hpsearch import yaml_file
from hpsearch.cluster import team as team_module
from hpsearch.cluster.failures import OOM_HOST, StopFlag, stop_flag
from hpsearch.cluster.records import ActorHeartbeat
from hpsearch.cluster.team import Team
from hpsearch.trainers.ranks import Ranks

ENDING_SECONDS = 30.0


def told(plain_config, *cases: str) -> list[dict]:
    """Return what the first of two ranks learns in each case, one after the other."""
    config = yaml_file.dump(plain_config({"shards": 2}))
    # Not by -m: what ranks tell each other is found by the name of its module.
    script = "import sys, ranked; ranked.main(*sys.argv[1:])"
    command = [sys.executable, "-c", script, config, *cases]
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == len(cases)
    return [json.loads(line) for line in lines]


CASES = ("slow", "save", "wait")


@pytest.fixture(scope="module")
def seen_by_first(plain_config) -> dict[str, dict]:
    return dict(zip(CASES, told(plain_config, *CASES), strict=True))


@pytest.mark.slow
def test_a_failure_of_another_rank_is_told_with_its_kind_and_report(plain_config):
    """Other kinds stand in test_team_of_two.py."""
    (seen,) = told(plain_config, "memory")
    assert (seen["kind"], seen["message"]) == (OOM_HOST, "rank 1: MemoryError: too much")
    assert seen["seconds"] < ENDING_SECONDS
    assert "in fail" in seen["notes"][0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "asked"),
    [
        ("wait", {"is_stopped": True}),
        ("save", {"is_save_asked": True, "is_stopped": False}),
    ],
)
def test_what_one_rank_is_asked_all_are(seen_by_first, case, asked):
    assert seen_by_first[case] == asked | {"rank": 0}


class Interrupted(Ranks):
    """Two ranks, of which this one is asked to stop once it has said that it was not."""

    def told_by_all(self, data):
        os.kill(os.getpid(), signal.SIGTERM)
        return [data, False]


def test_a_signal_between_two_agreements_waits_for_the_next():
    """Else this rank would leave alone, or never."""
    with stop_flag() as flag:
        team = Team(flag)
        team.ranks = Interrupted(0, 2)
        assert not team.is_asked_to_stop()
        assert flag.is_set
        assert team.is_asked_to_stop()


@pytest.mark.parametrize(("waited", "share"), [(0.0, 0.0), (3.0, 0.75), (4.5, 1.0)])
def test_the_share_of_its_time_in_which_a_rank_waits(monkeypatch, waited, share):
    """Of a training of four seconds; clocks may differ a little, so it may be more."""
    moments = iter([10.0, 14.0])
    clock = SimpleNamespace(perf_counter=lambda: next(moments))
    monkeypatch.setattr(team_module, "time", clock)
    team = Team(StopFlag())
    team.ranks = Ranks(0, 1)
    team.ranks.calls.waited = 7.0

    def train(steps):
        team.ranks.calls.waited += waited
        trainer.step += steps

    trainer = SimpleNamespace(step=torch.tensor([5, 1]), train=train, actor_games=None)
    team.built = trainer
    team.train(3)
    assert (team.own_heartbeat.step, team.own_heartbeat.waiting) == (8, share)
    assert team.heartbeats == ()  # alone and without actors there is nothing to tell


def test_a_rank_alone_tells_of_its_actors():
    parts = [SimpleNamespace(state="running", age=2, too_old=3, played_here=4)]
    games = SimpleNamespace(parts=parts)
    team = Team(StopFlag())
    team.built = SimpleNamespace(step=torch.tensor([5]), train=int, actor_games=games)
    team.train(3)
    (heartbeat,) = team.heartbeats
    assert heartbeat.actors == (ActorHeartbeat("running", age=2, too_old=3, played_here=4),)


def test_actors_stay_for_the_next_trials_that_want_the_same(tiny_config, monkeypatch, tmp_path):
    told = []

    class Pool:
        def __init__(self, how, configs, ranks, folder) -> None:
            self.how = how
            told.append(f"begin {how.actors}")
            assert folder == tmp_path

        def wait(self) -> None:
            told.append("wait")

        def end(self) -> None:
            told.append("end")

    monkeypatch.setattr(team_module, "ActorPool", Pool)
    monkeypatch.setattr(team_module, "build_trainer", lambda configs, ranks, actors: actors)
    inline, team = tiny_config(), Team(StopFlag(), weights=tmp_path)
    two, three = (replace(inline, rollouts=replace(FIXED, actors=n)) for n in (2, 3))
    for config, expected in (
        (two, ["begin 2", "wait"]),
        (two, ["wait"]),
        (three, ["end", "begin 3", "wait"]),
        (inline, ["end"]),
    ):
        team.build([config])
        assert told == expected
        assert (team.built is None) is (config is inline)
        told.clear()


@pytest.mark.slow
def test_a_full_disk_of_another_rank_ends_a_checkpoint_of_all(plain_config):
    (seen,) = told(plain_config, "full")
    assert "rank 1: [Errno 28] No space left on device" in seen["message"]
    assert seen["seconds"] < ENDING_SECONDS


@pytest.mark.slow
def test_the_rank_for_which_others_wait_is_known(seen_by_first):
    seen = seen_by_first["slow"]
    assert (seen["straggler"], seen["steps"]) == (1, [10, 10])


MEET = """
import sys, time
from torch.distributed import TCPStore
from hpsearch.cluster import rank_group

rank, size, port, late, patience = map(int, sys.argv[1:6])
rank_group.MEETING_SECONDS = patience
for digest in sys.argv[6:]:
    rank_group.code_hash = lambda: digest
time.sleep(late)
store = TCPStore("127.0.0.1", port, is_master=rank == 0, wait_for_workers=False)
group = rank_group.RankGroup(store, rank, size, rank_group.UnknownProcesses())
print("met", flush=True)
group.leave()
"""


def meet(late: list[int | None], patience: int, codes: Sequence[str] = ()) -> list[tuple[int, str]]:
    """Return the exit codes and outputs of ranks, of which some come late, or (None) never.

    ``codes`` are the hashes of the code that they say to run.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    processes = []
    for rank, seconds in enumerate(late):
        if seconds is not None:
            numbers = map(str, (rank, len(late), port, seconds, patience))
            process = subprocess.Popen(
                [sys.executable, "-c", MEET, *numbers, *codes[rank : rank + 1]],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=os.environ | {"GLOO_SOCKET_IFNAME": "lo"},
            )
            processes.append(process)
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    return [(process.returncode, said) for process, said in zip(processes, outputs, strict=True)]


@pytest.mark.slow
def test_ranks_wait_for_one_that_comes_late():
    """Later than the time after which a silent rank is lost."""
    assert [said.strip() for _, said in meet([0, 0, 14], patience=60)] == ["met"] * 3


@pytest.mark.slow
def test_a_rank_that_does_not_come_is_named():
    (code, said), (other_code, _) = meet([0, 0, None], patience=5)
    assert code == 8
    assert other_code != 0
    assert "rank 2 did not come within 5 s; where nodes have several network interfaces" in said


@pytest.mark.slow
def test_ranks_of_different_code_do_not_train():
    said = "".join(said for _, said in meet([0, 0], patience=60, codes=("0a1b", "2c3d")))
    assert "met" not in said.split()
    assert re.search(r"must run the same code .*rank 0 \S+ \(0a1b\), rank 1 \S+ \(2c3d\)", said)

"""Actors as processes, beside what one process comes to."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from unittest.mock import Mock

import pytest
import torch
from fake_actors import FIXED, trained
from torch.distributed import TCPStore

from hpsearch.cluster.actor_process import FOR_LEARNERS, Started
from hpsearch.cluster.actors import ActorPool
from hpsearch.cluster.block import Block
from hpsearch.cluster.machine import VISIBLE
from hpsearch.cluster.served_store import LOOPBACK
from hpsearch.cluster.weight_transport import CONNECTS, FromGroup
from hpsearch.errors import ConflictError, DiskError
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config.rollouts import ActorRollouts
from hpsearch.trainers.ranks import Ranks
from hpsearch.trainers.trainer import AnyTrainer

POOL = {
    "size": 2,
    "at_once": 2,
    "max_staleness": 6,
    "choice": {"mode": "uniform"},
    "sync": {"mode": "fixed", "interval": 3},
}


@pytest.fixture
def configs(tiny_config) -> Callable[..., list]:
    """Return a function that gives two members whose both roles learn, against snapshots."""

    def members(algorithm: str, how: ActorRollouts) -> list:
        options = {"agent": "learn", "shards": 2, "opponents": POOL}
        both = [tiny_config(options | {"seed": seed}, algorithm) for seed in (3, 4)]
        return [replace(config, rollouts=how) for config in both]

    return members


@pytest.fixture
def pool(tmp_path) -> Iterator[Callable[..., ActorPool]]:
    pools, folder = [], tmp_path / "weights"

    def begin(how: ActorRollouts, configs: list) -> ActorPool:
        pools.append(ActorPool(how, configs, folder=folder))
        pools[-1].wait()
        return pools[-1]

    yield begin
    for begun in pools:
        begun.end()
    assert not folder.exists()


def assert_same(trainer: AnyTrainer, expected: AnyTrainer) -> None:
    for name, tensor in expected.state().items():
        torch.testing.assert_close(trainer.state()[name], tensor, rtol=1e-3, atol=1e-4, msg=name)


THREE_GPUS = pytest.mark.skipif(torch.cuda.device_count() < 3, reason="needs three GPUs")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "device"),
    [
        ("memory", "cpu"),
        ("checkpoint", "cpu"),
        ("nccl", "cpu"),  # by gloo, as files may not ask for
        pytest.param("nccl", "cuda", marks=[pytest.mark.gpu, THREE_GPUS]),
    ],
)
def test_they_come_to_what_one_process_comes_to(configs, pool, method, device) -> None:
    how = replace(FIXED, sync_method=method, device=device)
    actors = pool(how, configs("ppo", how))
    for algorithm in ("dqn", "ppo"):  # the same processes for both
        members = configs(algorithm, how)
        trainer = trained(members, actors)
        assert_same(trainer, trained(members, None))
        assert not any(part.played_here for part in trainer.actor_games.parts)


def test_each_actor_of_all_ranks_reads_weights_from_a_file_of_its_own(
    configs, monkeypatch, tmp_path
) -> None:
    """What one has not read yet must not be replaced by what another one gets."""
    begun = Mock()
    monkeypatch.setattr("hpsearch.cluster.actors.ActorProcess", begun)
    how = replace(FIXED, sync_method="checkpoint")
    for rank in range(2):
        ActorPool(how, configs("ppo", how), Ranks(rank, 2), tmp_path).end()
    files = {call.args[3]().path for call in begun.call_args_list}
    assert [file.parent for file in files] == [tmp_path] * 4


def test_each_actor_has_a_gpu_of_its_own_where_weights_go_by_nccl(configs, monkeypatch) -> None:
    begun = Mock()
    monkeypatch.setattr("hpsearch.cluster.actors.ActorProcess", begun)
    monkeypatch.setenv(VISIBLE, "4,5,6")
    how = replace(FIXED, device="cuda", sync_method="nccl")
    ActorPool(how, configs("ppo", how)).end()
    assert [call.args[4] for call in begun.call_args_list] == ["5", "6"]
    monkeypatch.setenv(VISIBLE, "4,5")
    with pytest.raises(
        ConflictError, match=r"needs 3 GPUs for each rank.* CUDA_VISIBLE_DEVICES names 2"
    ):
        ActorPool(how, configs("ppo", how))


def test_shared_memory_that_is_full_is_named_with_a_remedy(monkeypatch) -> None:
    def full(tensor: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("unable to allocate shared memory(shm) for file </torch_1>")

    monkeypatch.setattr(torch.Tensor, "share_memory_", full)
    with pytest.raises(DiskError, match=r"/dev/shm.* 64 bytes .*lower rollouts.actors"):
        Block.filled({"one": torch.zeros(2)})


@pytest.mark.slow
def test_what_was_played_before_a_new_beginning_is_not_learned_from(configs, pool) -> None:
    how = replace(FIXED, actors=1, sync_style="dynamic_by_trainer", max_staleness=4)
    members = configs("ppo", how)
    actors = pool(how, members)
    trainer = build_trainer(members, actors=actors)
    trainer.train(3)
    time.sleep(1.0)  # so that rollouts wait in the pipe
    trainer.replace_reward_func("step_penalty")
    trainer.train(1)
    (part,) = trainer.actor_games.parts
    assert (part.learned, part.age) == (0, 0)  # the first one since


@pytest.mark.slow
def test_actors_that_cannot_begin_are_not_waited_for(configs, monkeypatch) -> None:
    how = replace(FIXED, actors=1)
    members = configs("dqn", how)
    monkeypatch.setattr("hpsearch.cluster.actors.act", print)  # which ends at once
    monkeypatch.setattr("hpsearch.cluster.actors.START_SECONDS", 3600.0)
    actors = ActorPool(how, members)
    actors.wait()
    trainer = trained(members, actors)
    assert [part.played_here for part in trainer.actor_games.parts] == [12]
    actors.end()


def dies_while_it_connects(pipe: Connection, configs: list, part: Ranks, by: FromGroup) -> None:
    pipe.send(Started())
    TCPStore(LOOPBACK, by._port, is_master=False).set(CONNECTS, "")
    os._exit(9)


@pytest.mark.slow
def test_one_that_dies_while_it_connects_is_not_waited_for(configs, monkeypatch) -> None:
    how = replace(FIXED, actors=1, sync_method="nccl")
    members = configs("dqn", how)
    monkeypatch.setattr("hpsearch.cluster.actors.act", dies_while_it_connects)
    actors = ActorPool(how, members)
    actors.wait()
    trainer = trained(members, actors)
    assert [part.played_here for part in trainer.actor_games.parts] == [12]
    actors.end()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "method"),
    [(signal.SIGKILL, "memory"), (signal.SIGSTOP, "memory"), (signal.SIGKILL, "nccl")],
)
def test_one_that_is_lost_is_replaced_and_its_games_go_on(configs, pool, number, method) -> None:
    how = replace(FIXED, actor_timeout=5.0, sync_method=method)
    members = configs("ppo", how)
    actors = pool(how, members)
    trainer = build_trainer(members, actors=actors)
    trainer.train(4)
    lost = actors.actors[1]._process.pid
    os.kill(lost, number)
    began = time.monotonic()
    trainer.train(4)
    if number == signal.SIGKILL:
        assert time.monotonic() - began < how.actor_timeout
    actors.actors[1].wait_until_new(30.0)
    trainer.train(4)
    assert actors.actors[1]._process.pid != lost
    here = [part.played_here for part in trainer.actor_games.parts]
    assert here[0] == 0
    assert 1 <= here[1] <= 4
    assert_same(trainer, trained(members, None))


@pytest.mark.slow
def test_what_a_learner_is_asked_does_not_end_actors_that_begin(configs, tmp_path, capfd) -> None:
    """Ctrl-C is sent to all processes of a terminal, also to those that still import torch."""
    how = replace(FIXED, actors=1)
    actors = ActorPool(how, configs("ppo", how), folder=tmp_path)
    (actor,) = actors.actors
    for number in FOR_LEARNERS:
        os.kill(actor._process.pid, number)
    actors.wait()
    assert actor.is_new
    assert "lost" not in capfd.readouterr().out
    actors.end()

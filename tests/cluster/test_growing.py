"""Children that grow: they play as their parents do, keep what fits, and learn on."""

import pytest
import torch
from birth_stories import (
    BIRTH,
    PAIR,
    assert_same_state,
    give,
    job_of,
    lineage,
    parents_in,
    saved,
)
from working import Killed, die, on_nth_call, work

from hpsearch.cluster import resuming
from hpsearch.cluster.record_files import RecordFile
from hpsearch.cluster.records import Birth, Fresh
from hpsearch.cluster.study_dir import StudyDir, TrialDir
from hpsearch.game.kernels import BACKENDS
from hpsearch.population.operators.options import Grow
from hpsearch.population.options import Adoption
from hpsearch.trainers import checkpoint
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.opponents import load_player
from hpsearch.trainers.policies import Position, features_of
from hpsearch.trainers.trainer import Trainer

CPU = torch.device("cpu")
EXACT, NOISY = Grow("grow", 0.0), Grow("grow", 0.1)
LARGE = [16, "r16", 16]
CHILD = {**PAIR, "seed": 5, "steps": 12}
POOL = {
    "size": 4,
    "at_once": 2,
    "max_staleness": 100,
    "sync": {"mode": "fixed", "interval": 2},
    "choice": {"mode": "uniform"},
}
every_algorithm = pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
either_role = pytest.mark.parametrize("role", ["host", "agent"])


@pytest.fixture(scope="module")
def parents(tmp_path_factory, tiny_config):
    """A trained pair of each algorithm that meets snapshots, of other rates than its children."""
    folder = tmp_path_factory.mktemp("parents")
    changes = {**PAIR, "opponents": POOL}
    return {
        algorithm: parents_in(folder / algorithm, [tiny_config(changes, algorithm)])[0]
        for algorithm in ("dqn", "ppo")
    }


@pytest.fixture
def born(tmp_path, plain_config, parents):
    """Return a function (role, operator, ...) -> the trial of a grown child, trained to its end."""

    def make(role, operator=EXACT, *, algorithm="dqn", changes=None, name="study", **origin):
        study = StudyDir(tmp_path / name)
        own = {**CHILD, "opponents": POOL, f"{role}.net_arch": LARGE, **(changes or {})}
        given = give(
            study, 0, plain_config(own, algorithm),
            lineage(operator, [parents[algorithm]], **origin),
        )  # fmt: skip
        work(str(job_of(study, [given]).root))
        return study.trial(0)

    return make


def ended(trial, attempt=1):
    result = trial.attempt(attempt).read_result()
    return result.status, result.step, result.message


def positions(num_games=1000):
    """Starts that no parent has seen, and a subset of axes in each."""
    key, zeros = torch.tensor([77]), torch.zeros((1, num_games), dtype=torch.int64)
    points = BACKENDS["reference"].random_starts(
        key, zeros, num_points=4, dimension=3, max_value=5
    )  # fmt: skip
    subset = torch.rand((1, num_games, 3), generator=torch.Generator().manual_seed(1)) < 0.7
    return Position.of(points), subset


def outputs(path, role):
    """Return what the networks of a checkpoint's role say in many positions, tower by tower."""
    position, subset = positions()
    net = load_player(path, role, CPU).net
    seen = position.observation
    seen = features_of(seen, subset) if role == "agent" else seen
    with torch.no_grad():
        return [net(seen, tower=tower)[0] for tower in range(len(net.towers))]


@every_algorithm
@either_role
def test_a_child_plays_what_its_parent_plays(born, parents, algorithm, role):
    trial = born(role, algorithm=algorithm)
    path = checkpoint.path_of(trial.checkpoints, BIRTH)
    for name in ("host", "agent"):
        before, after = outputs(parents[algorithm], name), outputs(path, name)
        for own, its in zip(before, after, strict=True):
            torch.testing.assert_close(its, own, rtol=1e-4, atol=1e-5)
        best = [values[0].argmax(dim=1) for values in (before, after)]
        assert (best[0] == best[1]).float().mean() > 0.998  # but for ties
        assert len(set(best[0].tolist())) > 1


@every_algorithm
@either_role
def test_it_keeps_all_that_fits(born, parents, algorithm, role):
    """Of the larger role the memory; its optimizer begins anew, its target where it stands."""
    child = saved(born(role, algorithm=algorithm), BIRTH).tensors
    parent = checkpoint.load(parents[algorithm]).tensors
    of_networks = tuple(
        f"{role}.{part}." for part in ("net", "target_net", "optimizer", "snapshots")
    )
    for name, tensor in parent.items():
        is_own = name.startswith("fused_game") or name.endswith("replay_buffer.last")
        if not is_own and not name.startswith(of_networks):
            assert torch.equal(child[name], tensor), name
    moments = [name for name in child if name.startswith(f"{role}.optimizer.")]
    assert moments
    assert not any(child[name].any() for name in moments)
    if algorithm == "dqn":
        assert torch.equal(child[f"{role}.target_net.weights"], child[f"{role}.net.weights"])


@every_algorithm
def test_the_other_role_meets_the_larger_networks_alone(born, parents, algorithm):
    """Snapshots of the smaller ones do not fit beside them; those of the other role stay."""
    child = saved(born("host", algorithm=algorithm), BIRTH).tensors
    parent = checkpoint.load(parents[algorithm]).tensors
    assert (parent["host.snapshots.taken"] >= 0).sum() > 1
    assert child["host.snapshots.taken"].tolist() == [BIRTH, -1, -1, -1]
    for met in child["host.snapshots.met_weights"]:
        assert torch.equal(met, child["host.net.weights"])
    assert torch.equal(child["agent.snapshots.taken"], parent["agent.snapshots.taken"])


@every_algorithm
@either_role
def test_it_learns_on_and_can_be_made_again(born, parents, algorithm, role):
    trial, again = (born(role, NOISY, algorithm=algorithm, name=name) for name in ("one", "two"))
    assert ended(trial) == ("finished", 12, "")
    assert trial.birth.read() == Birth("grow", adopted=True, chance=None)
    at_birth, at_end = saved(trial, BIRTH), saved(trial, 12)
    assert at_birth.parents == at_end.parents == (checkpoint.identity(parents[algorithm]),)
    assert [row["step"] for row in trial.read_metrics()] == [12]
    moved = at_end.tensors[f"{role}.net.weights"] != at_birth.tensors[f"{role}.net.weights"]
    assert moved.float().mean() > 0.5
    for step in (BIRTH, 12):
        assert_same_state(saved(again, step), saved(trial, step))
    other = born(role, NOISY, algorithm=algorithm, name="three", seed=6)
    drawn = [saved(child, BIRTH).tensors[f"{role}.net.weights"] for child in (trial, other)]
    assert not torch.equal(*drawn)


def test_it_is_not_tried(born):
    """No copy of its parent could take its place, and none would be stronger."""
    trial = born("host", trying=Adoption(num_games=20, confidence=0.0))
    assert trial.birth.read() == Birth("grow", adopted=True, chance=None)


def test_it_learns_anew_what_checkpoints_do_not_hold(born, tmp_path, plain_config, tiny_config):
    changes = {**PAIR, "replay_buffer.save": False}
    (path,) = parents_in(tmp_path / "forgetful", [tiny_config(changes)])
    study = StudyDir(tmp_path / "forgotten")
    own = plain_config({**changes, "seed": 5, "host.net_arch": LARGE})
    work(str(job_of(study, [give(study, 0, own, lineage(NOISY, [path]))]).root))
    assert ended(study.trial(0)) == ("finished", 12, "")


def test_it_grows_beside_others_as_it_would_alone(born, tmp_path, parents, plain_config):
    """In a job of its new shape, with one that began with networks of that shape."""
    alone = born("host", NOISY)
    study = StudyDir(tmp_path / "together")
    own = {**CHILD, "opponents": POOL, "host.net_arch": LARGE}
    given = [
        give(study, 0, plain_config({**own, "seed": 3}), lineage(Fresh(), [], 3)),
        give(study, 1, plain_config(own), lineage(NOISY, [parents["dqn"]])),
    ]
    work(str(job_of(study, given).root))
    assert ended(study.trial(0))[:2] == ended(study.trial(1))[:2] == ("finished", 12)
    assert_same_state(saved(study.trial(1), BIRTH), saved(alone, BIRTH))
    own, its = (saved(child, 12).tensors["host.net.weights"] for child in (study.trial(1), alone))
    torch.testing.assert_close(own, its)


# Kills.


MOMENTS = [
    (resuming, "inherit_around", 1),
    (resuming, "grown", 1),
    (RecordFile, "write", 1),
    (checkpoint, "write_part", 1),
    (checkpoint, "flush", 2),
    (TrialDir, "forget_metrics_after", 1),
    (Trainer, "train", 1),
    (checkpoint, "write_part", 3),
]


@pytest.mark.parametrize(("owner", "name", "n"), MOMENTS, ids=[f"{m[1]} {m[2]}" for m in MOMENTS])
def test_killed_at_any_moment_it_becomes_what_it_would_have(
    tmp_path, plain_config, parents, born, monkeypatch, owner, name, n
):
    changes = {"steps": 2 * BIRTH}
    config = plain_config({**CHILD, "opponents": POOL, "host.net_arch": LARGE, **changes})
    origin = lineage(NOISY, [parents["dqn"]])
    study = StudyDir(tmp_path / "killed")
    job = job_of(study, [give(study, 0, config, origin)])
    with monkeypatch.context() as patch:
        on_nth_call(patch, owner, name, n, die)
        with pytest.raises(Killed):
            work(str(job.root))
    again = give(study, 0, config, origin, attempt=2)
    work(str(job_of(study, [again], name="job-2").root))
    assert ended(study.trial(0), 2)[:2] == ("finished", 2 * BIRTH)
    whole = born("host", NOISY, changes=changes)
    assert_same_state(saved(study.trial(0), 2 * BIRTH), saved(whole, 2 * BIRTH))
    assert study.trial(0).birth.read() == whole.birth.read()


# What cannot grow.


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "differs in nothing; name a parent"),
        ({"host.net_arch": LARGE, "agent.net_arch": LARGE},
         "one role alone, but .* differs in agent.net_arch, host.net_arch"),
        ({"host.net_arch": LARGE, "host.batch_size": 8}, "in host.batch_size, host.net_arch"),
        ({"host.encoder.num_points": 4}, "differs in host.encoder.num_points"),
        ({"host.net_arch": [4]}, "the host of .* cannot become trial 0: growing makes layers"),
        ({"host.net_arch": [8, "b"]}, "the host of .* cannot become trial 0: growing makes"),
    ],
)  # fmt: skip
def test_what_cannot_grow_fails_with_one_sentence(tmp_path, plain_config, parents, changes, said):
    study = StudyDir(tmp_path / "study")
    config = plain_config({**CHILD, "opponents": POOL, **changes})
    given = give(study, 0, config, lineage(NOISY, [parents["dqn"]]))
    with pytest.raises(Exception, match=said):
        work(str(job_of(study, [given]).root))
    status, _, message = ended(study.trial(0))
    assert status == "failed"
    assert "\n" not in message
    assert study.trial(0).birth.read() is None


def test_a_trainer_grows_one_member_and_leaves_the_others(tmp_path, tiny_config, parents):
    """Its siblings have been training, and notice nothing."""
    config = tiny_config({**CHILD, "opponents": POOL, "host.net_arch": LARGE})
    trainer = build_trainer([config, config])
    trainer.train(3)
    before = {name: tensor[0].clone() for name, tensor in trainer.state().items()}
    assert resuming.inherit_around(trainer, parents["dqn"], 1) == "host"
    for name, tensor in trainer.state().items():
        assert torch.equal(tensor[0], before[name]), name
    assert trainer.step.tolist() == [3, BIRTH]

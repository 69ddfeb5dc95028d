"""A child begins as its parent has become, and goes on with rates and randomness of its own."""

import pytest
import torch

from hpsearch.errors import ConflictError, CorruptError
from hpsearch.game.kernels import BACKENDS
from hpsearch.game.random import derive_key
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.inheriting import copy_of, inherit, inherit_role, take_place
from hpsearch.trainers.policies import Position, Turn

PARENT = {"seed": 1, "agent": "learn"}
POOL = {
    "size": 4,
    "at_once": 2,
    "max_staleness": 100,
    "sync": {"mode": "fixed", "interval": 2},
    "choice": {"mode": "uniform"},
}
GAMES = ("fused_game.points", "fused_game.lengths", "fused_game.starts")
both = pytest.mark.parametrize("algorithm", ["dqn", "ppo"])


@pytest.fixture
def saved(tmp_path, tiny_config):
    """Return a function (algorithm, changes, steps) -> a trained parent and its checkpoint."""

    def make(algorithm="dqn", changes=None, steps=8):
        trainer = build_trainer([tiny_config({**PARENT, **(changes or {})}, algorithm)])
        trainer.train(steps)
        return trainer, trainer.save(tmp_path / f"parent-{trainer.config.seed}", 0)

    return make


def heir(config, path):
    """Return a trainer whose second member has inherited."""
    trainer = build_trainer([config, config])
    inherit(trainer, path, 1)
    return trainer


def row(trainer, member):
    return {name: tensor[member] for name, tensor in trainer.state().items()}


def positions(num_games=32):
    key, zeros = torch.tensor([7]), torch.zeros((1, num_games), dtype=torch.int64)
    points = BACKENDS["cpu"].random_starts(key, zeros, num_points=4, dimension=3, max_value=5)
    return Position.of(points)


@both
def test_a_child_is_its_parent_but_for_its_games(saved, tiny_config, algorithm):
    parent, path = saved(algorithm)
    child = heir(tiny_config({**PARENT, "seed": 5, "steps": 40}, algorithm), path)
    own, expected = row(child, 1), row(parent, 0)
    for name in expected.keys() - {*GAMES, "host.replay_buffer.last", "agent.replay_buffer.last"}:
        assert torch.equal(own[name], expected[name]), name
    noise, never = torch.zeros(1, 32, 2), torch.zeros(1, 32)
    played = child.select([1]).host_policy(Turn(positions(), None, noise, never))
    assert torch.equal(played, parent.host_policy(Turn(positions(), None, noise, never)))


@both
def test_other_rates_keep_what_the_optimizer_knows(saved, tiny_config, algorithm):
    parent, path = saved(algorithm)
    child = heir(tiny_config({**PARENT, "host.optim.args.lr": 0.5}, algorithm), path)
    for name, tensor in parent.host_optimizer.state().items():
        assert torch.equal(child.host_optimizer.state()[name][1], tensor[0])
    assert all(tensor.any() for tensor in parent.host_optimizer.state().values())
    assert float(child.host_lr_scheduler(torch.tensor([99, 99]))[1]) == 0.5


@both
@pytest.mark.parametrize("seed", [1, 5])
def test_games_begin_at_new_starts_of_its_own(saved, tiny_config, algorithm, seed):
    """Also with the seed of its parent."""
    parent, path = saved(algorithm)
    child = heir(tiny_config({**PARENT, "seed": seed}, algorithm), path).fused_game
    starts = parent.fused_game.starts + 1
    assert torch.equal(child.starts[1:], starts)
    points = BACKENDS["reference"].random_starts(
        torch.tensor([derive_key(seed, "starts")]),
        starts,
        num_points=4,
        dimension=3,
        max_value=5,
    )
    assert torch.equal(child.points[1:], points)
    assert not child.lengths[1].any()
    torch.testing.assert_close(child.observation, child.observe())


def test_the_last_remembered_moves_lead_nowhere(saved, tiny_config):
    """The games that they belong to were left; all others are remembered as they were."""
    parent, path = saved()
    child = heir(tiny_config({**PARENT, "seed": 5}), path)
    before, after = (trainer.host_replay_buffer.state()["last"][-1] for trainer in (parent, child))
    added, num_places = int(parent.host_replay_buffer.added[0]), len(before)
    newest = {place % num_places for place in range(added - 8, added)}
    for place in range(num_places):
        assert bool(after[place]) == (bool(before[place]) or place in newest)


def test_a_child_without_a_saved_memory_begins_with_none(saved, tiny_config):
    forgets = {"replay_buffer.save": False}
    _, path = saved(changes=forgets)
    child = heir(tiny_config({**PARENT, **forgets, "seed": 5}), path)
    assert not child.host_replay_buffer.filled[1]
    child.train(4)
    assert child.host_replay_buffer.filled[1]


def test_a_member_that_has_trained_and_loads_no_memory_leaves_the_games_of_its_own(saved):
    trainer, path = saved(changes={"replay_buffer.save": False})
    trainer.train(4)
    trainer.load(path, 0)
    buffer = trainer.host_replay_buffer
    last, added = buffer.state()["last"][0].flatten(), int(buffer.added[0])
    assert all(last[place % len(last)] for place in range(added - 8, added))


@both
def test_the_other_members_notice_nothing(saved, tiny_config, algorithm):
    _, path = saved(algorithm)
    configs = [tiny_config({**PARENT, "seed": seed}, algorithm) for seed in (3, 4)]
    alone, together = build_trainer(configs[:1]), build_trainer(configs)
    inherit(together, path, 1)
    alone.train(4)
    together.train(4)
    assert together.step.tolist() == [4, 12]
    for name, tensor in row(alone, 0).items():
        torch.testing.assert_close(row(together, 0)[name], tensor, rtol=1e-4, atol=1e-5, msg=name)


def test_one_role_of_another_parent(saved, tiny_config):
    first, path = saved()
    second, other = saved(changes={"seed": 2}, steps=5)
    trainer = heir(tiny_config({**PARENT, "seed": 5}), path)
    inherit_role(trainer, other, "agent", 1)
    own = row(trainer, 1)
    for role, parent in (("host", first), ("agent", second)):
        names = [name for name in own if name.startswith(f"{role}.") and ".last" not in name]
        assert names
        for name in names:
            assert torch.equal(own[name], row(parent, 0)[name]), name
    assert int(trainer.step[1]) == 8


def test_snapshots_of_the_other_parents_role_are_as_old_as_they_were(saved, tiny_config):
    pool = {"opponents": POOL}
    _, path = saved(changes=pool, steps=9)
    other, second = saved(changes={**pool, "seed": 2}, steps=5)
    trainer = heir(tiny_config({**PARENT, **pool, "seed": 5}), path)
    inherit_role(trainer, second, "agent", 1)
    staleness = trainer.roles.snapshots["agent"].staleness(trainer.step)[1]
    assert staleness.tolist() == other.roles.snapshots["agent"].staleness(other.step)[0].tolist()


def test_another_shape_is_told_by_its_fields(saved, tiny_config):
    _, path = saved()
    changes = {"host.net_arch": [9], "reward": "step_penalty", "seed": 9}
    with pytest.raises(ConflictError, match=r"differs in host\.net_arch, reward;"):
        heir(tiny_config({**PARENT, **changes}), path)


def test_what_is_looked_at_may_differ(saved, tiny_config):
    _, path = saved()
    changes = {"evaluation.interval": 7, "checkpoint.keep_last": 5, "monitor.interval": 3}
    assert int(heir(tiny_config({**PARENT, **changes}), path).step[1]) == 8


def test_a_missing_or_damaged_parent_is_told(saved, tiny_config):
    _, path = saved()
    config = tiny_config(PARENT)
    with pytest.raises(CorruptError, match="damaged"):
        heir(config, path.with_name("step-000000099"))
    (path / "tensors.safetensors").write_bytes(b"")
    with pytest.raises(CorruptError, match="damaged"):
        heir(config, path)


@both
def test_a_copy_in_memory_is_what_a_checkpoint_would_have_given(tmp_path, tiny_config, algorithm):
    """But for what it counts itself: steps and the random numbers that its own stream has given."""
    configs = [tiny_config({**PARENT, "seed": seed}, algorithm) for seed in (1, 5)]
    population = build_trainer(configs)
    population.train(8)
    by_file, config = population.copy(), tiny_config({**PARENT, "seed": 5}, algorithm)
    path = population.save(tmp_path, 0)
    source = copy_of(population, 0)
    inherit(by_file, path, 1)
    take_place(population, 1, config, source)
    own, expected = row(population, 1), row(by_file, 1)
    counted = {name for name in own if name.rpartition(".")[2] in ("counters", "starts")}
    for name in own.keys() - counted - {"fused_game.points"}:
        assert torch.equal(own[name], expected[name]), name
    assert torch.equal(row(population, 0)["step"], source["step"])


def test_a_place_counts_on_and_draws_nothing_twice(tiny_config):
    configs = [tiny_config({**PARENT, "seed": seed}) for seed in (1, 5)]
    population = build_trainer(configs)
    population.train(3)
    ahead = build_trainer(configs)
    ahead.train(9)
    for behind, source in ((population, copy_of(ahead, 0)), (ahead, copy_of(population, 0))):
        before = {name: tensor.clone() for name, tensor in row(behind, 1).items()}
        take_place(behind, 1, tiny_config({**PARENT, "seed": 5, "host.gamma": 0.5}), source)
        after = row(behind, 1)
        assert torch.equal(after["step"], before["step"])
        for name in after:
            if name.rpartition(".")[2] == "counters":
                assert torch.equal(after[name], before[name].maximum(source[name])), name
        starts = before["fused_game.starts"].maximum(source["fused_game.starts"])
        assert torch.equal(after["fused_game.starts"], starts + 1)
        assert behind.configs[1].host.gamma == 0.5


def test_snapshots_in_a_copied_place_are_as_old_as_they_were(tiny_config):
    pool = {"opponents": POOL}
    configs = [tiny_config({**PARENT, **pool, "seed": seed}) for seed in (1, 5)]
    population, ahead = build_trainer(configs), build_trainer(configs)
    population.train(3)
    ahead.train(9)
    source = copy_of(ahead, 0)
    take_place(population, 1, configs[1], source)
    after = row(population, 1)
    names = [name for name in after if name.endswith("snapshots.taken")]
    assert names
    for name in names:
        known = source[name] >= 0
        age = (source["step"] - source[name])[known]
        assert torch.equal((after["step"] - after[name])[known], age.clamp(max=int(after["step"])))

"""Players read from checkpoints play what the trainer that wrote them plays."""

import json
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from hpsearch.errors import ConfigError, ConflictError, CorruptError
from hpsearch.game import HostActionEncoder, rules
from hpsearch.schema import to_plain
from hpsearch.trainers import checkpoint
from hpsearch.trainers.algorithms import TRAINERS, build_trainer
from hpsearch.trainers.config import read_config
from hpsearch.trainers.opponents import load_opponent, load_player, saved_roles
from hpsearch.trainers.policies import Position, Turn

CPU = torch.device("cpu")
MEMBER, NUM_MEMBERS, NUM_GAMES = 1, 3, 300
every_algorithm = pytest.mark.parametrize("algorithm", TRAINERS)
every_role = pytest.mark.parametrize("role", ["host", "agent"])
NETWORKS = {
    "flatten": {"net_arch": ["b", 8, "r6"]},
    "deep sets": {
        "encoder": {"name": "deep_sets", "widths": [6, 5], "pool": "max"},
        "net_arch": ["l", "rl6"],
        "activation": "tanh",
    },
    "attention": {"encoder": {"name": "attention", "width": 4, "heads": 2, "blocks": 1}},
}


@pytest.fixture(scope="module")
def trained(tiny_config):
    """Return a function (algorithm, network) -> a trained population of three, both roles."""

    def train(algorithm, network="flatten", **changes):
        more = {} if algorithm == "ppo" else {"dqn.dueling": network == "deep sets"}
        options = {
            f"{role}.{key}": value
            for role in ("host", "agent")
            for key, value in NETWORKS[network].items()
        }
        trainer = build_trainer(
            [
                tiny_config({"agent": "learn", **options, **more, "seed": p, **changes}, algorithm)
                for p in range(NUM_MEMBERS)
            ]
        )
        trainer.train(3)
        return trainer

    return train


@pytest.fixture(scope="module")
def saved(trained, tmp_path_factory):
    """Return a function algorithm -> trainer and the checkpoint of its member 1."""
    made = {}

    def make(algorithm):
        if algorithm not in made:
            trainer = trained(algorithm)
            folder = tmp_path_factory.mktemp(algorithm)
            made[algorithm] = trainer, trainer.save(folder, MEMBER)
        return made[algorithm]

    return make


def games(num_members: int, num_points: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    """Return points, subsets and noise, alike for every member."""
    generator = torch.Generator().manual_seed(0)
    points = torch.randint(0, 6, (1, NUM_GAMES, num_points, 3), generator=generator)
    subset = HostActionEncoder(3).decode(torch.arange(NUM_GAMES).remainder(4)[None])
    noise = torch.rand(1, NUM_GAMES, 2, generator=generator)
    canonical = rules.newton_polytope(points.to(torch.int32))
    return tuple(
        tensor.expand(num_members, *tensor.shape[1:]).contiguous()
        for tensor in (canonical, subset, noise)
    )


def play(policy, role: str, num_members: int, rate: float) -> Tensor:
    points, subset, noise = games(num_members)
    subset = None if role == "host" else subset
    return policy(Turn(Position.of(points), subset, noise, torch.tensor(rate)))


@every_role
@every_algorithm
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_a_saved_player_plays_what_its_trainer_plays(
    trained, algorithm, network, role, rate, tmp_path
):
    trainer = trained(algorithm, network)
    player = load_player(trainer.save(tmp_path, MEMBER), role, CPU)
    policy = {"host": trainer.host_policy, "agent": trainer.agent_policy}[role]
    expected = play(policy, role, NUM_MEMBERS, rate)[MEMBER]
    assert torch.equal(play(player.policy, role, 1, rate)[0], expected)
    assert player.step == 3
    assert player.config == trainer.configs[MEMBER]
    num_inputs = 12 if role == "host" else 15
    x = torch.rand(1, NUM_GAMES, num_inputs, generator=torch.Generator().manual_seed(1))
    own = {"host": trainer.host_net, "agent": trainer.agent_net}[role](x.expand(3, -1, -1))
    torch.testing.assert_close(player.net(x)[0], own[MEMBER])
    assert not torch.allclose(own[MEMBER], own[0], atol=1e-3)  # else any member would do


@pytest.mark.parametrize(("algorithm", "rate"), [("dqn", 0.0), ("ppo", 1.0)])
def test_a_saved_player_says_how_it_plays(saved, algorithm, rate):
    """Q-learning its best action, an actor-critic by its probabilities."""
    _, path = saved(algorithm)
    for role in ("host", "agent"):
        assert load_player(path, role, CPU).policy.own_rate == rate


@every_algorithm
def test_reading_a_player_leaves_the_checkpoint_as_it_is(saved, algorithm):
    _, path = saved(algorithm)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    player = load_player(path, "host", CPU)
    player.net.weights += 1.0
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    assert not torch.equal(load_player(path, "host", CPU).net.weights, player.net.weights)


@every_algorithm
def test_the_roles_of_a_checkpoint_are_those_that_learned(saved, algorithm):
    _, path = saved(algorithm)
    assert saved_roles(path) == ("host", "agent")


def host_alone(tiny_config, algorithm, tmp_path, **changes):
    trainer = build_trainer([tiny_config({**changes}, algorithm)])
    return trainer.save(tmp_path / "alone", 0)


@every_algorithm
def test_a_role_that_did_not_learn_is_no_player(tiny_config, algorithm, tmp_path):
    path = host_alone(tiny_config, algorithm, tmp_path)
    assert saved_roles(path) == ("host",)
    with pytest.raises(ConflictError) as error:
        load_player(path, "agent", CPU)
    expected = f"the agent of the checkpoint {path} is no learned player; it holds: host"
    assert str(error.value) == expected


@every_algorithm
@pytest.mark.parametrize(("key", "value"), [("dimension", 4), ("max_num_points", 5)])
def test_a_player_of_another_game_is_no_opponent(
    saved, tiny_config, algorithm, key, value, tmp_path
):
    trainer, _ = saved(algorithm)
    path = host_alone(tiny_config, algorithm, tmp_path, **{key: value})
    with pytest.raises(ConflictError) as error:
        load_opponent(path, "host", trainer.config, CPU)
    own = getattr(trainer.config, key)
    assert str(error.value) == (
        f"the host must play the same game, but {path} was trained with {key}={value} "
        f"instead of {own}; train one with this {key}"
    )
    assert load_player(path, "host", CPU).step == 0  # it may still be looked at


def damaged_copies(path, folder):
    """Yield checkpoints that are damaged, each in its own way, and what the error says."""
    saved = checkpoint.load(path)

    def written(name, tensors):
        return checkpoint.save(folder / name, replace(saved, tensors=tensors))

    tensors = dict(saved.tensors)
    del tensors["host.net.weights"]
    yield written("lacking", tensors), r"lacks host\.net\.weights of shape"
    tensors["host.net.weights"] = saved.tensors["host.net.weights"][:-1].clone()
    yield written("short", tensors), r"lacks host\.net\.weights of shape"
    for name in (checkpoint.TENSORS, checkpoint.STATE):
        broken = written(f"broken {name}", saved.tensors)
        content = bytearray((broken / name).read_bytes())
        content[-2] ^= 1
        (broken / name).write_bytes(content)
        yield broken, f"is damaged: {name} differs from its manifest"
        gone = written(f"gone {name}", saved.tensors)
        (gone / name).unlink()
        yield gone, "is damaged"
    manifest = written("no manifest", saved.tensors)
    (manifest / checkpoint.MANIFEST).unlink()
    yield manifest, "is damaged"


@every_algorithm
def test_a_damaged_checkpoint_is_no_player(saved, algorithm, tmp_path):
    trainer, path = saved(algorithm)
    for damaged, message in damaged_copies(path, tmp_path):
        with pytest.raises(CorruptError, match=message) as error:
            load_player(damaged, "host", CPU)
        assert str(damaged) in str(error.value)
        with pytest.raises(CorruptError, match=message):
            load_opponent(damaged, "host", trainer.config, CPU)


def test_where_there_is_no_checkpoint(tmp_path):
    for find in (lambda path: load_player(path, "host", CPU), saved_roles):
        with pytest.raises(ConflictError, match=r"there is no checkpoint at .*nowhere"):
            find(tmp_path / "nowhere")


def test_a_checkpoint_of_another_time_names_the_fault(saved, tmp_path):
    """A configuration that this version cannot read: whole on disk, but no configuration."""
    _, path = saved("dqn")
    whole = checkpoint.load(path)
    config = {**whole.config, "of_old": 1}
    old = checkpoint.save(tmp_path, replace(whole, config=config))
    with pytest.raises(ConfigError, match="of_old is an unknown key"):
        load_player(old, "host", CPU)


def opponent_of(role: str) -> str:
    return "agent" if role == "host" else "host"


@every_role
@every_algorithm
@pytest.mark.parametrize("of", TRAINERS)
def test_a_saved_player_is_an_opponent(saved, tiny_config, algorithm, of, role):
    """It plays as it says and never changes; the other role learns, three members at once."""
    _, path = saved(of)
    other = opponent_of(role)
    changes = {role: "learn", other: {"checkpoint": str(path)}}
    configs = [tiny_config({**changes, "seed": p}, algorithm) for p in range(NUM_MEMBERS)]
    trainer = build_trainer(configs)
    policy = {"host": trainer.host_policy, "agent": trainer.agent_policy}[other]
    player = load_player(path, other, CPU)
    # Whatever exploration the learner asks for.
    for asked in (0.0, 1.0):
        expected = play(player.policy, other, 1, player.policy.own_rate)[0]
        assert torch.equal(
            play(policy, other, NUM_MEMBERS, asked), expected.expand(NUM_MEMBERS, -1)
        )
    before = trainer.state()[f"{role}.net.weights"].clone()
    trainer.train(2)
    assert (trainer.state()[f"{role}.net.weights"] != before).any(dim=1).all()
    assert not any(name.startswith(f"{other}.") for name in trainer.state())
    again = play(policy, other, NUM_MEMBERS, 0.0)
    assert torch.equal(again, expected.expand(NUM_MEMBERS, -1))


@every_algorithm
def test_a_member_meets_the_saved_player_as_it_would_alone(saved, tiny_config, algorithm):
    _, path = saved("ppo")
    configs = [
        tiny_config({"agent": {"checkpoint": str(path)}, "seed": p}, algorithm)
        for p in range(NUM_MEMBERS)
    ]
    population, alone = build_trainer(configs), build_trainer(configs[1:2])
    population.train(3)
    alone.train(3)
    for name, tensor in population.state().items():
        if tensor.is_floating_point():
            torch.testing.assert_close(tensor[1], alone.state()[name][0], rtol=1e-3, atol=1e-4)
        else:
            assert torch.equal(tensor[1], alone.state()[name][0]), name


@every_algorithm
def test_a_trainer_refuses_an_opponent_that_is_none(tiny_config, algorithm, tmp_path):
    path = host_alone(tiny_config, algorithm, tmp_path)
    with pytest.raises(ConflictError, match=r"the agent of the checkpoint .* is no learned player"):
        build_trainer([tiny_config({"agent": {"checkpoint": str(path)}}, algorithm)])
    with pytest.raises(ConflictError, match="there is no checkpoint"):
        build_trainer(
            [tiny_config({"agent": {"checkpoint": str(tmp_path / "nowhere")}}, algorithm)]
        )


@every_algorithm
def test_a_configuration_with_a_saved_player_is_read_and_written(plain_config, algorithm):
    plain = plain_config({"agent": {"checkpoint": "some/folder"}}, algorithm)
    config = read_config(plain, source="test")
    assert list(config.learning()) == ["host"]
    assert to_plain(config)["agent"] == {"checkpoint": "some/folder"}
    assert read_config(json.loads(json.dumps(to_plain(config))), source="test") == config


@every_algorithm
def test_warm_start_takes_over_the_networks_of_a_checkpoint(saved, tiny_config, algorithm):
    source, path = saved(algorithm)
    configs = [to_plain(config) | {"seed": 77 + p} for p, config in enumerate(source.configs)]
    trainer = build_trainer([read_config(config, source="test") for config in configs])
    before = {name: tensor.clone() for name, tensor in trainer.state().items()}
    trainer.warm_start(path, 2)
    for role in ("host", "agent"):
        for name in ("net.weights", "net.statistics"):
            key = f"{role}.{name}"
            assert torch.equal(trainer.state()[key][2], source.state()[key][MEMBER]), key
            assert torch.equal(trainer.state()[key][:2], before[key][:2]), key
    assert torch.equal(trainer.step, torch.zeros(NUM_MEMBERS, dtype=torch.int64))
    wider = tiny_config({"host.net_arch": [9], "agent": "learn"}, algorithm)
    with pytest.raises(ConflictError, match="same structure, but those of the host"):
        build_trainer([wider]).warm_start(path, 0)

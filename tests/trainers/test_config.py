"""Trainer configurations: every rule has its sentence, and who may differ in a population."""

import json
from dataclasses import fields, is_dataclass, replace
from math import inf, nan
from typing import get_args, get_origin

import pytest

from hpsearch import yaml_file
from hpsearch.errors import ConfigError
from hpsearch.schema import field_hints, leaves, to_plain
from hpsearch.trainers.config import (
    ADDED,
    DQNConfig,
    PPOConfig,
    SavedPlayerConfig,
    ScriptedAgent,
    ScriptedHost,
    read_config,
    shape_key,
)
from hpsearch.trainers.config.optim import AdamOptim, AdamWOptim, SGDOptim
from hpsearch.trainers.config.players import AttentionEncoder, DeepSetsEncoder, FlattenEncoder

every_algorithm = pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
POOL = {
    "size": 3,
    "at_once": 2,
    "choice": {"mode": "uniform"},
    "sync": {"mode": "fixed", "interval": 2},
    "max_staleness": 4,
}
SAVED = {"checkpoint": "some/where"}
ACTORS = {
    "mode": "actors",
    "actors": 1,
    "device": "cpu",
    "sync_style": "fixed",
    "sync_interval": 1,
    "sync_method": "memory",
    "max_staleness": 1,
    "sample_strategy": "fifo",
    "actor_timeout": 30.0,
}


@pytest.fixture
def problems_of(plain_config):
    """Return a function (changes, algorithm) -> what is wrong with the configuration."""

    def problems(changes, algorithm="dqn"):
        with pytest.raises(ConfigError) as error:
            read_config(plain_config(changes, algorithm), source="test.yaml")
        assert error.value.source == "test.yaml"
        return error.value.problems

    return problems


NEITHER = {"host": {"player": "zeillinger"}, "agent": {"player": "random"}}
HOST_ONLY = {"host": {"player": "zeillinger"}, "agent": "learn"}

# What spans several fields, by algorithm: changes, and every sentence they lead to.
DISAGREEMENTS = [
    ("dqn ppo", NEITHER, ["host or agent must learn, but neither does"]),
    ("dqn ppo", {**NEITHER, "host": SAVED}, ["host or agent must learn, but neither does"]),
    ("dqn ppo", {"host": SAVED, "agent": SAVED}, ["host or agent must learn, but neither does"]),
    (
        "dqn ppo",
        {"host.encoder.num_points": 5},
        ["host.encoder.num_points must not exceed max_num_points=4, but is 5"],
    ),
    (
        "dqn ppo",
        {"agent": "learn", "agent.encoder.num_points": 7, "host.encoder.num_points": 6},
        [
            "host.encoder.num_points must not exceed max_num_points=4, but is 6",
            "agent.encoder.num_points must not exceed max_num_points=4, but is 7",
        ],
    ),
    (
        "dqn ppo",
        {"evaluation.opponents": ["zeillinger"]},
        ["evaluation.opponents names no player that the host can meet"],
    ),
    (
        "dqn ppo",
        {**HOST_ONLY, "evaluation.opponents": ["choose_first"]},
        ["evaluation.opponents names no player that the agent can meet"],
    ),
    (
        "dqn ppo",
        {"agent": "learn", "evaluation.opponents": []},
        [
            "evaluation.opponents names no player that the host can meet",
            "evaluation.opponents names no player that the agent can meet",
        ],
    ),
    (
        "dqn ppo",
        {"checkpoint.best": "rho/host/choose_frist"},
        [
            "checkpoint.best is an unknown metric 'rho/host/choose_frist' (did you mean "
            "'rho/host/choose_first'?); valid: rho/host/choose_first, rho_sampled/host/choose_first"
        ],
    ),
    (
        "dqn ppo",
        {"end.target": {"metric": "panel/host", "value": 0.1}},
        [
            "end.target.metric is an unknown metric 'panel/host'; valid: rho/host/choose_first, "
            "rho_sampled/host/choose_first"
        ],
    ),
    (
        "dqn ppo",
        {"end.plateau": {"metric": "rho/host/chose_first", "evaluations": 0, "min_delta": -1.0}},
        [
            "end.plateau.evaluations must lie in [1, inf), but is 0",
            "end.plateau.min_delta must lie in [0, inf), but is -1.0",
        ],
    ),
    (
        "dqn ppo",
        {"end.games": 0, "end.seconds": 0.0, "end.plateau": {"metric": "rho/host/random"}},
        [
            "end.games must lie in [1, inf), but is 0",
            "end.seconds must lie in (0, inf), but is 0.0",
            "end.plateau.evaluations is missing",
            "end.plateau.min_delta is missing",
        ],
    ),
    (
        "dqn ppo",
        {"opponents": POOL},
        [
            "opponents holds snapshots of two learning roles, but only one learns; leave them out, "
            "or write null"
        ],
    ),
    (
        "dqn ppo",
        {"agent": None},
        [
            "agent is null, so opponents must list those that the other role meets; write such a "
            "list, or a player as agent"
        ],
    ),
    (
        "dqn ppo",
        {"opponents": [{"player": "random", "weight": 1.0}]},
        ["agent must be null where opponents lists those that the other role meets"],
    ),
    (
        "dqn ppo",
        {"agent": None, "opponents": []},
        ["opponents lists no player that the host can meet"],
    ),
    (
        "dqn ppo",
        {
            "agent": None,
            "opponents": [
                {"player": "zeillinger", "weight": 1.0},
                {"player": "learner", "weight": 1.0},
                {"player": "random", "weight": 1.0},
                {"player": "random", "weight": 2.0},
                {"snapshots": POOL, "weight": 1.0},
                {"snapshots": POOL, "weight": 1.0},
            ],
        },
        [
            "opponents must list random once, with the sum of its weights",
            "opponents lists zeillinger, which no learning role can meet",
            "opponents lists the learner, but only one role learns",
            "opponents must list snapshots once",
            "opponents holds snapshots of two learning roles, but only one learns; leave them out, "
            "or write null",
        ],
    ),
    (
        "dqn ppo",
        {"agent": "learn", "opponents": {**POOL, "at_once": 3}, "agent.rollout_size": 9},
        ["opponents.at_once must divide host.rollout_size=8, but is 3"],
    ),
    (
        "dqn ppo",
        {"agent": "learn", "opponents": {**POOL, "max_staleness": 1}},
        ["opponents.max_staleness must be at least sync.interval=2, but is 1"],
    ),
    (
        "dqn ppo",
        {"host.encoder": {"name": "attention", "width": 8, "heads": 3, "blocks": 1}},
        ["host.encoder.heads must divide width=8, but is 3"],
    ),
    (
        "dqn",
        {"replay_buffer.buffer_size": 7},
        [
            "replay_buffer.buffer_size must hold the transitions of one move of every game, "
            "rollout_size=8"
        ],
    ),
    (
        "dqn",
        {"agent": "learn", "agent.rollout_size": 9, "replay_buffer.buffer_size": 7},
        [
            "replay_buffer.buffer_size must hold the transitions of one move of every game, "
            "rollout_size=9"
        ],
    ),
    (
        "dqn",
        {"dqn.minimax": True, "dqn.n_step": 2},
        ["dqn.minimax looks one move ahead, so dqn.n_step must be 1, but is 2"],
    ),
    (
        "dqn",
        {"max_steps": 1},
        [
            "max_steps must be at least 2, but is 1: Q-learning cannot learn from a game's last "
            "allowed move"
        ],
    ),
    (
        "dqn",
        {**HOST_ONLY, "dqn.minimax": True},
        ["dqn.minimax is a target for hosts, but the host does not learn"],
    ),
    (
        "dqn",
        {"shards": 16},
        [
            "shards must divide host.rollout_size=8, but is 16",
            "shards must divide replay_buffer.buffer_size=40, but is 16",
        ],
    ),
    (
        "ppo",
        {"agent": "learn", "shards": 4, "opponents": {**POOL, "at_once": 4}},
        [
            "shards must divide host.rollout_size=8 over opponents.at_once=4, but is 4",
            "shards must divide agent.rollout_size=8 over opponents.at_once=4, but is 4",
            "shards must divide ppo.minibatch_size=6, but is 4",
        ],
    ),
    (
        "dqn",
        {"shards": 4, "rollouts": ACTORS | {"actors": 3, "device": "cuda"}},
        [
            "rollouts.actors must divide shards=4, but is 3",
            "rollouts.device must be cpu where device is cpu, as actors play on the GPUs of "
            "their learner's job, but is cuda",
        ],
    ),
    (
        "dqn",
        {"rollouts": ACTORS | {"sync_method": "nccl"}},
        [
            "rollouts.sync_method must be memory or checkpoint where actors play on device cpu, as "
            "NCCL connects GPUs, but is nccl"
        ],
    ),
    (
        "dqn",
        {
            "device": "cuda",
            "rollouts": ACTORS | {"device": "cuda", "sync_method": "nccl"},
            "monitor.hang_timeout": None,
        },
        [
            "monitor.hang_timeout must be a number of seconds where rollouts.sync_method is nccl, "
            "which may wait for ever for a GPU that is lost, but is null"
        ],
    ),
    (
        "dqn",
        {"rollouts": ACTORS | {"sync_interval": 4}},
        [
            "rollouts.max_staleness must be at least sync_interval=4 less 1, which is how old "
            "weights become, but is 1"
        ],
    ),
    (
        "dqn",
        {"rollouts": ACTORS | {"sample_strategy": "recent"}},
        [
            "rollouts.sample_strategy must be fifo or uniform where sync_style is fixed, as the "
            "learner then learns from all that actors play, but is recent"
        ],
    ),
    (
        "ppo",
        {"ppo.minibatch_size": 17},
        [
            "ppo.minibatch_size must not exceed the 16 moves that the host makes a step "
            "(rollout_size times rollout_length), but is 17"
        ],
    ),
    (
        "ppo",
        {"agent": "learn", "ppo.minibatch_size": 1},
        ["ppo.minibatch_size must be at least 2 where advantages are normalized"],
    ),
]


@pytest.mark.parametrize(
    ("algorithm", "changes", "sentences"),
    [
        (algorithm, changes, sentences)
        for algorithms, changes, sentences in DISAGREEMENTS
        for algorithm in algorithms.split()
    ],
)
def test_fields_that_disagree_are_named(problems_of, algorithm, changes, sentences):
    assert list(problems_of(changes, algorithm)) == sentences


@every_algorithm
def test_what_nearly_disagrees_is_read(tiny_config, algorithm):
    """Every bound of the rules above, just kept."""
    tiny_config({"host.encoder.num_points": 4}, algorithm)
    tiny_config({"agent": "learn", "opponents": {**POOL, "max_staleness": 2}}, algorithm)
    tiny_config({"agent": "learn", "opponents": {**POOL, "at_once": 8}}, algorithm)
    tiny_config({"agent": None, "opponents": [{"player": "random", "weight": 1e-9}]}, algorithm)
    tiny_config({"checkpoint.best": "rho_sampled/host/choose_first"}, algorithm)
    encoder = {"name": "attention", "width": 8, "heads": 8, "blocks": 1}
    tiny_config({"host.encoder": encoder}, algorithm)
    if algorithm == "dqn":
        tiny_config({"replay_buffer.buffer_size": 8})
        tiny_config({"dqn.minimax": True})
        tiny_config({**HOST_ONLY, "dqn.n_step": 2})
    else:
        tiny_config({"ppo.minibatch_size": 16}, algorithm)
        changes = {"ppo.minibatch_size": 1, "ppo.normalize_advantages": False}
        tiny_config(changes, algorithm)


@pytest.mark.parametrize("key", ["host.net_arch", "host.value_net_arch"])
def test_a_net_arch_that_is_none_is_named(problems_of, key):
    (problem,) = problems_of({key: [8, "x"]}, "ppo")
    assert problem.startswith(f"{key} is not of the grammar: net_arch takes a width N")
    assert problem.endswith("but got 'x'")
    (problem,) = problems_of({key: [{"repeat": 0, "net_arch": [8]}]}, "ppo")
    assert problem.startswith(f"{key} is not of the grammar: a repetition is")
    assert problems_of({key: 8}, "ppo") == (f"{key} must be a list, but is 8",)


def test_a_panels_metric_needs_the_whole_panel(tiny_config, problems_of):
    panel = ["choose_first", "choose_last", "random"]
    tiny_config({"evaluation.opponents": panel, "checkpoint.best": "panel/host"})
    (problem,) = problems_of({"evaluation.opponents": panel[:2], "checkpoint.best": "panel/host"})
    assert problem.startswith("checkpoint.best is an unknown metric 'panel/host'")


# Tagged unions.


def test_a_configuration_without_an_algorithm_lists_them(problems_of, plain_config):
    plain = plain_config({})
    del plain["algorithm"]
    with pytest.raises(ConfigError, match=r"^test: algorithm is missing; valid: dqn, ppo$"):
        read_config(plain, source="test")
    (problem,) = problems_of({"algorithm": "pp0"})
    valid = "valid: dqn, ppo; if a package of yours has it, install that here"
    assert problem == f"algorithm is an unknown algorithm 'pp0' (did you mean 'ppo'?); {valid}"
    for nothing in (None, [], "dqn", 3):
        with pytest.raises(ConfigError, match="the file must be a mapping of keys"):
            read_config(nothing, source="test")


def test_the_algorithm_says_which_keys_there_are(tiny_config, plain_config):
    assert type(tiny_config({}, "dqn")) is DQNConfig
    assert type(tiny_config({}, "ppo")) is PPOConfig
    mixed = {**plain_config({}, "dqn"), "algorithm": "ppo"}
    with pytest.raises(ConfigError) as error:
        read_config(mixed, source="test")
    named = {problem.split()[0] for problem in error.value.problems}
    assert {"dqn", "replay_buffer", "ppo", "host.er", "host.value_net_arch"} <= named
    assert "host.gamma" not in named


OPTIMS = {
    "adam": ({"lr": 1e-3, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8}, AdamOptim),
    "adamw": (
        {"lr": 1e-3, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.1},
        AdamWOptim,
    ),
    "sgd": ({"lr": 1e-3, "momentum": 0.9, "weight_decay": 0.0}, SGDOptim),
}
ENCODERS = {
    "flatten": ({"num_points": 3}, FlattenEncoder),
    "deep_sets": ({"widths": [4, 5], "pool": "max"}, DeepSetsEncoder),
    "attention": ({"width": 4, "heads": 2, "blocks": 2}, AttentionEncoder),
}


@every_algorithm
@pytest.mark.parametrize("name", OPTIMS)
def test_the_optimizers_name_says_which_arguments_there_are(
    tiny_config, problems_of, algorithm, name
):
    args, kind = OPTIMS[name]
    changes = {"host.optim.name": name, "host.optim.args": args}
    optim = tiny_config(changes, algorithm).host.optim
    assert type(optim) is kind
    assert to_plain(optim.args) == args
    for key in args:
        less = {k: v for k, v in args.items() if k != key}
        faults = problems_of({**changes, "host.optim.args": less}, algorithm)
        assert faults == (f"host.optim.args.{key} is missing",)
    (problem,) = problems_of({**changes, "host.optim.args": {**args, "nesterov": 1}}, algorithm)
    assert problem.startswith("host.optim.args.nesterov is an unknown key 'nesterov'; valid: ")


@every_algorithm
@pytest.mark.parametrize("name", ENCODERS)
def test_the_encoders_name_says_which_keys_there_are(tiny_config, problems_of, algorithm, name):
    own, kind = ENCODERS[name]
    encoder = tiny_config({"host.encoder": {"name": name, **own}}, algorithm).host.encoder
    assert type(encoder) is kind
    assert to_plain(encoder) == {"name": name, **own}
    for key in own:
        less = {k: v for k, v in own.items() if k != key}
        faults = problems_of({"host.encoder": {"name": name, **less}}, algorithm)
        assert faults == (f"host.encoder.{key} is missing",)


@pytest.mark.parametrize(
    ("key", "valid"),
    [
        ("host.optim.name", "adam, adamw, sgd"),
        ("host.encoder.name", "attention, deep_sets, flatten"),
        ("host.optim.lr_schedule.mode", "constant, cosine, exponential, inverse, linear"),
        ("host.activation", "relu, tanh"),
        ("host.init", "orthogonal, uniform"),
        ("precision", "bf16, fp32, tf32"),
        ("compile", "default, off"),
        ("reward", "points_removed, step_penalty, terminal"),
        ("checkpoint.resume", "auto, must, never"),
    ],
)
@pytest.mark.parametrize(
    ("value", "written"), [("nonsense", "'nonsense'"), (None, "null"), (3, "3"), (True, "true")]
)
def test_an_unknown_name_lists_the_valid_ones(problems_of, key, valid, value, written):
    (problem,) = problems_of({key: value}, "ppo")
    assert problem.startswith(f"{key} is an unknown ")
    assert f" {written}" in problem
    assert problem.partition("; ")[2].startswith(f"valid: {valid}")


def test_off_may_be_what_other_readers_of_yaml_make_of_it(tiny_config):
    assert tiny_config({"compile": False}).compile == "off"


@every_algorithm
@pytest.mark.parametrize("kind", ["choice", "sync"])
def test_the_pools_modes_are_unions_too(problems_of, algorithm, kind):
    pool = {**POOL, kind: {"mode": "fxied"}}
    (problem,) = problems_of({"agent": "learn", "opponents": pool}, algorithm)
    assert problem.startswith(f"opponents.{kind}.mode is an unknown mode 'fxied'")


@every_algorithm
def test_a_player_is_what_its_keys_say(tiny_config, problems_of, algorithm):
    players = {
        "scripted": ({"player": "choose_last"}, ScriptedAgent("choose_last")),
        "saved": ({"checkpoint": "a/b"}, SavedPlayerConfig("a/b")),
    }
    for plain, player in players.values():
        assert tiny_config({"agent": plain}, algorithm).agent == player
    changes = {"agent": "learn", "host": {"player": "zeillinger"}}
    assert tiny_config(changes, algorithm).host == ScriptedHost("zeillinger")
    (problem,) = problems_of({"agent": {"player": "zeillinger"}}, algorithm)
    assert problem.startswith("agent.player is an unknown player 'zeillinger'; valid: choose_first")
    assert problems_of({"agent": {"checkpoint": None}}, algorithm) == (
        "agent.checkpoint must be a text, but is null",
    )


# Numbers.

OPTIONAL = {
    "ppo.target_kl": "ppo",
    "ppo.value_clip_range": "ppo",
    "checkpoint.seconds": "dqn",
}


@pytest.mark.parametrize("key", OPTIONAL)
def test_numbers_that_may_be_none(tiny_config, problems_of, key):
    algorithm = OPTIONAL[key]
    block, name = key.split(".")
    for value in (None, 0.5, 2):
        number = getattr(getattr(tiny_config({key: value}, algorithm), block), name)
        assert number == value
        assert number is None or isinstance(number, float)
    for value, sentence in (
        (0, "must lie in (0, inf), but is 0.0"),
        (-1.0, "must lie in (0, inf), but is -1.0"),
        (inf, "must be a finite number, but is inf"),
        (nan, "must be a finite number, but is nan"),
        ("null", "must be a number, but is 'null'"),
        (False, "must be a number, but is false"),
    ):
        assert problems_of({key: value}, algorithm) == (f"{key} {sentence}",)


@pytest.mark.parametrize(
    "key", ["ppo.clip_range", "ppo.gae_lambda", "host.gamma", "host.max_grad_norm", "seed"]
)
def test_numbers_that_may_not_be_none(problems_of, key):
    (problem,) = problems_of({key: None}, "ppo")
    assert problem.startswith(f"{key} must be a ")
    assert problem.endswith("but is null")


@pytest.mark.parametrize(
    ("algorithm", "key", "inside", "outside"),
    [
        ("dqn", "host.gamma", [0, 1], [-0.1, 1.1]),
        ("dqn", "host.tau", [1e-9, 1], [0, 1.1]),
        ("dqn", "host.er", [0, 1], [-0.1, 1.1]),
        ("dqn", "host.huber_delta", [1e-9, 1e9], [0, -1]),
        ("dqn", "host.max_grad_norm", [1e-9, 1e9], [0, -1]),
        ("dqn", "host.optim.args.lr", [1e-9, 10], [0, -1]),
        ("dqn", "host.optim.args.beta1", [0, 0.999], [1, -0.1]),
        ("dqn", "host.optim.args.eps", [1e-9], [0]),
        ("dqn", "host.optim.lr_schedule.steps", [1, 10**6], [0, -1]),
        ("dqn", "host.optim.lr_schedule.initial", [1e-9], [0]),
        ("dqn", "dqn.n_step", [1, 100], [0, 101]),
        ("dqn", "dimension", [2, 16], [1, 17]),
        ("dqn", "seed", [0, 2**60], [-1]),
        ("dqn", "checkpoint.keep_last", [2], [1]),
        ("dqn", "learning_starts", [0], [-1]),
        ("dqn", "evaluation.er", [0, 1], [-0.1, 1.1]),
        ("ppo", "ppo.gae_lambda", [0, 1], [-0.1, 1.1]),
        ("ppo", "ppo.clip_range", [1e-9, 2], [0, -1]),
        ("ppo", "ppo.vf_coef", [0, 2], [-0.1]),
        ("ppo", "ppo.ent_coef", [0, 2], [-0.1]),
        ("ppo", "host.last_policy_scale", [1e-9, 2], [0, -1]),
        ("ppo", "ppo.train_epochs", [1], [0]),
    ],
)
def test_the_ends_of_every_range(tiny_config, problems_of, algorithm, key, inside, outside):
    for value in inside:
        tiny_config({key: value}, algorithm)
    for value in outside:
        (problem,) = problems_of({key: value}, algorithm)
        assert problem.startswith(f"{key} must lie in ")


@every_algorithm
def test_no_key_has_a_default(plain_config, algorithm):
    """Whatever is left out is missed by name; whatever is added is unknown."""
    plain = plain_config({"agent": "learn"}, algorithm)
    for path, place in mappings(plain):
        for key in list(place):
            value = place.pop(key)
            dotted = ".".join([*path, key])
            if dotted in ADDED:  # files that are older than the key
                place[key] = ADDED[dotted]
                as_before = read_config(plain, source="test")
                del place[key]
                assert read_config(plain, source="test") == as_before
                place[key] = value
                continue
            with pytest.raises(ConfigError) as error:
                read_config(plain, source="test")
            assert any(p.startswith(f"{dotted} ") for p in error.value.problems), dotted
            place[key] = value
        place["nonsense"] = 1
        with pytest.raises(ConfigError, match="nonsense is an unknown key"):
            read_config(plain, source="test")
        del place["nonsense"]
    read_config(plain, source="test")


def mappings(plain, path=()):
    yield path, plain
    for key, value in plain.items():
        if isinstance(value, dict):
            yield from mappings(value, (*path, key))


@every_algorithm
def test_plain_data_and_back(tiny_config, algorithm):
    config = tiny_config({"agent": "learn", "opponents": POOL}, algorithm)
    assert read_config(json.loads(json.dumps(to_plain(config))), source="test") == config


# YAML.


@every_algorithm
@pytest.mark.parametrize("written", ["off", "'off'", "default"])
def test_compile_off_is_a_text_in_yaml(plain_config, algorithm, written, tmp_path):
    """As YAML 1.1 has it, off would be false."""
    text = yaml_file.dump(plain_config({"compile": "HERE"}, algorithm))
    path = tmp_path / "trainer.yaml"
    path.write_text(text.replace("HERE", written))
    config = read_config(yaml_file.load(path), source=str(path))
    assert config.compile == written.strip("'")


@every_algorithm
def test_a_configuration_survives_yaml(plain_config, algorithm, tmp_path):
    path = tmp_path / "trainer.yaml"
    path.write_text(yaml_file.dump(plain_config({}, algorithm)))
    assert "compile: off" in path.read_text()
    expected = read_config(plain_config({}, algorithm), source="test")
    assert read_config(yaml_file.load(path), source=str(path)) == expected


# Shapes.

# Every number in which members of a population may differ, by algorithm.
ROLE_NUMBERS = {"gamma", "max_grad_norm", "optim.args.lr", "optim.args.beta1"} | {
    f"optim.{key}" for key in ("args.beta2", "args.eps", "lr_schedule.initial", "lr_schedule.steps")
}
ENDINGS = {f"end.{key}" for key in ("games", "seconds", "target", "plateau")}
MEMBER_NUMBERS = {
    "dqn": {"seed", "steps", *ENDINGS}
    | {f"host.{key}" for key in ROLE_NUMBERS}
    | {
        f"host.{key}"
        for key in (
            *("er", "er_schedule.initial", "er_schedule.steps", "tau"),
            *("steps_before_update_target", "huber_delta"),
        )
    },
    "ppo": {"seed", "steps", *ENDINGS}
    | {f"host.{key}" for key in ROLE_NUMBERS}
    | {
        f"ppo.{key}"
        for key in (
            *("gae_lambda", "clip_range", "value_clip_range"),
            *("vf_coef", "ent_coef", "target_kl"),
        )
    },
}


@every_algorithm
def test_who_may_differ_in_a_population(tiny_config, algorithm):
    paths = {leaf.path for leaf in leaves(tiny_config({}, algorithm)) if leaf.per_member}
    assert paths == MEMBER_NUMBERS[algorithm]


def test_the_numbers_of_other_kinds_may_differ_too(tiny_config):
    changes = {
        "host.optim": {
            "name": "adamw",
            "args": OPTIMS["adamw"][0],
            "lr_schedule": {"mode": "exponential", "initial": 1.0, "rate": 0.5},
        },
        "host.er_schedule": {"mode": "inverse", "initial": 1.0, "rate": 2.0},
        "replay_buffer.prioritised": {"alpha": 0.6, "beta": 0.4, "beta_steps": 5, "eps": 1e-3},
        "agent": "learn",
        "opponents": {
            **POOL,
            "choice": {"mode": "prioritised", "power": 1.0},
            "sync": {"mode": "dynamic", "interval": 1, "margin": 0.1},
        },
    }
    paths = {leaf.path for leaf in leaves(tiny_config(changes)) if leaf.per_member}
    assert {
        "host.optim.args.weight_decay",
        "host.optim.lr_schedule.rate",
        "host.er_schedule.rate",
        "replay_buffer.prioritised.alpha",
        "replay_buffer.prioritised.beta",
        "replay_buffer.prioritised.beta_steps",
        "replay_buffer.prioritised.eps",
        "opponents.choice.power",
        "opponents.sync.margin",
    } <= paths


def changed(value):
    """Return another value of the same kind; for a text, one that no reader has checked."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return value + "!"
    return [*value, 1] if isinstance(value, list | tuple) else 0.25


def with_leaf(config, path: str, value):
    name, _, rest = path.partition(".")
    if rest:
        value = with_leaf(getattr(config, name), rest, value)
    return replace(config, **{name: value})


@every_algorithm
def test_the_shape_ignores_exactly_what_members_may_differ_in(tiny_config, algorithm):
    config = tiny_config({}, algorithm)
    for leaf in leaves(config):
        other = with_leaf(config, leaf.path, changed(leaf.value))
        same = shape_key(other) == shape_key(config)
        assert same == (leaf.path in MEMBER_NUMBERS[algorithm]), leaf.path


def test_none_and_a_number_are_of_one_shape_where_members_may_differ(tiny_config):
    keys = {
        shape_key(tiny_config({"ppo.target_kl": kl, "ppo.value_clip_range": clip}, "ppo"))
        for kl in (None, 0.1, 0.2)
        for clip in (None, 0.1)
    }
    assert len(keys) == 1


def test_other_kinds_are_other_shapes(tiny_config):
    shapes = [
        {},
        {"host.optim.name": "adamw", "host.optim.args": OPTIMS["adamw"][0]},
        {"host.optim.lr_schedule": {"mode": "constant"}},
        {"host.optim.lr_schedule": {"mode": "cosine", "initial": 1e-2, "steps": 6}},
        {"host.encoder": {"name": "deep_sets", "widths": [3], "pool": "max"}},
        {"host.net_arch": ["l", 8]},
        {"agent": {"player": "choose_first"}},
        {"agent": SAVED},
        {"agent": "learn"},
    ]
    keys = {shape_key(tiny_config(c, algorithm)) for c in shapes for algorithm in ("dqn", "ppo")}
    assert len(keys) == 2 * len(shapes)


@pytest.mark.parametrize("cls", [DQNConfig, PPOConfig])
def test_no_field_of_any_configuration_has_a_default(cls):
    for config_class in sorted(dataclasses_below(cls), key=str):
        for field in fields(config_class):
            assert field.default is field.default_factory, f"{config_class.__name__}.{field.name}"


def dataclasses_below(hint) -> set[type]:
    if isinstance(hint, type) and is_dataclass(hint):
        below = (dataclasses_below(inner) for inner in field_hints(hint).values())
        return {hint}.union(*below)
    if get_origin(hint) is None:
        return set()
    return set().union(*(dataclasses_below(inner) for inner in get_args(hint)))


@pytest.mark.parametrize(
    ("opponents", "sentence"),
    [
        (3, "opponents must be a mapping of keys or a list, but is 3"),
        ([{"player": "random"}], "opponents[0].weight is missing"),
        ([{"player": "random", "weight": 0}], "opponents[0].weight must lie in (0, inf), but is 0"),
        ([{"player": "rndom", "weight": 1}], "opponents[0].player is an unknown player 'rndom'"),
        ([{"checkpoint": 1, "weight": 1}], "opponents[0].checkpoint must be a text, but is 1"),
        ([{"snapshots": {}, "weight": 1}], "opponents[0].snapshots.size is missing"),
        ({**POOL, "size": 0}, "opponents.size must lie in [1, inf), but is 0"),
    ],
)
def test_the_fault_in_a_list_of_opponents_is_named(problems_of, opponents, sentence):
    problems = list(problems_of({"agent": None, "opponents": opponents}))
    assert any(problem.startswith(sentence) for problem in problems), problems

"""Every YAML file that we ship loads and says how it is run; no configuration has a default."""

import dataclasses
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

from hpsearch import yaml_file
from hpsearch.errors import ConfigError
from hpsearch.monitor import config as monitor_config
from hpsearch.schema import PER_MEMBER, field_hints, metadata_of, to_plain
from hpsearch.trainers import config as trainer_config
from hpsearch.trainers.config import ADDED, read_config, shape_key
from hpsearch.trainers.metrics import PANELS

STUDIES = Path(__file__).parent.parent / "studies"
README = re.sub(r"```.*?```", "", (STUDIES / "README.md").read_text(), flags=re.DOTALL)
FILES = sorted(STUDIES.rglob("*.yaml"))
TRAINER_FILES = [path for path in FILES if path.parent.name == "trainers"]
STUDY_FILES = [path for path in FILES if path.parent == STUDIES]
MODULES = [
    importlib.import_module(f"{trainer_config.__name__}.{module.name}")
    for module in pkgutil.iter_modules(trainer_config.__path__)
    if module.name not in ("net_arch", "weight_layout")  # no keys: a grammar, what follows from it
] + [monitor_config]
CLASSES = [
    value
    for module in MODULES
    for value in vars(module).values()
    if dataclasses.is_dataclass(value) and value.__module__ == module.__name__
]

PPO_FILES = [path for path in TRAINER_FILES if path.stem.startswith("ppo_")]
AMBIGUOUS = frozenset({"er", "steps"})
"""keys of one name whose values members may share in one place and differ in another"""
ROLE_SIZES = {"rollout_size": 8, "batch_size": 8}
SIZES = {
    "device": "cpu",
    "precision": "fp32",
    "compile": "off",
    "rollout_length": 2,
    "updates_per_step": 1,
    "learning_starts": 0,
    "host": ROLE_SIZES,
    "agent": ROLE_SIZES,
    "replay_buffer": {"buffer_size": 32},
    "ppo": {"train_epochs": 1, "minibatch_size": 8},
    "evaluation": {"max_steps": 3},
}
"""a step of little work; where a file has such a key"""


def name(path: Path) -> str:
    return str(path.relative_to(STUDIES))


def test_every_file_is_of_a_known_kind():
    assert FILES
    assert {*TRAINER_FILES, *STUDY_FILES} == set(FILES)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_file_begins_with_a_comment(path):
    assert path.read_text().startswith("# ")
    assert yaml_file.load(path)


@pytest.mark.parametrize("path", TRAINER_FILES, ids=name)
def test_a_trainer_file_is_complete(path):
    data = yaml_file.load(path)
    config = read_config(data, source=name(path))
    assert read_config(to_plain(config), source=name(path)) == config
    for key in data.keys() - ADDED:
        rest = {other: value for other, value in data.items() if other != key}
        with pytest.raises(ConfigError, match=f"{key}.* is missing"):
            read_config(rest, source=name(path))


@pytest.mark.parametrize(
    "path",
    [
        # The game's loops are compiled once more for four dimensions.
        pytest.param(path, marks=pytest.mark.slow if "10x4" in path.stem else ())
        for path in TRAINER_FILES
    ],
    ids=name,
)
def test_a_trainer_file_trains(path):
    from hpsearch.trainers.algorithms import build_trainer

    trainer = build_trainer(
        [read_config(made_small(yaml_file.load(path), SIZES), source=name(path))]
    )
    before = {key: tensor.clone() for key, tensor in trainer.state().items()}
    trainer.train(1)
    assert all(trainer.is_finite())
    changed = {key for key, tensor in trainer.state().items() if not tensor.equal(before[key])}
    assert any("net" in key for key in changed), changed
    (metrics,) = trainer.evaluate_rho(num_games=2, split="test")
    assert trainer.config.checkpoint.best in {None, *metrics}


def made_small(data, sizes):
    """Return plain data with the numbers of ``sizes`` that it has."""
    if data is None:  # a role that opponents lists
        return None
    small = dict(data)
    for key, value in sizes.items():
        if key in small:
            small[key] = made_small(small[key], value) if isinstance(value, dict) else value
    return small


@pytest.mark.parametrize("path", TRAINER_FILES, ids=name)
def test_the_second_line_of_a_trainer_file_runs_it_or_its_study(path):
    command = path.read_text().splitlines()[1]
    launch = re.fullmatch(r"# hpsearch (train|run) studies/(\S+)", command)
    assert launch, command
    kind, file = launch.groups()
    if kind == "train":
        assert file == name(path)
    else:
        assert (STUDIES / yaml_file.load(STUDIES / file)["base"]).resolve() == path.resolve()


@pytest.mark.parametrize("path", STUDY_FILES, ids=name)
def test_a_study_file_begins_with_the_command_that_runs_it(path):
    verb = "submit" if yaml_file.load(path)["executor"]["name"] == "slurm" else "run"
    assert path.read_text().splitlines()[0] == f"# hpsearch {verb} studies/{name(path)}"


# The 20x3 file is left out: what its values are is said in the other files.
@pytest.mark.parametrize("path", PPO_FILES, ids=name)
def test_a_ppo_file_says_why_of_every_value(path):
    lines = path.read_text().splitlines()
    block = lines[lines.index("ppo:") + 1 :]
    values = block[: block.index("")]
    assert len(values) == len(yaml_file.load(path)["ppo"])
    keys = ("rollout_length", "  gamma", "  value_net_arch", "  init", "  last_policy_scale")
    values += [line for line in lines if line.startswith(keys)]
    for line in values:
        assert re.search(r"\s# \S.{8}", line), line


@pytest.mark.parametrize("file", ["dqn_5x3", "dqn_10x4", "dqn_100x10", "dqn_20x3_pair"])
def test_hosts_are_measured_against_their_whole_panel(file):
    config = read_config(yaml_file.load(STUDIES / f"trainers/{file}.yaml"), source=file)
    assert set(PANELS["host"]) <= set(config.measured_against()["host"])


@pytest.mark.parametrize("path", FILES, ids=name)
def test_the_readme_names_every_file(path):
    assert f"`{path.name}`" in README


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_the_readme_names_every_key(cls):
    named = set(re.findall(r"[a-z]+[a-z0-9_]*", " ".join(re.findall(r"`[^`]+`", README))))
    assert {field.name for field in dataclasses.fields(cls)} <= named


def test_the_readme_marks_what_members_may_differ_in():
    marked = set(re.findall(r"`(?:[a-zA-Z]+\.)*([a-z0-9_]+)` P\b", README))
    for cls in CLASSES:
        # Schedules and arguments of optimizers are P as a whole.
        if cls.__module__.endswith((".schedules", ".optim")):
            continue
        for key, hint in field_hints(cls).items():
            assert (key in marked) == (PER_MEMBER in metadata_of(hint)) or key in AMBIGUOUS, key


@pytest.mark.parametrize("path", STUDY_FILES, ids=name)
def test_a_study_file_loads(path):
    from hpsearch.study.spec import load_spec

    assert load_spec(path)


@pytest.mark.parametrize("file", ["a100", "a100_population"])
def test_a_study_of_a_cluster_trains_on_gpus(file):
    """One A100 a job, which its trials share; two nodes of eight in all."""
    from hpsearch.study.spec import load_spec

    study = load_spec(STUDIES / f"{file}.yaml")
    assert all(base["device"] == "cuda" for base in study.bases.values())
    assert study.gpus_per_job == 1
    assert (study.spec.executor.jobs, study.spec.executor.members_per_job) == (16, 8)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_no_field_has_a_default_and_none_can_be_changed(cls):
    assert cls.__dataclass_params__.frozen
    for field in dataclasses.fields(cls):
        assert field.default is dataclasses.MISSING
        assert field.default_factory is dataclasses.MISSING


def test_a_shape_is_all_but_what_members_may_differ_in(tiny_config):
    shape = shape_key(tiny_config())
    for key, value in {
        "seed": 7,
        "steps": 99,
        "host.gamma": 0.5,
        "host.er": 0.5,
        "host.tau": 0.1,
        "host.optim.args.lr": 0.5,
        "host.optim.lr_schedule.initial": 0.5,
        "host.er_schedule.steps": 9,
        "host.max_grad_norm": 9.0,
        "host.huber_delta": 9.0,
        "host.steps_before_update_target": 9,
    }.items():
        assert shape_key(tiny_config({key: value})) == shape, key
    for key, value in {
        "dimension": 4,
        "rollout_length": 9,
        "host.net_arch": [9],
        "host.batch_size": 9,
        "host.rollout_size": 9,
        "host.er_schedule.mode": "cosine",
        "agent": {"player": "choose_last"},
        "dqn.double": False,
        "evaluation.interval": 9,
    }.items():
        assert shape_key(tiny_config({key: value})) != shape, key


def test_the_shape_does_not_depend_on_the_order_of_keys(plain_config):
    data = plain_config()
    reordered = dict(reversed(data.items()))
    assert shape_key(read_config(reordered, source="")) == shape_key(read_config(data, source=""))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"host.net_arch": [8, "x"]}, "host.net_arch is not of the grammar: .* got 'x'"),
        ({"host": {"player": "random"}}, "host or agent must learn, but neither does"),
        ({"evaluation.opponents": ["zeillinger"]}, "no player that the host can meet"),
        ({"host": {"player": "zeilinger"}}, "did you mean 'zeillinger'"),
        ({"algorithm": "dqm"}, "unknown algorithm 'dqm' .did you mean 'dqn'"),
        ({"host.optim.args.beta2": 1.0}, r"host.optim.args.beta2 must lie in \[0, 1\)"),
        ({"host.optim.args.lr": "1e-3"}, "host.optim.args.lr must be a number"),
        ({"seed": True}, "seed must be a whole number"),
        ({"checkpoint.keep_last": 1}, "checkpoint.keep_last must lie in"),
        ({"replay_buffer.buffer_size": 7}, "replay_buffer.buffer_size must hold"),
        ({"host.er_schedule": {"mode": "linear", "initial": 1.0}}, "er_schedule.steps is missing"),
    ],
)
def test_what_makes_no_sense_is_refused(tiny_config, changes, problem):
    with pytest.raises(ConfigError, match=problem):
        tiny_config(changes)

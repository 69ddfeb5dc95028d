"""The guide to adding things is true: names are where it says, no other place needs a change."""

import ast
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args, get_type_hints

import pytest
import torch
from cli_tools import write_study, write_trainer

from hpsearch import cli
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.commands.command import command, flag
from hpsearch.commands.completion import completion_script
from hpsearch.game.stream import Stream
from hpsearch.population.operators import options
from hpsearch.report.forecast import forecast
from hpsearch.schema import own_options
from hpsearch.study.spec import load_spec
from hpsearch.trainers import config
from hpsearch.trainers.algorithms import TRAINERS, build_trainer
from hpsearch.trainers.config import TrainerConfig, net_arch, players
from hpsearch.trainers.config.net_arch import parse
from hpsearch.trainers.config.players import FlattenEncoder
from hpsearch.trainers.config.weight_layout import Inputs, Tower
from hpsearch.trainers.dqn import DQNTrainer
from hpsearch.trainers.networks import Arithmetic, Network

GUIDE = Path(__file__).parent.parent / "hpsearch/ADDING.md"
TEXT = " ".join(GUIDE.read_text().split())
# `name`, `name` and `name` in [file.py](file.py)
NAMED = re.findall(
    r"((?:`\w+`(?:, | and )?)+)(?: in| of| there)? ?\(?\[[^]]+\]\(([^)]+\.py)\)", TEXT
)


@pytest.mark.parametrize(("names", "path"), NAMED)
def test_names_are_where_the_guide_says(names, path):
    text = (GUIDE.parent / path).read_text()
    for name in re.findall(r"`(\w+)`", names):
        assert re.search(rf"(?:def|class) {name}\b|^{name}\b.*=", text, flags=re.MULTILINE), name


def test_the_guide_names_places_in_every_part():
    parts = GUIDE.read_text().split("\n## ")[1:]
    assert [part.partition("\n")[0] for part in parts] == [
        "An operator on weights",
        "A training algorithm",
        "A layer or an encoder",
        "A command",
        "A variant of the game",
        "An executor",
    ]
    for part in parts:
        flat = " ".join(part.split())
        assert sum(flat.count(f"]({path})") for _, path in NAMED) >= 1


def test_what_is_added_most_touches_three_places():
    parts = GUIDE.read_text().split("\n## ")[1:5]
    for part in parts:
        assert re.findall(r"^(\d)\. ", part, flags=re.MULTILINE) == ["1", "2", "3"]


def test_files_of_tests_that_the_guide_names_exist():
    root = GUIDE.parent.parent
    named = re.findall(r"`((?:tests|studies)/[\w/.]+)`", TEXT)
    assert len(named) >= 8
    for path in named:
        assert (root / path).exists(), path


def test_the_operator_that_the_guide_shows_works():
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    names: dict = {}
    exec(code, names)
    tower = Tower(
        encoder=FlattenEncoder("flatten", 4),
        layers=parse([7]),
        activation="relu",
        num_outputs=4,
        init="uniform",
        last_scale=1.0,
        dueling=False,
    )
    keys = torch.tensor([1, 2, 3])
    stream = Stream(keys, torch.zeros_like(keys))
    net = Network(Inputs(4, 3, 0), [tower], Arithmetic("fp32", "off"), stream)
    share = torch.linspace(0.5, 1.0, net.weights.shape[0])
    shrunk = names["shrunk"](net, share=share)
    assert torch.equal(shrunk.weights, net.weights * share[:, None])
    assert shrunk.weights.data_ptr() != net.weights.data_ptr()


PACKAGE = GUIDE.parent


def test_the_code_that_the_guide_shows_passes_the_linters():
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    ruff = str(Path(sys.executable).parent / "ruff")
    place = ("--stdin-filename", "hpsearch/population/operators/shrunk.py", "-")
    for words in (("check", "--no-cache"), ("format", "--no-cache", "--check")):
        done = subprocess.run(
            [ruff, *words, *place], input=code, cwd=PACKAGE.parent, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


@cache
def words_by_file() -> dict[str, set[str]]:
    """Return the names of each file's program, and its texts that are not parts of longer ones.

    Left out is testing/, which holds parts to their promises.
    """
    words: dict[str, set[str]] = {}
    for path in {*PACKAGE.rglob("*.py")} - {*PACKAGE.glob("testing/*.py")}:
        own = words.setdefault(str(path.relative_to(PACKAGE)), set())
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                    own.add(name)
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                    own.add(name)
                case ast.Constant(value=str(text)):
                    own.add(repr(text))
    return words


def files_that_name(*words: str) -> set[str]:
    return {path for path, own in words_by_file().items() if own & set(words)}


PUBLIC = "__init__.py"  # the names that users have, of trainers too
CONVERTER, TEMPLATES = "trainers/from_hironaka.py", "study/templates.py"
"""files of one published program, and an example of a study: they know one algorithm as it is"""


@pytest.mark.parametrize("known", own_options(get_args(TrainerConfig)))
def test_an_algorithm_is_known_in_the_places_of_the_guide_alone(known):
    (name,) = get_args(get_type_hints(known)["algorithm"])
    files = files_that_name(known.__name__, TRAINERS[name].__name__, repr(name))
    own = {f"trainers/config/{name}.py", f"trainers/{name}.py"}
    shared = {"trainers/config/__init__.py", "trainers/algorithms.py"}
    assert files - {CONVERTER, TEMPLATES, PUBLIC} == own | shared


ORDINARY = (
    *(options.GaussianMutation, options.SafeMutation),
    *(options.LayerCrossover, options.UnitCrossover, options.AlignedAverage),
)
"""operators that selection treats alike; copies, pairs, growth and species are its own matter"""
BREED = "study/derived.py"  # the operators that `hpsearch breed` begins with


@pytest.mark.parametrize("operator", ORDINARY)
def test_an_operator_is_known_in_the_places_of_the_guide_alone(operator):
    (name,) = get_args(get_type_hints(operator)["name"])
    files = files_that_name(operator.__name__, repr(name), name)
    own = {path for path in files if path.startswith("population/operators/")}
    assert files - own - {BREED} == {"population/offspring.py"}
    assert len(own) == 2  # its file and options.py
    assert "population/operators/options.py" in own


RULES_BETWEEN_KEYS = "trainers/config/common.py"
LAYER_PLACES = {
    *("trainers/config/net_arch.py", "trainers/config/weight_layout.py", "trainers/layers.py")
}
ENCODER_PLACES = {
    *("trainers/config/players.py", "trainers/config/weight_layout.py", "trainers/layers.py")
}


@pytest.mark.parametrize(
    ("known", "places"),
    [
        *((layer, LAYER_PLACES) for layer in get_args(net_arch.Layer)),
        *((encoder, ENCODER_PLACES) for encoder in own_options(get_args(players.Encoder))),
    ],
)
def test_a_layer_or_an_encoder_is_known_in_the_places_of_the_guide_alone(known, places):
    assert files_that_name(known.__name__) - {CONVERTER, RULES_BETWEEN_KEYS} == places


@dataclass(frozen=True)
class CopiedConfig(config.DQNConfig):
    """An algorithm of another name."""

    algorithm: Literal["copied"]


def test_an_algorithm_that_is_added_so_is_studied_estimated_and_trained(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "TrainerConfig", TrainerConfig | CopiedConfig)
    monkeypatch.setitem(TRAINERS, "copied", DQNTrainer)
    write_trainer(tmp_path, {"algorithm": "copied"})
    study = load_spec(write_study(tmp_path))
    assert forecast(study, StudyDir(tmp_path / "runs/tiny")).hours is None  # nothing like it
    copied = config.read_config(study.bases["copied"], source="")
    assert isinstance(copied, CopiedConfig)
    trainer = build_trainer([copied])
    trainer.train(1)
    assert trainer.is_finite() == [True]


def test_a_command_that_is_added_so_is_listed_run_and_completed(monkeypatch, capsys):
    @command("greet", flag("--loud", "in capitals"), examples=["", "--loud"])
    def greet(*, loud: bool) -> int:
        print("HELLO" if loud else "hello")
        return 3

    monkeypatch.setitem(cli.COMMANDS, "begin", (*cli.COMMANDS["begin"], greet))
    names = tuple(known.name for group in cli.COMMANDS.values() for known in group)
    monkeypatch.setattr(cli, "NAMES", names)  # which is COMMANDS as a list
    assert cli.main(["greet", "--loud"]) == 3
    assert capsys.readouterr().out == "HELLO\n"
    assert "  greet " in cli.build_parser().format_help()
    assert "greet" in completion_script(cli.build_parser(), "bash")

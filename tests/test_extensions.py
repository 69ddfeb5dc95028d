"""Parts of other packages: read, used in place of ours, and refused in one sentence."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
import torch
from announced import on_path, write_package
from cli_tools import hpsearch, write_study, write_trainer
from fakes import FakeExecutor
from tiny_configs import CONFIGS

from hpsearch.api import driving
from hpsearch.api.executors import build_executor
from hpsearch.api.study_handle import StudyHandle
from hpsearch.cluster.code_snapshot import versions
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.doctor.machine import check_extensions
from hpsearch.errors import ConfigError
from hpsearch.extensions import ExtensionError
from hpsearch.game.fused_game import FusedGame
from hpsearch.game.players import AGENTS, HOSTS
from hpsearch.game.rules import REWARDS, GameConfig, HostActionEncoder
from hpsearch.population.offspring import offspring
from hpsearch.population.operators.options import Changing
from hpsearch.population.options import Matches, scripted_players
from hpsearch.schema import apply, read_hint, to_plain
from hpsearch.study import options
from hpsearch.study.opening import open_driver
from hpsearch.study.samplers import build_pruner, build_sampler
from hpsearch.study.space import SearchSpace
from hpsearch.study.spec import load_spec
from hpsearch.study.stored_spec import readable_study, spec_json, stored_study
from hpsearch.testing.game_parts import check_agent, check_encoder, check_host, check_reward
from hpsearch.testing.operators import check_crossover, check_mutation
from hpsearch.testing.studies import check_pruner, check_sampler
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import read_config
from hpsearch.trainers.opponents import load_player

STUDIES = Path(__file__).parent.parent / "studies"
SOURCE = """
from dataclasses import dataclass
from typing import Literal

import optuna
import torch

from hpsearch.cluster.local import LocalExecutor
from hpsearch.game.players import HOSTS, choose_last_agent
from hpsearch.game.rules import points_removed
from hpsearch.population.operators import options as operators
from hpsearch.population.operators.weights import clone, layer_crossover
from hpsearch.schema import Positive
from hpsearch.study import options
from hpsearch.trainers.config.players import EncoderExtension


@dataclass(frozen=True)
class Uniform(options.SamplerExtension):
    name: Literal["uniform"]
    width: Positive = 3

    def build(self, seed):
        return optuna.samplers.RandomSampler(seed)


@dataclass(frozen=True)
class Patient(options.PrunerExtension):
    name: Literal["patient"]

    def build(self):
        return optuna.pruners.MedianPruner(n_startup_trials=2)


@dataclass(frozen=True)
class Rows(EncoderExtension):
    name: Literal["rows"]

    def num_features(self, num_points, dimension):
        return num_points * dimension

    def features(self, points):
        return points.flatten(2)


@dataclass(frozen=True)
class Same(operators.MutationExtension):
    name: Literal["same"]

    def child(self, parent, stream):
        return clone(parent)


@dataclass(frozen=True)
class Halves(operators.CrossoverExtension):
    name: Literal["halves"]

    def child(self, first, second, stream):
        return layer_crossover(first, second, share=torch.full((1,), 0.5), stream=stream)


@dataclass(frozen=True)
class Here(options.ExecutorExtension):
    name: Literal["here"]

    def build(self, study, folder, needs):
        return LocalExecutor(1, pilot_seconds=needs.pilot_seconds, withheld=needs.withheld)


@dataclass(frozen=True)
class Lazy(options.ExecutorExtension):
    name: Literal["lazy"]

    def build(self, study, folder, needs):
        raise NotImplementedError


removed = points_removed
agent = choose_last_agent
host = HOSTS["zeillinger"]


@dataclass(frozen=True)
class Unfinished(options.SamplerExtension):
    name: Literal["unfinished"]


@dataclass(frozen=True)
class Refusing(options.SamplerExtension):
    name: Literal["refusing"]

    def __post_init__(self):
        raise ValueError("not on Fridays")

    def build(self, seed):
        return optuna.samplers.RandomSampler(seed)


class Plain(Uniform):
    name: Literal["plain"]
    depth: int


@dataclass(frozen=True)
class Misnamed(options.SamplerExtension):
    name: Literal["another"]

    def build(self, seed):
        return optuna.samplers.RandomSampler(seed)
"""
POINTS = {
    "samplers": {
        "uniform": "tried_parts:Uniform",
        "unfinished": "tried_parts:Unfinished",
        "misnamed": "tried_parts:Misnamed",
        "refusing": "tried_parts:Refusing",
        "plain": "tried_parts:Plain",
        "a/b": "tried_parts:Uniform",
        "function": "tried_parts:removed",
        "absent": "tried_parts:Absent",
        "broken": "broken:Sampler",
        "twice": "tried_parts:Uniform",
        "random": "tried_parts:Uniform",
    },
    "executors": {"here": "tried_parts:Here", "lazy": "tried_parts:Lazy"},
    "pruners": {"patient": "tried_parts:Patient"},
    "encoders": {"rows": "tried_parts:Rows"},
    "mutations": {"same": "tried_parts:Same"},
    "crossovers": {"halves": "tried_parts:Halves"},
    "rewards": {"removed": "tried_parts:removed", "gone": "tried_parts:Gone"},
    "hosts": {"balanced": "tried_parts:host"},
    "agents": {"last": "tried_parts:agent"},
    "reward": {"removed": "tried_parts:removed"},
}


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    first, second = tmp_path / "first", tmp_path / "second"
    broken = "raise RuntimeError('no licence')"
    write_package(first, POINTS, {"tried_parts": SOURCE, "broken": broken})
    write_package(second, {"samplers": {"twice": "tried_parts:Patient"}}, {}, package="rival")
    with on_path(first, second):
        yield first, second


def sampler(data: dict[str, Any]) -> Any:
    return read_hint(options.Sampler, data, source="study.yaml")


@pytest.mark.usefixtures("folders")
def test_options_of_another_package_are_read_as_ours_are() -> None:
    assert "tried_parts" not in sys.modules
    sampler({"name": "tpe"})
    assert "tried_parts" not in sys.modules, "a package is imported when a file names its part"
    read = sampler({"name": "uniform", "width": 4})
    assert (read.name, read.width) == ("uniform", 4)
    assert to_plain(read) == {"name": "uniform", "width": 4}
    with pytest.raises(ConfigError, match=r"width must lie in \[1, inf\), but is 0"):
        sampler({"name": "uniform", "width": 0})
    assert isinstance(sampler({"name": "random"}), options.RandomOptions), "ours come first"


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("unfinished", "derives from SamplerExtension, with its methods and the field name: Lit"),
        ("refusing", r"cannot be read \(ValueError: not on Fridays\); mend that package"),
        ("plain", "is no frozen dataclass"),
        ("a/b", "must be called by letters, digits and _ - ., and not learner, panel, program"),
        ("misnamed", r"the field name: Literal\['misnamed'\]"),
        ("function", "is announced by the package tried 1.2, but what that gives is no frozen"),
        ("absent", r"package tried 1.2 \(AttributeError: .*mend or reinstall that package"),
        ("broken", r"package tried 1.2 \(RuntimeError: no licence\)"),
        ("twice", "by several packages, as tried_parts:Patient, tried_parts:Uniform; uninstall"),
        ("unifrom", r"unknown name 'unifrom' \(did you mean 'uniform'\?\); valid: .*tpe, twice"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(name: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as raised:
        sampler({"name": name})
    assert len(raised.value.problems) == 1


def test_without_the_package_the_names_that_are_left_are_listed(tmp_path: Path) -> None:
    write_package(tmp_path, {"rewards": {"sooner": "tried_parts:removed"}}, {"tried_parts": SOURCE})
    config = apply(CONFIGS["dqn"], {"reward": "sooner"})
    with on_path(tmp_path):
        assert read_config(config, source="").reward == "sooner"
    sentence = "reward is an unknown reward 'sooner'; valid: points_removed, step_penalty, terminal"
    with pytest.raises(ConfigError, match=sentence):
        read_config(config, source="")


@pytest.mark.usefixtures("folders")
def test_every_part_keeps_its_promises() -> None:
    check_sampler(sampler({"name": "uniform"}))
    check_pruner(read_hint(options.Pruner, {"name": "patient"}, source=""))
    check_reward(REWARDS["removed"])
    check_host(HOSTS["balanced"])
    check_agent(AGENTS["last"])
    config = apply(CONFIGS["dqn"], {"host.encoder": {"name": "rows"}})
    check_encoder(read_config(config, source="").learning()["host"].encoder)
    check_mutation(read_hint(Changing, {"name": "same"}, source=""))
    check_crossover(read_hint(Changing, {"name": "halves"}, source=""))


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_reward_is_earned_whatever_backend_plays(backend: str) -> None:
    keys = torch.arange(2)
    config = GameConfig(
        dimension=3,
        max_num_points=6,
        max_value=9,
        max_steps=4,
        reposition=True,
        reward="points_removed",
    )
    ours = FusedGame(config, keys, 8, "cpu", backend, observes=True)
    other = FusedGame(config, keys, 8, "cpu", backend, observes=True)
    other.replace_reward("removed")
    for move in range(9):
        action = torch.full((2, 8), move % HostActionEncoder(3).num_actions)
        axis = HostActionEncoder(3).decode(action).to(torch.uint8).argmax(dim=-1)
        for own, its in zip(ours.step(action, axis), other.step(action, axis), strict=True):
            assert torch.equal(own, its)
        assert torch.equal(ours.points, other.points)


@pytest.mark.usefixtures("folders")
def test_training_by_parts_of_a_package_is_training_by_the_parts_that_they_equal() -> None:
    own = {
        "reward": "points_removed",
        "agent": {"player": "choose_last"},
        "host.encoder": {"name": "flatten", "num_points": 4},
        "evaluation.opponents": ["choose_last", "zeillinger"],
    }
    theirs = {
        "reward": "removed",
        "agent": {"player": "last"},
        "host.encoder": {"name": "rows"},
        "evaluation.opponents": ["last", "balanced"],
    }
    trained = [
        build_trainer([read_config(apply(CONFIGS["dqn"], c), source="")]) for c in (own, theirs)
    ]
    measured = []
    for trainer in trained:
        trainer.train(5)
        (rho,) = trainer.evaluate_rho(num_games=20, split="test")
        measured.append([*rho.values()])
    assert torch.equal(trained[0].host_net.weights, trained[1].host_net.weights)
    assert measured[0] == measured[1]
    assert trained[1].config.measured_against() == {"host": ("last",)}
    assert scripted_players("host", ("balanced", "last", "random")) == ("balanced", "random")
    assert read_hint(Matches, {"panel": ["last", "random"]}, source="").panel == ("last", "random")


@pytest.mark.usefixtures("folders")
def test_children_are_made_by_a_package_s_operators(tmp_path: Path) -> None:
    parents = []
    for seed in (1, 2):
        trainer = build_trainer([read_config(apply(CONFIGS["dqn"], {"seed": seed}), source="")])
        trainer.train(1)
        path = Path(trainer.save(tmp_path / str(seed), 0))
        parents.append({"host": load_player(path, "host", torch.device("cpu"))})
    own = [own["host"].net for own in parents]
    copy = offspring(read_hint(Changing, {"name": "same"}, source=""), parents[:1], 3)["host"]
    assert torch.equal(copy.weights, own[0].weights)
    mixed = offspring(read_hint(Changing, {"name": "halves"}, source=""), parents, 3)["host"]
    assert ((mixed.weights == own[0].weights) | (mixed.weights == own[1].weights)).all()


@pytest.mark.usefixtures("folders")
def test_studies_suggest_and_prune_by_a_package_s_options() -> None:
    pruner = build_pruner(read_hint(options.Pruner, {"name": "patient"}, source=""))
    assert isinstance(pruner, optuna.pruners.MedianPruner)
    space = SearchSpace({})
    built = [build_sampler(own, 3, space) for own in (sampler({"name": "uniform"}), RANDOM)]
    drawn = []
    for each in built:
        study = optuna.create_study(sampler=each)
        drawn.append([study.ask().suggest_float("x", 0.0, 1.0) for _ in range(4)])
    assert drawn[0] == drawn[1]


RANDOM = options.RandomOptions("random")


@pytest.mark.usefixtures("folders")
def test_doctor_and_provenance_name_the_packages() -> None:
    assert versions()["tried"] == "1.2"
    findings = [*check_extensions()]
    found = {str(finding) for finding in findings}
    assert any("reward removed (tried 1.2)" in text for text in found), found
    assert any("no licence" in text for text in found)
    assert any(
        "removed of the package tried is announced as hpsearch.reward, which is none of" in text
        for text in found
    )
    assert {finding.level for finding in findings} == {"ok", "warning"}, "other studies can run"


@pytest.mark.slow
def test_a_study_by_a_package_s_sampler_and_executor(tmp_path: Path) -> None:
    write_package(tmp_path / "package", POINTS, {"tried_parts": SOURCE})
    executor = {"name": "here", "jobs": 1, "members_per_job": 2, "poll_seconds": 0.2}
    changes = {"sampler": {"name": "uniform"}, "executor": executor, "budget/trials": 2}
    write_study(tmp_path, changes)
    path = {"PYTHONPATH": str(tmp_path / "package")}
    assert "another package adds: host balanced (tried 1.2)\n" in (
        hpsearch(tmp_path, "validate", "study.yaml", env=path).stdout
    )
    plain = hpsearch(tmp_path, "validate", "study.yaml", "--json", env=path).stdout
    assert "sampler uniform (tried 1.2)" in json.loads(plain)["extensions"]
    done = hpsearch(tmp_path, "run", "study.yaml", "--no-export", env=path)
    assert "best: trial" in done.stdout
    assert "reward gone" in hpsearch(tmp_path, "doctor", env=path).stdout
    write_trainer(tmp_path, {"reward": "gone"})
    failed = hpsearch(tmp_path, "train", "trainer.yaml", env=path, code=None)
    assert "gone cannot be loaded from the package tried 1.2" in failed.stderr
    failed = hpsearch(tmp_path, "validate", "study.yaml", code=3)
    assert "unknown name 'uniform'; valid: cmaes, gp, grid" in failed.stderr
    assert "unknown name 'here'; valid: local, psij, slurm" in failed.stderr

    # Results are read without the package; the study goes on only where it is installed.
    missing = "sampler.name is an unknown name 'uniform'"
    told = hpsearch(tmp_path, "status", "tiny").stdout
    assert f"not read here: {missing}" in told
    assert "best: trial" in told
    assert len(json.loads(hpsearch(tmp_path, "trials", "tiny", "--json").stdout)) == 2
    assert hpsearch(tmp_path, "audit", "tiny").stdout
    assert missing in hpsearch(tmp_path, "enqueue", "tiny", "host.gamma=0.9", code=3).stderr
    write_trainer(tmp_path)
    assert "best: trial" in hpsearch(tmp_path, "status", "study.yaml").stdout, "by its file too"
    assert "nothing to stop" in hpsearch(tmp_path, "stop", "study.yaml", code=2).stderr


@pytest.mark.usefixtures("folders")
def test_an_executor_that_fails_is_its_package_s_fault(tmp_path: Path) -> None:
    write_study(tmp_path, {"executor": {"name": "lazy"}})
    study = load_spec(tmp_path / "study.yaml")
    with pytest.raises(ExtensionError, match=r"executor lazy cannot be built \(NotImplementedErr"):
        build_executor(study, StudyDir(tmp_path / "runs/tiny"))


def test_a_study_is_read_without_its_packages(tmp_path: Path) -> None:
    write_package(tmp_path / "package", POINTS, {"tried_parts": SOURCE})
    write_study(tmp_path, {"pruner": {"name": "patient"}, "executor": {"name": "here"}})
    bred = json.loads(spec_json(load_spec(STUDIES / "population_pairs.yaml")))["population"]
    operators = [*bred["operators"], {"name": "same"}]
    with on_path(tmp_path / "package"):
        plain = json.loads(spec_json(load_spec(tmp_path / "study.yaml")))
        text = json.dumps({**plain, "population": {**bred, "operators": operators}})
        assert readable_study(text, tmp_path)[1] == ()
    study, absent = readable_study(text, tmp_path)
    assert {fault.partition(" ")[0] for fault in absent} == {
        *("pruner.name", "executor.name", f"population.operators[{len(operators) - 1}].name")
    }
    assert study.spec.population is not None
    assert to_plain(study.spec.population) == bred
    with pytest.raises(ConfigError, match="unknown name 'patient'"):
        stored_study(text, tmp_path)
    alone = json.dumps({**plain, "population": {**bred, "operators": [{"name": "same"}]}})
    study, _ = readable_study(alone, tmp_path)
    assert study.spec.population is not None
    assert [each.name for each in study.spec.population.operators] == ["clone"]


def test_a_study_is_ended_without_its_packages(tmp_path: Path, monkeypatch) -> None:
    write_package(tmp_path / "package", POINTS, {"tried_parts": SOURCE})
    write_study(tmp_path, {"sampler": {"name": "uniform"}, "pruner": {"name": "patient"}})
    write_trainer(tmp_path, {"reward": "removed"})
    runs, executor = tmp_path / "runs", FakeExecutor()
    monkeypatch.chdir(tmp_path)  # where the database lies
    monkeypatch.setattr(driving, "build_executor", lambda study, folder: executor)
    with on_path(tmp_path / "package"):
        study = load_spec(tmp_path / "study.yaml")
        with open_driver(study, runs, executor, on_event=lambda event: None) as driver:
            driver.start()
            driver.tick()
    handle = StudyHandle("tiny", runs)
    handle.stop()
    assert handle.view().state.status == "stopping"
    handle.cancel()
    assert (handle.view().state.status, executor.live()) == ("cancelled", [])
    with on_path(tmp_path / "package"):
        assert spec_json(handle.view().whole_study()) == spec_json(study), "nothing was lost"
        with open_driver(study, runs, executor, on_event=lambda event: None) as driver:
            assert len(driver.state.failed_for_good()) == 6


def test_a_closing_and_a_panel_of_a_package_are_read_without_it(tmp_path: Path) -> None:
    write_package(tmp_path / "package", POINTS, {"tried_parts": SOURCE})
    write_study(tmp_path)
    plain = json.loads(spec_json(load_spec(tmp_path / "study.yaml")))
    bred = json.loads(spec_json(load_spec(STUDIES / "population_pairs.yaml")))["population"]
    closing = {"operators": [{"name": "same"}, {"name": "halves"}]}
    matches = {**bred["matches"], "panel": [*bred["matches"]["panel"], "balanced"]}
    given = {**bred, "closing": closing, "matches": matches}
    text = json.dumps({**plain, "population": given})
    with on_path(tmp_path / "package"):
        assert readable_study(text, tmp_path)[1] == ()
    study, absent = readable_study(text, tmp_path)
    assert sorted(fault.partition(" ")[0] for fault in absent) == [
        *(f"population.closing.operators[{index}].name" for index in range(2)),
        "population.matches.panel[5]",
    ]
    assert to_plain(study.spec.population) == {**bred, "closing": None}

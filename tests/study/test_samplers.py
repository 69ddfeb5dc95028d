"""Samplers: a driver that is killed anywhere asks for the same trials as one that is not."""

import logging
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.trial import Trial
from scipy.stats import qmc
from spaces import CONDITIONAL, FINITE, FINITE_COUNT, PLAIN

from hpsearch.parameters import CategoricalParameter, FloatParameter, IntParameter
from hpsearch.study.options import (
    CMAESOptions,
    GPOptions,
    GridOptions,
    HyperbandOptions,
    NoPruning,
    Pruner,
    QMCOptions,
    RandomOptions,
    Sampler,
    TPEOptions,
)
from hpsearch.study.samplers import blind, build_pruner, build_sampler, derive_seed
from hpsearch.study.space import SearchSpace
from hpsearch.study.storage import MirroredStorage, open_storage

NUM_TRIALS = {"gp": 7}  # a suggestion takes it a second
DEFAULT_NUM_TRIALS = 8
SAMPLERS: list[Sampler] = [
    RandomOptions("random"),
    TPEOptions(n_startup_trials=3),
    TPEOptions(n_startup_trials=3, multivariate=False),
    TPEOptions(n_startup_trials=3, constant_liar=False),
    QMCOptions("qmc"),
    QMCOptions("qmc", "halton"),
    CMAESOptions("cmaes", popsize=4),
    GPOptions("gp", n_startup_trials=4),
]
NAMES = [f"{options.name}-{index}" for index, options in enumerate(SAMPLERS)]


def num_trials(options: Sampler) -> int:
    """Return how many trials of a sampler are compared."""
    return NUM_TRIALS.get(options.name, DEFAULT_NUM_TRIALS)


class Session:
    """What a driver process holds: the storage and the study, opened anew."""

    def __init__(
        self, url: str, space: SearchSpace, options: Sampler, pruner: Pruner, objectives: int
    ) -> None:
        self.space = space
        self.storage: MirroredStorage = open_storage(url)
        self.study = optuna.create_study(
            storage=self.storage,
            study_name="study",
            sampler=build_sampler(options, 7, space),
            pruner=build_pruner(pruner),
            directions=["maximize"] * objectives,
            load_if_exists=True,
        )

    def tell(self, trial: Trial, values: dict[str, Any]) -> None:
        """End some trials and leave others running, as on a cluster."""
        score = sum(hash_of(value) for value in values.values())
        scores = [score + index for index in range(len(self.study.directions))]
        if trial.number % 4 == 3:
            return
        if len(scores) == 1:
            trial.report(score, 1)
            trial.should_prune()
        self.study.tell(trial, scores)


def hash_of(value: Any) -> float:
    """Return any number that depends on the value alone."""
    return float(value) if isinstance(value, int | float) else float(len(repr(value)))


@pytest.fixture(autouse=True)
def no_warnings(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Optuna logs some of its warnings instead of raising them."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    optuna.logging.enable_propagation()
    yield
    optuna.logging.disable_propagation()
    records = caplog.get_records("call")
    assert [r.getMessage() for r in records if r.levelno >= logging.WARNING] == []


def ask_in_one_go(
    folder: Path, space: SearchSpace, options: Sampler, pruner: Pruner, objectives: int
) -> list[dict[str, Any]]:
    url = f"sqlite:///{folder}/whole.db"
    session = Session(url, space, options, pruner, objectives)
    asked = []
    for _ in range(num_trials(options)):
        trial = session.study.ask()
        asked.append(space.suggest(trial))
        session.tell(trial, asked[-1])
    session.storage.close()
    return asked


def ask_with_interruptions(
    folder: Path, space: SearchSpace, options: Sampler, pruner: Pruner, objectives: int
) -> list[dict[str, Any]]:
    """Ask each trial in a new session; every second one dies between two suggestions."""
    url = f"sqlite:///{folder}/parts.db"
    asked = []
    for number in range(num_trials(options)):
        session = Session(url, space, options, pruner, objectives)
        trial = session.study.ask()
        if number % 2:
            suggest_some(space, trial, 1 + number // 2 % (len(space.order) - 1))
            session.storage.close()
            session = Session(url, space, options, pruner, objectives)
            trial = Trial(session.study, trial._trial_id)
        asked.append(space.suggest(trial))
        session.tell(trial, asked[-1])
        session.storage.close()
    return asked


def suggest_some(space: SearchSpace, trial: Trial, count: int) -> None:
    """Suggest the first parameters, as a driver does that dies after them."""

    class Killed(Exception):
        pass

    real = trial.storage.set_trial_param
    calls = iter(range(count))

    def set_or_die(*args: Any) -> None:
        if next(calls, None) is None:
            raise Killed
        real(*args)

    trial.storage.set_trial_param = set_or_die
    try:
        space.suggest(trial)
    except Killed:
        pass
    finally:
        trial.storage.set_trial_param = real


@pytest.mark.parametrize("options", SAMPLERS, ids=NAMES)
@pytest.mark.parametrize(
    "space",
    [CONDITIONAL, pytest.param(PLAIN, marks=pytest.mark.exhaustive)],
    ids=["conditional", "plain"],
)
def test_interruptions_change_nothing(tmp_path: Path, options: Sampler, space: SearchSpace) -> None:
    whole = ask_in_one_go(tmp_path, space, options, NoPruning(), 1)
    assert ask_with_interruptions(tmp_path, space, options, NoPruning(), 1) == whole
    assert len({repr(values) for values in whole}) > len(whole) / 2


@pytest.mark.parametrize("options", [GridOptions("grid"), *SAMPLERS[:2]])
def test_interruptions_change_nothing_on_a_grid(tmp_path: Path, options: Sampler) -> None:
    whole = ask_in_one_go(tmp_path, FINITE, options, NoPruning(), 1)
    assert ask_with_interruptions(tmp_path, FINITE, options, NoPruning(), 1) == whole


@pytest.mark.parametrize(
    "options",
    [SAMPLERS[1], pytest.param(SAMPLERS[-1], marks=pytest.mark.slow)],
    ids=["tpe", "gp"],
)
def test_interruptions_change_nothing_with_two_objectives(tmp_path: Path, options: Sampler) -> None:
    whole = ask_in_one_go(tmp_path, CONDITIONAL, options, NoPruning(), 2)
    assert ask_with_interruptions(tmp_path, CONDITIONAL, options, NoPruning(), 2) == whole


@pytest.mark.parametrize("options", [SAMPLERS[1], SAMPLERS[6]], ids=["tpe", "cmaes"])
def test_interruptions_change_nothing_with_hyperband(tmp_path: Path, options: Sampler) -> None:
    pruner = HyperbandOptions("hyperband", max_resource=27)
    whole = ask_in_one_go(tmp_path, PLAIN, options, pruner, 1)
    assert ask_with_interruptions(tmp_path, PLAIN, options, pruner, 1) == whole


@pytest.mark.parametrize("options", SAMPLERS, ids=NAMES)
def test_seed_changes_the_suggestions(options: Sampler) -> None:
    asked = []
    for seed in (1, 1, 2):
        study = optuna.create_study(sampler=build_sampler(options, seed, PLAIN))
        asked.append([repr(PLAIN.suggest(study.ask())) for _ in range(3)])
    assert asked[0] == asked[1]
    assert not set(asked[0]) & set(asked[2])


def test_grid_visits_every_configuration_once_and_then_again() -> None:
    study = optuna.create_study(sampler=build_sampler(GridOptions("grid"), 5, FINITE))
    asked = [repr(FINITE.suggest(study.ask())) for _ in range(FINITE_COUNT + 10)]
    assert len(set(asked[:FINITE_COUNT])) == FINITE_COUNT
    assert asked[FINITE_COUNT:] == asked[:10]


@pytest.mark.parametrize("count", range(1, 13))
def test_grid_of_any_size_is_visited_whole_in_its_first_round(count: int) -> None:
    line = SearchSpace({"width": IntParameter(1, count)})
    study = optuna.create_study(sampler=build_sampler(GridOptions("grid"), 5, line))
    asked = [line.suggest(study.ask())["width"] for _ in range(count)]
    assert sorted(asked) == list(range(1, count + 1))


def test_grid_does_not_begin_with_one_corner() -> None:
    study = optuna.create_study(sampler=build_sampler(GridOptions("grid"), 0, FINITE))
    asked = [FINITE.suggest(study.ask()) for _ in range(12)]
    assert {repr(values["kind"]) for values in asked} == {"[1, 2]", "'b'", "False"}
    assert {round(values["rate"], 6) for values in asked} == {0.1, 0.2, 0.3, 0.4, 0.5}


def test_qmc_points_are_the_scrambled_sobol_sequence() -> None:
    square = SearchSpace({name: FloatParameter(0.0, 1.0) for name in ("x", "y")})
    study = optuna.create_study(sampler=build_sampler(QMCOptions("qmc"), 3, square))
    asked = [tuple(square.suggest(study.ask()).values()) for _ in range(16)]
    expected = qmc.Sobol(2, scramble=True, seed=3).random(16)
    assert np.allclose(asked, expected, rtol=0, atol=1e-15)


def test_qmc_moves_conditional_and_categorical_parameters_evenly() -> None:
    study = optuna.create_study(sampler=build_sampler(QMCOptions("qmc"), 3, CONDITIONAL))
    asked = [CONDITIONAL.suggest(study.ask()) for _ in range(64)]
    assert sum(values["algorithm"] == "ppo" for values in asked) == 32
    clips = sorted(values["clip"] for values in asked if "clip" in values)
    assert max(np.diff(clips)) < 0.3 / 8


@pytest.mark.parametrize("options", [TPEOptions(), CMAESOptions("cmaes")], ids=["tpe", "cmaes"])
def test_search_beats_random_on_a_bowl(options: Sampler) -> None:
    bowl = SearchSpace({name: FloatParameter(-5.0, 5.0) for name in ("x", "y")})

    def best(sampler: Sampler) -> float:
        scores = []
        for seed in range(10):
            study = optuna.create_study(sampler=build_sampler(sampler, seed, bowl))
            for _ in range(40):
                trial = study.ask()
                values = bowl.suggest(trial)
                study.tell(trial, (values["x"] - 1) ** 2 + (values["y"] + 2) ** 2)
            scores.append(study.best_value)
        return math.fsum(scores)

    assert best(options) < best(RandomOptions("random"))


@pytest.mark.slow
def test_of_many_running_trials_cmaes_suggests_no_two_alike() -> None:
    bowl = SearchSpace({name: FloatParameter(-5.0, 5.0) for name in ("x", "y")})
    study = optuna.create_study(sampler=build_sampler(CMAESOptions("cmaes"), 1, bowl))
    bowl.suggest(first := study.ask())
    study.tell(first, 1.0)
    asked = [tuple(bowl.suggest(study.ask()).values()) for _ in range(1500)]
    assert len({*asked}) == len(asked)


def test_conditional_parameters_are_modelled_in_groups() -> None:
    space = SearchSpace(
        {
            "kind": CategoricalParameter(("a", "b")),
            "x": FloatParameter(0.0, 1.0, when={"kind": "a"}),
            "y": FloatParameter(0.0, 1.0, when={"kind": "b"}),
        }
    )
    study = optuna.create_study(sampler=build_sampler(TPEOptions(), 0, space))
    asked = []
    for _ in range(60):
        trial = study.ask()
        asked.append(space.suggest(trial))
        study.tell(trial, asked[-1].get("x", 5.0) + asked[-1].get("y", 0.0))
    late = [values["x"] for values in asked[30:] if "x" in values]
    assert np.mean(late) < 0.25  # uniform draws have mean 0.5


def test_seeds_of_trials_and_purposes_differ() -> None:
    seeds = {
        derive_seed(seed, number, purpose)
        for seed in range(10)
        for number in range(100)
        for purpose in ("joint", "parameter x", "parameter y")
    }
    assert len(seeds) == 3000
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_first_members_of_a_population_are_suggested_without_learning() -> None:
    assert blind(TPEOptions()) == blind(GPOptions("gp")) == RandomOptions("random")
    for options in (QMCOptions("qmc"), GridOptions("grid"), RandomOptions("random")):
        assert blind(options) == options

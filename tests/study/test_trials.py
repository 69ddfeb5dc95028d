"""What the driver does with Optuna: each call may be repeated after a crash."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
from drives import METRIC, SPACE, new_study, stored_trials
from optuna.trial import TrialState

from hpsearch.programs.config import shape_of
from hpsearch.study.observe import CurveReport
from hpsearch.study.records import PlannedTrial, Trial
from hpsearch.study.samplers import build_pruner, build_sampler
from hpsearch.study.spec import Study, load_spec
from hpsearch.study.storage import open_storage
from hpsearch.study.trials import Trials
from hpsearch.trainers.config import TrainerConfig

HALVING = {"name": "successive_halving", "min_resource": 4, "reduction_factor": 2}


@contextmanager
def trials_of(study: Study) -> Iterator[Trials]:
    """Give the trials as a fresh driver sees them."""
    with closing(open_storage(study.spec.storage)) as storage:
        storage.write_behind()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        opened = optuna.create_study(
            storage=storage,
            study_name=study.spec.name,
            directions=[objective.goal for objective in study.spec.objectives],
            sampler=build_sampler(study.spec.sampler, study.spec.seed, study.space),
            pruner=build_pruner(study.spec.pruner),
            load_if_exists=True,
        )
        yield Trials(study, opened, storage)


def ask(
    trials: Trials, known: Sequence[int], retries: Sequence[int], planned: Sequence[PlannedTrial]
) -> Trial:
    with trials.asking():
        return trials.ask(known, retries, planned)


def metrics(value: float) -> dict[str, dict[str, float]]:
    return {METRIC: {"value": value, "low": value - 0.1, "high": value + 0.1}}


def test_a_trial_that_was_not_recorded_is_taken_up_first(tmp_path: Path) -> None:
    study = new_study(tmp_path)
    asked = []
    for known in ([], [], [0], [0, 1], [1]):
        with trials_of(study) as trials:
            asked.append(ask(trials, known, [], ()))
    assert [trial.number for trial in asked] == [0, 0, 1, 2, 0]
    assert asked[0] == asked[1] == asked[4]
    assert [trial.params for trial in stored_trials(study)] == [
        trial.params for trial in (asked[0], asked[2], asked[3])
    ]


def test_an_ask_that_failed_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = new_study(tmp_path)
    with trials_of(study) as trials:
        first = ask(trials, [], [], ())
        monkeypatch.setattr(type(study.space), "suggest", lambda self, trial: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ask(trials, [0], [], ())
        monkeypatch.undo()
        trials.recount()
        again = ask(trials, [0], [0], ())
    assert (again.number, again.retry_of, again.params) == (1, 0, first.params)
    assert len(stored_trials(study)) == 2


@pytest.mark.parametrize("value", [1e9, "high", None, [0.1]])
def test_what_optuna_was_given_and_no_trial_can_have_fails_alone(
    tmp_path: Path, value: Any
) -> None:
    study = new_study(tmp_path)
    name = next(iter(SPACE))
    with trials_of(study):
        pass
    optuna.load_study(study_name=study.spec.name, storage=study.spec.storage).enqueue_trial(
        {name: value, "another": 1}
    )
    with trials_of(study) as trials:
        assert ask(trials, [], [], ()).number == 1
    refused, asked = stored_trials(study)
    assert (refused.state, asked.state) == (TrialState.FAIL, TrialState.RUNNING)
    assert refused.user_attrs == {"misfits": [name]}


def test_a_failed_trial_is_tried_again_with_its_parameters(tmp_path: Path) -> None:
    study = new_study(tmp_path)
    with trials_of(study) as trials:
        first = ask(trials, [], [], ())
        trials.tell(Trial(0, {}), "failed", {}, failure="lost")
        again = ask(trials, [0], [0], ())
    with trials_of(study) as trials:  # the driver did not live to record it
        assert ask(trials, [0], [0], ()) == again
    assert (again.number, again.params, again.retry_of) == (1, first.params, 0)
    assert len(stored_trials(study)) == 2


def test_a_trial_that_needs_too_much_memory_is_infeasible(tmp_path: Path) -> None:
    study = new_study(tmp_path)
    with trials_of(study) as trials:
        ask(trials, [], [], ())
        trials.tell(Trial(0, {}), "failed", {}, failure="oom_gpu")
    (trial,) = stored_trials(study)
    assert (trial.state, trial.constraints) == (TrialState.PRUNED, {"gpu_memory": 1.0})
    assert trial.user_attrs == {"failure": "oom_gpu"}


def test_a_trial_is_told_once(tmp_path: Path) -> None:
    study = new_study(tmp_path)
    with trials_of(study) as trials:
        for number in range(3):
            ask(trials, range(number), [], ())
        trials.tell(Trial(0, {}), "finished", metrics(0.5), failure=None)
        trials.tell(Trial(1, {}), "failed", {}, failure="code")
        trials.tell(Trial(2, {}), "pruned", {}, failure=None)
    before = stored_trials(study)
    assert [trial.state for trial in before] == [
        TrialState.COMPLETE,
        TrialState.FAIL,
        TrialState.PRUNED,
    ]
    assert before[0].values == [0.5]
    assert before[0].user_attrs == {f"{METRIC} 95%": [0.4, 0.6]}
    with trials_of(study) as trials:
        for number in range(3):
            trials.tell(Trial(number, {}), "finished", metrics(0.75), failure=None)
    assert stored_trials(study) == before


def reports(study: Study, plan: list[tuple[int, int, float]], *, repeat: bool) -> list[bool]:
    """Report (trial, step, value); with ``repeat`` each first to a driver that records nothing."""
    known = {number: Trial(number, {}) for number in range(4)}
    verdicts = []
    with trials_of(study) as trials:
        for number in range(4):
            ask(trials, range(number), [], ())
    for number, step, value in plan:
        for _ in range(3 if repeat else 1):
            with trials_of(study) as trials:
                verdict = trials.report(known[number], CurveReport(step, number, value), last=False)
                rungs = len(trials.rungs(known[number]))
        known[number].rungs = rungs
        verdicts.append(verdict)
    return verdicts


@pytest.mark.parametrize("repeat", [False, True])
def test_successive_halving_by_hand(tmp_path: Path, repeat: bool) -> None:
    """Rungs at steps 4, 8, 16; of those that reached one, the better half may go on."""
    plan: list[tuple[int, int, float]] = [
        (0, 4, 0.5),  # alone: the best
        (1, 4, 0.4),  # of two the worse
        (2, 4, 0.6),  # of three the best
        (3, 4, 0.55),  # of four the second
        (0, 6, 0.1),  # between two rungs
        (0, 8, 0.5),
        (2, 8, 0.7),
        (3, 8, 0.4),  # of three the worst
    ]
    study = new_study(tmp_path, pruner=HALVING)
    expected = [False, True, False, False, False, False, False, True]
    assert reports(study, plan, repeat=repeat) == expected
    values = [trial.intermediate_values for trial in stored_trials(study)]
    assert values == [{4: 0.5, 6: 0.1, 8: 0.5}, {4: 0.4}, {4: 0.6, 8: 0.7}, {4: 0.55, 8: 0.4}]
    rungs = [
        {k: v for k, v in trial.system_attrs.items() if k.startswith("completed_rung")}
        for trial in stored_trials(study)
    ]
    assert rungs[3] == {"completed_rung_0": 0.55, "completed_rung_1": 0.4}


def test_a_pruner_passes_several_rungs_at_once_and_again(tmp_path: Path) -> None:
    plan = [(0, 16, 0.5), (1, 16, 0.4), (2, 16, 0.6)]
    for repeat in (False, True):
        place = new_study(tmp_path / str(repeat), pruner=HALVING)
        assert reports(place, plan, repeat=repeat) == [False, True, False]


def test_the_last_value_no_longer_prunes(tmp_path: Path) -> None:
    study = new_study(tmp_path, pruner=HALVING)
    with trials_of(study) as trials:
        for number, value in ((0, 0.5), (1, 0.1)):
            ask(trials, range(number), [], ())
            assert not trials.report(Trial(number, {}), CurveReport(16, number, value), last=True)
    assert stored_trials(study)[1].intermediate_values == {16: 0.1}


@pytest.mark.parametrize(
    ("trainer", "rungs"),
    [
        ({"steps": 16}, [4, 8, 12, 16]),
        ({"steps": 80}, list(range(4, 81, 4))),  # exactly twenty
        ({"steps": 84}, list(range(8, 85, 8))),  # one too many: every second
        ({"steps": 2400, "evaluation.interval": 7}, list(range(126, 2401, 126))),
        ({"steps": 3}, []),
    ],
)
def test_at_most_twenty_rungs(tmp_path: Path, trainer: dict[str, Any], rungs: list[int]) -> None:
    study = new_study(tmp_path, trainer)
    with trials_of(study) as trials:
        asked = ask(trials, [], [], ())
        trial = Trial(asked.number, asked.params)
        interval = trials.config(trial).evaluation.interval
        steps = range(interval, trials.config(trial).steps + 1, interval)
        assert [step for step in steps if trials.is_rung(trial, step)] == rungs
    assert len(rungs) <= 20


def test_the_rungs_of_a_founders_interval_are_those_of_its_own_steps(tmp_path: Path) -> None:
    study = new_study(tmp_path, {"steps": 8})
    study = replace(study, founders=(next(iter(study.bases.values())),))
    with trials_of(study) as trials:
        asked = ask(trials, [], [], ())
        clone = {"name": "clone"}
        origin = PlannedTrial("", 0, 0, (), (800,), clone, False, asked.params, 808, founder=0)
        trial = Trial(asked.number, asked.params, origin=origin)
        assert [step for step in range(800, 809) if trials.is_rung(trial, step)] == [800, 804, 808]
        assert not trials.is_at_last_rung(trial)
        trial.reported[804] = 0.1
        assert trials.is_at_last_rung(trial)


def test_a_shape_is_worked_out_once_for_all_that_differ_in_what_members_may_differ_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    widths = {"host.net_arch": {"type": "categorical", "choices": [[8], [16]]}}
    study, made = new_study(tmp_path, space=SPACE | widths), []

    def counted(config: TrainerConfig) -> str:
        made.append(config)
        return shape_of(config)

    monkeypatch.setattr("hpsearch.study.trials.shape_of", counted)
    with trials_of(study) as trials:
        every = [ask(trials, range(number), [], ()) for number in range(6)]
        shapes = [trials.shape(trial) for trial in every]
        assert len(made) == 2
        assert shapes == [shape_of(trials.config(trial)) for trial in every]
        trials.tell(every[0], "finished", metrics(0.5), failure=None)
        every[0].told = "finished"
        assert trials.shape(every[0]) == shapes[0]
        assert (trials.steps(every[0]), trials.config(every[0]).steps) == (16, 16)


def test_shapes_of_two_algorithms_are_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, made = load_spec(Path(__file__).parents[2] / "studies/a100.yaml"), []

    def counted(config: TrainerConfig) -> str:
        made.append(config.algorithm)
        return shape_of(config)

    monkeypatch.setattr("hpsearch.study.trials.shape_of", counted)
    monkeypatch.chdir(tmp_path)
    with trials_of(study) as trials:
        every = [ask(trials, range(number), [], ()) for number in range(12)]
        shapes = [trials.shape(trial) for trial in every]
        assert sorted(made) == ["dqn", "ppo"]
        assert shapes == [shape_of(trials.config(trial)) for trial in every]

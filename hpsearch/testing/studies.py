"""What samplers, pruners and trackers promise."""

from collections.abc import Callable
from dataclasses import replace

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from hpsearch.study.options import PrunerExtension, SamplerExtension
from hpsearch.study.samplers import ReplayableSampler
from hpsearch.study.tracker_runs import RunStart, SentPoint, TrackerRuns

NUM_TRIALS = 12
SPACE = {
    "rate": FloatDistribution(1e-4, 1e-1, log=True),
    "layers": IntDistribution(1, 4),
    "loss": CategoricalDistribution(["huber", "mse"]),
}


def check_sampler(options: SamplerExtension) -> None:
    """Promise suggestions within the space, the same ones after a driver was killed."""
    suggested = _suggestions(options, is_killed=False)
    for params in suggested:
        for name, value in params.items():
            internal = SPACE[name].to_internal_repr(value)
            assert SPACE[name]._contains(internal), f"{name} is {value}, which is out of its range"
    again = _suggestions(options, is_killed=True)
    assert suggested == again, "suggestions depend on nothing but the seed and the storage"


def _suggestions(options: SamplerExtension, *, is_killed: bool) -> list[dict[str, object]]:
    """Return what is suggested to trials; a driver that ``is_killed`` forgets all it built."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = optuna.storages.InMemoryStorage()

    def opened() -> optuna.Study:
        return optuna.create_study(
            storage=storage,
            study_name="study",
            sampler=ReplayableSampler(5, options.build),
            load_if_exists=True,
        )

    study, suggested = opened(), []
    for number in range(NUM_TRIALS):
        study = opened() if is_killed else study
        trial = study.ask(SPACE)
        suggested.append(dict(trial.params))
        study.tell(trial, trial.params["rate"] + number)
    return suggested


def check_pruner(options: PrunerExtension) -> None:
    """Promise the same decisions after a driver was killed, and none against the only trial."""
    pruned = _pruned(options, is_killed=False)
    again = _pruned(options, is_killed=True)
    assert pruned == again, "what is pruned depends on nothing but the storage"
    assert 0 not in {number for number, _ in pruned}, "the only trial is pruned by nothing"


def _pruned(options: PrunerExtension, *, is_killed: bool) -> list[tuple[int, int]]:
    """Return trial and step of each that is pruned, where trial n reports n at every step."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = optuna.storages.InMemoryStorage()

    def opened() -> optuna.Study:
        return optuna.create_study(
            storage=storage, study_name="study", pruner=options.build(), load_if_exists=True
        )

    study, pruned = opened(), []
    for number in range(NUM_TRIALS):
        trial = study.ask()
        for step in (1, 2, 3):
            trial.report(float(number), step)
            if is_killed:
                study = opened()
                trial = optuna.Trial(study, trial._trial_id)
            if trial.should_prune():
                pruned.append((number, step))
                study.tell(number, state=TrialState.PRUNED)
                break
        else:
            study.tell(number, float(number))
    return pruned


def check_tracker(opened: Callable[[], TrackerRuns]) -> None:
    """Promise that runs go on after a process was killed at any point; ``opened`` is a new one's.

    What was sent is sent again where a process was killed before it noted that.
    """
    start = RunStart("study", 3, "study-key-3", {"host.gamma": 0.9, "loss": "huber"}, 1.7e9)
    points = [SentPoint(step, 1.7e9 + step, {"rho/host/random": 0.1 * step}) for step in (1, 2, 4)]
    runs = opened()
    run = runs.begin(start, None)
    assert isinstance(run, str), f"a run is called by a text, not {run!r}"
    runs.log(run, points[:2])
    runs.close()
    runs = opened()  # it was killed after this run had begun, and nothing noted that
    assert runs.begin(start, None) == run, "the same key is the same run"
    other = runs.begin(replace(start, trial=4, key="study-key-4"), None)
    assert other != run, "another key is another run"
    runs.log(run, points[:2])
    runs = opened()
    assert runs.begin(start, run) == run, "a run that is known goes on"
    runs.log(run, points[2:])
    runs.end(run, "finished", {"rho/host/random": 0.4})
    runs.close()

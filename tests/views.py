"""Studies as the reports see them, made of events alone."""

import itertools
from pathlib import Path

from hpsearch.cluster.study_dir import StudyDir
from hpsearch.study.events import Event
from hpsearch.study.spec import load_spec
from hpsearch.study.state import StudyState
from hpsearch.study.view import StudyView

METRIC = "rho/host/choose_first"


def rho(value: float) -> dict:
    """Return a measured value as results hold it."""
    return {"value": value, "low": value - 0.01, "high": value + 0.01, "capped": 0.0, "games": 9}


class Story:
    """Tells events one after another; its view follows."""

    def __init__(self, study: Path) -> None:
        loaded = load_spec(study)
        self._ids = itertools.count(1)
        self.view = StudyView(loaded, StudyDir(study.parent / "runs"), StudyState(), True)

    def add(self, event: str, trial=None, attempt=None, job=None, at=0.0, **data) -> None:
        self.view.state.apply([Event(next(self._ids), event, at, trial, attempt, job, data)])

    def ask(self, number: int, **params) -> None:
        defaults = {"host.optim.args.lr": 1e-3, "host.gamma": 0.9}
        self.add("asked", number, params=defaults | params)

    def ask_interval(self, number: int, first_step: int, steps: int) -> None:
        """Ask for a trial that goes from the step at which its parent ended to another one."""
        origin = {"key": str(number), "member": number, "generation": 1, "params": None}
        origin |= {"parents": [99], "parent_steps": [first_step], "steps": steps}
        origin |= {"operator": {"name": "clone"}, "is_child": False}
        self.add("asked", number, params={}, origin=origin)

    def run(self, *numbers: int, job: str, gpus: float = 0.0) -> None:
        trials = [{"trial": n, "attempt": 1, "token": f"token-{n}"} for n in numbers]
        self.add("announced", job=job, trials=trials, gpus=gpus)
        self.add("submitted", job=job, id="1")

    def report(self, number: int, step: int, value: float) -> None:
        self.add("reported", number, step=step, value=value, prune=False, rungs=0)

    def end(self, number: int, status: str, step: int) -> None:
        self.add("attempt_ended", number, 1, status=status, kind=None, message="", step=step)

    def tell(self, number: int, state: str, value=None, failure=None, message="") -> None:
        metrics = {} if value is None else {METRIC: rho(value)}
        told = {"state": state, "value": value, "metrics": metrics}
        self.add("told", number, **told, failure=failure, message=message)
        self.end(number, state, 60)

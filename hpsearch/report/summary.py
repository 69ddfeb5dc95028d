"""What a study has come to, as plain data: the keys here are published and stay."""

import time
from dataclasses import asdict
from typing import Any

from hpsearch.cluster.detached import read_retry
from hpsearch.population.selection.operator_record import OperatorRecord
from hpsearch.study.records import Match, PopulationRecord, Trial
from hpsearch.study.requests import read_note
from hpsearch.study.trial_list import trial_state
from hpsearch.study.view import StudyView
from hpsearch.study.work import cost, time_left, waste


def status_summary(view: StudyView) -> dict[str, Any]:
    best = view.best()
    so_far, note = cost(view), read_note(view.folder) if view.is_driven else None
    retry = None if view.awaited is None else read_retry(view.folder)
    return {
        "study": view.study.spec.name,
        "state": view.status,
        "message": view.state.message,
        "trials": view.state.counts(),
        "budget": view.study.spec.budget.trials,
        "done": view.state.num_done,
        "untrained": view.state.num_untrained,
        "tried_again": view.state.num_retries,
        "failures": dict(view.state.tally.failed),
        "gpu_hours": {
            "spent": so_far.gpu_hours_spent,
            "left": so_far.gpu_hours_left,
            "budget": view.study.spec.budget.gpu_hours,
        },
        "seconds_left": so_far.seconds_left,
        "seconds_left_range": time_left(view, time.time()),
        "jobs": _jobs(view),
        "waste": {kind: asdict(lost) for kind, lost in waste(view).items()},
        "driver": None if note is None else asdict(note),
        "driver_retry": None if retry is None else asdict(retry),
        "best": None if best is None else trial_summary(view, best),
        "population": population_summary(view),
        "folder": str(view.folder.root),
    }


def population_summary(view: StudyView) -> dict[str, Any] | None:
    """Return how the members of a population stand; None for a search.

    Strengths are mean logarithms of rho over the opponents of the last match that was judged.
    """
    options, record = view.study.spec.population, view.state.population
    if options is None:
        return None
    last = record.matches[record.num_judged] if record.num_judged else None
    return {
        "members": options.members,
        "matches": record.num_judged,
        "match": None if record.match is None else record.match.number,
        "champion": None if last is None else last.champion,
        "standings": [] if last is None else _standings(last),
        "game": None if last is None else last.game,
        "answers": [] if last is None else _answers(record, last),
        "operators": _operators(view),
    }


def _answers(record: PopulationRecord, last: Match) -> list[dict[str, Any]]:
    """Return how a champion fared against opponents trained for it alone.

    The last champion, or where that is not known yet, the latest that is known.
    """
    latest = next(reversed(record.answers.values()), [])
    return latest if last.champion is None else record.answers.get(last.champion, latest)


def _operators(view: StudyView) -> dict[str, dict[str, int]]:
    """Return the children that each operator made, those that were tried, and the adopted ones."""
    made = view.state.tally.children
    judged = view.state.population.operators
    untried = OperatorRecord(0, 0)
    return {
        name: {
            "made": made[name],
            "tried": int(judged.get(name, untried).tried),
            "adopted": int(judged.get(name, untried).accepted),
        }
        for name in sorted(made.keys() | judged.keys())
    }


def _standings(match: Match) -> list[dict[str, Any]]:
    """Return the members of a judged match, the strongest first."""
    strongest_first = sorted(match.members.items(), key=lambda item: -match.strengths[item[1]])
    return [
        {
            "member": member,
            "trial": trial,
            "strength": match.strengths[trial],
            "low": match.intervals[trial][0],
            "high": match.intervals[trial][1],
        }
        for member, trial in strongest_first
    ]


def _jobs(view: StudyView) -> dict[str, int]:
    running = sum(job.began_at is not None for job in view.state.live_jobs())
    live = len(view.state.live_jobs())
    ended = len(view.state.jobs) - live
    return {"queued": live - running, "running": running, "ended": ended}


def trial_summary(view: StudyView, trial: Trial) -> dict[str, Any]:
    """Return trial, state, value, metrics, params, the complete config, and the failure if any."""
    return {
        "trial": trial.number,
        "state": trial_state(trial),
        "value": trial.value,
        "metrics": trial.metrics,
        "params": view.study.space.decode(trial.last_params),
        "attempts": trial.attempts,
        "failure": trial.failure,
        "message": trial.message,
        "losses": [asdict(loss) for loss in trial.losses],
        "retry_of": trial.retry_of,
        "origin": None if trial.origin is None else asdict(trial.origin),
        "config": view.config(trial),
    }

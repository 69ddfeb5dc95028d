"""A snapshot: what the events add up to, as JSON text, so that a reader folds only those after it.

It comes in pieces. Trials, jobs and matches that change no more are `settled`: each is written once
and read when it is asked for. The head is all the rest, and the few settled ones that every look at
a study needs.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from hpsearch.cluster.records import Exploit
from hpsearch.population.selection.operator_record import OperatorRecord
from hpsearch.study.records import Ended, Job, Loss, Match, PlannedTrial, PopulationRecord, Trial
from hpsearch.study.state import StudyState
from hpsearch.study.tally import Lost, Tally

VERSION: Final = 1
"""of what the fold makes of events, and of the lines of trials: to be raised when either changes,
since a snapshot of another version is not read; test_state_snapshots.py notices"""

TRIAL, JOB, MATCH = "trial", "job", "match"
Settled = dict[str, dict[str, str]]
"""texts by name by kind"""

# What must be given is never as in a new record, and so always written.
_NEW_TRIAL = vars(Trial(-1, {})) | {"params": None}
_NEW_JOB = vars(Job("", [])) | {"groups": None}
_NEW_MATCH = vars(Match(0, {}, (), ())) | {"members": None, "ended": None, "archive": None}
_BY_THEMSELVES = ("trials", "jobs", "untold", "live", "population", "tally")


def is_settled(record: Trial | Job | Match) -> bool:
    """Return whether no event changes a record any more."""
    match record:
        case Trial():
            return record.told is not None and record.token is None
        case Job():
            return record.ended and not record.running
        case Match():
            return record.is_over


def settled(state: StudyState, known: Mapping[str, set[str]]) -> Settled:
    """Return what has settled, without what is ``known``: names by kind."""
    every: list[tuple[str, Mapping[Any, Trial | Job | Match], Callable[[Any], str]]] = [
        (TRIAL, state.trials, trial_text),
        (JOB, state.jobs, _job_text),
        (MATCH, state.population.matches, _match_text),
    ]
    return {
        kind: {
            name: text(record)
            for key, record in records.items()
            if (name := str(key)) not in known[kind] and is_settled(record)
        }
        for kind, records, text in every
    }


def head_text(state: StudyState) -> str:
    """Return everything but what has settled."""
    population, wanted = state.population, _wanted(state)
    scalars = {name: it for name, it in vars(state).items() if name not in _BY_THEMSELVES}
    trials = (it for it in state.trials.values() if it.number in wanted or not is_settled(it))
    matches = (
        it
        for it in population.matches.values()
        if it.number == population.num_judged or not is_settled(it)
    )
    head = {
        "version": VERSION,
        "state": scalars | {"requests": sorted(state.requests)},
        "trials": [_changed(trial, _NEW_TRIAL) for trial in trials],
        "num_trials": len(state.trials),
        "jobs": [_job(job) for job in state.jobs.values() if not is_settled(job)],
        "num_jobs": len(state.jobs),
        "matches": [_changed(match, _NEW_MATCH) for match in matches],
        "num_matches": len(population.matches),
        "population": {
            name: sorted(it) if isinstance(it, set) else it
            for name, it in vars(population).items()
            if name != "matches"
        },
        "tally": vars(state.tally) | {"lengths": [*state.tally.lengths.items()]},
    }
    return json.dumps(head, default=vars)


def _wanted(state: StudyState) -> set[int]:
    """Return the trials that a status shows, ended or not."""
    tally = state.tally
    best = [pair[1] for pair in (tally.least, tally.greatest) if pair is not None]
    return {*best, *tally.newest_failed, *state.population.archive[-1:]}


def trial_text(trial: Trial) -> str:
    """Return a trial as JSON text."""
    return json.dumps(_changed(trial, _NEW_TRIAL), default=vars)


def _job_text(job: Job) -> str:
    return json.dumps(_job(job))


def _match_text(match: Match) -> str:
    return json.dumps(_changed(match, _NEW_MATCH))


def _changed(record: Trial | Job | Match, new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not as in a new record, which are few."""
    return {name: it for name, it in vars(record).items() if it != new[name]}


def _job(job: Job) -> dict[str, Any]:
    data = _changed(job, _NEW_JOB)
    return data | {"running": sorted(job.running)} if job.running else data


# And back.


def restored(head: Mapping[str, Any]) -> StudyState:
    """Return the state of a head; of what has settled it has only what the head has."""
    scalars = head["state"]
    state = StudyState(**scalars)
    state.num_told, state.requests = Counter(scalars["num_told"]), set(scalars["requests"])
    state.trials = {trial.number: trial for trial in map(trial_of, head["trials"])}
    state.untold = {number: it for number, it in state.trials.items() if it.told is None}
    state.jobs = {job.name: job for job in map(job_of, head["jobs"])}
    state.live = {name: job for name, job in state.jobs.items() if not job.ended}
    state.tally = _tally(head["tally"])
    state.population = _population(head["population"])
    state.population.matches = {it.number: it for it in map(match_of, head["matches"])}
    return state


def trial_of(data: Mapping[str, Any]) -> Trial:
    """Return the trial of its JSON."""
    trial = Trial(**data)
    # Most trials have none of these.
    if trial.reported:
        trial.reported = _by_number(trial.reported)
    if trial.losses:
        trial.losses = [Loss(**(it | {"log": tuple(it["log"])})) for it in data["losses"]]
    if trial.origin is not None:
        trial.origin = PlannedTrial.of(data["origin"])
    if trial.takeovers:
        trial.takeovers = tuple(Exploit(**it) for it in data["takeovers"])
    return trial


def job_of(data: Mapping[str, Any]) -> Job:
    """Return the job of its JSON."""
    job = Job(**data)
    job.groups = [tuple((n, k, token) for n, k, token in group) for group in data["groups"]]
    job.running = set(job.running)
    return job


def match_of(data: Mapping[str, Any]) -> Match:
    """Return the match of its JSON."""
    match = Match(**data)
    match.members, match.strengths = _by_number(match.members), _by_number(match.strengths)
    match.intervals = _by_number(match.intervals)
    match.ended, match.archive = tuple(match.ended), tuple(match.archive)
    return match


def _tally(data: Mapping[str, Any]) -> Tally:
    tally = Tally(**data)
    tally.lengths = Counter()
    for length, number in data["lengths"]:
        tally.lengths[tuple(length) if isinstance(length, list) else length] = number
    tally.failed, tally.children = Counter(data["failed"]), Counter(data["children"])
    tally.lost = {kind: Lost(**it) for kind, it in data["lost"].items()}
    tally.least, tally.greatest = _pair(data["least"]), _pair(data["greatest"])
    return tally


def _population(data: Mapping[str, Any]) -> PopulationRecord:
    record = PopulationRecord(**data)
    record.planned = [PlannedTrial.of(it) for it in data["planned"]]
    record.answers, record.newest = _by_number(record.answers), _by_number(record.newest)
    record.finished = _by_number(record.finished)
    record.open = {int(member): Ended(**it) for member, it in data["open"].items()}
    record.late = set(data["late"])
    record.operators = {name: OperatorRecord(**it) for name, it in data["operators"].items()}
    return record


def _by_number(mapping: Mapping[Any, Any]) -> dict[int, Any]:
    return {int(key): value for key, value in mapping.items()}


def _pair(data: Iterable[Any] | None) -> tuple[float, int] | None:
    if data is None:
        return None
    value, number = data
    return value, number

"""Checks of trials: what events, Optuna's tables and files say of each must agree."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hpsearch.audit.books import Books, OptunaTrial
from hpsearch.audit.disk import Disk, StudyFile, TrialFiles
from hpsearch.audit.finding import Fault, Findings, Open, Problems, checked, is_same, shown, unlike
from hpsearch.audit.ledger import CANCELLED, FAILED, FINISHED, PRUNED, Attempt, Ledger, TrialEntry
from hpsearch.parameters import label_of

OPTUNA_STATES = {FINISHED: "COMPLETE", PRUNED: "PRUNED", FAILED: "FAIL"}
RUNNING = "RUNNING"
NO_MEMORY = "oom_gpu"  # failure that Optuna is told as pruned and infeasible
CLOCKS = timedelta(hours=2)  # by which a clock may be set back, as at the end of summer time
OWN_WORD = (FINISHED, PRUNED, FAILED)  # ends of an attempt that nothing but its own result tells


@dataclass(frozen=True)
class Sides:
    books: Books
    ledger: Ledger
    disk: Disk
    trial: TrialEntry  # what events say
    stored: OptunaTrial
    files: TrialFiles


def check_trials(books: Books, ledger: Ledger, disk: Disk) -> Findings:
    yield from checked("asked", None, _numbers(books, ledger, disk))
    stored = {trial.number: trial for trial in books.trials}
    for number, trial in ledger.trials.items():
        if number not in stored:
            yield Fault("asked", number, "events ask for it, but Optuna has no such trial")
            continue
        sides = Sides(books, ledger, disk, trial, stored[number], disk.trial(number))
        for check, rule in _RULES:
            yield from checked(check, number, rule(sides))


def _numbers(books: Books, ledger: Ledger, disk: Disk) -> Problems:
    numbers = [trial.number for trial in books.trials]
    if numbers != list(range(len(numbers))):
        yield f"Optuna's trials are numbered {shown(numbers)}"
    newest = max(ledger.trials, default=-1)
    for trial in books.trials:
        if trial.number in ledger.trials:
            continue
        is_requested = trial.state == RUNNING and trial.attrs.get("request") in ledger.requests
        if trial.state == "WAITING" or is_requested:
            yield Open(trial.number, "a user enqueued it, and no event asks for it yet")
        elif trial.state == RUNNING and trial.number > newest:
            yield Open(trial.number, "it was created, and no event asks for it yet")
        # Of a plan that was given up, or of values that no trial can have.
        elif not (trial.state == "FAIL" and trial.attrs.keys() & {"origin", "misfits"}):
            message = f"Optuna has it as {trial.state}, but no event asks for it"
            yield Fault("asked", trial.number, message)
    for number in disk.numbers("trials") - ledger.trials.keys():
        yield Fault("asked", number, "it has a folder, but no event asks for it")


# What was asked.


def _params(sides: Sides) -> Problems:
    trial, stored, space = sides.trial, sides.stored, sides.books.spec["space"]
    if not is_same(dict(trial.params), dict(stored.params)):
        yield f"the event says {shown(trial.params)}, Optuna {shown(stored.params)}"
    for name, range_ in stored.ranges.items():
        if name not in space:
            yield f"the space has no {shown(name)}, but Optuna has"
        elif not _is_range(space[name], range_):
            yield f"the space says {name}: {shown(space[name])}, Optuna {shown(range_)}"
    origin = trial.origin
    expected = {"retry_of": trial.retry_of, "origin": None if origin is None else origin["key"]}
    if origin is not None and origin["params"] is not None:
        expected |= {"generation": origin["generation"], "parents": origin["parents"]}
        expected |= {"operator": origin["operator"]["name"]}
    yield from _attrs(stored, expected)


def _attrs(stored: OptunaTrial, expected: Mapping[str, Any]) -> Problems:
    return unlike("Optuna", {key: stored.attrs.get(key) for key in expected}, expected)


def _is_range(parameter: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    kind, attributes = parameter["type"], stored["attributes"]
    if stored["name"] != f"{kind.capitalize()}Distribution":
        return False
    if kind == "categorical":
        choices = [label_of(choice) for choice in parameter["choices"]]
        return is_same(choices, list(attributes["choices"]))
    return all(parameter[key] == attributes[key] for key in ("low", "high", "log", "step"))


# How it ended.


def _told(sides: Sides) -> Problems:
    trial, stored, result = sides.trial, sides.stored, sides.files.result
    if (stored.completed is None) == (stored.state not in (RUNNING, "WAITING")):
        yield f"Optuna has it as {stored.state}, ended {stored.completed}"
    elif stored.started is None or (stored.completed or stored.started) < stored.started - CLOCKS:
        yield f"Optuna lets it run {stored.started} to {stored.completed}"
    if trial.told is None:
        yield from _not_told(sides)
        return
    data = trial.told.data
    expected = "PRUNED" if data["failure"] == NO_MEMORY else OPTUNA_STATES.get(data["state"])
    if stored.state != expected:
        yield f"events say {shown(data['state'])}, Optuna {stored.state}"
    if not is_same(result.data, data):
        yield f"the event says {shown(data)}, but {result.content}"
    yield from _values(sides, data)


def _values(sides: Sides, data: Mapping[str, Any]) -> Problems:
    stored, metrics = sides.stored, data["metrics"]
    names = [objective["metric"] for objective in sides.books.spec["objectives"]]
    values = [value for _, value in sorted(stored.values.items())]
    if [*sorted(stored.values)] != [*range(len(values))]:
        yield f"Optuna has values of objectives {[*stored.values]}"
    told: list[Any] = []
    if data["state"] == FINISHED:
        told = [metrics[name]["value"] for name in names]
        if not is_same(data["value"], told[0]):
            yield f"the event says value {data['value']!r}, its metrics {told[0]!r}"
    elif data["value"] is not None:
        yield f"it has a value, {data['value']!r}, though it ended"
    elif stored.state == "PRUNED" and stored.curve and values:
        # Of several objectives, Optuna keeps no value of a curve.
        told = [stored.curve[max(stored.curve)]]
    if not is_same(values, told):
        yield f"it was told {told!r}, but Optuna has {values!r}"
    intervals = {
        f"{name} 95%": [metrics[name]["low"], metrics[name]["high"]] if name in metrics else None
        for name in names
    }
    yield from _attrs(stored, {"failure": data["failure"]} | intervals)


def _not_told(sides: Sides) -> Problems:
    """Between Optuna, the file and the event a driver may die: the next one tells again."""
    trial, stored, files, rests = sides.trial, sides.stored, sides.files, sides.ledger.rests
    if rests and not _may_go_on(sides):
        yield "no event tells how it ended, but the study has ended"
    if stored.state == RUNNING:
        if stored.values:
            yield f"Optuna has it running, with {dict(stored.values)}"
        if files.result.exists:
            yield f"{files.result.path} tells it, but neither event nor Optuna"
        return
    wrote = (files.attempt(trial.live.number).data if trial.live else None) or {}
    values = [value for _, value in sorted(stored.values.items())]
    measured = [metric.get("value") for metric in wrote.get("metrics", {}).values()]
    is_written = wrote.get("status") == FINISHED and all(value in measured for value in values)
    if stored.state == "COMPLETE" and not is_written:
        yield f"Optuna has {values}, which no event and no attempt tells"
    elif stored.state not in ("COMPLETE", "PRUNED", "FAIL"):
        yield f"Optuna has it as {shown(stored.state)}"
    elif not rests:
        yield Open(trial.number, f"Optuna has it as {stored.state}, and no event tells it yet")


def _may_go_on(sides: Sides) -> bool:
    """Return whether an ended study may resume a trial: it failed, or its hours ran out."""
    attempts, status = sides.trial.attempts, sides.ledger.status
    if not attempts or any(attempt.ended is None for attempt in attempts):
        return False
    out_of_hours = sides.books.spec["budget"].get("gpu_hours") is not None
    return status == FAILED or (status != CANCELLED and out_of_hours)


def _ended(sides: Sides) -> Problems:
    """What was told must be what the attempt that held the token wrote."""
    trial, files = sides.trial, sides.files
    if trial.told is None:
        for attempt in trial.attempts:
            if attempt.ended is not None and attempt.ended.data["status"] == FINISHED:
                which = f"attempt {attempt.number} finished it (event {attempt.ended.id})"
                yield f"{which}, but no event tells it"
        return
    data, teller = trial.told.data, trial.teller
    if trial.state == PRUNED or teller is None or data["failure"] == CANCELLED:
        return
    ended = teller.ended.data if teller.ended is not None else {"status": "lives"}
    if trial.state == FINISHED:
        wrote = files.attempt(teller.number)
        yield from _finished(data, teller.number, ended["status"], wrote)
    elif ended["status"] != FINISHED and not is_same(ended.get("kind"), data["failure"]):
        how = f"ended by {shown(ended.get('kind', ended['status']))}"
        failed = f"it was told as failed by {shown(data['failure'])}"
        yield f"{failed}, but its attempt {teller.number} {how}"


def _finished(data: Mapping[str, Any], attempt: int, status: str, wrote: StudyFile) -> Problems:
    if status != FINISHED:
        yield f"it was told as finished, but its attempt {attempt} {status}"
    if wrote.get("status") != FINISHED:
        yield f"it was told as finished, but {wrote.content}, and that attempt held the token"
    told, measured = _floats(data["metrics"]), _floats(wrote.get("metrics") or {})
    yield from unlike(f"{wrote.path}, of the attempt that held the token,", measured, told)


def _floats(metrics: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return what was measured as the driver reads it, to which 20 games are 20.0."""
    return {name: {key: float(metric[key]) for key in metric} for name, metric in metrics.items()}


# Attempts.


def _results(sides: Sides) -> Problems:
    """A result is its attempt's, and what events say of it; late ones are kept, and not told."""
    trial, known = sides.trial, {attempt.number: attempt for attempt in sides.trial.attempts}
    for number, file in sides.files.attempts().items():
        if number not in known:
            yield f"attempt {number} has a folder, but was never announced"
        elif file.exists:
            yield from checked("attempts", trial.number, _result(trial, known[number], file))
    for number, attempt in known.items():
        ended = attempt.ended
        is_own = ended is not None and ended.data["status"] in OWN_WORD
        if ended is not None and is_own and not sides.files.attempt(number).exists:
            which = f"attempt {number} {ended.data['status']} (event {ended.id})"
            yield f"{which}, but its result.json is missing"


def _result(trial: TrialEntry, attempt: Attempt, file: StudyFile) -> Problems:
    ended = None if attempt.ended is None else attempt.ended.data
    if ended is not None and ended["status"] not in OWN_WORD:
        return  # lost or interrupted: whatever it wrote came too late, or was damaged
    expected = {"token": attempt.token}
    if ended is not None:
        expected |= {key: ended[key] for key in ("status", "step", "message")}
        if trial.told is None or trial.told.data["failure"] is None:
            expected |= {"kind": ended["kind"]}
    wrote = {key: file.whole().get(key) for key in expected}
    yield from unlike(file.path, wrote, expected, f"events say of attempt {attempt.number}")


def _control(sides: Sides) -> Problems:
    """The token is the newest that was announced and whose files were written."""
    trial, file = sides.trial, sides.files.control
    if file.problem is not None:
        yield file.fault
        return
    # A job's file is written after the files of its trials.
    written = [a for a in trial.attempts if sides.disk.assignment(a.job, a.place).exists]
    oldest = written[-1].number if written else 0
    allowed = [attempt.token for attempt in trial.attempts if attempt.number >= oldest]
    token, stop = file.get("token"), file.get("stop")
    if token not in allowed and (written or token is not None):
        newest = shown(allowed[-1] if allowed else None)
        yield f"events announced the token {newest}, but {file.path} has {shown(token)}"
        return  # what it says besides is for another attempt
    held = trial.teller is not None and trial.teller.token == token
    expected = trial.state if held else None
    is_open = trial.told is None and sides.stored.state != RUNNING
    is_needless = stop is None and expected == FINISHED  # that attempt wrote its result last
    if stop != expected and not (is_open or is_needless):
        yield f"events say that it is {expected or 'to go on'}, {file.path} {shown(stop)}"


# The curve.


def _curve(sides: Sides) -> Problems:
    """Optuna, events and the curve's file have the same value at every step that was reported.

    An attempt that goes on from a checkpoint makes the steps behind it again, and may come to
    others; what was reported stays.
    """
    trial, stored = sides.trial, sides.stored.curve
    metric = sides.books.spec["objectives"][0]["metric"]
    lines = _first_values(sides.files.curve(), metric)
    for step, event in trial.reports.items():
        value = event.data["value"]
        if step not in stored or not is_same(stored[step], value):
            yield f"events report {value!r} at step {step}, Optuna {stored.get(step)!r}"
        reporter = max((a.number for a in trial.attempts if a.announced < event.id), default=0)
        attempt, line = lines.get(step, (reporter, None))
        is_cut = line is None and reporter < len(trial.attempts)
        if not is_cut and attempt <= reporter and not is_same(line, value):
            yield f"events report {value!r} at step {step}, metrics.jsonl {line!r}"
    newest = max(trial.reports, default=-1)
    for step, value in stored.items():
        if step in trial.reports:
            continue
        is_made = is_same(lines.get(step, (0, None))[1], value) or len(trial.attempts) > 1
        if trial.state == FINISHED or not is_made or step < newest or not math.isfinite(value):
            yield f"Optuna has {value!r} at step {step}, which no event reports"


def _first_values(rows: Iterable[Mapping[str, Any]], metric: str) -> dict[int, tuple[int, Any]]:
    """Return attempt and value at each step; of a step that stands there twice, the first."""
    values: dict[int, tuple[int, Any]] = {}
    for row in rows:
        metrics = row.get("metrics")
        measured = metrics.get(metric) if isinstance(metrics, dict) else None
        if isinstance(measured, dict):
            values.setdefault(row["step"], (row.get("attempt", 0), measured.get("value")))
    return values


_RULES: tuple[tuple[str, Callable[[Sides], Problems]], ...] = (
    ("params", _params),
    ("told", _told),
    ("told", _ended),
    ("attempts", _results),
    ("control", _control),
    ("curve", _curve),
)

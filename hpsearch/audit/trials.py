"""Trials: what events, Optuna's tables and files say of each must be the same."""

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from hpsearch.audit.books import Books, OptunaTrial
from hpsearch.audit.disk import Disk, StudyFile, TrialFiles
from hpsearch.audit.finding import MALFORMED, Fault, Findings, Open, differing, is_same, shown
from hpsearch.audit.ledger import CANCELLED, FAILED, FINISHED, PRUNED, Attempt, Ledger, TrialEntry
from hpsearch.parameters import label_of

OPTUNA_STATES = {FINISHED: "COMPLETE", PRUNED: "PRUNED", FAILED: "FAIL"}
RUNNING = "RUNNING"
NO_MEMORY = "oom_gpu"
"""failure that Optuna is told as pruned and infeasible"""
CLOCKS = timedelta(hours=2)
"""by which a clock may be set back while a trial runs, as at the end of summer time"""
OWN_WORD = (FINISHED, PRUNED, FAILED)
"""ends of an attempt that nothing but its own result tells"""


def check_trials(books: Books, ledger: Ledger, disk: Disk) -> Findings:
    """Yield where the three sides differ."""
    yield from guarded("asked", None, _numbers(books, ledger, disk))
    stored = {trial.number: trial for trial in books.trials}
    for number, trial in ledger.trials.items():
        if number not in stored:
            yield Fault("asked", number, "events ask for it, but Optuna has no such trial")
            continue
        files, in_optuna = disk.trial(number), stored[number]
        yield from guarded("params", number, _params(books, trial, in_optuna))
        yield from guarded("told", number, _told(books, ledger, trial, in_optuna, files))
        yield from guarded("told", number, _ended(trial, files))
        yield from guarded("attempts", number, _results(trial, files))
        yield from guarded("control", number, _control(trial, in_optuna, files, disk))
        yield from guarded("curve", number, _curve(books, trial, in_optuna, files))


def guarded(check: str, trial: int | None, findings: Findings) -> Findings:
    """Yield findings; data whose form lets a check fail are a fault of their own.

    What was tampered with may have any form, so the checks read it as if it had the right one.
    """
    try:
        yield from findings
    except MALFORMED as error:
        problem = f"{type(error).__name__}: {shown(str(error))}"
        yield Fault(check, trial, f"an event or a file of it has another form ({problem})")


def _numbers(books: Books, ledger: Ledger, disk: Disk) -> Findings:
    numbers = [trial.number for trial in books.trials]
    if numbers != list(range(len(numbers))):
        yield Fault("asked", None, f"Optuna's trials are numbered {shown(numbers)}")
    newest = max(ledger.trials, default=-1)
    for trial in books.trials:
        if trial.number in ledger.trials:
            continue
        if trial.state == RUNNING and trial.number > newest:
            yield Open(trial.number, "it was created, and no event asks for it yet")
        elif not (trial.state == "FAIL" and "origin" in trial.attrs):  # of a plan that was given up
            yield Fault(
                "asked", trial.number, f"Optuna has it as {trial.state}, but no event asks for it"
            )
    for number in disk.trials.keys() - ledger.trials.keys():
        yield Fault("asked", number, "it has a folder, but no event asks for it")


# What was asked.


def _params(books: Books, trial: TrialEntry, stored: OptunaTrial) -> Findings:
    if not is_same(dict(trial.params), dict(stored.params)):
        yield Fault(
            "params",
            trial.number,
            f"the event says {shown(trial.params)}, Optuna {shown(stored.params)}",
        )
    space = books.spec["space"]
    for name, range_ in stored.ranges.items():
        if name not in space:
            yield Fault("params", trial.number, f"the space has no {shown(name)}, but Optuna has")
        elif not _is_range(space[name], range_):
            yield Fault(
                "params",
                trial.number,
                f"the space says {name}: {shown(space[name])}, Optuna {shown(range_)}",
            )
    origin = trial.origin
    said = {"retry_of": trial.retry_of, "origin": None if origin is None else origin["key"]}
    for key, value in said.items():
        if not is_same(stored.attrs.get(key), value):
            yield Fault(
                "params",
                trial.number,
                f"the event says {key} {shown(value)}, Optuna {shown(stored.attrs.get(key))}",
            )
    if origin is not None and origin["params"] is not None:
        shown_ = {key: stored.attrs.get(key) for key in ("generation", "parents", "operator")}
        planned = {**{k: origin[k] for k in shown_}, "operator": origin["operator"]["name"]}
        if not is_same(shown_, planned):
            yield Fault(
                "params", trial.number, f"events plan {shown(planned)}, Optuna has {shown(shown_)}"
            )


def _is_range(parameter: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    attributes = stored["attributes"]
    if parameter["type"] == "categorical":
        choices = [label_of(choice) for choice in parameter["choices"]]
        return stored["name"] == "CategoricalDistribution" and is_same(
            choices, list(attributes["choices"])
        )
    name = {"float": "FloatDistribution", "int": "IntDistribution"}[parameter["type"]]
    keys = ("low", "high", "log", "step")
    return stored["name"] == name and all(parameter[k] == attributes[k] for k in keys)


# How it ended.


def _told(
    books: Books, ledger: Ledger, trial: TrialEntry, stored: OptunaTrial, files: TrialFiles
) -> Findings:
    number = trial.number
    if (stored.completed is None) == (stored.state not in (RUNNING, "WAITING")):
        yield Fault("told", number, f"Optuna has it as {stored.state}, ended {stored.completed}")
    elif stored.started is None or (stored.completed or stored.started) < stored.started - CLOCKS:
        yield Fault("told", number, f"Optuna lets it run {stored.started} to {stored.completed}")
    if trial.told is None:
        yield from _not_told(books, ledger, trial, stored, files)
        return
    data = trial.told.data
    failure, state = data["failure"], data["state"]
    expected = "PRUNED" if failure == NO_MEMORY else OPTUNA_STATES.get(state)
    if stored.state != expected:
        yield Fault("told", number, f"events say {shown(state)}, Optuna {stored.state}")
    if not is_same(files.result.data, data):
        yield Fault(
            "told",
            number,
            f"the event says {shown(data)}, {files.result.path} {_content(files.result)}",
        )
    yield from _values(books, trial, stored, data)
    if not is_same(stored.attrs.get("failure"), failure):
        yield Fault(
            "told",
            number,
            f"the event says failure {shown(failure)}, Optuna {shown(stored.attrs.get('failure'))}",
        )


def _values(
    books: Books, trial: TrialEntry, stored: OptunaTrial, data: Mapping[str, Any]
) -> Findings:
    names = [objective["metric"] for objective in books.spec["objectives"]]
    metrics = data["metrics"]
    values = [value for _, value in sorted(stored.values.items())]
    if [*sorted(stored.values)] != [*range(len(values))]:
        yield Fault("told", trial.number, f"Optuna has values of objectives {[*stored.values]}")
    if data["state"] == FINISHED:
        told = [metrics[name]["value"] for name in names]
        if not is_same(data["value"], told[0]):
            yield Fault(
                "told",
                trial.number,
                f"the event says value {data['value']!r}, its metrics {told[0]!r}",
            )
    else:
        told = (
            [stored.curve[max(stored.curve)]] if stored.state == "PRUNED" and stored.curve else []
        )
        if data["value"] is not None:
            yield Fault("told", trial.number, f"it has a value, {data['value']!r}, though it ended")
        if not values:
            told = []  # of several objectives, Optuna keeps no value of a curve
    if not is_same(values, told):
        yield Fault("told", trial.number, f"it was told {told!r}, but Optuna has {values!r}")
    for name in names:
        interval = stored.attrs.get(f"{name} 95%")
        said = [metrics[name]["low"], metrics[name]["high"]] if name in metrics else None
        if not is_same(interval, said):
            yield Fault(
                "told", trial.number, f"the event says {name} in {said}, Optuna {shown(interval)}"
            )


def _not_told(
    books: Books, ledger: Ledger, trial: TrialEntry, stored: OptunaTrial, files: TrialFiles
) -> Findings:
    """Between Optuna, the file and the event a driver may die: the next one tells again."""
    if ledger.rests and not _may_go_on(books, ledger, trial):
        yield Fault("told", trial.number, "no event tells how it ended, but the study has ended")
    if stored.state == RUNNING:
        if stored.values:
            yield Fault("told", trial.number, f"Optuna has it running, with {dict(stored.values)}")
        if files.result.exists:
            yield Fault(
                "told", trial.number, f"{files.result.path} tells it, but neither event nor Optuna"
            )
        return
    wrote = trial.live and files.attempts.get(trial.live.number)
    said = wrote.data if wrote and isinstance(wrote.data, dict) else {}
    values = [value for _, value in sorted(stored.values.items())]
    measured = [metric.get("value") for metric in said.get("metrics", {}).values()]
    if stored.state == "COMPLETE" and not (
        said.get("status") == FINISHED and all(value in measured for value in values)
    ):
        yield Fault(
            "told", trial.number, f"Optuna has {values}, which no event and no attempt tells"
        )
    elif stored.state not in ("COMPLETE", "PRUNED", "FAIL"):
        yield Fault("told", trial.number, f"Optuna has it as {shown(stored.state)}")
    elif not ledger.rests:
        yield Open(trial.number, f"Optuna has it as {stored.state}, and no event tells it yet")


def _may_go_on(books: Books, ledger: Ledger, trial: TrialEntry) -> bool:
    """Return whether an ended study may have left a trial to `hpsearch resume`.

    It does where too many trials failed or the GPU hours ran out while this one was being trained.
    """
    if not trial.attempts or any(attempt.ended is None for attempt in trial.attempts):
        return False
    out_of_hours = books.spec["budget"].get("gpu_hours") is not None
    return ledger.status == FAILED or (ledger.status != CANCELLED and out_of_hours)


def _ended(trial: TrialEntry, files: TrialFiles) -> Findings:
    """What was told must be what the attempt that held the token wrote."""
    for attempt in trial.attempts:
        if attempt.ended is None or attempt.ended.data["status"] != FINISHED:
            continue
        if trial.told is None:
            yield Fault(
                "told",
                trial.number,
                f"attempt {attempt.number} finished it (event {attempt.ended.id}), but no event "
                "tells it",
            )
    if trial.told is None or trial.state == PRUNED:
        return
    data, teller = trial.told.data, trial.teller
    if teller is None or data["failure"] == CANCELLED:
        return
    wrote = files.attempts.get(teller.number, StudyFile(f"attempt-{teller.number}/result.json"))
    ended = teller.ended.data if teller.ended is not None else {"status": "lives"}
    if trial.state == FINISHED:
        said = wrote.data if isinstance(wrote.data, dict) else {}
        if ended["status"] != FINISHED:
            yield Fault(
                "told",
                trial.number,
                f"it was told as finished, but its attempt {teller.number} {ended['status']}",
            )
        if said.get("status") != FINISHED:
            yield Fault(
                "told",
                trial.number,
                f"it was told as finished, but {wrote.path}, of the attempt that held the token, "
                f"{'says ' if wrote.exists else ''}{_content(wrote)}",
            )
        for name in differing(_floats(data["metrics"]), _floats(said.get("metrics", {}))):
            yield Fault(
                "told",
                trial.number,
                f"it was told {name} as {shown(data['metrics'].get(name))}, but {wrote.path}, of "
                f"the attempt that held the token, says {shown(said['metrics'].get(name))}",
            )
    elif ended["status"] != FINISHED and not is_same(ended.get("kind"), data["failure"]):
        yield Fault(
            "told",
            trial.number,
            f"it was told as failed by {shown(data['failure'])}, but its attempt {teller.number} "
            f"ended by {shown(ended.get('kind', ended['status']))}",
        )


def _floats(metrics: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return what was measured as the driver reads it, to which 20 games are 20.0."""
    return {name: {key: float(metric[key]) for key in metric} for name, metric in metrics.items()}


# Attempts.


def _results(trial: TrialEntry, files: TrialFiles) -> Findings:
    """A result is its attempt's, and what events say of it; late ones are kept, and not told."""
    known = {attempt.number: attempt for attempt in trial.attempts}
    for number, file in files.attempts.items():
        if number not in known:
            yield Fault(
                "attempts", trial.number, f"attempt {number} has a folder, but was never announced"
            )
        elif file.exists:
            yield from _result(trial, known[number], file)
    for number, attempt in known.items():
        if attempt.ended is None or attempt.ended.data["status"] not in OWN_WORD:
            continue
        if not files.attempts.get(number, StudyFile("")).exists:
            yield Fault(
                "attempts",
                trial.number,
                f"attempt {number} {attempt.ended.data['status']} (event {attempt.ended.id}), but "
                "its result.json is missing",
            )


def _result(trial: TrialEntry, attempt: Attempt, file: StudyFile) -> Findings:
    ended = None if attempt.ended is None else attempt.ended.data
    if ended is not None and ended["status"] not in OWN_WORD:
        return  # lost or interrupted: whatever it wrote came too late, or was damaged
    if file.problem is not None or not isinstance(file.data, dict):
        yield Fault("attempts", trial.number, f"{file.path} {file.problem or 'is no result'}")
        return
    if file.data.get("token") != attempt.token:
        yield Fault(
            "attempts",
            trial.number,
            f"attempt {attempt.number} was announced with the token {shown(attempt.token)}, but "
            f"{file.path} has {shown(file.data.get('token'))}",
        )
    if ended is None:
        return
    keys = ["status", "step", "message"]
    keys += ["kind"] if trial.told is None or trial.told.data["failure"] is None else []
    said = {key: ended[key] for key in keys}
    wrote = {key: file.data.get(key) for key in keys}
    if not is_same(said, wrote):
        yield Fault(
            "attempts", trial.number, f"events say {shown(said)}, {file.path} {shown(wrote)}"
        )


def _control(trial: TrialEntry, stored: OptunaTrial, files: TrialFiles, disk: Disk) -> Findings:
    """The token is the newest that was announced and whose files were written."""
    file = files.control
    if file.problem is not None or not isinstance(file.data, dict | None):
        yield Fault("control", trial.number, f"{file.path} {file.problem or 'says nothing'}")
        return
    written = [attempt for attempt in trial.attempts if _was_given(attempt, disk)]
    allowed = [
        attempt.token
        for attempt in trial.attempts
        if not written or attempt.number >= written[-1].number
    ]
    token = None if file.data is None else file.data.get("token")
    if token not in allowed and (written or token is not None):
        yield Fault(
            "control",
            trial.number,
            f"events announced the token {shown(allowed[-1] if allowed else None)}, but "
            f"{file.path} has {shown(token)}",
        )
        return  # what it says besides is for another attempt
    stop = None if file.data is None else file.data.get("stop")
    held = trial.teller is not None and trial.teller.token == token
    expected = trial.state if held else None
    is_open = trial.told is None and stored.state != RUNNING
    if stop != expected and not is_open:
        yield Fault(
            "control",
            trial.number,
            f"events say that it is {expected or 'to go on'}, {file.path} {shown(stop)}",
        )


def _was_given(attempt: Attempt, disk: Disk) -> bool:
    """Return whether the job's file is written, which comes after the trial's files."""
    job = disk.job(attempt.job)
    file = job.plan if attempt.place == 0 else job.later.get(attempt.place, StudyFile(""))
    return file.exists


# The curve.


def _curve(books: Books, trial: TrialEntry, stored: OptunaTrial, files: TrialFiles) -> Findings:
    """Optuna, events and the curve's file have the same value at every step that was reported.

    An attempt that goes on from a checkpoint makes the steps behind it again, and may come to
    others; what was reported stays.
    """
    metric = books.spec["objectives"][0]["metric"]
    lines = _first_values(files.curve, metric)
    for step, event in trial.reports.items():
        value = event.data["value"]
        if step not in stored.curve or not is_same(stored.curve[step], value):
            yield Fault(
                "curve",
                trial.number,
                f"events report {value!r} at step {step}, Optuna {stored.curve.get(step)!r}",
            )
        reporter = max((a.number for a in trial.attempts if a.announced < event.id), default=0)
        attempt, line = lines.get(step, (reporter, None))
        is_cut = line is None and reporter < len(trial.attempts)
        if not is_cut and attempt <= reporter and not is_same(line, value):
            yield Fault(
                "curve",
                trial.number,
                f"events report {value!r} at step {step}, metrics.jsonl {line!r}",
            )
    newest = max(trial.reports, default=-1)
    for step, value in stored.curve.items():
        if step in trial.reports:
            continue
        is_made = is_same(lines.get(step, (0, None))[1], value) or len(trial.attempts) > 1
        if trial.state == FINISHED or not is_made or step < newest or not math.isfinite(value):
            yield Fault(
                "curve",
                trial.number,
                f"Optuna has {value!r} at step {step}, which no event reports",
            )


def _first_values(rows: Sequence[Mapping[str, Any]], metric: str) -> dict[int, tuple[int, Any]]:
    """Return attempt and value at each step; of a step that stands there twice, the first."""
    values: dict[int, tuple[int, Any]] = {}
    for row in rows:
        metrics = row.get("metrics")
        measured = metrics.get(metric) if isinstance(metrics, dict) else None
        if isinstance(measured, dict):
            values.setdefault(row["step"], (row.get("attempt", 0), measured.get("value")))
    return values


def _content(file: StudyFile) -> str:
    if file.problem is not None:
        return file.problem
    return shown(file.data) if file.exists else "is missing"

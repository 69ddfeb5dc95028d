"""Whatever is changed in one place of a study's books is found, at the right trial.

Of the recorded study "plain", trials 0 and 2 run, trial 1 failed and trial 3 finished, each by its
second attempt; of "population", trials 0 to 2 finished and played, 3 to 5 are their children.
"""

import io
import json
from zipfile import ZipFile

import numpy as np
import pytest

from hpsearch.audit.finding import Open
from hpsearch.errors import CorruptError

METRIC = "rho/host/choose_first"
TOLD = "kind = 'told' AND trial = 3"
ID = "(SELECT trial_id FROM trials WHERE number = {})"
CURVE = "trial_intermediate_values"
STEP = "trial_id = {id} AND step = 200"
ATTEMPT = "trials/3/attempt-2/result.json"
COPY = (
    "INSERT INTO hpsearch_events (study_id, at, kind, trial, attempt, job, data) "
    "SELECT study_id, at, kind, trial, attempt, job, data FROM hpsearch_events WHERE "
)
NODE = (
    "INSERT INTO hpsearch_checkpoints (study_id, trial, step, sha256, operator, seed, changes) "
    "VALUES (1, 4, 50, 'abc', 'clone', 0, '{}')"
)


def sql(statement, *values, trial=3):
    """Return a change of rows; {id} stands for Optuna's id of a trial."""
    return lambda study: study.sql(statement.replace("{id}", ID.format(trial)), *values)


def event(kind, trial, change, **options):
    return lambda study: study.data(kind, trial, change, **options)


def json_file(path, change):
    return lambda study: study.json(path, change)


def setting(key, value):
    return lambda data: data.update({key: value})


def told_from_elsewhere(study):
    """Another value in the event, in Optuna and in the trial's result: all but the attempt's."""

    def change(data):
        data["value"] = data["metrics"][METRIC]["value"] = 0.99

    study.data("told", 3, change)
    study.json("trials/3/result.json", change)
    study.sql(f"UPDATE trial_values SET value = 0.99 WHERE trial_id = {ID.format(3)}")


def curve_line(study):
    study.text("trials/3/metrics.jsonl", "0.05698005698005698", "0.05698005698005699")


def half_a_checkpoint(study):
    (path,) = study.root.glob("trials/3/checkpoints/step-*/tensors.safetensors")
    path.write_bytes(path.read_bytes()[:-1])


def half_the_games(study):
    path = study.root / "matches/1/games.npz"
    path.write_bytes(path.read_bytes()[:200])


def games(name, data):
    """An array's file, as it is in an archive that is whole, in the place of one of a match."""

    def change(study):
        path = study.root / "matches/1/games.npz"
        with ZipFile(path) as archive:
            files = {entry: archive.read(entry) for entry in archive.namelist()}
        with ZipFile(path, "w") as archive:
            for entry, content in (files | {name: data}).items():
                archive.writestr(entry, content)

    return change


def npy_header(shape):
    file = io.BytesIO()
    said = {"descr": "<i8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, said)
    return file.getvalue()


def another_method(study):
    """Games that are packed in a way of which zipfile knows nothing."""
    path = study.root / "matches/1/games.npz"
    data = bytearray(path.read_bytes())
    for sign, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        at = data.index(sign) + offset
        data[at : at + 2] = (99).to_bytes(2, "little")
    path.write_bytes(data)


def garbled_games(study):
    """Games whose first values cannot be unpacked."""
    path = study.root / "matches/1/games.npz"
    with ZipFile(path) as archive:
        first = archive.infolist()[0]
    data = bytearray(path.read_bytes())
    start = first.header_offset + 30 + len(first.filename) + 20
    data[start : start + 40] = b"\xff" * 40
    path.write_bytes(data)


OF_ANOTHER_FORM = {
    "when a lease ends": (sql("UPDATE hpsearch_leases SET expires_at = 'soon'"), "lease", None),
    "a lease's token": (sql("UPDATE hpsearch_leases SET token = 'abc'"), "lease", None),
    "a lease's holder": (sql("UPDATE hpsearch_leases SET holder = 7"), "lease", None),
    "an event's trial": (
        sql("UPDATE hpsearch_events SET trial = 'third' WHERE kind = 'asked' AND trial = 3"),
        "asked",
        3,
    ),
    "an event's job": (
        sql("UPDATE hpsearch_events SET job = x'00' WHERE kind = 'submitted' AND job = '00004'"),
        "events",
        None,
    ),
    "a number without end in an event": (
        event("told", 3, lambda data: data["metrics"][METRIC].update(value=10**400)),
        "told",
        3,
    ),
    "a number without end in a result": (
        json_file(ATTEMPT, lambda data: data["metrics"][METRIC].update(value=10**400)),
        "told",
        3,
    ),
    "a pin's path": (
        lambda study: study.write(
            "pins/other.json", json.dumps({"study": "x" * 10_000, "checkpoints": []})
        ),
        "pins",
        None,
    ),
    "a value": (
        sql("UPDATE trial_values SET value = 'much' WHERE trial_id = {id}"),
        "told",
        3,
    ),
    "a value of a curve": (
        sql(f"UPDATE {CURVE} SET intermediate_value = 'much' WHERE {STEP}", trial=2),
        "curve",
        2,
    ),
    "a trial's number": (
        sql("UPDATE trials SET number = 'third' WHERE trial_id = {id}"),
        "asked",
        3,
    ),
    "the best checkpoint": (
        lambda study: study.write("trials/3/checkpoints/best.json", '{"step": [1]}'),
        "checkpoints",
        3,
    ),
}
"""changes in "plain" after which something has another type, or a value that nothing takes"""
OF_ANOTHER_FORM_BRED = {
    "an origin": (event("asked", 4, setting("origin", [1])), "events", 4),
    "an origin without a member": (
        event("asked", 0, lambda data: data["origin"].pop("member")),
        "events",
        0,
    ),
    "an origin without parents": (
        event("asked", 4, lambda data: data["origin"].pop("parents")),
        "events",
        4,
    ),
    "an origin's steps": (
        event("asked", 0, lambda data: data["origin"].update(steps="x")),
        "events",
        0,
    ),
    "parents that cannot be looked up": (
        event("asked", 4, lambda data: data["origin"].update(parents=[[1]])),
        "events",
        4,
    ),
    "no champion": (event("bred", None, lambda data: data.pop("champion")), "events", None),
    "a champion": (event("bred", None, setting("champion", [1])), "events", None),
    "games of terabytes": (
        games("moves.npy", npy_header((1_000_000, 1_000_000))),
        "matches",
        None,
    ),
    "games that are too few": (games("moves.npy", npy_header((1,))), "matches", None),
    "games of no array": (games("moves.npy", b"moves"), "matches", None),
    "games by another method": (another_method, "matches", None),
    "garbled games": (garbled_games, "matches", None),
}
"""the same in the population"""

PLAIN = {
    # What was told.
    "the value of the event": (event("told", 3, setting("value", 0.5)), "told", 3),
    "the value in Optuna": (
        sql("UPDATE trial_values SET value = value + 1e-16 WHERE trial_id = {id}"),
        "told",
        3,
    ),
    "the value but the attempt's": (told_from_elsewhere, "told", 3),
    "the attempt's value": (
        json_file(ATTEMPT, lambda data: data["metrics"][METRIC].update(value=0.5)),
        "told",
        3,
    ),
    "the attempt's status": (json_file(ATTEMPT, setting("status", "lost")), "told", 3),
    "no result of the attempt": (lambda study: study.remove(ATTEMPT), "told", 3),
    "the state in Optuna": (
        sql("UPDATE trials SET state = 'FAIL' WHERE trial_id = {id}"),
        "told",
        3,
    ),
    "a running trial ended in Optuna": (
        sql("UPDATE trials SET state = 'COMPLETE' WHERE trial_id = {id}", trial=2),
        "told",
        2,
    ),
    "no value in Optuna": (sql("DELETE FROM trial_values WHERE trial_id = {id}"), "told", 3),
    "a value of a failed trial": (
        sql(
            "INSERT INTO trial_values (trial_id, objective, value, value_type) "
            "SELECT {id}, 0, 0.5, 'FINITE'",
            trial=1,
        ),
        "told",
        1,
    ),
    "the interval in Optuna": (
        sql(
            "UPDATE trial_user_attributes SET value_json = '[0, 1]' "
            "WHERE trial_id = {id} AND key LIKE 'rho%'"
        ),
        "told",
        3,
    ),
    "the failure in Optuna": (
        sql(
            "UPDATE trial_user_attributes SET value_json = '\"code\"' WHERE trial_id = {id}",
            trial=1,
        ),
        "told",
        1,
    ),
    "the failure of the event": (event("told", 1, setting("failure", "code")), "told", 1),
    "told twice": (sql(COPY + TOLD), "events", 3),
    "never told": (sql(f"DELETE FROM hpsearch_events WHERE {TOLD}"), "told", 3),
    "the trial's result": (
        json_file("trials/3/result.json", setting("state", "pruned")),
        "told",
        3,
    ),
    "no result of the trial": (lambda study: study.remove("trials/3/result.json"), "told", 3),
    "when it ended": (
        sql("UPDATE trials SET datetime_complete = NULL WHERE trial_id = {id}"),
        "told",
        3,
    ),
    # What was asked.
    "a parameter": (
        sql(
            "UPDATE trial_params SET param_value = param_value * 0.999 "
            "WHERE trial_id = {id} AND param_name = 'host.gamma'"
        ),
        "params",
        3,
    ),
    "a range": (
        sql(
            "UPDATE trial_params SET distribution_json = "
            "replace(distribution_json, '0.8', '0.7') WHERE trial_id = {id}"
        ),
        "params",
        3,
    ),
    "params of the event": (
        event("asked", 2, lambda data: data["params"].update({"host.gamma": 0.9})),
        "params",
        2,
    ),
    "never asked": (
        sql("DELETE FROM hpsearch_events WHERE kind = 'asked' AND trial = 2"),
        "asked",
        2,
    ),
    "asked twice": (sql(COPY + "kind = 'asked' AND trial = 2"), "events", 2),
    "not in Optuna": (sql("DELETE FROM trials WHERE trial_id = {id}", trial=1), "asked", 1),
    "another number": (sql("UPDATE trials SET number = 7 WHERE trial_id = {id}"), "asked", 3),
    "a retry that was not asked for": (event("asked", 2, setting("retry_of", 1)), "events", 2),
    "a folder of no trial": (lambda study: study.write("trials/9/config.yaml", "a: 1"), "asked", 9),
    "a configuration's parameter": (
        lambda study: study.text("trials/2/config.yaml", "steps: ", "steps: 1"),
        "config",
        2,
    ),
    "another key of a configuration": (
        lambda study: study.text("trials/2/config.yaml", "max_steps: 20", "max_steps: 21"),
        "config",
        2,
    ),
    "no configuration": (lambda study: study.remove("trials/2/config.yaml"), "config", 2),
    # Attempts and jobs.
    "a token": (
        lambda study: study.sql(
            "UPDATE hpsearch_events SET data = replace(data, ?, 'f00') WHERE kind = 'announced'",
            json.loads((study.root / "trials/2/control.json").read_text())["token"],
        ),
        "control",
        2,
    ),
    "a token of a result": (json_file(ATTEMPT, setting("token", "f00")), "attempts", 3),
    "a token in control": (
        json_file("trials/0/control.json", setting("token", "f00")),
        "control",
        0,
    ),
    "a stop in control": (
        json_file("trials/0/control.json", setting("stop", "pruned")),
        "control",
        0,
    ),
    "no stop in control": (json_file("trials/1/control.json", setting("stop", None)), "control", 1),
    "another stop in control": (
        json_file("trials/3/control.json", setting("stop", "pruned")),
        "control",
        3,
    ),
    "no control": (lambda study: study.remove("trials/0/control.json"), "control", 0),
    "announced twice": (
        sql(COPY + "kind = 'announced' AND job = '00004'"),
        "events",
        2,
    ),
    "an attempt that never ended": (
        sql("DELETE FROM hpsearch_events WHERE kind = 'attempt_ended' AND trial = 0"),
        "events",
        0,
    ),
    "a hole between attempts": (
        lambda study: study.sql(
            "UPDATE hpsearch_events SET data = replace(data, '\"attempt\": 2', '\"attempt\": 3') "
            "WHERE kind = 'announced' AND job = '00004'"
        ),
        "events",
        3,
    ),
    "the end of another attempt": (
        sql("UPDATE hpsearch_events SET attempt = 5 WHERE kind = 'attempt_ended' AND trial = 1"),
        "events",
        1,
    ),
    "the step of an end": (event("attempt_ended", 3, setting("step", 399)), "attempts", 3),
    "an attempt that was not announced": (
        lambda study: study.write("trials/2/attempt-7/result.json", "{}"),
        "attempts",
        2,
    ),
    "submitted twice": (sql(COPY + "kind = 'submitted' AND job = '00004'"), "events", None),
    "never submitted": (
        sql("DELETE FROM hpsearch_events WHERE kind = 'submitted' AND job = '00004'"),
        "events",
        None,
    ),
    "a job's trials": (
        json_file("jobs/00004/job.json", lambda data: data["assignments"].pop()),
        "jobs",
        2,
    ),
    "no job's file": (lambda study: study.remove("jobs/00004/job.json"), "jobs", None),
    "more for a job": (lambda study: study.write("jobs/00004/next-1.json", "{}"), "jobs", None),
    "a folder of no job": (lambda study: study.write("jobs/7/job.json", "{}"), "jobs", None),
    # Curves and checkpoints.
    "a value of a curve": (
        sql(f"UPDATE {CURVE} SET intermediate_value = 0.5 WHERE {STEP}", trial=2),
        "curve",
        2,
    ),
    "no value of a curve": (sql(f"DELETE FROM {CURVE} WHERE {STEP}", trial=2), "curve", 2),
    "a value that was not reported": (
        sql("DELETE FROM hpsearch_events WHERE kind = 'reported' AND trial = 3"),
        "curve",
        3,
    ),
    "a line of a curve": (curve_line, "curve", 3),
    "no curve": (lambda study: study.remove("trials/3/metrics.jsonl"), "curve", 3),
    "half a checkpoint": (half_a_checkpoint, "checkpoints", 3),
    "no last checkpoint": (
        lambda study: study.remove("trials/3/checkpoints/step-*"),
        "checkpoints",
        3,
    ),
    # The study.
    "an unknown event": (
        sql("UPDATE hpsearch_events SET kind = 'tolled' WHERE kind = 'job_ended'"),
        "events",
        None,
    ),
    "an event of no trial": (
        sql(f"UPDATE hpsearch_events SET trial = NULL WHERE {TOLD}"),
        "events",
        None,
    ),
    "an event that is no JSON": (
        sql(f"UPDATE hpsearch_events SET data = '[[' WHERE {TOLD}"),
        "events",
        3,
    ),
    "the spec": (
        sql("UPDATE hpsearch_studies SET spec = replace(spec, '0.97', '0.98')"),
        "spec",
        None,
    ),
    "its hash": (sql("UPDATE hpsearch_studies SET spec_hash = 'abc'"), "spec", None),
    "the goal": (sql("UPDATE study_directions SET direction = 'MINIMIZE'"), "spec", None),
    "the lease": (sql("UPDATE hpsearch_leases SET expires_at = 1e12"), "lease", None),
    "no lease": (sql("DELETE FROM hpsearch_leases"), "lease", None),
    "a request": (lambda study: study.write("requests/f00.json", "{"), "requests", None),
    "a pin": (
        lambda study: study.write(
            "pins/other.json",
            json.dumps({"study": str(study.root), "checkpoints": ["trials/0/checkpoints/step-9"]}),
        ),
        "pins",
        None,
    ),
    "a confirmation": (
        lambda study: study.write(
            "confirmation.json",
            json.dumps({"favourite": 0, "best": 0, "trained_by": None, "trials": [{"trial": 0}]}),
        ),
        "confirmation",
        0,
    ),
}

POPULATION = {
    "a node's hash": (
        sql("UPDATE hpsearch_checkpoints SET sha256 = 'abc' WHERE trial = 1"),
        "ancestry",
        1,
    ),
    "a node's operator": (
        sql("UPDATE hpsearch_checkpoints SET operator = 'clone' WHERE trial = 1"),
        "ancestry",
        1,
    ),
    "no node": (sql("DELETE FROM hpsearch_checkpoints WHERE trial = 2"), "ancestry", 2),
    "a node of a trial that runs": (sql(NODE), "ancestry", 4),
    "a parent of a node": (
        sql(
            "INSERT INTO hpsearch_parents SELECT id, 0, 'abc' FROM hpsearch_checkpoints "
            "WHERE trial = 0"
        ),
        "ancestry",
        0,
    ),
    "the told node": (
        event("told", 0, lambda data: data["node"].update(sha256="abc")),
        "ancestry",
        0,
    ),
    "an origin": (
        event("asked", 4, lambda data: data["origin"].update(generation=7)),
        "events",
        4,
    ),
    "a parent of a lineage": (
        json_file("trials/4/lineage.json", lambda data: data["parents"][0].update(trial=9)),
        "ancestry",
        4,
    ),
    "the operator of a lineage": (
        json_file("trials/4/lineage.json", lambda data: data["operator"].update(name="grow")),
        "ancestry",
        4,
    ),
    "no lineage": (lambda study: study.remove("trials/4/lineage.json"), "ancestry", 4),
    "the champion": (event("bred", None, setting("champion", 9)), "events", 9),
    "who was called": (
        event("match_called", None, lambda data: data["members"].update({"0": 4})),
        "events",
        4,
    ),
    "no decision": (
        lambda study: study.sql(
            "DELETE FROM hpsearch_events WHERE id = "
            "(SELECT max(id) FROM hpsearch_events WHERE kind = 'bred')"
        ),
        "events",
        3,
    ),
    "no call": (
        sql("DELETE FROM hpsearch_events WHERE kind = 'match_called'"),
        "events",
        None,
    ),
    "who plays": (
        lambda study: study.text("matches/1/plan.json", "trials/0/", "trials/1/"),
        "matches",
        0,
    ),
    "no plan": (lambda study: study.remove("matches/1/plan.json"), "matches", None),
    "half the games": (half_the_games, "matches", None),
    "no games": (lambda study: study.remove("matches/1/games.npz"), "matches", None),
    "a folder of no match": (
        lambda study: study.write("matches/7/plan.json", "{}"),
        "matches",
        None,
    ),
}


@pytest.mark.parametrize("name", ["plain", "population", "finished"])
def test_a_study_of_the_real_driver_is_clean(copy_of, name):
    assert copy_of(name).faults() == []


@pytest.mark.parametrize("what", PLAIN)
def test_a_change_in_a_study_is_found(copy_of, what):
    check(copy_of("plain"), *PLAIN[what])


@pytest.mark.parametrize("what", POPULATION)
def test_a_change_in_a_population_is_found(copy_of, what):
    check(copy_of("population"), *POPULATION[what])


@pytest.mark.parametrize("what", OF_ANOTHER_FORM)
def test_what_has_another_form_in_a_study_is_a_fault(copy_of, what):
    check(copy_of("plain"), *OF_ANOTHER_FORM[what])


@pytest.mark.parametrize("what", OF_ANOTHER_FORM_BRED)
def test_what_has_another_form_in_a_population_is_a_fault(copy_of, what):
    check(copy_of("population"), *OF_ANOTHER_FORM_BRED[what])


def test_an_event_that_cannot_be_read_hides_no_other_trial(copy_of):
    study = copy_of("plain")
    study.data("told", 3, lambda data: data.pop("value"))
    study.text("trials/2/config.yaml", "max_steps: 20", "max_steps: 21")
    study.remove("trials/3/checkpoints/step-*")
    places = {(fault.check, fault.trial) for fault in study.faults()}
    assert {("events", None), ("config", 2), ("checkpoints", 3)} <= places


def test_what_unreadable_events_keep_from_being_checked_is_said(copy_of):
    study = copy_of("population")
    study.add_snapshot()
    study.data("told", 0, lambda data: data.pop("value"))
    study.remove("trials/1/checkpoints/step-*")
    told = {fault.check: fault.message for fault in study.faults() if fault.trial is None}
    assert "not checked" in told["checkpoints"]
    assert "not checked" in told["snapshots"]


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_damaged_file_of_a_job_is_one_fault(copy_of, text):
    study = copy_of("plain")
    study.write("jobs/00004/job.json", text)
    (fault,) = (fault for fault in study.faults() if fault.check == "jobs")
    assert fault.message.startswith("jobs/00004/job.json ")


def test_rows_that_cannot_be_put_in_order_are_one_sentence(copy_of):
    study = copy_of("plain")
    study.sql(
        "INSERT INTO study_directions (study_id, objective, direction) "
        "VALUES (1, 'first', 'MAXIMIZE')"
    )
    with pytest.raises(CorruptError, match="another form"):
        study.faults()


def test_what_the_driver_put_aside_is_no_fault(copy_of):
    study = copy_of("plain")
    study.write("requests/f00.json.damaged", "{")
    assert study.faults() == []
    (told,) = (
        finding
        for finding in study.findings()
        if isinstance(finding, Open) and "f00" in finding.message
    )
    assert told.message.endswith("was put aside; remove it")


@pytest.mark.parametrize(
    ("state", "misfits", "faulty"),
    [("WAITING", None, False), ("FAIL", '["lr"]', False), ("FAIL", None, True)],
)
def test_what_a_user_enqueued_by_optuna_itself_is_no_fault(copy_of, state, misfits, faulty):
    study = copy_of("plain")
    study.sql(
        "INSERT INTO trials (trial_id, number, study_id, state, datetime_start, datetime_complete) "
        f"SELECT 99, max(number) + 1, 1, '{state}', max(datetime_complete), max(datetime_complete) "
        "FROM trials"
    )
    if misfits is not None:
        study.sql(
            "INSERT INTO trial_user_attributes (trial_id, key, value_json) "
            "VALUES (99, 'misfits', ?)",
            misfits,
        )
    assert [fault.check for fault in study.faults()] == ["asked"] * faulty


def test_what_cannot_be_read_is_shown_as_it_stands(copy_of):
    study = copy_of("plain")
    study.sql(f"UPDATE hpsearch_events SET data = '[[' WHERE {TOLD}")
    study.remove(ATTEMPT)
    said = "\n".join(fault.message for fault in study.faults())
    assert "holds no JSON object, but '[['" in said
    assert "  " not in said


def check(study, tamper, rule, trial):
    tamper(study)
    faults = study.faults()
    assert (rule, trial) in {(fault.check, fault.trial) for fault in faults}, faults
    for fault in faults:
        assert "\n" not in fault.message
        assert len(fault.message) < 1000

"""What is changed in a snapshot, from which readers begin, is found."""

import pytest
from tampering import Tampered

from hpsearch.study.snapshots import VERSION

METRIC = "rho/host/choose_first"
ROWS = "hpsearch_snapshots"


def row(kind, name, change):
    return lambda study: study.snapshot(kind, name, change)


def head(change):
    return row("head", "0", change)


def sql(statement):
    return lambda study: study.sql(statement)


def setting(key, value):
    return lambda data: data.update({key: value})


def line(before, after):
    return sql(
        f"UPDATE {ROWS} SET data = replace(data, '{before}', '{after}') "
        f"WHERE kind = 'lines' AND data LIKE '%{before}%'"
    )


FINISHED = {
    "how it was told": (row("trial", "1", setting("told", "failed")), 1),
    "that it was told": (row("trial", "1", lambda data: data.pop("told")), 1),
    "its value": (row("trial", "1", setting("value", 0.5)), 1),
    "a metric": (row("trial", "1", lambda data: data["metrics"][METRIC].update(low=0.5)), 1),
    "a parameter": (
        row("trial", "1", lambda data: data["params"].update({"host.gamma": 0.9})),
        1,
    ),
    "a failure": (row("trial", "1", setting("failure", "code")), 1),
    "a value of its curve": (row("trial", "1", setting("reported", {"200": 0.5})), 1),
    "its number": (row("trial", "1", setting("number", 0)), 1),
    "its name": (sql(f"UPDATE {ROWS} SET name = '7' WHERE kind = 'trial' AND name = '1'"), 1),
    "another form": (row("trial", "1", setting("metrics", [1])), 1),
    "no JSON": (sql(f"UPDATE {ROWS} SET data = '[' WHERE kind = 'trial' AND name = '1'"), 1),
    "no trial": (sql(f"DELETE FROM {ROWS} WHERE kind = 'trial' AND name = '1'"), 1),
    "a job": (row("job", "00001", lambda data: data["groups"][0][0].__setitem__(0, 9)), None),
    "a job's id": (row("job", "00001", setting("id", "7")), None),
    "no job": (sql(f"DELETE FROM {ROWS} WHERE kind = 'job' AND name = '00001'"), None),
    "the state of a line": (line("1\tfinished", "1\tpruned"), 1),
    "the number of a line": (line("1\tfinished", "7\tfinished"), 1),
    "no lines": (sql(f"DELETE FROM {ROWS} WHERE kind = 'lines'"), 1),
    "no head": (sql(f"DELETE FROM {ROWS} WHERE kind = 'head'"), None),
    "half a head": (
        sql(f"UPDATE {ROWS} SET data = substr(data, 1, 100) WHERE kind = 'head'"),
        None,
    ),
    "the head's event": (head(lambda data: data["state"].update(last_event=7)), None),
    "the head's count": (head(setting("num_trials", 7)), None),
    "a newer row": (sql(f"UPDATE {ROWS} SET event = event + 99 WHERE kind = 'trial'"), None),
    "an unknown kind": (sql(f"UPDATE {ROWS} SET kind = 'x' WHERE kind = 'lines'"), None),
}


@pytest.fixture(scope="module")
def with_snapshot(unpacked, tmp_path_factory):
    """Return a function from the name of a recording to a copy with snapshots, to be kept."""
    made = {}

    def make(name):
        if name not in made:
            made[name] = Tampered(unpacked(name), tmp_path_factory.mktemp("with") / name)
            made[name].add_snapshot()
        return made[name]

    return make


@pytest.mark.parametrize("name", ["plain", "population", "finished"])
def test_snapshots_of_the_real_driver_are_clean(with_snapshot, name):
    assert with_snapshot(name).faults() == []


@pytest.mark.parametrize("what", FINISHED)
def test_a_change_of_a_snapshot_is_found(with_snapshot, tmp_path, what):
    tamper, trial = FINISHED[what]
    study = Tampered(with_snapshot("finished").folder, tmp_path / "copy")
    tamper(study)
    faults = study.faults()
    assert ("snapshots", trial) in {(fault.check, fault.trial) for fault in faults}, faults
    assert {fault.check for fault in faults} == {"snapshots"}


def test_trials_that_a_head_has_are_compared(with_snapshot, tmp_path):
    study = Tampered(with_snapshot("plain").folder, tmp_path / "copy")

    def change(data):
        (trial,) = (trial for trial in data["trials"] if trial["number"] == 2)
        trial["params"]["host.gamma"] = 0.9

    study.snapshot("head", "0", change)
    assert [(fault.check, fault.trial) for fault in study.faults()] == [("snapshots", 2)]


def test_a_snapshot_of_another_version_is_not_judged(with_snapshot, tmp_path):
    study = Tampered(with_snapshot("finished").folder, tmp_path / "copy")
    study.snapshot("trial", "1", setting("value", 0.5))
    study.snapshot("head", "0", setting("version", VERSION + 1))
    assert study.faults() == []

"""Chance changes every column of every table, and every file: nearly all of it is found.

What is not found is listed with why that is no loss; anything else that slips through fails.
"""

import random
import sqlite3
from contextlib import closing
from fnmatch import fnmatch

import pytest
from recorded import DATABASE
from tampering import Tampered

TABLES = {
    "hpsearch_studies": ("name", "spec", "spec_hash", "state"),
    "hpsearch_events": ("kind", "trial", "attempt", "job", "data"),
    "hpsearch_leases": ("holder", "token", "expires_at"),
    "hpsearch_snapshots": ("kind", "name", "event", "data"),
    "hpsearch_checkpoints": ("trial", "step", "sha256", "operator", "adopted", "seed", "changes"),
    "studies": ("study_name",),
    "study_directions": ("direction",),
    "trials": ("number", "state", "datetime_start", "datetime_complete"),
    "trial_params": ("param_name", "param_value", "distribution_json"),
    "trial_values": ("objective", "value", "value_type"),
    "trial_intermediate_values": ("step", "intermediate_value", "intermediate_value_type"),
    "trial_user_attributes": ("key", "value_json"),
}
HARMLESS_FILES = (
    *("driver.log", "study.json", "*/heartbeat.json", "*/games.jsonl", "*/alive.json"),
    "best/*",  # `evaluate` looks at it
)
"""files by which nothing is decided; neither is it by the lineage of a trial that descends from
none, of which no more than the contents are checked"""
RUNS = 150
SHARE = 0.9


@pytest.mark.slow
def test_nearly_every_random_change_is_found(unpacked, tmp_path):
    rng, missed, tried = random.Random(15), [], 0
    sources = {}
    for name in ("plain", "population", "finished"):
        sources[name] = Tampered(unpacked(name), tmp_path / name)
        sources[name].add_snapshot()
    for number in range(RUNS):
        source = sources[rng.choice(["plain", "population", "finished"])].folder
        study = Tampered(source, tmp_path / str(number))
        what = change_a_row(study, rng) if rng.random() < 0.6 else change_a_file(study, rng)
        if what is None:  # the database does not take it
            continue
        tried += 1
        if not is_found(study):
            missed.append(what)
    assert len(missed) <= (1 - SHARE) * tried, "\n".join(missed)


def is_found(study):
    """Return whether the audit finds something, be it that the database cannot be read."""
    from hpsearch.errors import HpsearchError

    try:
        return bool(study.faults())
    except HpsearchError:
        return True


def change_a_row(study, rng):
    """Change one value of one row, or remove a row; return what was done, None where refused."""
    with closing(sqlite3.connect(study.folder / DATABASE)) as database:
        full = [
            table
            for table in TABLES
            if database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        ]
        table = rng.choice(full)
        rows = [row[0] for row in database.execute(f"SELECT rowid FROM {table}")]
        row, column = rng.choice(rows), rng.choice(TABLES[table])
        (before,) = database.execute(
            f"SELECT {column} FROM {table} WHERE rowid = ?", (row,)
        ).fetchone()
        whole = database.execute(f"SELECT * FROM {table} WHERE rowid = ?", (row,)).fetchone()
        try:
            if rng.random() < 0.2:
                after = "no row"
                database.execute(f"DELETE FROM {table} WHERE rowid = ?", (row,))
            else:
                after = changed(before, rng)
                database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (after, row))
            database.commit()
        except sqlite3.IntegrityError:
            return None
    return f"{table}.{column} of {whole}: {before!r} -> {after!r}"[:400]


def changed(value, rng):
    """Return another value of the same kind."""
    match value:
        case int():
            return value + rng.choice([-1, 1])
        case float():
            return value * 1.5 + 1.0
        case str():
            return with_another_character(value, rng)
        case _:
            return 1


def with_another_character(text, rng):
    """Return a text with a letter or digit of it changed."""
    places = [at for at, character in enumerate(text) if character.isalnum()]
    if not places:
        return f"{text}7"
    at = rng.choice(places)
    other = rng.choice([character for character in "3a7e" if character != text[at]])
    return text[:at] + other + text[at + 1 :]


def change_a_file(study, rng):
    """Change one byte of a file, cut it off, or remove it; return what was done."""
    files = [
        path
        for path in sorted(study.root.rglob("*"))
        if path.is_file()
        and not any(
            fnmatch(str(path.relative_to(study.root)), pattern) for pattern in HARMLESS_FILES
        )
    ]
    path = rng.choice(files)
    name, data = path.relative_to(study.root), path.read_bytes()
    match rng.choice(["byte", "end", "file"]):
        case "file":
            path.unlink()
            return f"{name} removed"
        case "end":
            path.write_bytes(data[: len(data) // 2])
            return f"{name} cut off"
        case _:
            at = rng.choice([n for n, byte in enumerate(data) if chr(byte).isalnum()])
            other = ord(
                rng.choice([character for character in "3a7e" if ord(character) != data[at]])
            )
            path.write_bytes(data[:at] + bytes([other]) + data[at + 1 :])
            around = data[max(0, at - 40) : at + 20]
            return f"{name}: byte {at} of {around!r} -> {chr(other)}"

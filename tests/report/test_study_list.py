"""The list of studies: what the events say, quickly, whatever has become of single studies."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from long_study import long_study, write_snapshot
from test_completion import press

from hpsearch.cli import main
from hpsearch.errors import StorageUnavailableError
from hpsearch.report import listing as module
from hpsearch.report.listing import list_studies
from hpsearch.study.view import open_view

ABSENT = "sqlite:////nowhere/at/all.db"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with a study that has 24 of 88 trials behind it, and best value and interval."""
    write_snapshot(long_study(tmp_path, 88))
    return tmp_path / "runs"


def note(runs: Path, name: str, text: str) -> None:
    (runs / name).mkdir()
    (runs / name / "study.json").write_text(text)


def test_a_study_is_listed_as_its_trials_say(runs, capsys):
    told = [trial for trial in open_view("long", runs).state.trials.values() if trial.told]
    best = max((trial for trial in told if trial.value is not None), key=lambda trial: trial.value)
    assert main(["ls", "--runs", str(runs), "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["study"], listed["state"]) == ("long", "interrupted")
    assert (listed["done"], listed["budget"]) == (len(told), 88) == (24, 88)
    assert (listed["best"]["trial"], listed["best"]["value"]) == (best.number, best.value)
    assert listed["problem"] is None
    assert main(["ls", "--runs", str(runs)]) == 0
    header, line = capsys.readouterr().out.splitlines()
    assert header.split() == ["study", "state", "trials", "best"]
    assert line.split()[:5] == ["long", "interrupted", "24", "of", "88"]
    assert line.rstrip().endswith(f"(trial {best.number})")


def test_damaged_studies_are_listed_among_the_others(runs, capsys):
    for name in ("aaa", "kkk", "zzz"):
        note(runs, name, "{" if name == "aaa" else json.dumps({"name": name}))
    where = {"name": "lost", "file": "lost.yaml", "storage": ABSENT}
    note(runs, "lost", json.dumps(where))
    (runs / "broken.db").write_text("no database" * 100)
    where = {"name": "broken", "file": "x.yaml", "storage": f"sqlite:///{runs}/broken.db"}
    note(runs, "broken", json.dumps(where))
    (runs / "run_of_its_own").mkdir()
    assert main(["ls", "--runs", str(runs)]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    _, *lines = output.out.splitlines()
    states = {line.split()[0]: line.split()[1] for line in lines}
    damaged = dict.fromkeys(("aaa", "kkk", "zzz"), "damaged")
    unreadable = dict.fromkeys(("broken", "lost"), "unreadable")
    assert states == damaged | unreadable | {"long": "interrupted"}
    assert "run the study file again" in lines[0]
    problems = {study.study: study.problem for study in list_studies(runs)}
    assert "is no intact SQLite database" in str(problems["broken"])
    assert "the database of the study lost is not at" in str(problems["lost"])


def test_rows_of_another_program_end_no_list(runs, monkeypatch):
    def fail(name: str, folder: Path) -> None:
        raise KeyError("base")

    monkeypatch.setattr(module, "open_view", fail)
    (study,) = list_studies(runs)
    assert (study.state, study.problem) == ("damaged", "KeyError: 'base'")


def test_a_database_that_is_away_is_waited_for_once(runs, monkeypatch):
    asked = []

    def wait(name: str, folder: Path) -> None:
        asked.append(name)
        raise StorageUnavailableError("the server is away")

    monkeypatch.setattr(module, "open_view", wait)
    for name, storage in (("b", "env:A"), ("c", "env:B"), ("d", "env:A"), ("e", "env:B")):
        note(runs, name, json.dumps({"name": name, "file": "x.yaml", "storage": storage}))
    listed = [study for study in list_studies(runs) if study.study != "long"]
    assert [study.state for study in listed] == ["unreachable"] * 4
    assert {study.problem for study in listed} == {"the server is away"}
    assert asked == ["b", "c", "long"]


def test_without_a_study_it_says_how_to_start_one(tmp_path, capsys):
    assert main(["ls", "--runs", str(tmp_path / "none")]) == 0
    output = capsys.readouterr().out
    assert output.startswith(
        f"no study was started below {tmp_path}/none; start one with: hpsearch "
    )
    assert main(["ls", "--runs", str(tmp_path / "none"), "--json"]) == 0
    assert capsys.readouterr().out == "[]\n"


def test_a_hundred_studies_are_listed_at_once_without_torch(runs):
    """Three seconds of a processor, whatever else the machine does; it takes less than two."""
    for number in range(99):
        shutil.copytree(runs / "long", runs / f"copy{number}")
    script = """
import sys
from hpsearch.cli import main
main(["ls", "--runs", sys.argv[1]])
sys.exit("torch" in sys.modules)
"""
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-c", script, str(runs)], check=True, capture_output=True, text=True
    )
    after = os.times()
    assert len(done.stdout.splitlines()) == 101
    assert after.children_user - before.children_user < 3


def test_a_shell_completes_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "hpsearch.cli", "completion", "bash"],
        check=True,
        capture_output=True,
        text=True,
    )
    (tmp_path / ".script").write_text(done.stdout)
    assert press(tmp_path, "l") == ["lineage", "ls"]
    assert press(tmp_path, "ls", "--") == ["--help", "--json", "--runs"]

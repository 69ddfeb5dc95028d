"""hpsearch audit as a command: what it prints, and how it exits."""

import json
import shutil

import pytest
from cli_tools import Run, hpsearch, kill_jobs, refused, write_study

from hpsearch.cli import main


def run(study, monkeypatch, *arguments):
    monkeypatch.chdir(study.folder)
    return main(["audit", *arguments])


def test_a_clean_study_exits_with_0(copy_of, monkeypatch, capsys):
    study = copy_of("plain")
    assert run(study, monkeypatch, "tiny") == 0
    assert capsys.readouterr().out == (
        "tiny: 4 trials, 40 events and 3 checkpoints: no faults; 1 in flight\n"
    )
    assert run(study, monkeypatch, "study.yaml", "--json", "--deep") == 0
    output = json.loads(capsys.readouterr().out)
    assert output["clean"]
    assert [fault["message"][:9] for fault in output["in_flight"]] == ["requests/"]


def test_a_study_that_was_changed_exits_with_7_and_a_line_for_each_fault(
    copy_of, monkeypatch, capsys
):
    study = copy_of("finished")
    study.text("trials/1/config.yaml", "max_steps: 20", "max_steps: 21")
    study.json("trials/0/control.json", lambda data: data.update(token="\x1b[2J" + "x" * 500))
    assert run(study, monkeypatch, "tiny") == 7
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3, lines
    first, second, last = lines
    assert first.startswith("trial 0: control: events announced the token")
    assert first.isprintable()
    assert len(first) < 400
    assert second == ("trial 1: config: the study says max_steps 20, trials/1/config.yaml 21")
    assert last.endswith(": 2 faults")
    assert run(study, monkeypatch, "tiny", "--json") == 7
    output = json.loads(capsys.readouterr().out)
    assert [fault["trial"] for fault in output["faults"]] == [0, 1]
    assert not output["clean"]


def test_a_folder_that_is_not_utf8_is_refused(copy_of, monkeypatch, capsys):
    assert run(copy_of("finished"), monkeypatch, "tiny", "--runs", "\udcff") == 2
    assert "must be UTF-8" in capsys.readouterr().err


def test_it_changes_nothing(copy_of, monkeypatch):
    study = copy_of("plain")
    before = {path: path.read_bytes() for path in study.folder.rglob("*") if path.is_file()}
    run(study, monkeypatch, "tiny")
    assert {p: p.read_bytes() for p in study.folder.rglob("*") if p.is_file()} == before


def test_what_is_not_there_is_one_sentence(copy_of):
    study = copy_of("finished")
    assert "there are: tiny" in refused(study.folder, "audit", "other", code=2)
    note = study.root / "study.json"
    whole = note.read_text()
    note.write_text("[" * 100_000)
    assert "is damaged" in refused(study.folder, "audit", "tiny", code=7)
    note.write_text(whole)
    study.sql("DELETE FROM hpsearch_studies")
    assert "0 studies called tiny" in refused(study.folder, "audit", "tiny", code=7)
    (study.folder / "runs/tiny.db").write_bytes(b"no database" * 1000)
    assert "cannot be read" in refused(study.folder, "audit", "tiny", code=5)
    (study.folder / "runs/tiny.db").unlink()
    assert "is not at" in refused(study.folder, "audit", "tiny", code=5)


@pytest.mark.slow
def test_it_finds_nothing_while_a_driver_runs(tmp_path):
    write_study(tmp_path, {"budget/trials": 6, "executor/members_per_job": 2})
    driver = Run(tmp_path, "--no-export")
    try:
        driver.wait_until((tmp_path / "runs/tiny/trials/0/metrics.jsonl").exists)
        looks = 0
        while driver.process.poll() is None:
            done = hpsearch(tmp_path, "audit", "tiny", code=None)
            assert done.returncode == 0, done.stdout + done.stderr
            looks += 1
        assert driver.wait()[0] == 0
        assert looks > 1
        hpsearch(tmp_path, "audit", "tiny", "--deep")
    finally:
        kill_jobs(tmp_path)
    shutil.rmtree(tmp_path / "runs/tiny/trials/3")
    assert "trial 3" in hpsearch(tmp_path, "audit", "tiny", code=7).stdout

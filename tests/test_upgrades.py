"""Studies that released versions left in the middle go on with the code of today."""

import json
import shutil
from pathlib import Path

import pytest
from cli_tools import hpsearch, outcomes, read
from optuna.trial import TrialState
from recorded import RECORDINGS, unpack

from hpsearch import yaml_file

pytestmark = pytest.mark.slow
NEWEST = max(
    (path.name for path in RECORDINGS.iterdir() if path.is_dir()),
    key=lambda version: [int(part) for part in version.split(".")],
)
"""the version whose studies go on with the executor that they had"""
STUDIES = sorted(path for path in RECORDINGS.glob("*/*") if (path / "moment.json").exists())


@pytest.fixture(scope="module", params=STUDIES, ids=lambda path: f"{path.parent.name}-{path.name}")
def study(request, tmp_path_factory):
    """A recorded study that went on to its end, what it had come to before, and from where."""
    folder = tmp_path_factory.mktemp("study")
    unpack(request.param, folder)
    if request.param.parent.name != NEWEST:
        _let_jobs_take_more(folder / "study.yaml")
    before = outcomes(folder)
    moment = json.loads((folder / "moment.json").read_text())
    _audit(folder)
    if moment["running"] is not None:
        _mark_curve(folder, moment["running"])
    hpsearch(folder, "run", "study.yaml", "--no-export")
    yield folder, before, moment
    shutil.rmtree(folder)


def test_there_is_a_study_in_the_middle_of_every_released_version():
    versions = {path.name for path in RECORDINGS.iterdir() if path.is_dir()}
    assert versions == {path.parent.name for path in STUDIES}
    for version in versions:
        assert {"plain", "population"} <= {path.name for path in (RECORDINGS / version).iterdir()}


def test_it_comes_to_its_end_and_what_had_ended_stays(study):
    folder, before, _ = study
    assert read(folder, "status", "tiny")["state"] == "finished"
    after = outcomes(folder)
    ended = {
        number: outcome for number, outcome in before.items() if outcome[0] != TrialState.RUNNING
    }
    assert ended
    assert {number: after[number] for number in ended} == ended
    assert all(outcome[0].is_finished() for outcome in after.values())
    _audit(folder)


def test_the_trial_in_the_middle_goes_on_from_its_checkpoint(study):
    folder, _, moment = study
    if moment["running"] is None:
        return
    rows = _rows(folder, moment["running"])
    # What begins anew, or from an older checkpoint, makes lines again, which then bear no mark.
    assert {row["step"] for row in rows if "marked" in row} == {
        row["step"] for row in rows if row["step"] <= moment["step"]
    }
    assert any("marked" in row for row in rows)
    assert any("marked" not in row for row in rows)


def test_every_view_answers(study, tmp_path):
    folder, _, _ = study
    trials = read(folder, "trials", "tiny")
    assert [trial["trial"] for trial in trials] == list(range(len(trials)))
    best = read(folder, "best", "tiny")
    assert best["trial"] in {trial["trial"] for trial in trials}
    hpsearch(folder, "report", "tiny", "--games", "100", "-o", str(tmp_path / "page.html"))
    hpsearch(folder, "export", "tiny", "--format", "yaml", "-o", str(tmp_path / "best.yaml"))
    assert (tmp_path / "page.html").stat().st_size > 10_000
    assert (tmp_path / "best.yaml").read_text()


def _let_jobs_take_more(file: Path) -> None:
    """Spare a process for each interval and match: the executor is no part of the search."""
    data = yaml_file.load(file)
    data["executor"]["pilot"] = True
    file.write_text(yaml_file.dump(data))


def _audit(folder: Path) -> None:
    done = hpsearch(folder, "audit", "tiny", "--deep", code=None)
    assert done.returncode == 0, done.stdout + done.stderr


def _curve(folder: Path, trial: int) -> Path:
    return folder / "runs/tiny/trials" / str(trial) / "metrics.jsonl"


def _rows(folder: Path, trial: int) -> list[dict]:
    return [json.loads(line) for line in _curve(folder, trial).read_text().splitlines()]


def _mark_curve(folder: Path, trial: int) -> None:
    rows = [row | {"marked": True} for row in _rows(folder, trial)]
    _curve(folder, trial).write_text("".join(json.dumps(row) + "\n" for row in rows))

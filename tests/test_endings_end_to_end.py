"""A study whose trials end before their steps are made: what its readers say, and its player."""

import json
import sys

import pytest
from cli_tools import METRIC, hpsearch, read, write_study, write_trainer

from hpsearch import yaml_file

pytestmark = pytest.mark.slow

SENTENCE = f"ended at step 40 of 400: evaluations in a row without a better {METRIC}: 1"
PLATEAU = {"metric": METRIC, "evaluations": 1, "min_delta": 1.0}
"""nothing becomes better by 1, so the second evaluation is the last"""


@pytest.fixture(scope="module", autouse=True)
def without_onnx():
    """Leave out policies that take seconds to write, and know nothing of how trials ended."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "onnxruntime", None)
        yield


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A folder with a study that has ended."""
    folder = tmp_path_factory.mktemp("ended")
    changes = {"steps": 400, "end/plateau": PLATEAU, "evaluation/interval": 20}
    write_trainer(folder, changes)
    one_job = {"executor/jobs": 1, "executor/members_per_job": 4, "executor/pilot": True}
    write_study(folder, one_job | {"budget": {"trials": 3}})
    said = hpsearch(folder, "validate", "study.yaml").stdout
    assert "end.plateau may end trials before their steps are made" in said
    hpsearch(folder, "run", "study.yaml")
    return folder


def test_all_trials_finished_and_say_what_ended_them(ended):
    trials = read(ended, "trials", "tiny", "--json")
    for trial in trials:
        assert (trial["state"], trial["ended_by"]) == ("finished", "plateau")
        assert trial["message"].startswith(SENTENCE)
        assert trial["metrics"][METRIC]["value"] == trial["value"]
    told = json.loads((ended / "runs/tiny/trials/0/result.json").read_text())
    assert (told["ended_by"], told["message"]) == ("plateau", trials[0]["message"])


def test_status_best_and_report_tell_it(ended):
    counted = "3 trials ended before the last step: 3 by end.plateau"
    said = hpsearch(ended, "status", "tiny").stdout
    assert counted in said
    assert SENTENCE in said
    assert read(ended, "status", "tiny", "--json")["ended_early"] == {"plateau": 3}
    hpsearch(ended, "report", "tiny", "-o", "page.html")
    assert counted in (ended / "page.html").read_text()


def test_the_player_of_the_last_checkpoint_is_exported(ended):
    said = hpsearch(ended, "evaluate", "runs/tiny/best").stdout
    assert "every number as certified" in said
    hpsearch(ended, "export", "tiny", "--trial", "1", "-o", "other")


def test_the_books_are_right(ended):
    hpsearch(ended, "audit", "tiny")


def test_confirming_trains_until_the_same_end(ended):
    hpsearch(ended, "confirm", "tiny", "--top", "2", "--seeds", "2")
    trials = read(ended, "trials", "tiny-confirm", "--json")
    assert {trial["ended_by"] for trial in trials} == {"plateau"}


def test_founders_that_ended_early_breed(ended):
    words = ("--members", "2", "--trials", "2", "--interval", "20")
    hpsearch(ended, "breed", "tiny", *words, "--submit")
    hpsearch(ended, "cancel", "tiny-bred")
    bred = yaml_file.load(ended / "runs/tiny-bred/study.yaml")
    # What closes it stands in tests/test_breed_end_to_end.py.
    population = bred["population"] | {"closing": None}
    file = ended / "runs/tiny-bred/again.yaml"
    file.write_text(yaml_file.dump(bred | {"name": "again", "population": population}))
    hpsearch(ended, "run", "runs/tiny-bred/again.yaml", "--no-export")
    assert read(ended, "status", "again", "--json")["trials"]["finished"] == 2

"""Descent: the graph in SQL and hpsearch lineage, against the parents that the events name."""

import hashlib
import json
import re

import pytest
from drives import drive, new_study, query, stored_trials, trial_folder
from fakes import FakeExecutor
from test_population_study import origins, population_study, teaching

from hpsearch.cli import main


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("population")
    operators = [{"name": "clone"}, {"name": "aligned_average", "share": 0.5}]
    study = population_study(folder, trials=20, operators=operators)
    drive(study, FakeExecutor(teaching=teaching))
    return study


def lineage(study, *options):
    runs = study.path.parent / "runs"
    return main(["lineage", str(study.path), "--runs", str(runs), *map(str, options)])


def sha256(study, origins, trial):
    """Return the sha256 of what the fake wrote as a manifest of the trial's last checkpoint."""
    folder = trial_folder(study, trial) / "checkpoints" / f"step-{origins[trial]['steps']:09d}"
    return hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()


def test_sql_holds_every_checkpoint_and_its_parents(study):
    born = origins(study)
    rows = query(study, "SELECT id, trial, step, sha256, operator FROM hpsearch_checkpoints")
    assert {row[1]: row[2:] for row in rows} == {
        trial: (origin["steps"], sha256(study, born, trial), origin["operator"]["name"])
        for trial, origin in born.items()
    }
    trial_of = {row[0]: row[1] for row in rows}
    edges = query(study, "SELECT checkpoint_id, position, sha256 FROM hpsearch_parents")
    assert {(trial_of[child], position, parent) for child, position, parent in edges} == {
        (trial, position, sha256(study, born, parent))
        for trial, origin in born.items()
        for position, parent in enumerate(origin["parents"])
    }
    assert any(len(origin["parents"]) == 2 for origin in born.values())


def test_changes_are_those_of_the_hyperparameters(study):
    trials, born = stored_trials(study), origins(study)
    rows = query(study, "SELECT trial, changes FROM hpsearch_checkpoints")
    for trial, changes in rows:
        parents = born[trial]["parents"]
        before = trials[parents[0]].params if parents else trials[trial].params
        after = trials[trial].params
        assert json.loads(changes) == {
            name: [before[name], after[name]] for name in after if before[name] != after[name]
        }


def test_the_line_leads_from_new_networks_to_the_champion(study, capsys):
    assert lineage(study, "--json") == 0
    plain, born = json.loads(capsys.readouterr().out), origins(study)
    assert plain["line"][-1] == plain["champion"]
    assert born[plain["line"][0]]["parents"] == []
    for parent, child in zip(plain["line"], plain["line"][1:], strict=False):
        assert born[child]["parents"][0] == parent
    assert {trial["trial"] for trial in plain["trials"]} == set(born)


def test_the_table_names_trials_parents_and_changes(study, capsys):
    assert lineage(study, "--all") == 0
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == 21
    assert " begun anew " in printed
    assert "goes on" in printed
    assert "aligned_average" in printed
    assert re.search(r"\blr [0-9.e-]+ -> [0-9.e-]+", printed)


def test_the_status_tells_of_the_game_between_all(study, capsys):
    runs = study.path.parent / "runs"
    assert main(["status", str(study.path), "--runs", str(runs), "--json"]) == 0
    population = json.loads(capsys.readouterr().out)["population"]
    game, champion = population["game"], str(population["champion"])
    assert sum(game["agents"].values()) == pytest.approx(1.0)
    assert champion in game["gaps"]["host"]
    assert champion not in game["gaps"]["agent"]  # only hosts learn here
    assert main(["status", str(study.path), "--runs", str(runs)]) == 0
    printed = capsys.readouterr().out
    assert f"the match's equilibrium: rho {game['value']:.4f}, played by hosts" in printed
    assert f"its host {game['gaps']['host'][champion]:.4f}" in printed


def test_pictures_and_data_are_written(study, tmp_path, capsys):
    for name in ("descent.svg", "descent.png", "descent.json"):
        assert lineage(study, "-o", tmp_path / name) == 0
        assert (tmp_path / name).stat().st_size > 1000
    assert "aligned_average" in (tmp_path / "descent.svg").read_text()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--trial", "99"), "no trial 99 of the population has finished"),
        (("-o", "descent.gif"), "descent is drawn as one of"),
    ],
)
def test_wrong_requests_are_refused(study, capsys, options, sentence):
    assert lineage(study, *options) == 2
    assert sentence in capsys.readouterr().err


def test_a_search_has_no_lineage(tmp_path, capsys):
    study = new_study(tmp_path, budget={"trials": 2})
    drive(study, FakeExecutor())
    assert lineage(study) == 2
    assert "is no population" in capsys.readouterr().err


def test_gc_keeps_parents_champions_and_members(study, capsys):
    runs = study.path.parent / "runs"
    assert main(["gc", str(study.path), "--runs", str(runs), "--dry-run", "--json"]) == 0
    freed = json.loads(capsys.readouterr().out)["kinds"]["checkpoints"]["count"]
    born = origins(study)
    parents = {parent for origin in born.values() for parent in origin["parents"]}
    newest = {origin["member"]: trial for trial, origin in born.items()}
    champions = {
        json.loads(row[0])["champion"]
        for row in query(study, "SELECT data FROM hpsearch_events WHERE kind = 'bred'")
        if json.loads(row[0])["match"]
    }
    unreferenced = set(born) - parents - set(newest.values()) - champions
    assert unreferenced

    of_trials = {
        trial: len(list((trial_folder(study, trial) / "checkpoints").glob("step-*")))
        for trial in born
    }
    # Of a trial that is kept, the last one alone is needed.
    assert freed == sum(saved - (trial not in unreferenced) for trial, saved in of_trials.items())

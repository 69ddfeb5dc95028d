"""Populations whose jobs breed by themselves between matches, over a fake executor."""

import json
from contextlib import suppress

import pytest
from drives import (
    check_books,
    deaths_at_all_events,
    drive,
    query,
    stored_events,
    stored_trials,
    trial_folder,
)
from fakes import FakeExecutor
from test_population_study import origins, population_study, teaching
from tried import tried

from hpsearch.analysis.lineage import read_lineage, schedule_of
from hpsearch.cli import main
from hpsearch.cluster.study_dir import TrialDir
from hpsearch.errors import DiskError
from hpsearch.study.state import FINISHED
from hpsearch.study.view import open_view

LR = "host.optim.args.lr"
ISLANDS = {"members": 2, "generations": 2, "num_games": 16}


def island_study(folder, **changes):
    return population_study(folder, islands=ISLANDS, **changes)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    study = island_study(tmp_path_factory.mktemp("islands"))
    assert drive(study, FakeExecutor(teaching=teaching)).status == FINISHED
    return study


def exchanges(study):
    """Return what each trial took and gave, as its job wrote it."""
    return {
        number: TrialDir(trial_folder(study, number)).read_exchanges() for number in origins(study)
    }


def test_a_job_trains_an_island(study):
    born = origins(study)
    for *_, data in stored_events(study, "announced"):
        places = [born[trial["trial"]]["member"] for trial in data["trials"]]
        assert places in ([], [0, 1], [2, 3])


def test_jobs_are_told_how_members_breed(study):
    for number, origin in origins(study).items():
        island = TrialDir(trial_folder(study, number)).island.read()
        assert island is not None
        place, match = origin["member"] // 2, origin["generation"]
        assert island.name == f"study 1 island {place} after match {match}"
        assert (island.steps, island.matches.num_games) == (4, 16)
        assert LR in island.parameters


def test_what_took_a_place_goes_on_with_what_it_had(study):
    """The interval after begins with the hyperparameters that the last copy had."""
    trials, known = stored_trials(study), exchanges(study)
    told = {trial: data for _, trial, _, data in stored_events(study, "told")}
    went_on = 0
    for trial, exchange in known.items():
        assert len(told[trial]["takeovers"]) == len(exchange.takeovers)
    for trial, origin in origins(study).items():
        if not origin["parents"]:
            continue
        parent = origin["parents"][0]
        last = known[parent].takeovers[-1:] or (None,)
        ended = last[0].params[LR] if last[0] else trials[parent].params[LR]
        if not origin["is_child"]:
            assert trials[trial].params[LR] == ended
            went_on += last[0] is not None
    assert went_on


def test_sql_knows_every_checkpoint_that_was_copied(study):
    rows = query(study, "SELECT id, trial, step, sha256 FROM hpsearch_checkpoints")
    nodes = {(trial, step): (number, sha256) for number, trial, step, sha256 in rows}
    edges = dict(query(study, "SELECT checkpoint_id, sha256 FROM hpsearch_parents"))
    for trial, exchange in exchanges(study).items():
        for loan in exchange.loans:
            assert nodes[trial, loan.step][1] == loan.sha256
        if exchange.takeovers:
            end = origins(study)[trial]["steps"]
            assert edges[nodes[trial, end][0]] == exchange.takeovers[-1].sha256


def test_the_schedule_follows_the_copies(study):
    """Told from the jobs' own files: back from the end, to the source where a copy took a place."""
    view = open_view(str(study.path), study.path.parent / "runs")
    descent, known, born = read_lineage(view), exchanges(study), origins(study)
    trials = stored_trials(study)
    for number in born:
        expected, trial, step = [], number, born[number]["steps"]
        while trial is not None:
            first = born[trial]["steps"] - 8
            while step > first:
                before = [takeover for takeover in known[trial].takeovers if takeover.step < step]
                lr = before[-1].params[LR] if before else trials[trial].params[LR]
                expected.append(lr)
                step -= 4
                if before and before[-1].step == step:
                    trial, step = before[-1].source, before[-1].source_step
                    first = born[trial]["steps"] - 8
            trial = (born[trial]["parents"] or [None])[0]
        assert [values[LR] for values in schedule_of(view, descent, number)] == expected[::-1]


def test_the_lineage_tells_of_copies(study, capsys):
    runs = study.path.parent / "runs"
    assert main(["lineage", str(study.path), "--runs", str(runs), "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    parents = {trial["trial"]: trial["parents"] for trial in plain["trials"]}
    for trial, exchange in exchanges(study).items():
        if exchange.takeovers:
            assert parents[trial] == [exchange.takeovers[-1].source]


def test_the_best_configuration_is_that_of_the_end(study, capsys):
    runs = study.path.parent / "runs"
    assert main(["best", str(study.path), "--runs", str(runs), "--json"]) == 0
    best = json.loads(capsys.readouterr().out)
    took = exchanges(study)[best["trial"]].takeovers
    params = took[-1].params if took else stored_trials(study)[best["trial"]].params
    assert best["params"][LR] == params[LR]


@pytest.mark.parametrize("pilot", tried([False, True], slow=[True]))
def test_a_driver_that_dies_anywhere_breeds_the_same(tmp_path, pilot):
    executor = {"name": "local", "jobs": 2, "members_per_job": 2, "pilot": pilot}
    whole = island_study(tmp_path / "whole", executor=executor, trials=12)
    drive(whole, FakeExecutor(teaching=teaching))
    killed, fake = island_study(tmp_path / "killed", executor=executor, trials=12), None
    fake = FakeExecutor(teaching=teaching)
    with deaths_at_all_events():
        drive(killed, fake, max_lives=10_000)
    check_books(killed, fake)
    assert {n: t.params for n, t in enumerate(stored_trials(killed))} == {
        n: t.params for n, t in enumerate(stored_trials(whole))
    }
    assert exchanges(killed) == exchanges(whole)


@pytest.mark.slow
def test_what_cannot_be_read_at_the_end_is_told_once_it_can(study, tmp_path, monkeypatch):
    """By what a trial took, its next interval learns: a failing disk must not leave it out."""
    again, executor, failed = island_study(tmp_path), FakeExecutor(teaching=teaching), set()
    read = TrialDir.read_exchanges

    def read_at_second_try(self):
        has_ended = (self.root / "attempt-1" / "result.json").exists()
        if has_ended and self.root not in failed:
            failed.add(self.root)
            raise DiskError("exchanges.json cannot be read (Stale file handle)")
        return read(self)

    monkeypatch.setattr(TrialDir, "read_exchanges", read_at_second_try)
    status = None
    while status != FINISHED:
        with suppress(DiskError):
            status = drive(again, executor).status
    assert failed
    assert {n: t.params for n, t in enumerate(stored_trials(again))} == {
        n: t.params for n, t in enumerate(stored_trials(study))
    }
    check_books(again, executor)

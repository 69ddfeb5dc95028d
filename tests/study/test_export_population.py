"""hpsearch export of a population: lineage and cross-play against the database and the games."""

import json
import sys
from contextlib import closing
from shutil import rmtree

import numpy as np
import pytest
from drives import drive
from fakes import FakeExecutor
from test_population_study import population_study, teaching

from hpsearch.analysis.lineage import read_lineage
from hpsearch.cli import main
from hpsearch.study.database import Database, StudyRecords
from hpsearch.study.events import read_nodes
from hpsearch.study.url import storage_url
from hpsearch.study.view import open_view
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import read_config
from hpsearch.trainers.match import threads

GAMES = 30


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished population of four, over a fake executor; its last members have checkpoints."""
    folder = tmp_path_factory.mktemp("population")
    drive(population_study(folder, trials=12), FakeExecutor(teaching=teaching))
    view = open_view("quick", folder / "runs")
    with threads(1):
        for number in view.state.population.matches[3].members.values():
            config = view.config(view.state.trials[number])
            trainer = build_trainer([read_config(config, source="")])
            trainer.step.fill_(config["steps"])
            checkpoints = view.folder.trial(number).checkpoints
            rmtree(checkpoints)  # those of the fake hold no weights
            trainer.save(checkpoints, 0)
        yield folder / "runs"


@pytest.fixture(scope="module", autouse=True)
def without_onnx():
    """Leave out what takes most of the time, and knows nothing of populations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "onnxruntime", None)
        yield


@pytest.fixture(scope="module")
def exported(runs):
    """The champion's bundle, in the folder that is not named."""
    assert main(["export", "quick", "--runs", str(runs), "--games", str(GAMES)]) == 0
    return runs / "quick" / "best"


@pytest.mark.slow
def test_its_lineage_is_that_of_the_database(runs, exported):
    view = open_view("quick", runs)
    champion = view.state.population.archive[-1]
    with closing(Database.open(storage_url("quick", view.study.spec.storage))) as database:
        record = StudyRecords(database).get("quick")
        assert record is not None
        nodes = {node.sha256: node for node in read_nodes(database, record.id)}
    expected, node = [], next(node for node in nodes.values() if node.trial == champion)
    while node is not None:
        expected.append(node.trial)
        node = nodes[node.parents[0]] if node.parents else None
    lineage = json.loads((exported / "lineage.json").read_text())
    assert (lineage["trial"], lineage["champion"]) == (champion, True)
    assert [trial["trial"] for trial in lineage["line"]] == expected[::-1]
    assert len(expected) > 1
    assert lineage["origin"]["member"] == view.state.trials[champion].origin.member


@pytest.mark.slow
def test_its_row_is_that_of_the_last_match(runs, exported):
    view = open_view("quick", runs)
    match = view.state.population.matches[3]
    row = json.loads((exported / "evaluation.json").read_text())["crossplay"]
    plan, games = view.folder.match(3).plan.required(), view.folder.match(3).read_games()
    assert row["match"] == 3
    assert row["strength"] == match.strengths[match.champion] == max(match.strengths.values())
    assert row["interval"] == match.intervals[match.champion]
    roles = {"host": (plan.hosts, plan.agents), "agent": (plan.agents, plan.hosts)}
    num_opponents = 0
    for role, (mine, theirs) in roles.items():
        names = [player.name for player in mine]
        if str(match.champion) not in names:
            assert role not in row
            continue
        moves = games.moves[1] if role == "host" else np.swapaxes(games.moves[1], 0, 1)
        expected = {
            their.name: 1.0 / one_moves.mean()
            for their, one_moves in zip(
                theirs, moves[names.index(str(match.champion))], strict=True
            )
        }
        assert {name: rho["value"] for name, rho in row[role].items()} == pytest.approx(expected)
        assert all(rho["low"] <= rho["value"] <= rho["high"] for rho in row[role].values())
        num_opponents += len(expected)
    assert num_opponents > 0


@pytest.mark.slow
def test_it_is_measured_again(exported, capsys):
    capsys.readouterr()
    assert main(["evaluate", str(exported), "--json"]) == 0
    (plain,) = json.loads(capsys.readouterr().out)
    assert plain["reproduced"]
    assert plain["rows"][0]["metrics"]["rho/host/choose_first"]["games"] == GAMES


@pytest.mark.slow
def test_the_strongest_of_the_last_match_lie_side_by_side(runs, tmp_path):
    arguments = [
        "export",
        "quick",
        "--runs",
        str(runs),
        "--games",
        "5",
        "-o",
        str(tmp_path / "top"),
    ]
    assert main([*arguments, "--top", "2"]) == 0
    strengths = open_view("quick", runs).state.population.matches[3].strengths
    first, second = sorted(strengths, key=lambda trial: -strengths[trial])[:2]
    listed = json.loads((tmp_path / "top/bundles.json").read_text())["bundles"]
    assert [bundle["folder"] for bundle in listed] == [f"1-trial-{first}", f"2-trial-{second}"]


@pytest.mark.slow
def test_what_a_running_study_has_added_since_is_left_out(runs):
    """The graph of descent is read after the state: it may know trials that the state does not."""
    view = open_view("quick", runs)
    newest = max(view.state.trials)
    assert newest in read_lineage(view).relatives
    del view.state.trials[newest]
    assert newest not in read_lineage(view).relatives

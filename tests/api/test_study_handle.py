"""A study from Python: made, run, looked at, exported; beside what the command line says."""

import json
import re
import sys
from contextlib import chdir
from threading import Thread

import numpy as np
import pytest
from cli_tools import METRIC, STUDY, TRAINER, hpsearch, read, with_changes, write_study

import hpsearch as package
from hpsearch import yaml_file
from hpsearch.errors import ConfigError, HpsearchError, UsageError
from hpsearch.study.spec import load_spec


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which a study of three trials was made and run, and what its best are."""
    folder = tmp_path_factory.mktemp("api")
    with chdir(folder):
        spec = with_changes(STUDY, {"budget/trials": 3})
        study = package.create_study(spec, "tiny.yaml", base=TRAINER)
        assert study.validate().trials == 3
        study.run()
        (folder / "said.txt").write_text(json.dumps(study.best().params))
    return folder


@pytest.fixture
def study(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return package.open_study("tiny")


@pytest.mark.slow
def test_a_study_run_from_python_is_that_of_the_command_line(folder, study):
    best = read(folder, "best", "tiny")
    assert json.loads((folder / "said.txt").read_text()) == best["params"]
    assert vars(study.best()) == best
    assert [vars(trial) for trial in study.trials()] == read(folder, "trials", "tiny")
    status = read(folder, "status", "tiny")
    assert study.status()["trials"] == status["trials"]
    assert study.wait(0.0) == "finished"
    assert [listed.study for listed in package.list_studies()] == ["tiny"]
    assert repr(package.open_study("tiny.yaml")) == "StudyHandle('tiny.yaml', runs='runs')"
    assert study.player().name.startswith(f"tiny/{best['trial']} at step ")
    measured = study.player().evaluate(games=60)
    printed = read(folder, "evaluate", "tiny", "--games", "60", "--match-steps", "0")
    assert {**measured, "sample_games": []} == printed


@pytest.mark.slow
def test_a_frame_has_a_row_a_trial(folder, study):
    frame, records = study.frame(), study.trials()
    assert frame[METRIC].tolist() == [record.value for record in records]
    assert frame["host.gamma"].tolist() == [record.params["host.gamma"] for record in records]
    assert frame.index.tolist() == [0, 1, 2]
    header = hpsearch(folder, "trials", "tiny", "--csv").stdout.splitlines()[0]
    assert header == ",".join(["number", *frame.columns])


@pytest.mark.slow
def test_figures_and_status_show_themselves(study):
    history = study.plot_history()
    finished = history.data[0]
    assert list(finished.y) == [record.value for record in study.trials()]
    assert len(study.plot_learning().data) >= 3
    html = study._repr_html_()
    assert "tiny: finished" in html
    check = study.validate()._repr_html_()
    assert "tiny: 3 trials of infinitely many configurations" in check
    assert "cost: 3 trials of" in check
    assert "<pre" in html


@pytest.mark.slow
def test_its_players_are_those_of_the_bundle(study, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # players are of the weights alone
    points = [(3, 0, 0), (0, 2, 1), (1, 0, 4)]
    (bundle,) = study.export(tmp_path / "best", games=60)
    players = [study.player(), package.load_player(bundle), package.load_player("tiny")]
    players.append(package.load_player("tiny.yaml"))
    assert len({player.choose_coordinates(points) for player in players}) == 1
    with pytest.raises(UsageError, match="no trial 99"):
        study.player(99)
    both = package.cross_play([study, package.load_player(bundle)], top=1, games=20).frame()
    (best,) = [host for host in both.index if host.startswith("tiny/")]
    assert both.loc["best"].tolist() == both.loc[best].tolist(), "they are the same network"
    scripted = package.load_player("zeillinger")
    played = package.cross_play([study, scripted], top=1, games=20)
    assert "zeillinger" in played._repr_html_()
    hosts = package.cross_play("tiny", top=1, games=20).frame().index
    assert any(host.startswith("tiny/") for host in hosts)
    assert played.frame().shape == played.standings.rho.shape
    assert played.to_dict()["games"] == 20


@pytest.mark.slow
def test_requests_and_their_refusals_are_those_of_the_commands(study, capsys):
    with pytest.raises(UsageError, match="there is nothing to pause"):
        study.pause()
    with pytest.raises(UsageError, match="unknown kind of failure 'oom'"):
        study.retry(kinds=["oom"])
    with pytest.raises(UsageError, match="no failed trial of tiny is left"):
        study.retry()
    with pytest.raises(UsageError, match="is no population"):
        study.lineage()
    with pytest.raises(UsageError, match="has begun all 3 trials of its budget"):
        study.enqueue({"host.gamma": 0.9})
    with pytest.raises(UsageError, match="did you mean 'host\\.gamma'"):
        study.enqueue({"host.gama": 0.9})
    with pytest.raises(UsageError, match="top must be a whole number of at least 1, got 0"):
        study.confirm(top=0)
    with pytest.raises(UsageError, match="exclude each other"):
        study.export(trial=1, pareto=True)
    with pytest.raises(UsageError, match="unknown kind of failure 'oom'"):
        study.retry(kinds="oom")
    with pytest.raises(UsageError, match="values are a dict by dotted path, but are 'a'"):
        study.enqueue("a")
    for verb in ("nosuch", "retry", None, b"x", []):
        with pytest.raises(
            UsageError, match=r"unknown request .*; valid: cancel, pause, resume, s"
        ):
            study.request(verb)
    with pytest.raises(UsageError, match="name at least one study"):
        package.breed([])
    for trials in ("9", [0, "9"], 0.5, True, b"9", np.array(0.5)):
        with pytest.raises(UsageError, match="trials must be the number of a trial, or a list of"):
            study.retry(trials=trials)
    with pytest.raises(UsageError, match="tiny has no trial 9"):
        study.retry(trials=np.int64(9))
    with pytest.raises(UsageError, match=r"kinds must be a kind of failure, .* but is 5"):
        study.retry(kinds=5)
    with pytest.raises(UsageError, match=r"studies must be a study, .* but is 5"):
        package.breed(5)
    with pytest.raises(UsageError, match=r"unknown player 'tinny' \(did you mean 'tiny'\?\)"):
        package.load_player("tinny")
    with pytest.raises(ConfigError, match=r"train it with: hpsearch train tiny_trainer\.yaml"):
        package.load_player("tiny_trainer.yaml")
    with pytest.raises(UsageError, match="tiny has begun 3 trials, so a total of 2 is too low"):
        study.run(trials=np.int64(2))
    with pytest.raises(UsageError, match="has begun all 3 trials of its budget"):
        study.enqueue({"host.gamma": np.float32(0.9)})
    with pytest.raises(UsageError, match="but this is ''"):
        package.breed("tiny", name="")
    assert package.cross_play("tiny", games=np.int64(4), seed=np.int64(1)).to_dict()["games"] == 4
    with pytest.raises(UsageError, match="members must be a whole number of at least 1, got 0"):
        package.breed("tiny", members=0)
    caught = []
    thread = Thread(target=lambda: caught.append(refused_run(study)))
    thread.start()
    thread.join()
    assert "leave the study to a driver by submit" in caught[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda study: package.open_study("tiny", runs=3),
            "runs must be a text or a path, but is 3",
        ),
        (lambda study: package.list_studies(None), "runs must be a text or a path, but is None"),
        (lambda study: package.create_study({}, 3), "path must be a text or a path, but is 3"),
        (lambda study: package.breed("tiny", name=2.5), "name must be a text or None, but is 2.5"),
        (lambda study: package.load_player("tiny", seed="x"), "seed must be a whole number, but"),
        (lambda study: package.cross_play([]), "name at least one player, such as zeillinger"),
        (lambda study: package.cross_play(3), "players must be a study, a player, or the name"),
        (lambda study: package.cross_play("tiny", games=2.5), "games must be a whole number, but"),
        (lambda study: package.cross_play("tiny", panel="x"), "panel must be True or False, but"),
        (lambda study: package.cross_play("tiny", device="x"), "device must be one that torch k"),
        (lambda study: study.player(True), "trial must be a whole number or None, but is True"),
        (lambda study: study.player().play("random", []), "agent must be a player, as load_player"),
        (lambda study: study.wait("x"), "seconds must be a number or None, but is 'x'"),
        (lambda study: study.export(3), "folder must be a text or a path or None, but is 3"),
        (lambda study: study.export(pareto="x"), "pareto must be True or False, but is 'x'"),
        (
            lambda study: package.create_study(
                with_changes(STUDY, {"seed": object}), "other.yaml", base=TRAINER
            ),
            "a file cannot hold <class 'object'>; give plain data",
        ),
    ],
)
def test_arguments_of_wrong_types_are_refused(study, call, sentence):
    with pytest.raises(UsageError, match=re.escape(sentence)):
        call(study)


def refused_run(study) -> str:
    with pytest.raises(UsageError) as raised:
        study.run()
    return str(raised.value)


def test_a_study_is_made_of_a_dict_with_its_configuration(tmp_path):
    spec = {**STUDY, "name": "made", "seed": np.int64(3)}
    made = package.create_study(spec, tmp_path / "made.yaml", base=TRAINER)
    assert made.name == "made"
    assert yaml_file.load(tmp_path / "made_trainer.yaml") == TRAINER
    assert made.validate().configurations is None
    spec_again = load_spec(tmp_path / "made.yaml").spec
    again = package.create_study(spec_again, tmp_path / "again.yaml")
    assert yaml_file.load(tmp_path / "again.yaml")["base"] == "made_trainer.yaml"
    assert again.name == "made"
    with pytest.raises(UsageError, match="exists and is not overwritten"):
        package.create_study(spec, tmp_path / "made.yaml")
    with pytest.raises(UsageError, match=r"a study is a \.yaml file"):
        package.create_study(spec, tmp_path / "made.json")


def test_a_study_with_faults_is_not_made(tmp_path):
    spec = with_changes(STUDY, {"seed": -1, "budget/trials": 0})
    with pytest.raises(ConfigError) as raised:
        package.create_study(spec, tmp_path / "made.yaml", base=TRAINER)
    assert len(raised.value.problems) == 2
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_study_is_refused_at_once(tmp_path):
    with pytest.raises(UsageError, match="no study 'nothing'"):
        package.open_study("nothing", tmp_path)
    with pytest.raises(ConfigError):
        package.open_study(tmp_path / "nothing.yaml", tmp_path)


def test_a_study_that_has_not_begun_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    handle = package.open_study(write_study(tmp_path))
    assert "has not been started" in handle._repr_html_()
    with pytest.raises(HpsearchError, match="has not been started"):
        handle.best()

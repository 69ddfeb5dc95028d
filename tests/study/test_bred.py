"""hpsearch breed over a fake executor: who founds, what is searched, and what is refused."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from drives import SPACE, deaths_at_all_events, drive, new_study, opened, query
from fakes import FakeExecutor
from study_files import BASE
from test_population_study import population_study, teaching

from hpsearch import yaml_file
from hpsearch.analysis import players as report
from hpsearch.analysis.players import StrongCheckpoint
from hpsearch.api import driving
from hpsearch.cli import main
from hpsearch.cluster.study_dir import StudyDir, pinned
from hpsearch.commands import ending
from hpsearch.parameters import CategoricalParameter, FloatParameter, IntParameter
from hpsearch.schema import apply
from hpsearch.study.breeding.checks import explorable_of
from hpsearch.study.derived import HELD_OUT, common_space
from hpsearch.study.space import SearchSpace
from hpsearch.study.spec import load_spec
from hpsearch.study.view import open_view
from hpsearch.trainers.checkpoint_name import name_of

LR, GAMMA = "host.optim.args.lr", "host.gamma"


class Place:
    """A folder with finished studies, in which commands run over fake jobs."""

    def __init__(self, folder, monkeypatch, capsys):
        self.folder, self.runs = folder, folder / "runs"
        self._patch, self._capsys = monkeypatch, capsys
        monkeypatch.setattr(driving, "poll_seconds", lambda study: 0.0)
        monkeypatch.setattr(report, "strongest_checkpoints", self._strongest)
        exported = "hpsearch.api.exporting.export_bundle"
        monkeypatch.setattr(exported, lambda *_: {"rows": []})
        monkeypatch.setattr(ending, "print_bundle", lambda *_: None)
        self.jobs()

    def jobs(self, **how):
        made = FakeExecutor(teaching=teaching, **how)
        self._patch.setattr(driving, "build_executor", lambda study, folder: made)

    def search(self, name, trainer=None, **changes):
        """Return a finished search; studies of one folder share its database."""
        storage = {"storage": f"sqlite:///{self.folder}/study.db"}
        given = {"name": name, "budget": {"trials": 6}, "sampler": {"name": "random"}}
        study = new_study(self.folder / name, trainer, **(given | storage | changes))
        # Below the folder of all, where the command looks for them.
        moved = self.folder / f"{name}.yaml"
        data = yaml_file.load(study.path)
        moved.write_text(yaml_file.dump(data | {"base": f"{name}/base.yaml"}))
        study = load_spec(moved)
        drive(study, FakeExecutor())
        return study

    def _strongest(self, view, count):
        """The fakes write no whole checkpoints."""
        ranked = sorted(view.state.told("finished"), key=lambda trial: -trial.value)
        return [self._found(view, trial) for trial in ranked[:count]]

    def _found(self, view, trial):
        steps = view.config(trial)["steps"]
        path = view.folder.trial(trial.number).checkpoints / name_of(steps)
        return StrongCheckpoint(trial.number, path, ("host",))

    def run(self, *arguments, code=0):
        done = main([*map(str, arguments), "--runs", str(self.runs)])
        output = self._capsys.readouterr()
        assert done == code, output.err
        return output

    def spec(self, name):
        return yaml_file.load(self.runs / name / "study.yaml")


@pytest.fixture
def place(tmp_path, monkeypatch, capsys):
    return Place(tmp_path, monkeypatch, capsys)


def founded_by(place, name):
    """Return (study, trial) of each founder."""
    paths = place.spec(name)["population"]["founders"]
    return [(path.split("/")[-5], int(path.split("/")[-3])) for path in paths]


def best(place, name, count):
    trials = open_view(name, place.runs).state.told("finished")
    return [trial.number for trial in sorted(trials, key=lambda trial: -trial.value)][:count]


def test_grids_are_joined_where_all_values_lie_on_one():
    """Else a founder may have learned by a value that the joined grid does not have."""
    base = apply(yaml_file.load(BASE), {})
    ranges = ((0.5, 0.8), (0.55, 0.75), (0.7, 0.9))
    low, between, high = (FloatParameter(*ends, step=0.1) for ends in ranges)
    assert common_space([{GAMMA: low}, {GAMMA: between}], [base, base]) == {}
    assert common_space([{GAMMA: low}, {GAMMA: high}], [base, base]) == {
        GAMMA: FloatParameter(0.5, 0.9, step=0.1)
    }


@pytest.mark.slow
def test_founders_are_the_best_of_each_in_even_shares(place):
    place.search("one")
    place.search("two")
    place.run("breed", "one", "--members", 5, "two", "--trials", 10)
    ones, twos = best(place, "one", 3), best(place, "two", 2)
    wanted = [("one", ones[0]), ("two", twos[0]), ("one", ones[1]), ("two", twos[1])]
    assert founded_by(place, "one-bred") == [*wanted, ("one", ones[2])]
    spec = place.spec("one-bred")
    assert (spec["population"]["interval"], spec["seed"]) == (4, 1 + HELD_OUT // 2)
    names = [operator["name"] for operator in spec["population"]["operators"]]
    assert names == ["clone", "gaussian_mutation", "safe_mutation"]  # all of one shape
    view = open_view("one-bred", place.runs)
    assert view.state.status == "finished"
    assert view.state.num_asked == 10
    closing = spec["population"]["closing"]["operators"]
    names = [operator["name"] for operator in closing]
    assert names == ["layer_crossover", "aligned_average", "distillation"]
    assert closing[-1]["learning"]["compare"] == "mean"
    assert view.state.num_untrained > 0
    for number, founder in enumerate(wanted):
        parent = view.config(view.state.trials[number])
        source = open_view(founder[0], place.runs)
        config = source.config(source.state.trials[founder[1]])
        assert parent == config | {"seed": parent["seed"], "steps": 20}


@pytest.mark.slow
def test_eight_members_of_six_generations_are_usual(place):
    place.search("one")
    place.run("breed", "one")
    spec = place.spec("one-bred")
    assert (spec["population"]["members"], spec["budget"]["trials"]) == (8, 48)
    assert len(founded_by(place, "one-bred")) == 6  # which begin in turn
    view = open_view("one-bred", place.runs)
    assert len(query(view.study, "SELECT * FROM trials")) == 6 + 48 + view.state.num_untrained


@pytest.mark.slow
def test_shapes_are_joined_by_distillation(place):
    place.search("one")
    place.search("two", {"host.net_arch": [32]})
    place.run("breed", "one", "two", "--members", 4, "--trials", 12, "--name", "both")
    assert place.spec("both")["population"]["operators"][-1]["name"] == "distillation"
    view = open_view("both", place.runs)
    shapes = {number: view.config(trial)["host"]["net_arch"]
              for number, trial in view.state.trials.items()}  # fmt: skip
    for number, trial in view.state.trials.items():
        if trial.origin.parents:
            assert shapes[number] == shapes[trial.origin.parents[0]]
    assert {str(shape) for shape in shapes.values()} == {"[32]", str(shapes[0])}


@pytest.mark.slow
def test_the_same_command_goes_on_and_no_other(place):
    place.search("one")
    place.search("two")
    seen = []

    def interrupt(config, step):
        seen.append(step)
        if len(seen) == 6:
            os.kill(os.getpid(), signal.SIGINT)
        return 0.1

    place.jobs(curve=interrupt)
    command = ("breed", "one", "two", "--members", 4, "--trials", 8)
    output = place.run(*command, code=130)
    assert f"go on with: hpsearch breed one two --name one-bred --runs {place.runs}" in output.err
    place.jobs()
    place.run("breed", "one", "two")
    assert open_view("one-bred", place.runs).state.num_asked == 8
    output = place.run("breed", "one", "two", "--members", 5, code=4)
    assert "one-bred has members 4; go on with it by: hpsearch run one-bred" in output.err
    for others in (["two"], ["one", "two", "three"]):
        if others[-1] == "three":
            place.search("three")
        output = place.run("breed", *others, "--name", "one-bred", code=4)
        assert "one-bred breeds the best of other studies; go on with it by" in output.err


@pytest.mark.slow
def test_a_driver_that_dies_anywhere_breeds_the_same(place):
    place.search("one")
    place.search("two", {"host.net_arch": [32]})
    populations = []
    for name in ("whole", "broken"):
        place.jobs(curve=lambda config, step: os.kill(os.getpid(), signal.SIGINT) or 0.1)
        command = ("breed", "one", "two", "--members", 3, "--trials", 6, "--name", name)
        place.run(*command, code=130)
        file = place.runs / name / "study.yaml"
        moved = place.folder / f"{name}.yaml"
        base = place.runs / name / "base-dqn.yaml"
        data = yaml_file.load(file) | {"base": str(base), "name": f"{name}-again"}
        moved.write_text(yaml_file.dump(data))
        if name == "whole":
            drive(load_spec(moved), FakeExecutor(teaching=teaching))
        else:
            with deaths_at_all_events():
                drive(load_spec(moved), FakeExecutor(teaching=teaching), max_lives=500)
        trials = open_view(f"{name}-again", place.runs).state.trials.values()
        populations.append([(trial.params, trial.origin) for trial in trials])
    assert populations[0] == populations[1]


@pytest.mark.slow
def test_gc_keeps_founders_for_as_long_as_their_heirs_are_there(place):
    study = population_study(place.folder, trials=12)
    drive(study, FakeExecutor(teaching=teaching))
    free = json.loads(place.run("gc", "quick", "--dry-run", "--json").out)
    assert free["pinned"] == {}
    place.run("breed", "quick", "--members", 12, "--trials", 12, "--name", "heirs")
    folder = StudyDir(place.runs / "quick")
    held = pinned(StudyDir(folder.root.absolute()))["heirs"]
    assert sorted(held) == sorted(
        max(trial.glob("checkpoints/step-*")) for trial in folder.trials.absolute().iterdir()
    )
    kept = json.loads(place.run("gc", "quick", "--dry-run", "--json").out)
    assert kept["pinned"] == {"heirs": 12}
    assert 0 < free["kinds"]["checkpoints"]["count"] - kept["kinds"]["checkpoints"]["count"] <= 12
    assert "kept for heirs, which needs them: 12 checkpoints" in place.run("gc", "quick").out
    assert all((path / "state.json").exists() for path in held)
    (place.runs / "heirs").rename(place.runs / "gone")
    assert json.loads(place.run("gc", "quick", "--dry-run", "--json").out)["pinned"] == {}


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "tick"])
def test_gc_keeps_the_founders_of_any_population(place, command):
    place.search("one")
    place.search("two")
    place.run("breed", "one", "two", "--members", 2, "--trials", 2, "--name", "bred")
    founders = [Path(founder) for founder in place.spec("bred")["population"]["founders"]]
    lone = place.folder / "lone" / founders[0].name  # of no study
    shutil.copytree(founders[0], lone)
    (place.folder / "link").symlink_to(place.runs)
    named = [f"link/{founders[0].relative_to(place.runs)}", str(founders[1]), str(lone)]
    data = place.spec("bred") | {"name": "mine", "base": str(place.runs / "bred" / "base-dqn.yaml")}
    data["population"] = data["population"] | {"founders": named, "members": 3}
    file = place.folder / "mine.yaml"
    file.write_text(yaml_file.dump(data | {"budget": {"trials": 3}}))
    place.run(command, file)
    for name, founder in zip(("one", "two"), founders, strict=True):
        kept = pinned(StudyDir(place.runs / name))
        assert kept["mine"] == {founder}
    pins = place.runs / "one" / "pins"
    for path in pins.iterdir():
        path.unlink()
    pins.rmdir()
    pins.write_text("no folder")
    file.write_text(yaml_file.dump(data | {"budget": {"trials": 6}}))
    output = place.run(command, file)
    assert "gc of that study may remove the founders of mine" in output.err


@pytest.mark.slow
def test_lineage_names_the_founders(place):
    place.search("one")
    place.run("breed", "one", "--members", 2, "--trials", 4)
    first = best(place, "one", 1)[0]
    assert f"clone of one/{first}" in place.run("lineage", "one-bred", "--all").out
    plain = json.loads(place.run("lineage", "one-bred", "--json").out)
    roots = [trial["founder"] for trial in plain["trials"] if not trial["parents"]]
    assert [(root["study"], root["trial"]) for root in roots] == founded_by(place, "one-bred")


@pytest.mark.slow
def test_wrong_requests_are_refused(place):
    place.search("one")
    place.search("wide", {"dimension": 4})
    place.search("alone", space={"host.batch_size": {"type": "int", "low": 16, "high": 32}})
    output = place.run("breed", "one", "wide", code=4)
    assert "plays another game than the first founder: dimension is 4" in output.err
    assert "one, alone have no hyperparameter in common" in place.run(
        "breed", "one", "alone", code=2
    ).err  # fmt: skip
    assert "must be at least 2" in place.run("breed", "one", "--members", 1, code=2).err
    assert "must be a multiple of 4" in place.run("breed", "one", "--interval", 6, code=2).err
    assert "a name must begin" in place.run("breed", "one", "--name", "a/b", code=2).err
    assert "no study 'missing'" in place.run("breed", "one", "missing", code=2).err
    few = place.run("breed", "one", "--members", 4, "--trials", 2, code=2)
    assert "trials must be at least members, 4, an interval of each, but is 2" in few.err
    assert not (place.runs / "one-bred").exists()
    place.run("breed", "one", "--interval", 6, "--name", "second", code=2)
    assert place.run("breed", "one", "--trials", 8, "--members", 2, "--name", "second")
    other = place.run("breed", "one", "--name", "wide", code=4)
    assert "no bred study; give another name" in other.err


def test_a_study_that_goes_on_is_not_bred_yet(place):
    study = new_study(place.folder, budget={"trials": 9}, sampler={"name": "random"})
    with opened(study, FakeExecutor()) as driver:
        driver.tick()
    output = place.run("breed", "quick", code=4)
    assert "so its best may be others yet; look at it with: hpsearch status quick" in output.err


def test_what_spaces_have_in_common():
    lr = FloatParameter(1e-4, 1e-2, log=True)
    wide = FloatParameter(1e-5, 1e-3, log=True)
    steps = IntParameter(1, 9)
    first = {LR: lr, GAMMA: FloatParameter(0.5, 0.9), "host.tau": steps}
    second = {LR: wide, GAMMA: FloatParameter(0.5, 0.9, log=True), "host.tau": lr}
    base = apply(yaml_file.load(BASE), {})
    common = common_space([first, second], [base, base])
    assert common == {LR: FloatParameter(1e-5, 1e-2, log=True)}
    args = base["host"]["optim"]["args"]
    choices = CategoricalParameter((args | {"lr": 1.0},))
    kept = common_space([{"host.optim.args": choices}], [base])
    assert kept["host.optim.args"].choices == (args | {"lr": 1.0}, args)
    when = FloatParameter(0.5, 0.9, when={"host.net_arch": [8]})
    shape = CategoricalParameter(([8], [16]))
    assert common_space([{GAMMA: when, "host.net_arch": shape, "steps": steps}], [base]) == {
        GAMMA: FloatParameter(0.5, 0.9)
    }
    assert set(explorable_of(base, SearchSpace(kept))) == {"host.optim.args"}
    assert SPACE.keys() == {LR, GAMMA}

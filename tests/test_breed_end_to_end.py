"""hpsearch breed with real jobs: two searches of different shapes and algorithms, joined."""

import copy
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_tools import (
    PATIENCE_SECONDS,
    STUDY,
    hpsearch,
    jobs_of,
    kill_jobs,
    no_jobs_left,
    read,
    refused,
    write_study,
    write_trainer,
)
from tiny_configs import CONFIGS

from hpsearch import yaml_file
from hpsearch.api.deriving import begin_bred
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.study.derived import BredSizes
from hpsearch.study.view import open_view

GAMMA = {"host.gamma": {"type": "float", "low": 0.8, "high": 0.97}}
BREED = ("breed", "small", "other", "--interval", "20")
pytestmark = pytest.mark.slow


def search(folder, name, space, base="trainer.yaml"):
    """Run a search of two trials; what is bred of it has the same jobs, one for each shape."""
    executor = STUDY["executor"] | {"members_per_job": 2, "pilot": True}
    given = {"name": name, "space": GAMMA | space, "budget": {"trials": 2}, "executor": executor}
    write_study(folder, given | {"sampler": {"name": "random"}, "base": base})
    hpsearch(folder, "run", "study.yaml", "--no-export")


def ppo(trainer):
    """Return a configuration of PPO of the same game, with a larger network."""
    shared = {key: copy.deepcopy(trainer[key]) for key in trainer if key in CONFIGS["ppo"]}
    role = {key: trainer["host"][key] for key in CONFIGS["ppo"]["host"] if key in trainer["host"]}
    host = CONFIGS["ppo"]["host"] | role | {"net_arch": [12]}
    return (
        CONFIGS["ppo"] | shared | {"algorithm": "ppo", "host": host, "ppo": CONFIGS["ppo"]["ppo"]}
    )


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A folder with two searches that have finished."""
    folder = tmp_path_factory.mktemp("searched")
    trainer = yaml_file.load(write_trainer(folder))
    search(folder, "small", {"host.optim.args.lr": {"type": "float", "low": 1e-4, "high": 1e-2}})
    (folder / "other.yaml").write_text(yaml_file.dump(ppo(trainer)))
    search(folder, "other", {}, "other.yaml")
    yield folder
    kill_jobs(folder)


def test_shapes_and_algorithms_are_bred_together(searched, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # its policies take seconds to write
    breed = (*BREED, "--members", "2", "--trials", "4")
    command = [sys.executable, "-m", "hpsearch.cli", *breed]
    process = subprocess.Popen(
        command, cwd=searched, start_new_session=True, stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not jobs_of(searched):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kill_jobs(searched)
    done = hpsearch(searched, *breed)
    assert "small-bred" in done.stdout
    assert (searched / "runs/small-bred/best/config.yaml").exists()
    spec = yaml_file.load(searched / "runs/small-bred/study.yaml")
    assert list(spec["space"]) == ["host.gamma"]
    operators = [operator["name"] for operator in spec["population"]["operators"]]
    assert operators == ["clone", "gaussian_mutation", "safe_mutation", "distillation"]
    assert read(searched, "status", "small-bred")["state"] == "finished"
    bred = read(searched, "lineage", "small-bred")
    roots = [trial["founder"] for trial in bred["trials"] if trial["founder"] is not None]
    assert sorted(root["study"] for root in roots) == ["other", "small"]
    done = hpsearch(searched, "lineage", "small-bred", "--all")
    assert "clone of small/" in done.stdout
    assert "clone of other/" in done.stdout
    assert no_jobs_left(searched)


def test_a_member_learns_from_another_shape_and_algorithm(searched, monkeypatch):
    """All children come of distillation, and the parent of each is of the other search."""
    monkeypatch.chdir(searched)
    runs, sizes = Path("runs"), BredSizes(members=4, interval=20, trials=8, seed=5)
    views = [open_view(name, runs) for name in ("small", "other")]
    joined = begin_bred(views, "joined", runs, sizes)
    data = yaml_file.load(joined.path)
    operators = [
        operator
        for operator in data["population"]["operators"]
        if operator["name"] == "distillation"
    ]
    operators[0]["learning"]["num_steps"] = 5
    tournament = {"name": "tournament", "size": 1, "elites": 0, "confidence": 0.5}
    changes = {"operators": operators, "selection": tournament, "adoption": None, "closing": None}
    data |= {"name": "distilled", "population": data["population"] | changes}
    (searched / "runs/joined/distilled.yaml").write_text(yaml_file.dump(data))
    hpsearch(searched, "run", "runs/joined/distilled.yaml", "--no-export")
    folder = StudyDir(searched / "runs/distilled")
    crossed = 0
    for number in range(4, 8):
        lineage = folder.trial(number).lineage.required()
        algorithms = [
            yaml_file.load(folder.trial(parent.trial).config)["algorithm"]
            for parent in lineage.parents
        ]
        own = yaml_file.load(folder.trial(number).config)["algorithm"]
        birth = json.loads((folder.trial(number).root / "birth.json").read_text())
        assert (birth["operator"], own) == ("distillation", algorithms[0])
        crossed += len(set(algorithms)) == 2
    assert crossed


def test_wrong_requests_are_refused(searched):
    assert "no study 'missing'" in refused(searched, "breed", "small", "missing", code=2)
    assert "small is named twice" in refused(searched, "breed", "small", "small", code=2)
    message = refused(searched, "breed", "small", "--name", "other", code=4)
    assert "belongs to a study that is no bred study; give another name" in message
    message = refused(searched, "breed", "small", "other", "--members", "1", "--name", "x", code=2)
    assert "members must be at least 2" in message
    message = refused(searched, "breed", "small", "--interval", "7", "--name", "x", code=2)
    assert "interval must be a multiple of 20" in message
    assert not (searched / "runs/x").exists()

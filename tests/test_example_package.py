"""The example package, built and installed beside hpsearch's own wheel, as its users do."""

import csv
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from announced import on_path, write_package

from hpsearch.testing.algorithms import PROMISES
from hpsearch.testing.game_parts import check_reward
from hpsearch.testing.studies import check_tracker

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "docs/example"
PACKAGE = "hpsearch_example"
PROJECT = (EXAMPLE / "pyproject.toml").read_text()
POINTS = {
    group.removeprefix("hpsearch."): points
    for group, points in tomllib.loads(PROJECT)["project"]["entry-points"].items()
}
GUIDE = (ROOT / "docs/guides/extending.md").read_text()
ANNOUNCED, OPTIONS, TESTED = re.findall(r"```(?:toml|python)\n(.*?)```", GUIDE, re.DOTALL)
"""blocks of the guide: an entry point, options and a test"""


@pytest.fixture
def example(tmp_path: Path):
    write_package(tmp_path / "note", POINTS, {})
    with on_path(tmp_path / "note", EXAMPLE):
        yield
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.mark.usefixtures("example")
@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_the_test_of_the_guide_passes(promise, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(EXAMPLE)
    names: dict[str, Any] = {}
    exec(TESTED, names)
    names["test_reinforce"](promise, tmp_path)


def test_the_guide_shows_what_the_package_says() -> None:
    assert ANNOUNCED in PROJECT
    imports, options = OPTIONS.split("\n\n\n")
    source = (EXAMPLE / PACKAGE / "csv_tracker.py").read_text()
    assert options in source
    assert {*imports.splitlines()} - {*source.splitlines()} == set()


def test_the_guide_says_where_classes_are_and_which_methods_to_write() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `([\w.]+)` \| (`.*`) \|$", GUIDE, re.MULTILINE)
    assert {name for name, _, _ in rows} == set(re.findall(r"\w+Extension\b", GUIDE))
    for name, module, methods in rows:
        cls = vars(import_module(module))[name]
        written = set()
        for method in cls.__abstractmethods__:
            _, *arguments = inspect.signature(getattr(cls, method)).parameters
            written.add(f"`{method}({', '.join(arguments)})`")
        assert set(re.findall(r"`[^`]+`", methods)) == written
    for name, module in re.findall(r"`(\w+)`(?: is)? in\s`(hpsearch[\w.]+)`", GUIDE):
        assert name in vars(import_module(module))


@pytest.mark.usefixtures("example")
def test_returns_are_sums_of_what_a_game_still_earns() -> None:
    import torch
    from hpsearch_example.trainer import returns

    from hpsearch.trainers.rollouts import Transitions

    nothing = torch.zeros(1, 4, 2)
    reward = torch.tensor([[[1.0, 2.0], [4.0, 8.0], [16.0, 32.0], [64.0, 128.0]]])
    done = torch.tensor([[[False, False], [True, False], [False, False], [False, False]]])
    fields = dict.fromkeys(Transitions._fields, nothing) | {
        "reward": reward,
        "done": done,
        "truncated": torch.zeros_like(done),
    }
    earned = returns(Transitions(**fields), torch.tensor([0.5]))
    assert earned[0, :, 0].tolist() == [3.0, 4.0, 48.0, 64.0]
    assert earned[0, :, 1].tolist() == [2 + 4 + 8 + 16, 8 + 16 + 32, 32 + 64, 128]


@pytest.mark.usefixtures("example")
def test_reward_and_tracker_keep_their_promises(tmp_path: Path) -> None:
    from hpsearch_example.csv_tracker import CsvTracker
    from hpsearch_example.reward import short_games

    check_reward(short_games)
    check_tracker(lambda: CsvTracker("csv").open("study", tmp_path / "files"))


def run(folder: Path, *command: str | Path, code: int = 0) -> str:
    """Run a command that knows nothing of this process's paths; return what it printed."""
    environment = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout + done.stderr


PIP = ("-m", "pip", "--disable-pip-version-check")


def wheel(source: Path, folder: Path, files: Sequence[str]) -> Path:
    """Build a wheel of a copy of some files, so that none is built into this checkout."""
    copy = folder / "source" / source.name
    for name in files:
        path = source / name
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, copy / name)
    offline = ("--no-deps", "--no-index", "--no-build-isolation", "--quiet")
    run(folder, sys.executable, *PIP, "wheel", *offline, "-w", folder / source.name, copy)
    (built,) = (folder / source.name).glob("*.whl")
    return built


HPSEARCH = ("pyproject.toml", "README.md", "LICENSE", "hpsearch", "studies", "slurm", "reports")


@pytest.mark.slow
def test_a_study_of_the_installed_package(tmp_path: Path) -> None:
    """In an environment of its own, which borrows the other libraries of this one."""
    wheels = [
        wheel(ROOT, tmp_path, HPSEARCH),
        wheel(EXAMPLE, tmp_path, ("pyproject.toml", PACKAGE)),
    ]
    venv.create(tmp_path / "env", symlinks=True)
    python = tmp_path / "env/bin/python"
    libraries = next((tmp_path / "env/lib").glob("python*")) / "site-packages"
    borrowed = [path for path in sys.path if path.endswith("site-packages")]
    (libraries / "borrowed.pth").write_text("\n".join(borrowed))
    run(
        tmp_path,
        sys.executable,
        *PIP,
        "--python",
        python,
        "install",
        "--no-deps",
        "--no-index",
        *wheels,
    )
    hpsearch = tmp_path / "env/bin/hpsearch"
    for name in ("study.yaml", "reinforce.yaml"):
        shutil.copy(EXAMPLE / name, tmp_path)

    where = run(tmp_path, python, "-c", "import hpsearch; print(hpsearch.__file__)")
    assert where.startswith(str(libraries))
    assert "reward short_games (hpsearch-example 0.1)" in run(
        tmp_path, hpsearch, "validate", "study.yaml"
    )
    assert "algorithm reinforce (hpsearch-example 0.1)" in run(tmp_path, hpsearch, "doctor")
    assert "best: trial" in run(tmp_path, hpsearch, "run", "study.yaml")
    with (tmp_path / "runs/example/tracker-csv/example.csv").open(newline="") as file:
        lines = [*csv.DictReader(file)]
    assert {line["run"] for line in lines} == {f"example {number}" for number in range(4)}
    assert sum(line["name"] == "finished" for line in lines) == 4
    assert any(line["name"] == "rho/host/choose_first" for line in lines)
    bundle = tmp_path / "runs/example/best"
    origin = json.loads((bundle / "provenance.json").read_text())
    assert origin["versions"]["hpsearch-example"] == "0.1"
    assert origin["trained_with"] == {"hpsearch-example": "0.1"}

    run(tmp_path, sys.executable, *PIP, "--python", python, "uninstall", "-y", "hpsearch-example")
    missing = "unknown algorithm 'reinforce'; valid: dqn, ppo; if a package of yours has it"
    assert missing in run(tmp_path, hpsearch, "run", "study.yaml", code=3)
    assert missing in run(tmp_path, hpsearch, "train", "reinforce.yaml", code=3)
    why = "it was made with the package hpsearch-example 0.1, which is missing here"
    assert why in run(tmp_path, hpsearch, "evaluate", bundle, code=3)
    told = run(tmp_path, hpsearch, "status", "example")
    assert "not read here: track[0].name is an unknown name 'csv'" in told
    assert "best: trial" in told

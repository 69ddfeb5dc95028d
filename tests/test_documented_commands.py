"""Commands and examples of the README, docs/ and the reports run, as a new user would give them."""

import dataclasses
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cli_tools import PATIENCE_SECONDS, hpsearch
from documented import commands, shrink

from hpsearch import yaml_file
from hpsearch.game.random import derive_key
from hpsearch.population.crossplay import CrossPlay
from hpsearch.population.ratings.nash import nash_averaging
from hpsearch.population.statistics import interval, resampled_rho
from hpsearch.schema import read
from hpsearch.study.spec import StudySpec
from hpsearch.trainers.checkpoint import valid_steps
from hpsearch.trainers.config import read_config

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = {
    path: (ROOT / path).read_text()
    for path in (
        "README.md",
        "docs/tutorial.md",
        "docs/commands.md",
        "docs/api.md",
        "docs/concepts.md",
        "docs/guides/algorithm.md",
        "docs/guides/by_hand.md",
        "docs/guides/cluster.md",
        "docs/guides/extending.md",
        "docs/guides/hironaka.md",
        "docs/guides/program.md",
        "docs/guides/report.md",
        "docs/players.md",
        "docs/breeding.md",
        "docs/confirming.md",
        "docs/bundles.md",
        "docs/jobs.md",
        "docs/trainers.md",
        "docs/kernels.md",
        "docs/audit.md",
        "docs/pains.md",
        "docs/glossary.md",
        "docs/protocol/README.md",
        "CONTRIBUTING.md",
        "studies/README.md",
        "slurm/README.md",
        "monitoring/README.md",
        "hpsearch/ADDING.md",
        "hpsearch/game/README.md",
        "hpsearch/cluster/README.md",
        "reports/README.md",
        "reports/benchmarks/README.md",
    )
    if (ROOT / path).exists()
}
GUIDES = ["README.md", *(path for path in PAGES if path.startswith("docs/")), "reports/README.md"]
GIVEN = [command for page in GUIDES for command in commands(PAGES[page])]
"""what is given here, in this order"""
MODEL_CHECK = "tests/study/test_tla.py::test_no_invariant_is_violated"
EXAMPLE_PACKAGE = "tests/test_example_package.py::test_a_study_of_the_installed_package"
ELSEWHERE = {
    "hpsearch init my_study.yaml": "tests/test_init.py::test_a_new_study_runs",
    "hpsearch run study.yaml": EXAMPLE_PACKAGE,
    "make model-check TLA2TOOLS_JAR=/path/to/tla2tools.jar": MODEL_CHECK,
    "make model-check": MODEL_CHECK,
    "make simulate MINUTES=10": "tests/test_simulate.py::test_fresh_seeds",
    "make quickstart": "tests/test_readme.py::test_the_quick_start_does_what_it_says",
    "sudo slurm/dev-cluster up": "tests/slurm/conftest.py::slurm_cluster",
    "slurm/dev-cluster up": "tests/slurm/conftest.py::slurm_cluster",
}
"""commands that another test gives"""
BY_HAND = re.compile(r"make \w+$|pip install|sudo apt-get|python (-m pytest|tests/)")
"""how the project itself is tested and installed: .ci/run gives the most of them"""
SERVERS = ("dashboard", "tensorboard")
"""commands that go on until Ctrl-C"""
RUN_BLOCKS = """
import sys

import hpsearch, torch

for code in sys.argv[1:]:
    points = torch.full((2, 5, 3), 3, dtype=torch.int32)
    own = {"__name__": "__main__", "hpsearch": hpsearch, "torch": torch, "points": points}
    print(code, flush=True)
    exec(code, own)
"""
"""runs blocks of Python, each with names of its own"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder as a clone of the repository is, with studies that take seconds."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("studies", "slurm"):
        shutil.copytree(ROOT / name, folder / name)
    for path in (folder / "studies").rglob("*.yaml"):
        shrink(path)
    (folder / "reports/quickstart").mkdir(parents=True)
    make_key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")]
    subprocess.run(make_key, check=True)
    (folder / "signers").write_text(f"ada@lab {(folder / 'key.pub').read_text()}")
    return folder


def give(folder: Path, command: str) -> None:
    """Give one command; it must end well, a server after Ctrl-C."""
    program, *words = shlex.split(command)
    if program == "optuna":
        subprocess.run([sys.executable, "-m", "optuna.cli", *words], cwd=folder, check=True)
    elif words[0] in SERVERS:
        serve(folder, words)
    else:
        hpsearch(folder, *words)
    if words[0] == "init":
        for path in folder.glob("*.yaml"):
            shrink(path)


def serve(folder: Path, words: list[str]) -> None:
    """Start a server, wait for its address, end it by Ctrl-C."""
    out = folder / "out"
    with out.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "hpsearch.cli", *words],
            cwd=folder,
            stdout=file,
            start_new_session=True,
        )
    deadline = time.monotonic() + PATIENCE_SECONDS
    while "ssh -L" not in out.read_text():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE_SECONDS) == 0


def test_commands_are_found():
    listed = list(
        commands("a `hpsearch run` b `hpsearch run x.yaml` `hpsearch run STUDY -o DIR`\n")
    )
    assert listed == ["hpsearch run x.yaml"]
    listed = list(commands("```\nhpsearch status tour --watch    # a look\n1.5\n```\n`make test`"))
    assert listed == ["hpsearch status tour --watch", "make test"]
    assert len(GIVEN) > 20


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_command_runs(folder, monkeypatch):
    """As `make install` leaves it: without the packages that write policies for ONNX."""
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    hpsearch(folder, "run", "studies/quickstart.yaml")  # for `make quickstart`
    given = {"hpsearch run studies/quickstart.yaml"}
    for command in GIVEN:
        if command in ELSEWHERE or BY_HAND.match(command) or command in given:
            continue
        began = time.monotonic()
        give(folder, command)
        given.add(command)
        print(f"{time.monotonic() - began:6.1f} s  {command}")
    for name in ("tour.html", "matrix.svg", "best/README.md", "conf/trainer/best.yaml"):
        assert (folder / name).exists()
    pages = "".join(PAGES[page] for page in GUIDES)
    blocks = re.findall(r"```python\n(.*?)```", pages, flags=re.DOTALL)
    assert len(blocks) > 5
    subprocess.run([sys.executable, "-c", RUN_BLOCKS, *blocks], cwd=folder, check=True)
    assert list(valid_steps(folder / "saved")) == [200, 100]  # by the callbacks of docs/trainers.md


def test_no_page_of_docs_is_missing():
    assert {str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")} <= {*PAGES}


YAML = [
    (page, block)
    for page, text in PAGES.items()
    for block in re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)
]


@pytest.mark.parametrize(("page", "block"), YAML, ids=[page for page, _ in YAML])
def test_keys_of_a_study_or_a_trainer_are_read(tmp_path, page, block):
    """As they would be in a study file or a trainer configuration that has the others."""
    (tmp_path / "block.yaml").write_text(block)
    shown = yaml_file.load(tmp_path / "block.yaml")
    study = yaml_file.load(ROOT / "studies/quickstart.yaml")
    if "executors" in shown:
        del study["executor"]
    if shown.keys() <= {field.name for field in dataclasses.fields(StudySpec)}:
        read(StudySpec, study | shown, source=page)
    else:
        trainer = yaml_file.load(ROOT / "studies" / study["base"])
        read_config(trainer | shown, source=page)


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_the_other_pages_are_given_somewhere(page):
    for command in commands(PAGES[page]):
        assert command in GIVEN or command in ELSEWHERE or BY_HAND.match(command), (
            f"{command}: give it in README.md or docs/, which are run, or name its test here"
        )


@pytest.mark.parametrize("command", ELSEWHERE)
def test_tests_named_exist(command):
    path, _, name = ELSEWHERE[command].partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), flags=re.MULTILINE)


@pytest.mark.slow
def test_the_example_of_ratings_runs():
    """That of population/README.md, on a matrix of games of invented lengths."""
    page = (ROOT / "hpsearch/population/README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    moves = np.random.default_rng(0).integers(2, 30, (3, 4, 50))
    names = {
        "np": np,
        "derive_key": derive_key,
        "resampled_rho": resampled_rho,
        "nash_averaging": nash_averaging,
        "interval": interval,
        "seed": 1,
        "generation": 2,
        "played": CrossPlay(
            ("a", "b", "c"), ("s", "t", "u", "v"), moves, np.ones_like(moves, dtype=bool)
        ),
    }
    exec(code, names)
    assert (names["low"] <= names["high"]).all()

"""The documentation is true: links lead somewhere, commands exist, the quick start runs."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest
import yaml

from hpsearch.cli import build_parser

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    page
    for page in ROOT.rglob("*.md")
    if not {".venv", "runs", ".git"} & {part for part in page.relative_to(ROOT).parts}
)
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("https://"):
            assert (page.parent / target).exists(), target


ROOMS = sorted(page.parent for page in (ROOT / "hpsearch").glob("*/README.md"))


def test_every_room_has_a_page():
    rooms = {path.parent for path in (ROOT / "hpsearch").glob("*/__init__.py")}
    assert rooms == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_a_room_s_page_names_its_files(room):
    page = (room / "README.md").read_text()
    files = {path.name for path in room.glob("*.py")} - {"__init__.py"}
    assert {name for name in files if f"{name}`" not in page} == set()


MAX_WORDS = 600
"""of a room's page; what is needed less often stands in docs/"""


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_a_room_s_page_is_short(room):
    assert len((room / "README.md").read_text().split()) <= MAX_WORDS


FOREIGN = {"Setting"}
"""names on pages that are no classes of the package: that of tests/benchmarks/"""
NAMING_PAGES = sorted(
    [
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "hpsearch").rglob("README.md"),
        ROOT / "hpsearch/ADDING.md",
    ]
)


@cache
def members_of_classes() -> dict[str, set[str]]:
    """Return what each class of the package defines, and what it inherits from classes of ours."""
    own: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for path in (ROOT / "hpsearch").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                names = own.setdefault(node.name, set())
                for part in ast.walk(node):
                    if isinstance(part, ast.FunctionDef):
                        names.add(part.name)
                    elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                        names.add(part.id)
                    elif isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                        names.add(part.attr)
                bases.setdefault(node.name, set()).update(
                    re.findall(r"\w+", " ".join(map(ast.unparse, node.bases)))
                )
            elif isinstance(node, ast.Assign):  # such as Config = DQNConfig | PPOConfig
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        own.setdefault(target.id, set())
    for _ in range(5):  # more than any class has ancestors
        for name, parents in bases.items():
            own[name] |= set().union(*(own.get(parent, set()) for parent in parents))
    return own


def classes_named(page: str) -> set[tuple[str, str]]:
    """Return classes in backticks, each with the attribute that is named of it, or nothing."""
    text = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    pattern = r"`([A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*)(?:\.([A-Za-z_]\w*))?(?:\([^`]*\))?`"
    return set(re.findall(pattern, text))


@pytest.mark.parametrize("page", NAMING_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_classes_named_exist(page):
    known = members_of_classes()
    for name, attribute in classes_named(page.read_text()) - {(name, "") for name in FOREIGN}:
        assert name in known, name
        assert not attribute or attribute in known[name], f"{name}.{attribute}"


def test_every_command_named_exists_and_every_command_is_named():
    page = (ROOT / "docs/commands.md").read_text()
    named = set(re.findall(r"^\| `hpsearch (\w+)", page, flags=re.MULTILINE))
    actions = [action for action in build_parser()._actions if action.choices]
    assert named == set(actions[0].choices)


def test_make_targets_named_exist():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([\w-]+):", makefile, flags=re.MULTILINE))
    pages = "".join(page.read_text() for page in PAGES)
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", pages, flags=re.MULTILINE)) <= targets


def test_the_study_shown_is_the_quickstart_in_short():
    blocks = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    shown = yaml.safe_load(next(block for block in blocks if block.startswith("name:")))
    shipped = yaml.safe_load((ROOT / "studies/quickstart.yaml").read_text())
    assert shown.pop("space").items() <= shipped.pop("space").items()
    assert shown == shipped


def test_the_five_minutes_look_at_the_player_that_run_exported():
    """`test_cli.py` asserts that `run` ends with an export to runs/NAME/best."""
    section = README.partition("## Five minutes on a laptop\n")[2].partition("\n## ")[0]
    given = section.partition("```\n")[2].partition("```")[0].splitlines()
    assert "hpsearch evaluate runs/tour/best" in given[given.index("hpsearch run tour.yaml") :]
    assert not any(command.startswith("hpsearch export") for command in given)
    step = next(line for line in section.splitlines() if line.startswith("3. `run`"))
    assert "exports the best player to `runs/tour/best`" in step


def test_ci_calls_the_test_command_of_the_readme():
    assert "\nmake test\n" in (ROOT / ".ci/run").read_text()
    assert "[.ci/run](.ci/run)" in (ROOT / "CONTRIBUTING.md").read_text()
    assert "\nmake test\n" in README


@pytest.mark.slow
@pytest.mark.alone
def test_the_quick_start_does_what_it_says(tmp_path):
    """`make quickstart` in a copy: 60 s to the first trial, 10 minutes, better than zeillinger."""
    tracked = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in tracked.stdout.splitlines():
        if (ROOT / name).exists():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    # The packages are those of this test run; installing them again would test pip.
    venv = tmp_path / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / ".installed").touch()
    script = f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} -m hpsearch.cli "$@"\n'
    (venv / "bin/hpsearch").write_text(script)
    (venv / "bin/hpsearch").chmod(0o755)
    # As installing does; kernels that were compiled for another place are not found.
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    compiling = [sys.executable, "-m", "hpsearch.trainers.kernel_cache"]
    subprocess.run(compiling, cwd=tmp_path, env=environment, check=True)
    began = time.monotonic()
    done = subprocess.run(
        ["make", "quickstart"], cwd=tmp_path, capture_output=True, text=True, env=os.environ
    )
    elapsed = time.monotonic() - began
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)

    best = json.loads((tmp_path / "runs/quickstart/best/evaluation.json").read_text())
    measured = {row["player"]: row["metrics"] for row in best["rows"]}
    assert set(measured) == {"trained", "random", "all_coord", "zeillinger"}
    for metric in ("panel/host", "worst/host"):
        assert measured["trained"][metric]["low"] > measured["zeillinger"][metric]["high"], metric
    log = (tmp_path / "runs/quickstart/driver.log").read_text().splitlines()
    assert sum(" told " in line and "state=finished" in line for line in log) == 16
    assert _seconds(next(line for line in log if " told " in line)) - _seconds(log[0]) < 60
    assert elapsed < 600


def _seconds(line: str) -> float:
    return time.mktime(time.strptime(line[:19], "%Y-%m-%d %H:%M:%S"))

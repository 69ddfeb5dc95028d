"""The walks of hpsearch/README.md: few files, each imports the next one, and none goes back up."""

import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import grimp
import pytest

import hpsearch

PACKAGE = Path(hpsearch.__file__).parent
GUIDE = (PACKAGE / "README.md").read_text()
WALKS = dict(
    re.findall(r"^\*\*(.+)\*\*\n\n((?:\|.*\n)+)", GUIDE.partition("## Four walks")[2], re.MULTILINE)
)
MOST_FILES = 15
NAMED_IN_TEXT = re.compile(r"`(\w+)`,? of `([\w/]+\.py)`")


@cache
def imports() -> grimp.ImportGraph:
    return grimp.build_graph("hpsearch")


def module(path: str) -> str:
    return f"hpsearch.{path.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"


def lines(walk: str) -> list[tuple[str, str]]:
    """Return the cells of a walk's lines, without its head."""
    cells = [line.strip("|").split(" | ") for line in WALKS[walk].splitlines()[2:]]
    return [(first.strip(" `"), rest[0].strip() if rest else "") for first, *rest in cells]


def test_there_are_the_four() -> None:
    assert [walk.partition(",")[0] for walk in WALKS] == [
        "A study file", "A result", "A learning rate", "A child",
    ]  # fmt: skip


@pytest.mark.parametrize("walk", WALKS)
def test_few_files_are_named_and_all_are_there(walk: str) -> None:
    named = set(re.findall(r"`([\w/]+\.py)`", WALKS[walk]))
    assert len(named) <= MOST_FILES
    assert all((PACKAGE / path).exists() for path in named)


@pytest.mark.parametrize("walk", WALKS)
def test_each_file_imports_the_next_one(walk: str) -> None:
    """Also by way of others; no file twice, so nothing leads back up."""
    paths = [path for path, _ in lines(walk)]
    files = [path for path in paths if path.endswith(".py")]
    assert len(files) == len(set(files))
    for path, after in pairwise(paths):
        if path.endswith(".py") and after.endswith(".py"):
            assert imports().chain_exists(module(path), module(after)), (path, after)
            assert not imports().chain_exists(module(after), module(path)), (path, after)


@pytest.mark.parametrize("walk", WALKS)
def test_the_names_are_where_it_says(walk: str) -> None:
    for path, text in lines(walk):
        elsewhere = NAMED_IN_TEXT.findall(text)
        own = set(re.findall(r"`([A-Za-z_.]+)`", text)) - {name for name, _ in elsewhere}
        names = [(name.split(".")[-1], path) for name in own if not name.endswith(".py")]
        for name, place in (*names, *elsewhere):
            source = (PACKAGE / place).read_text()
            assert re.search(rf"\b{name}\b", source), (name, place)

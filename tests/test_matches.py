"""Mypy names every match that builds something and does not know a new case of its union."""

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from hpsearch.population.offspring import offspring
from hpsearch.trainers.config import weight_layout

PACKAGE = Path(__file__).parent.parent / "hpsearch"
ROOMS = ("trainers", "population")
"""rooms that build what a study names; others may have something to say of some cases alone"""


def names_cases(pattern: ast.pattern) -> bool:
    """Return whether a pattern names a class or a value, and so one case of a union."""
    if isinstance(pattern, ast.MatchOr):
        return all(map(names_cases, pattern.patterns))
    return isinstance(pattern, ast.MatchClass | ast.MatchValue)


def may_fall_through(match: ast.Match) -> bool:
    """Return whether mypy would not miss a case that this match over a union does not know."""
    cases = match.cases
    if any(case.guard is not None or not names_cases(case.pattern) for case in cases):
        return False  # it ends with `case _`, or looks at plain data
    return not all(isinstance(case.body[-1], ast.Return | ast.Raise) for case in cases)


def silent(program: str) -> list[int]:
    """Return the lines of the matches that may fall through."""
    nodes = ast.walk(ast.parse(program))
    return [node.lineno for node in nodes if isinstance(node, ast.Match) and may_fall_through(node)]


def test_no_match_over_a_union_falls_through():
    files = [path for room in ROOMS for path in (PACKAGE / room).rglob("*.py")]
    assert {path: lines for path in files if (lines := silent(path.read_text()))} == {}


def test_a_match_that_falls_through_is_found():
    program = "match layer:\n case Linear(width):\n  units = width\n case Norm():\n  units = 1"
    assert silent(program) == [1]
    assert silent(f"{program}\n case _:\n  assert_never(layer)") == []


class Unknown:
    """An operator, or a layer, that was added to its union alone."""


def test_an_operator_without_a_case_is_named():
    player = SimpleNamespace(net=SimpleNamespace(weights=torch.zeros(1, 3)))
    with pytest.raises(AssertionError, match="Unknown"):
        offspring(Unknown(), [{"host": player}], 1)


def test_a_layer_without_a_case_is_named():
    with pytest.raises(AssertionError, match="Unknown"):
        weight_layout._Walk()._layer(Unknown(), 0)

"""The table names every operator there is, truly, and without torch."""

import inspect
import subprocess
import sys
from importlib import import_module

import pytest

from hpsearch.population.operators.table import OPERATORS


@pytest.mark.parametrize("name", OPERATORS)
def test_what_is_said_of_an_operator_is_in_its_signature(name):
    operator = OPERATORS[name]
    module, function = operator.function.split(".")
    found = getattr(import_module(f"hpsearch.population.operators.{module}"), function)
    arguments = inspect.signature(found).parameters
    assert operator.is_random == ("stream" in arguments)
    assert operator.needs_positions == bool({"features", "seen_by_first"} & set(arguments))
    assert (operator.num_parents == 1) == ("net" in arguments)
    assert (operator.num_parents == 1) == (operator.parents_alike is None)
    assert (operator.child_shape == "target") == ("target" in arguments)


def test_planning_needs_no_torch():
    script = (
        "import sys; sys.modules['torch'] = None; "
        "import hpsearch.population.operators.table, hpsearch.population.operators.options"
    )
    subprocess.run([sys.executable, "-c", script], check=True)

"""The table of operators says truly how many parents each has, and needs no torch."""

import inspect
import subprocess
import sys

import pytest

from hpsearch.population.operators.distillation import distilled
from hpsearch.population.operators.grow import grow
from hpsearch.population.operators.options import PARENTS
from hpsearch.population.operators.safe_mutation import safe_mutation
from hpsearch.population.operators.weights import (
    aligned_average,
    average,
    clone,
    gaussian_mutation,
    host_and_agent,
    layer_crossover,
    unit_crossover,
)

FUNCTIONS = {
    "clone": clone,
    "host_and_agent": host_and_agent,
    "gaussian_mutation": gaussian_mutation,
    "safe_mutation": safe_mutation,
    "layer_crossover": layer_crossover,
    "unit_crossover": unit_crossover,
    "average": average,
    "aligned_average": aligned_average,
    "distillation": distilled,
    "grow": grow,
}


def test_the_table_names_every_operator():
    assert PARENTS.keys() == FUNCTIONS.keys()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_number_of_parents_is_in_the_signature(name):
    arguments = inspect.signature(FUNCTIONS[name]).parameters
    assert (PARENTS[name].number == 1) == ("net" in arguments)


def test_planning_needs_no_torch():
    script = (
        "import sys; sys.modules['torch'] = None; "
        "import hpsearch.population.operators.options, hpsearch.population.operators.growth"
    )
    subprocess.run([sys.executable, "-c", script], check=True)

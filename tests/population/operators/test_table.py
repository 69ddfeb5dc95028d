"""The unions of operators say truly how many parents each has, and need no torch."""

import inspect
import subprocess
import sys
from typing import get_args, get_type_hints

import pytest

from hpsearch.population.operators.distillation import distilled
from hpsearch.population.operators.grow import grow
from hpsearch.population.operators.options import OperatorOptions, TwoParents
from hpsearch.population.operators.safe_mutation import safe_mutation
from hpsearch.population.operators.weights import (
    aligned_average,
    clone,
    gaussian_mutation,
    host_and_agent,
    layer_crossover,
    unit_crossover,
)
from hpsearch.schema import own_options

FUNCTIONS = {
    "clone": clone,
    "host_and_agent": host_and_agent,
    "gaussian_mutation": gaussian_mutation,
    "safe_mutation": safe_mutation,
    "layer_crossover": layer_crossover,
    "unit_crossover": unit_crossover,
    "aligned_average": aligned_average,
    "distillation": distilled,
    "grow": grow,
}


def names(options):
    own = own_options(get_args(options))
    return {get_args(get_type_hints(option)["name"])[0] for option in own}


def test_every_operator_is_known():
    assert names(OperatorOptions) == FUNCTIONS.keys()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_number_of_parents_is_in_the_signature(name):
    arguments = inspect.signature(FUNCTIONS[name]).parameters
    assert (name not in names(TwoParents)) == ("net" in arguments)


def test_planning_needs_no_torch():
    script = (
        "import sys; sys.modules['torch'] = None; "
        "import hpsearch.population.operators.options, hpsearch.population.operators.growth"
    )
    subprocess.run([sys.executable, "-c", script], check=True)

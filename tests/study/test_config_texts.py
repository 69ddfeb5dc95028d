"""A configuration filled into a template is the text that is written of the whole."""

from hypothesis import given
from hypothesis import strategies as st

from hpsearch import yaml_file
from hpsearch.schema import apply
from hpsearch.study.config_texts import Template

NUMBERS = st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)


@given(first=NUMBERS, second=NUMBERS, last=NUMBERS)
def test_a_template_is_filled_as_the_whole_is_written(first, second, last):
    config = {"a": {"b": 1.5, "name": "off", "c": [1, 2]}, "seed": 3, "rest": {"d": 0}}
    template = Template(config, ["a.b", "seed", "rest.d"])
    numbers = {"a.b": first, "seed": second, "rest.d": last}
    assert template.fill(numbers) == yaml_file.dump(apply(config, numbers))

"""YAML as people write it, and one sentence for each fault."""

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hpsearch import yaml_file
from hpsearch.errors import ConfigError


@pytest.fixture
def load(tmp_path):
    def read(content):
        path = tmp_path / "file.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return yaml_file.load(path)

    return read


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1e-3", 1e-3),
        ("1E5", 1e5),
        ("1.e2", 100.0),
        (".5e+3", 500.0),
        ("-2e-4", -2e-4),
        ("+3e1", 30.0),
        ("1.0e-3", 1e-3),
        ("0.25", 0.25),
    ],
)
def test_numbers_with_an_exponent_are_numbers(load, text, number):
    assert load(f"lr: {text}") == {"lr": number}
    assert isinstance(load(f"lr: {text}")["lr"], float)


@pytest.mark.parametrize("text", ["'1e-3'", '"1e-3"', "1e", "e3", "1e-3x", "1e3.5", "v1e3"])
def test_texts_stay_texts(load, text):
    assert load(f"lr: {text}") == {"lr": text.strip("'\"")}


@pytest.mark.parametrize(
    "text", ["off", "on", "yes", "no", "Off", "ON", "Yes", "NO", "y", "n", "Y"]
)
def test_what_yaml_1_1_takes_for_truth_is_a_text(load, text):
    """``compile: off`` names a mode."""
    assert load(f"compile: {text}") == {"compile": text}
    assert load(f"[{text}, {{a: {text}}}]") == [text, {"a": text}]
    assert load(f"{text}: 1") == {text: 1}


@pytest.mark.parametrize("text", ["true", "false", "True", "False", "TRUE", "FALSE"])
def test_true_and_false_are_booleans(load, text):
    assert load(f"save: {text}")["save"] is (text.lower() == "true")
    assert load(f"save: '{text}'") == {"save": text}
    assert load(f'save: "{text}"') == {"save": text}


@pytest.mark.parametrize("text", ["tRUE", "truely", "falsehood", "t", "f", "T", "F"])
def test_what_only_begins_like_a_boolean_is_a_text(load, text):
    assert load(f"name: {text}") == {"name": text}


@pytest.mark.parametrize("text", ["null", "~", ""])
def test_nothing_is_none(load, text):
    assert load(f"target_kl: {text}") == {"target_kl": None}


@pytest.mark.parametrize(
    "value",
    ["off", "on", "yes", "no", "true", "false", "null", "~", "1e-3", "1", "1.5", "", "0x1f"],
)
def test_dump_quotes_what_would_be_read_as_something_else(load, value):
    text = yaml_file.dump({"name": value})
    assert load(text) == {"name": value}
    is_quoted = "'" in text or '"' in text
    assert is_quoted == (value not in ("off", "on", "yes", "no"))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: 1\nb: 2\na: 3\n", "the key 'a' stands twice at line 3, column 1"),
        ("off: 1\noff: 2\n", "the key 'off' stands twice at line 2, column 1"),
        ("a: {b: 1, b: 2}", "the key 'b' stands twice at line 1, column 11"),
        ("a:\n  - {c: 1}\n  - c: 1\n    c: 2\n", "the key 'c' stands twice at line 4, column 5"),
        ("{[1, 2]: 3}", "the key [1, 2] is not a name"),
        ("{{a: 1}: 3}", "the key {'a': 1} is not a name"),
        ("a: [1, 2", "is not YAML: expected ',' or ']'"),
        ("a: b: c", "is not YAML: mapping values are not allowed here at line 1, column 5"),
        ("a: 1\n\tb: 2", "is not YAML: "),
        ("a: 1\n---\nb: 2\n", "is not YAML: but found another document"),
        ("a: \x00", "is not YAML: "),
        ("a: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("a: !!python/name:os.getcwd", "could not determine a constructor"),
        ("a: !secret 3", "could not determine a constructor"),
        ("a: *nowhere", "found undefined alias"),
        ("a: &a {b: 1}\nc:\n  <<: *a\n", "merge keys (<<) are not supported; write out the keys"),
        ("day: 2024-13-45", "is not YAML: "),
        ("number: !!int many", "is not YAML: "),
        ("number: !!int ''", "is not YAML: "),
        ("truth: !!bool perhaps", "is not YAML: "),
        ("time: !!timestamp noon", "is not YAML: "),
        (b"a: \xff\xfe", "is not a text file"),
    ],
)
def test_a_fault_is_one_sentence(load, text, fault):
    with pytest.raises(ConfigError) as error:
        load(text)
    assert fault in str(error.value)
    assert "file.yaml: " in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing\.yaml: does not exist"):
        yaml_file.load(tmp_path / "nothing.yaml")
    with pytest.raises(ConfigError, match="cannot be read: it must be a regular file"):
        yaml_file.load(tmp_path)


texts = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF), max_size=8)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.from_regex(r"[-+]?[0-9.]{1,3}([eE][-+]?[0-9]{1,2})?", fullmatch=True)
)
trees = st.recursive(
    scalars,
    lambda t: st.lists(t, max_size=4) | st.dictionaries(texts, t, max_size=4),
    max_leaves=12,
)


@given(trees)
@example({"name": "1e3", "other": ["1e-3", "+1E5"]})
@example({"compile": "off", "true": "true", "on": True, "no": [False, "False", "yes"]})
def test_dump_and_load_give_the_same_back(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "round_trip.yaml"
    path.write_text(yaml_file.dump(data), encoding="utf-8")
    again = yaml_file.load(path)
    assert again == data
    assert repr(again) == repr(data)  # 1 is not 1.0 and not True


@given(st.text(st.sampled_from("ab:-[]{}!&*'\"#|>%@0123456789e.\n ,?="), max_size=30))
def test_no_text_raises_anything_else(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(text, encoding="utf-8")
    with suppress(ConfigError):
        yaml_file.load(path)

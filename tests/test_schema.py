"""Reading dataclasses: every fault at once, each with its path; nothing but the truth gets in."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpsearch.errors import ConfigError
from hpsearch.schema import (
    PER_MEMBER,
    NonNegative,
    Positive,
    Range,
    Unbounded,
    leaves,
    read,
    read_hint,
    to_plain,
)

Share = Annotated[float, Range(low=0.0, high=1.0, open_low=True)]


@dataclass(frozen=True)
class Red:
    color: Literal["red", "crimson"]
    depth: Positive


@dataclass(frozen=True)
class Blue:
    color: Literal["blue"]
    share: Share


@dataclass(frozen=True)
class Player:
    player: str


@dataclass(frozen=True)
class Learner:
    lr: Annotated[float, Range(low=0.0, open_low=True), PER_MEMBER]
    layers: tuple[int, ...]


@dataclass(frozen=True)
class Limits:
    low: int
    high: int

    def check(self) -> Iterator[str]:
        if self.low > self.high:
            yield f"low must be at most high, but is {self.low} > {self.high}"


@dataclass(frozen=True)
class Everything:
    flag: bool
    count: NonNegative
    rate: float
    name: str
    mode: Literal["a", "b"]
    paint: Red | Blue
    role: Learner | Player
    limits: Limits
    ranges: tuple[Limits, ...]
    table: dict[str, float]
    number_or_text: int | str
    maybe: Share | None
    anything: Any


def whole() -> dict[str, Any]:
    return {
        "flag": True,
        "count": 3,
        "rate": 0.5,
        "name": "x",
        "mode": "a",
        "paint": {"color": "red", "depth": 2},
        "role": {"lr": 0.1, "layers": [1, 2]},
        "limits": {"low": 1, "high": 2},
        "ranges": [{"low": 0, "high": 0}],
        "table": {"k": 1.5},
        "number_or_text": "n",
        "maybe": None,
        "anything": [1, {"a": "b"}],
    }


def problems_of(changes: dict[str, Any], cls: type = Everything) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as error:
        read(cls, {**whole(), **changes}, source="test.yaml")
    assert error.value.source == "test.yaml"
    assert str(error.value).startswith("test.yaml")
    return error.value.problems


def test_everything_is_read():
    value = read(Everything, whole(), source="test.yaml")
    assert value == Everything(
        flag=True,
        count=3,
        rate=0.5,
        name="x",
        mode="a",
        paint=Red("red", 2),
        role=Learner(0.1, (1, 2)),
        limits=Limits(1, 2),
        ranges=(Limits(0, 0),),
        table={"k": 1.5},
        number_or_text="n",
        maybe=None,
        anything=[1, {"a": "b"}],
    )
    assert to_plain(value) == whole()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"flag": 1}, "flag must be true or false, but is 1"),
        ({"flag": "true"}, "flag must be true or false, but is 'true'"),
        ({"count": True}, "count must be a whole number, but is true"),
        ({"count": 3.0}, "count must be a whole number, but is 3.0"),
        ({"count": None}, "count must be a whole number, but is null"),
        (
            {"count": "3"},
            "count must be a whole number, but is '3' (a text; write the number without quotes)",
        ),
        ({"rate": False}, "rate must be a number, but is false"),
        (
            {"rate": "1e-3"},
            "rate must be a number, but is '1e-3' (a text; write the number without quotes)",
        ),
        ({"rate": "fast"}, "rate must be a number, but is 'fast'"),
        ({"rate": math.inf}, "rate must be a finite number, but is inf"),
        ({"rate": math.nan}, "rate must be a finite number, but is nan"),
        ({"rate": [1.0]}, "rate must be a number, but is [1.0]"),
        ({"name": 3}, "name must be a text, but is 3"),
        ({"mode": "c"}, "mode is an unknown mode 'c'; valid: a, b"),
        ({"mode": None}, "mode is an unknown mode null; valid: a, b"),
        ({"paint": 3}, "paint must be a mapping of keys, but is 3"),
        ({"paint": {"depth": 2}}, "paint.color is missing; valid: red, crimson, blue"),
        (
            {"paint": {"color": "bleu", "share": 0.5}},
            "paint.color is an unknown color 'bleu' (did you mean 'blue'?); "
            "valid: blue, crimson, red",
        ),
        ({"paint": {"color": 3}}, "paint.color is an unknown color 3; valid: blue, crimson, red"),
        (
            {"paint": {"color": "blue", "depth": 1, "share": 0.5}},
            "paint.depth is an unknown key 'depth'; valid: color, share",
        ),
        ({"paint": {"color": "blue", "share": 0.0}}, "paint.share must lie in (0, 1], but is 0.0"),
        ({"paint": {"color": "blue", "share": 1.5}}, "paint.share must lie in (0, 1], but is 1.5"),
        ({"paint": {"color": "red", "depth": 0}}, "paint.depth must lie in [1, inf), but is 0"),
        ({"count": -1}, "count must lie in [0, inf), but is -1"),
        ({"role": {"lr": 0.1}}, "role.layers is missing"),
        ({"role": {"lr": 0.1, "layers": 8}}, "role.layers must be a list, but is 8"),
        ({"role": {"lr": 0.1, "layers": "88"}}, "role.layers must be a list, but is '88'"),
        (
            {"role": {"lr": 0.1, "layers": [8, "b", 4]}},
            "role.layers[1] must be a whole number, but is 'b'",
        ),
        (
            {"limits": {"low": 3, "high": 2}},
            "limits.low must be at most high, but is 3 > 2",
        ),
        (
            {"ranges": [{"low": 0, "high": 1}, {"low": 1, "high": 0}]},
            "ranges[1].low must be at most high, but is 1 > 0",
        ),
        ({"table": {"k": "v"}}, "table.k must be a number, but is 'v'"),
        (
            {"table": {1: 0.5, "1": 1.5}},
            "table has the key '1' with and without quotes; keep one",
        ),
        ({"table": [1]}, "table must be a mapping of keys, but is [1]"),
        ({"number_or_text": 1.5}, "number_or_text must be a whole number or a text, but is 1.5"),
        ({"maybe": 2}, "maybe must lie in (0, 1], but is 2.0"),
        (
            {"cuont": 4},
            "cuont is an unknown key 'cuont' (did you mean 'count'?); valid: "
            + ", ".join(sorted(whole())),
        ),
    ],
)
def test_one_fault(changes, problem):
    assert problems_of(changes) == (problem,)


def test_every_fault_at_once():
    changes = {
        "flag": 1,
        "paint": {"color": "blue", "share": 2.0, "size": 1},
        "role": {"lr": "0.1", "layers": [True]},
        "limits": {"low": 1},
        "extra": 0,
    }
    paths = [problem.split()[0] for problem in problems_of(changes)]
    assert sorted(paths) == sorted(
        [
            "extra",
            "flag",
            "limits.high",
            "paint.share",
            "paint.size",
            "role.layers[0]",
            "role.lr",
        ]
    )


def test_a_missing_key_and_a_file_of_another_kind():
    data = whole()
    del data["mode"], data["maybe"]
    with pytest.raises(ConfigError) as error:
        read(Everything, data, source="test.yaml")
    assert error.value.problems == ("mode is missing", "maybe is missing")
    assert (
        str(error.value) == "test.yaml has 2 problems:\n  - mode is missing\n  - maybe is missing"
    )
    for nothing in (None, [], "text", 3):
        with pytest.raises(ConfigError, match=r"test\.yaml: the file must be a mapping of keys"):
            read(Everything, nothing, source="test.yaml")


def test_whole_numbers_are_numbers():
    value = read(Everything, {**whole(), "rate": 2}, source="test.yaml")
    assert value.rate == 2.0
    assert isinstance(value.rate, float)


def test_a_number_too_large_for_a_float_is_refused():
    (problem,) = problems_of({"rate": 10**400})
    assert problem.startswith("rate must be a finite number")


def test_a_mapping_to_any_keys_beside_a_dataclass_is_meant_where_no_key_is_the_dataclass_s():
    hint = dict[str, str] | Red
    assert read_hint(hint, {"dqn": "a.yaml"}, source="test") == {"dqn": "a.yaml"}
    assert read_hint(hint, {"color": "red", "depth": 2}, source="test") == Red("red", 2)
    with pytest.raises(ConfigError, match="depth is missing"):
        read_hint(hint, {"color": "red"}, source="test")
    with pytest.raises(ConfigError, match="dqn must be a text"):
        read_hint(hint, {"dqn": 3}, source="test")


def test_unions_without_a_tag_go_by_the_keys_they_have():
    value = read(Everything, {**whole(), "role": {"player": "zeillinger"}}, source="test.yaml")
    assert value.role == Player("zeillinger")
    problems = problems_of({"role": {"lr": 1.0, "layer": [1]}})
    assert [problem.split()[0] for problem in problems] == ["role.layer", "role.layers"]


def test_leaves_know_their_path_and_who_may_differ():
    leaf_by_path = {
        leaf.path: leaf for leaf in leaves(read(Everything, whole(), source="test.yaml"))
    }
    assert leaf_by_path["paint.depth"].value == 2
    assert leaf_by_path["role.layers"].value == [1, 2]
    assert leaf_by_path["ranges"].value == [{"low": 0, "high": 0}]
    assert leaf_by_path["role.lr"].per_member
    assert not leaf_by_path["rate"].per_member


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"color": "crimson", "depth": 3}, Red("crimson", 3)),
        ({"color": "blue", "share": 0.5}, Blue("blue", 0.5)),
    ],
)
def test_a_file_may_hold_one_of_several_kinds(data, kind):
    assert read_hint(Red | Blue, data, source="test.yaml") == kind
    assert read_hint(Red | Blue | None, data, source="test.yaml") == kind


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({}, "color is missing; valid: red, crimson, blue"),
        ({"depth": 3}, "color is missing; valid: red, crimson, blue"),
        (
            {"color": "bleu"},
            "color is an unknown color 'bleu' (did you mean 'blue'?); valid: blue, crimson, red",
        ),
        ({"color": 3}, "color is an unknown color 3; valid: blue, crimson, red"),
        (
            {"color": "red", "share": 1.0, "depth": 1},
            "share is an unknown key 'share'; valid: color, depth",
        ),
        ({"color": "red"}, "depth is missing"),
        (None, "the file must be a mapping of keys, but is null"),
        ([1], "the file must be a mapping of keys, but is [1]"),
    ],
)
def test_a_fault_of_a_file_of_several_kinds(data, problem):
    with pytest.raises(ConfigError) as error:
        read_hint(Red | Blue, data, source="test.yaml")
    assert error.value.problems == (problem,)


def test_none_is_read_where_it_is_allowed_alone():
    assert read_hint(Red | Blue | None, None, source="test.yaml") is None
    assert read_hint(Share | None, None, source="test.yaml") is None
    with pytest.raises(ConfigError, match="the file must be a number, but is null"):
        read_hint(Share, None, source="test.yaml")


@dataclass(frozen=True)
class Base:
    color: Literal["red", "blue"]
    low: int

    def check(self) -> Iterator[str]:
        if self.low < 0:
            yield f"low must not be negative, but is {self.low}"


@dataclass(frozen=True)
class RedCase(Base):
    color: Literal["red"]
    high: Annotated[float | None, Range(low=0.0, open_low=True), PER_MEMBER]

    def check(self) -> Iterator[str]:
        yield from super().check()
        if self.high is not None and self.high < self.low:
            yield f"high must be at least low={self.low}, but is {self.high}"


@dataclass(frozen=True)
class BlueCase(Base):
    color: Literal["blue"]


def test_an_inherited_tag_is_the_narrowed_one():
    """As the trainers' configurations narrow ``algorithm``."""
    blue = read_hint(RedCase | BlueCase, {"color": "blue", "low": 1}, source="test.yaml")
    assert blue == BlueCase("blue", 1)
    red = {"color": "red", "low": 1, "high": 2}
    assert read_hint(RedCase | BlueCase, red, source="test.yaml") == RedCase("red", 1, 2.0)
    with pytest.raises(ConfigError, match=r"color is an unknown color 'blue'; valid: red"):
        read(RedCase, {**red, "color": "blue"}, source="test.yaml")


def test_checks_of_base_and_derived_are_all_made():
    with pytest.raises(ConfigError) as error:
        read(RedCase, {"color": "red", "low": -1, "high": None}, source="test.yaml")
    assert error.value.problems == ("low must not be negative, but is -1",)
    with pytest.raises(ConfigError) as error:
        read(RedCase, {"color": "red", "low": 3, "high": 2}, source="test.yaml")
    assert error.value.problems == ("high must be at least low=3, but is 2.0",)


@pytest.mark.parametrize("high", [None, 5.0])
def test_a_nullable_number_is_a_leaf_that_may_differ(high):
    value = read(RedCase, {"color": "red", "low": 1, "high": high}, source="test.yaml")
    leaf_by_path = {leaf.path: (leaf.value, leaf.per_member) for leaf in leaves(value)}
    assert leaf_by_path == {"color": ("red", False), "low": (1, False), "high": (high, True)}
    with pytest.raises(ConfigError, match=r"high must lie in \(0, inf\), but is 0\.0"):
        read(RedCase, {"color": "red", "low": -1, "high": 0}, source="test.yaml")


def finite(low=None, high=None, **options):
    return st.floats(low, high, allow_nan=False, allow_infinity=False, **options)


shares = finite(0.0, 1.0, exclude_min=True)
limits = st.tuples(st.integers(), st.integers()).map(lambda pair: Limits(*sorted(pair)))
everything = st.builds(
    Everything,
    flag=st.booleans(),
    count=st.integers(0),
    rate=finite(),
    name=st.text(),
    mode=st.sampled_from(["a", "b"]),
    paint=st.builds(Red, st.sampled_from(["red", "crimson"]), st.integers(1))
    | st.builds(Blue, st.just("blue"), shares),
    role=st.builds(Player, st.text())
    | st.builds(Learner, finite(0.0, exclude_min=True), st.lists(st.integers()).map(tuple)),
    limits=limits,
    ranges=st.lists(limits, max_size=3).map(tuple),
    table=st.dictionaries(st.text(), finite(), max_size=3),
    number_or_text=st.integers() | st.text(),
    maybe=st.none() | shares,
    anything=st.none() | st.text() | st.lists(st.integers(), max_size=3),
)


@given(everything)
def test_reading_what_was_written_gives_the_same_back(value):
    again = read(Everything, to_plain(value), source="test.yaml")
    assert again == value
    assert repr(again) == repr(value)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
trees = st.recursive(
    scalars,
    lambda t: st.lists(t, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(), t),
    max_leaves=5,
)


@given(st.sampled_from(sorted(whole())), trees)
def test_no_data_raises_anything_else(key, data):
    problems = ()
    try:
        read(Everything, {**whole(), key: data}, source="test.yaml")
    except ConfigError as error:
        problems = error.problems
    assert all(problem.startswith(key) for problem in problems)


@pytest.mark.parametrize("value", [math.inf, -math.inf, 2.5])
def test_a_number_that_may_be_infinite_is_read_as_it_was_written(value):
    assert read_hint(dict[str, Unbounded], {"worst": value}, source="file") == {"worst": value}
    assert math.isnan(read_hint(Unbounded, math.nan, source="file"))
    for wrong in ("inf", None, True, [1.0]):
        with pytest.raises(ConfigError):
            read_hint(Unbounded, wrong, source="file")

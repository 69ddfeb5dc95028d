"""The grammar of networks."""

import pytest

from hpsearch.trainers.config.net_arch import Linear, Norm, Residual, parse


def test_widths_norms_and_residuals():
    assert parse([32, "b", "r16"]) == (Linear(32), Norm("batch_norm"), Residual(16, "batch_norm"))
    assert parse(["l", "rl5"]) == (Norm("layer_norm"), Residual(5, "layer_norm"))
    assert parse([]) == ()


def test_repetitions_unroll_and_nest():
    inner = {"repeat": 2, "net_arch": ["b", 4]}
    assert parse([{"repeat": 2, "net_arch": [8, inner]}, 3]) == (
        *(Linear(8), Norm("batch_norm"), Linear(4), Norm("batch_norm"), Linear(4)) * 2,
        Linear(3),
    )


def test_an_empty_repetition_is_no_layer():
    assert parse([4, {"repeat": 3, "net_arch": []}]) == (Linear(4),)


@pytest.mark.parametrize(
    "token",
    [
        0,
        -4,
        True,
        2.0,
        None,
        "r",
        "r0",
        "r08",
        "R8",
        "rr8",
        "B",
        "8",
        "b ",
        [8],
        "L",
        "ll",
        "rl",
        "rl0",
        "lr8",
        "rL8",
        "rll8",
        "l8",
    ],
)
def test_an_error_names_the_token(token):
    with pytest.raises(ValueError, match="net_arch takes") as error:
        parse([8, token])
    assert str(error.value).endswith(f"got {token!r}")
    assert "'l'" in str(error.value)


@pytest.mark.parametrize(
    "repetition",
    [
        {},
        {"repeat": None, "net_arch": [8]},
        {"repeat": 2, "net_arch": None},
        {"repeat": 0, "net_arch": [8]},
        {"repeat": True, "net_arch": [8]},
        {"repeat": 2.0, "net_arch": [8]},
        {"repeat": 2},
        {"net_arch": [8]},
        {"repeat": 2, "net_arch": "b"},
        {"repeat": 2, "net_arch": 8},
        {"repeat": 2, "net_arch": [8], "times": 2},
    ],
)
def test_an_error_names_the_repetition(repetition):
    with pytest.raises(ValueError, match="a repetition is") as error:
        parse([repetition])
    assert str(error.value).endswith(f"got {repetition!r}")


def test_a_fault_inside_a_repetition_is_found():
    with pytest.raises(ValueError, match="got 'x'"):
        parse([{"repeat": 3, "net_arch": [8, "x"]}])


def test_a_few_characters_do_not_ask_for_any_number_of_layers():
    inner = {"repeat": 100, "net_arch": [8]}
    assert len(parse([{"repeat": 100, "net_arch": [inner]}])) == 10_000
    empty = [{"repeat": 10**12, "net_arch": [{"repeat": 10**12, "net_arch": []}]}]
    assert parse(empty) == ()
    for more in (
        [{"repeat": 101, "net_arch": [inner]}],
        [8] * 10_001,
        [{**inner, "repeat": 10**12}],
    ):
        with pytest.raises(ValueError, match="at most 10000 layers"):
            parse(more)


def test_a_list_may_stand_once():
    assert parse([{"repeat": 1, "net_arch": [8, "b"]}]) == parse([8, "b"])

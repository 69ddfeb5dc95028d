"""The verdict on a player: what it is stronger than, by intervals that are apart."""

import pytest

from hpsearch.analysis.verdict import certified_verdict, opponents_of, verdict


def rho(value: float, capped: float = 0.0) -> dict[str, float]:
    return {"value": value, "low": value - 0.01, "high": value + 0.01, "capped": capped}


def against(**values: float) -> dict[str, dict[str, float]]:
    return {opponent: rho(value) for opponent, value in values.items()}


OWN = against(choose_first=0.10, choose_last=0.20, random=0.30)
WEAK = against(choose_first=0.05, choose_last=0.05, random=0.05)
MIXED = against(choose_first=0.05, choose_last=0.21, random=0.40)


def said(own, others, trained_on=None, role="host") -> list[str]:
    return verdict("trial 3", role, own, others, trained_on)


def test_a_host_that_is_stronger_everywhere():
    assert said(OWN, {"zeillinger": WEAK, "random": WEAK}) == [
        "Trial 3, as host, is stronger than zeillinger and random against choose_first, "
        "choose_last and random.",
        "All games ended.",
    ]


def test_what_beats_it_is_named():
    assert said(OWN, {"zeillinger": WEAK, "all_coord": MIXED})[:2] == [
        "Trial 3, as host, is stronger than zeillinger against choose_first, choose_last and "
        "random.",
        "It is stronger than all_coord against choose_first, no different from all_coord against "
        "choose_last and weaker than all_coord against random.",
    ]
    assert said(WEAK, {"zeillinger": OWN})[0] == (
        "Trial 3, as host, is weaker than zeillinger against choose_first, choose_last and random."
    )


def test_of_an_agent_less_is_more():
    assert "is stronger than choose_first" in said(WEAK, {"choose_first": OWN}, role="agent")[0]


@pytest.mark.parametrize(("low", "outcome"), [(0.0801, "no different from"), (0.0799, "stronger")])
def test_intervals_that_touch_decide_nothing(low, outcome):
    own = {"random": {"value": 0.1, "low": low, "high": 0.12, "capped": 0.0}}
    other = {"random": {"value": 0.07, "low": 0.06, "high": 0.08 + 0.0001 * 1, "capped": 0.0}}
    if outcome == "stronger":
        other["random"]["high"] = 0.0798
    assert outcome in said(own, {"zeillinger": other})[0]


def test_games_that_never_end_are_counted():
    own = {"choose_first": rho(0.1, 0.025), "choose_last": rho(0.1), "random": rho(0.1, 0.0001)}
    assert said(own, {"zeillinger": WEAK})[1] == (
        "Of its games, 2.50% against choose_first and 0.01% against random were cut off unfinished."
    )


def test_strength_against_what_it_trained_on_alone_is_warned_of():
    """The quick start once searched for this, and what it found lost to zeillinger elsewhere."""
    own = against(choose_first=0.16, choose_last=0.04, random=0.10)
    zeillinger = against(choose_first=0.08, choose_last=0.09, random=0.19)
    assert said(own, {"zeillinger": zeillinger}, ["choose_first"])[-1] == (
        "It is stronger than zeillinger only against choose_first, which it trained on: against "
        "choose_last and random it may be weak."
    )
    alone = said(against(choose_first=0.16), {"zeillinger": zeillinger}, ["choose_first"])
    assert alone[-1] == (
        "It was measured against choose_first alone, which it trained on: against others it may "
        "be weak."
    )
    for trained_on in (None, ["choose_first", "choose_last", "random"]):
        assert len(said(OWN, {"zeillinger": WEAK}, trained_on)) == 2
    assert len(said(OWN, {"zeillinger": WEAK}, ["choose_first"])) == 2  # and strong elsewhere


@pytest.mark.parametrize(
    ("agent", "opponents", "names"),
    [
        ({"player": "random"}, None, ("random",)),
        (None, [{"player": "random", "weight": 1.0}], ("random",)),
        (None, [{"player": "random", "weight": 1.0}, {"checkpoint": "x", "weight": 1.0}], None),
        ({"checkpoint": "x"}, None, None),
        ({"net_arch": [8]}, None, None),
        ({"net_arch": [8]}, [{"player": "learner", "weight": 1.0}], None),
    ],
)
def test_what_a_role_trained_on(agent, opponents, names):
    config = {"host": {"net_arch": [8]}, "agent": agent, "opponents": opponents}
    assert opponents_of("host", config) == names


def test_a_certificate_has_a_verdict_a_role():
    def row(player: str, role: str, values: dict[str, dict[str, float]]) -> dict[str, object]:
        metrics = {f"rho/{role}/{name}": numbers for name, numbers in values.items()}
        return {"player": player, "role": role, "metrics": {**metrics, f"panel/{role}": rho(9.0)}}

    rows = [
        row("trained", "host", OWN),
        row("zeillinger", "host", WEAK),
        row("trained", "agent", WEAK),
        row("choose_first", "agent", OWN),
    ]
    config = {"host": {"net_arch": [8]}, "agent": {"net_arch": [8]}, "opponents": None}
    sentences = certified_verdict("trial 3", rows, config)
    assert [sentence.split(",")[1] for sentence in sentences[::2]] == [" as host", " as agent"]
    # Damaged ones crash nothing.
    assert certified_verdict("trial 3", rows[1:2], config) == []
    assert certified_verdict("trial 3", [rows[0], {**rows[1], "metrics": {}}], config) == [
        "All games ended."
    ]

"""How strong a player is, in sentences: what it is stronger than, and against which opponents."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hpsearch.trainers.config.players import LEARNER
from hpsearch.trainers.metrics import MODES, PANELS

Measures = Mapping[str, Mapping[str, float]]
"""by opponent: value, low, high and capped, as in a certificate"""


def verdict(
    player: str,
    role: str,
    own: Measures,
    others: Mapping[str, Measures],
    trained_on: Sequence[str] | None,
) -> list[str]:
    """Return sentences on a player of ``role``; each compares 95 % intervals.

    Args:
        player: what it is called, such as trial 12.
        role: host or agent.
        own: its rho by opponent.
        others: rho of other players of the role against the same opponents, by name.
        trained_on: the opponents that it trained on; None where they are not known by name.
    """
    if not own:
        return []
    sentences = [*_comparisons(player, role, own, others), _unended(own)]
    warning = _warning(role, own, others, trained_on)
    return [*sentences, *([warning] if warning else [])]


def certified_verdict(
    player: str, rows: Sequence[Mapping[str, Any]], config: Mapping[str, Any]
) -> list[str]:
    """Return `verdict` of each role in a certificate's rows.

    Args:
        player: what the trained player is called.
        rows: as the certificate holds them.
        config: that of the trained player, as plain data.
    """
    sentences = []
    for role in dict.fromkeys(row["role"] for row in rows):
        by_player = {
            row["player"]: measures(role, row["metrics"]) for row in rows if row["role"] == role
        }
        own = by_player.pop("trained", {})
        sentences += verdict(player, role, own, by_player, opponents_of(role, config))
    return sentences


def opponents_of(role: str, config: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the scripted players that a role trained on; None where others were among them.

    Args:
        role: host or agent.
        config: the trainer configuration, as plain data.
    """
    other = config["agent" if role == "host" else "host"]
    listed = config["opponents"] if other is None else [other]
    names = [opponent.get("player") for opponent in listed]
    return tuple(names) if all(names) and LEARNER not in names else None


def measures(role: str, metrics: Mapping[str, Mapping[str, float]]) -> Measures:
    start = f"{MODES[0]}/{role}/"
    return {
        name.removeprefix(start): numbers
        for name, numbers in metrics.items()
        if name.startswith(start)
    }


def _comparisons(
    player: str, role: str, own: Measures, others: Mapping[str, Measures]
) -> Iterator[str]:
    """Yield what the player is stronger than everywhere, then each other player."""
    name = player[:1].upper() + player[1:]
    outcomes = {
        other: {o: _outcome(role, own[o], theirs[o]) for o in own if o in theirs}
        for other, theirs in others.items()
        if own.keys() & theirs.keys()
    }
    beaten = [
        other
        for other, by in outcomes.items()
        if by.keys() == own.keys() and set(by.values()) == {"stronger"}
    ]
    if beaten:
        yield f"{name}, as {role}, is stronger than {_and(beaten)} against {_and(list(own))}."
    for other, by in outcomes.items():
        if other not in beaten:
            parts = [
                f"{outcome} than {other} against {_and(opponents)}"
                if outcome != "even"
                else f"no different from {other} against {_and(opponents)}"
                for outcome in ("stronger", "even", "weaker")
                if (opponents := [o for o, came_to in by.items() if came_to == outcome])
            ]
            subject = "It" if beaten or other != next(iter(outcomes)) else f"{name}, as {role},"
            yield f"{subject} is {_and(parts)}."


def _outcome(role: str, own: Mapping[str, float], its: Mapping[str, float]) -> str:
    """Return stronger or weaker where the intervals are apart, else even."""
    if own["low"] <= its["high"] and its["low"] <= own["high"]:
        return "even"
    return "stronger" if (own["value"] > its["value"]) == (role == "host") else "weaker"


def _unended(own: Measures) -> str:
    shares = [
        f"{numbers['capped']:.2%} against {opponent}"
        for opponent, numbers in own.items()
        if numbers["capped"] > 0
    ]
    if not shares:
        return "All games ended."
    return f"Of its games, {_and(shares)} were cut off unfinished."


def _warning(
    role: str,
    own: Measures,
    others: Mapping[str, Measures],
    trained_on: Sequence[str] | None,
) -> str | None:
    """Return that a player is strong only against what it trained on, where that is so."""
    if trained_on is None:
        return None
    known = [opponent for opponent in own if opponent in trained_on]
    new = [opponent for opponent in own if opponent not in trained_on]
    if not new and not set(PANELS[role]) <= set(own):
        return (
            f"It was measured against {_and(known)} alone, which it trained on: against others it "
            "may be weak."
        )
    for other, its in others.items():
        stronger = [o for o in own if o in its and _outcome(role, own[o], its[o]) == "stronger"]
        if new and set(stronger) & set(known) and not set(stronger) & set(new):
            return (
                f"It is stronger than {other} only against {_and(known)}, which it trained on: "
                f"against {_and(new)} it may be weak."
            )
    return None


def _and(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last

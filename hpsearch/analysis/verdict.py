"""How strong a player is, in sentences: what it is stronger than, and against which opponents."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hpsearch.trainers.config.players import LEARNER
from hpsearch.trainers.metrics import MODES, PANELS

Measures = Mapping[str, Mapping[str, float]]  # value, low, high and capped, by opponent
ByPlayer = Mapping[str, Measures]


def verdict(
    player: str, role: str, own: Measures, others: ByPlayer, trained_on: Sequence[str] | None
) -> list[str]:
    """Return sentences on a player of ``role``; each compares 95 % intervals.

    ``own`` is its rho by opponent, ``others`` that of other players of the role by name, and
    ``trained_on`` its opponents in training; None where they are not known by name.
    """
    if not own:
        return []
    sentences = [*_comparisons(player, role, own, others), _unended(own)]
    warning = _warning(role, own, others, trained_on)
    return sentences if warning is None else [*sentences, warning]


def certified_verdict(
    player: str, rows: Sequence[Mapping[str, Any]], config: Mapping[str, Any]
) -> list[str]:
    sentences = []
    for role in dict.fromkeys(row["role"] for row in rows):
        of_role = [row for row in rows if row["role"] == role]
        by_player = {row["player"]: measures(role, row["metrics"]) for row in of_role}
        own = by_player.pop("trained", {})
        sentences += verdict(player, role, own, by_player, opponents_of(role, config))
    return sentences


def opponents_of(role: str, config: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the scripted players that a role trained on; None where others were among them."""
    other = config["agent" if role == "host" else "host"]
    listed = config["opponents"] if other is None else [other]
    names = [opponent.get("player") for opponent in listed]
    return tuple(names) if all(names) and LEARNER not in names else None


def measures(role: str, metrics: Measures) -> Measures:
    """Return those of metrics, by name, that are a role's greedy rho, by opponent."""
    start = f"{MODES[0]}/{role}/"
    of_role = {name: numbers for name, numbers in metrics.items() if name.startswith(start)}
    return {name.removeprefix(start): numbers for name, numbers in of_role.items()}


def _comparisons(player: str, role: str, own: Measures, others: ByPlayer) -> Iterator[str]:
    subject = f"{player[:1].upper()}{player[1:]}, as {role},"
    outcomes = {
        other: _outcomes(role, own, theirs)
        for other, theirs in others.items()
        if own.keys() & theirs.keys()
    }
    everywhere = dict.fromkeys(own, "stronger")
    beaten = [other for other, by_opponent in outcomes.items() if by_opponent == everywhere]
    if beaten:
        yield f"{subject} is stronger than {_and(beaten)} against {_and(list(own))}."
        subject = "It"
    for other, by_opponent in outcomes.items():
        if other not in beaten:
            parts = []
            for outcome, comparison in COMPARISONS.items():
                if opponents := [name for name, how in by_opponent.items() if how == outcome]:
                    parts.append(f"{comparison} {other} against {_and(opponents)}")
            yield f"{subject} is {_and(parts)}."
            subject = "It"


COMPARISONS = {"stronger": "stronger than", "even": "no different from", "weaker": "weaker than"}


def _outcomes(role: str, own: Measures, theirs: Measures) -> dict[str, str]:
    """Return how a player compares with another one, by the opponents that both met."""
    common = (opponent for opponent in own if opponent in theirs)
    return {opponent: _outcome(role, own[opponent], theirs[opponent]) for opponent in common}


def _outcome(role: str, own: Mapping[str, float], its: Mapping[str, float]) -> str:
    if own["low"] <= its["high"] and its["low"] <= own["high"]:
        return "even"
    return "stronger" if (own["value"] > its["value"]) == (role == "host") else "weaker"


def _unended(own: Measures) -> str:
    capped = {name: numbers["capped"] for name, numbers in own.items() if numbers["capped"] > 0}
    shares = [f"{share:.2%} against {opponent}" for opponent, share in capped.items()]
    if not shares:
        return "All games ended."
    return f"Of its games, {_and(shares)} were cut off unfinished."


def _warning(
    role: str, own: Measures, others: ByPlayer, trained_on: Sequence[str] | None
) -> str | None:
    """Return a warning where a player may be strong only against what it trained on, else None."""
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
        outcomes = _outcomes(role, own, its)
        stronger = {opponent for opponent, how in outcomes.items() if how == "stronger"}
        if new and stronger & set(known) and not stronger & set(new):
            return (
                f"It is stronger than {other} only against {_and(known)}, which it trained on: "
                f"against {_and(new)} it may be weak."
            )
    return None


def _and(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last

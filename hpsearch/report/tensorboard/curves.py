"""What of a trial TensorBoard draws: every number of its learning curve, by tag."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from hpsearch.study.records import Trial


@dataclass(frozen=True)
class Point:
    """What was measured at one step."""

    step: int
    at: float
    """seconds since the epoch"""
    values: Mapping[str, float]
    """by tag; TensorBoard groups what shares the text before the first slash"""


def points(trial: Trial, rows: Iterable[Mapping[str, Any]]) -> Iterator[Point]:
    """Yield the evaluations of a trial, the rows of its learning curve.

    A metric's value has the metric's name as its tag. What else was measured with it stands apart,
    so that its charts can be folded: low, high, capped and games before the name.
    """
    for row in rows:
        at = row.get("at")
        values = dict(_numbers(row.get("metrics")))
        values |= {k: v for k, v in _mapping(row.get("entropies")).items() if _is_number(v)}
        yield Point(row["step"], float(at) if _is_number(at) else trial.asked_at, values)


def final_tag(metric: str) -> str:
    """Return the tag of what a trial came to, of which there is one value."""
    return f"final/{metric}"


def final_values(trial: Trial) -> dict[str, float]:
    """Return what a trial came to, by tag; empty if it has come to nothing."""
    return {final_tag(name): measured["value"] for name, measured in trial.metrics.items()}


def _numbers(metrics: Any) -> Iterator[tuple[str, float]]:
    for name, measured in _mapping(metrics).items():
        for key, value in _mapping(measured).items():
            if _is_number(value):
                yield name if key == "value" else f"{key}/{name}", value


def _mapping(data: Any) -> dict[str, Any]:
    return data if type(data) is dict else {}  # which is what JSON gives; quicker than isinstance


def _is_number(value: Any) -> TypeGuard[float]:
    # Not bool; quicker than isinstance. No whole number that is too large for a float.
    return type(value) is float or (type(value) is int and abs(value) < 2**63)

"""Intervals of what is normally distributed."""

from statistics import NormalDist


def num_errors(confidence: float) -> float:
    """Return how many standard errors an interval reaches to each side: 1.96 for 95 %."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie above 0 and below 1, got {confidence!r}")
    return NormalDist().inv_cdf((1.0 + confidence) / 2)

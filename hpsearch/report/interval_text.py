"""Measured values as text."""

from collections.abc import Mapping


def interval_text(rho: Mapping[str, float]) -> str:
    """Return a measured value with its 95 % interval."""
    return f"{rho['value']:.4f} [{rho['low']:.4f}, {rho['high']:.4f}]"

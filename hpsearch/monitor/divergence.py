"""Which members have diverged, by their losses."""

from collections.abc import Mapping


def divergence(scalars: Mapping[str, float], max_loss: float) -> str | None:
    """Return a sentence if a loss of one member is above ``max_loss`` or no number, else None.

    Losses are the scalars named ``loss`` or ``<role>/loss``.
    """
    for name, value in scalars.items():
        if name.rpartition("/")[2] == "loss" and not value <= max_loss:  # true for NaN too
            return (
                f"the loss {name} is {value:g}, above max_loss {max_loss:g}; lower the learning "
                "rate, or raise monitor.max_loss"
            )
    return None

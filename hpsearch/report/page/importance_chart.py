"""Importances as bars beside the noise, and what may be concluded from them as a sentence."""

from typing import Any

from hpsearch.report.colours import BLUE
from hpsearch.report.importances import (
    CONFIDENCE,
    MAX_TRIALS,
    NUM_RESAMPLES,
    NUM_SHUFFLES,
    Importances,
)
from hpsearch.report.page.charts import QUIET, Trace, axis, intervals


def importance_sentence(importances: Importances, metric: str) -> str:
    """Return which parameters mattered as far as chance lets that be told."""
    above, number = importances.above_noise, importances.num_trials
    if not above:
        return (
            f"Too few trials to tell which parameters mattered for {metric}: of {number} trials, "
            "no parameter stands above the noise."
        )
    names = " and ".join([", ".join(above[:-1]), above[-1]] if len(above) > 1 else above)
    others = len(importances.by_name) - len(above)
    rest = f" Of the others {number} trials are too few to tell." if others else ""
    return f"{names} mattered for {metric} more than chance explains.{rest}"


def reading(importances: Importances) -> str:
    """Return how the chart was made."""
    some = ""
    if importances.num_finished > importances.num_trials:
        some = f" Of {importances.num_finished:,} finished trials, {MAX_TRIALS} were drawn."
    return (
        "Importances by Optuna's PED-ANOVA, less what chance gives: how unlike a parameter's "
        f"values in the best {100 * importances.best_share:.0f} % of the {importances.num_trials} "
        "trials are to those in all, in shares that add up to 1. Lines are "
        f"{100 * CONFIDENCE:.0f} % intervals by {NUM_RESAMPLES} resamples of the trials. Grey is "
        f"the noise: in {100 * CONFIDENCE:.0f} % of {NUM_SHUFFLES} shuffles of the values among "
        f"the trials, no parameter comes above its grey bar.{some}"
    )


def importance_bars(importances: Importances) -> list[Trace]:
    """Return a bar a parameter, the most important one above, over the noise."""
    names = list(importances.by_name)[::-1]
    drawn = [importances.by_name[name] for name in names]
    shares = [importance.share for importance in drawn]
    ends = intervals(
        shares,
        [importance.low for importance in drawn],
        [importance.high for importance in drawn],
    )
    noise = {
        "type": "bar",
        "orientation": "h",
        "name": "noise",
        "x": [importance.noise for importance in drawn],
        "y": names,
        "width": 0.85,
        "marker": {"color": QUIET},
    }
    bars = {
        "type": "bar",
        "orientation": "h",
        "name": "importance, 95 % interval",
        "x": shares,
        "y": names,
        "width": 0.4,
        "marker": {"color": BLUE},
        "error_x": ends,
    }
    return [noise, bars]


def importance_layout(importances: Importances) -> dict[str, Any]:
    """Return the axes of the bars; each parameter's share stands beside its name."""
    names = list(importances.by_name)[::-1]
    labels = [f"{name}  {importances.by_name[name].share:.2f}" for name in names]
    upright = {"tickmode": "array", "tickvals": names, "ticktext": labels}
    return {
        "barmode": "overlay",
        "xaxis": axis("share of what the parameters explain", {"rangemode": "tozero"}),
        "yaxis": axis("", upright),
    }

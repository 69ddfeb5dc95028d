"""Importances beside the noise in the dashboard, whose own chart of them shows no noise."""

from collections.abc import Iterator, Mapping

from hpsearch.report.dashboard.drawn import Figure, figure
from hpsearch.report.importances import Importances
from hpsearch.report.page.importance_chart import (
    importance_bars,
    importance_layout,
    importance_sentence,
)
from hpsearch.report.view import StudyView


def importance_figures(
    view: StudyView, measured: Mapping[str, Importances]
) -> Iterator[tuple[str, Figure]]:
    """Yield name and figure of the importances for each metric for which they are known."""
    for place, objective in enumerate(view.study.spec.objectives):
        if objective.metric not in measured:
            continue
        importances = measured[objective.metric]
        title = "importances beyond chance, with 95 % intervals; grey is noise"
        drawn = figure(importance_bars(importances), f"{title}: {objective.metric}", "", "")
        drawn["layout"] |= importance_layout(importances)
        yield f"importances-{place}", drawn


def importance_text(measured: Mapping[str, Importances]) -> str:
    """Return what may be concluded from importances by metric; empty where none are known."""
    if not measured:
        return ""
    sentences = [importance_sentence(found, metric) for metric, found in measured.items()]
    return " ".join([*sentences, "Optuna's own chart of importances shows no noise."])

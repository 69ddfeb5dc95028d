"""The rungs: how far trials came, and where the pruner gave them up."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hpsearch.report.colours import BLUE, ORANGE, VERMILLION
from hpsearch.report.page.charts import OVER, Chart, axis, chart
from hpsearch.report.page.html import Html, Section, figure, join, paragraph
from hpsearch.report.page.material import Material
from hpsearch.report.view import StudyView
from hpsearch.study.options import NoPruning
from hpsearch.study.records import PRUNED


@dataclass(frozen=True)
class Rungs:
    """Trials by the step that they reported a value at."""

    reached: Mapping[int, int]
    """trials that reported at a step and were not given up there"""
    pruned: Mapping[int, int]
    """trials that were given up at a step"""


def rungs_section(material: Material) -> Section | None:
    """Return the section on pruning; None where nothing can be pruned, or could be as yet."""
    spec = material.view.study.spec
    is_pruned = not isinstance(spec.pruner, NoPruning) and len(spec.objectives) == 1
    if spec.population is not None or not is_pruned:
        return None
    counted = rungs(material.view)
    if not counted.reached and not counted.pruned:
        return None
    return Section("rungs", "Rungs and pruning", join(_parts(material.view, counted)))


def _parts(view: StudyView, found: Rungs) -> Iterator[Html]:
    pruned = view.state.told(PRUNED)
    steps = sum(max(trial.reported, default=0) for trial in pruned)
    saved = sum(view.steps(trial) for trial in pruned) - steps
    yield paragraph(
        f"The pruner, {view.study.spec.pruner.name}, gave up {len(pruned)} of "
        f"{len(view.state.trials)} trials, which saved {saved:,} training steps."
    )
    yield figure(
        rungs_chart(found),
        "rungs-reached",
        "Trials that reported a value at a step, by what then happened.",
    )
    yield figure(
        ends_chart(view),
        "rungs-values",
        "The last reported value of each trial that was given up, beside those that finished.",
    )


def rungs(view: StudyView) -> Rungs:
    """Return how many trials reached each step, and how many were given up there."""
    reached: Counter[int] = Counter()
    pruned: Counter[int] = Counter()
    for trial in view.state.trials.values():
        last = max(trial.reported, default=None)
        reached.update(trial.reported.keys())  # a mapping would add up its values
        if trial.prune and last is not None:
            pruned[last] += 1
            reached[last] -= 1
    return Rungs(dict(sorted(reached.items())), dict(sorted(pruned.items())))


def rungs_chart(found: Rungs) -> Chart:
    """Return a bar a step."""
    steps = sorted({*found.reached, *found.pruned})
    looks = (("went on", found.reached, BLUE, ""), ("pruned", found.pruned, ORANGE, "/"))
    data = [
        {
            "type": "bar",
            "name": name,
            "x": [f"{step:,}" for step in steps],
            "y": [counts.get(step, 0) for step in steps],
            "marker": {"color": colour, "pattern": {"shape": shape, **OVER}},
        }
        for name, counts, colour, shape in looks
    ]
    layout = {"barmode": "stack", "height": 300}
    return chart(
        data, {**layout, "xaxis": axis("step", {"type": "category"}), "yaxis": axis("trials", {})}
    )


def ends_chart(view: StudyView) -> Chart:
    """Return where trials ended: step and value."""
    ended = [trial for trial in view.state.trials.values() if trial.told and trial.reported]
    looks = (
        (
            "finished",
            [t for t in ended if t.told != PRUNED and t.value is not None],
            BLUE,
            "circle",
        ),
        ("pruned", [t for t in ended if t.told == PRUNED], VERMILLION, "x"),
    )
    data = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [max(trial.reported) for trial in trials],
            "y": [trial.reported[max(trial.reported)] for trial in trials],
            "text": [f"trial {trial.number}" for trial in trials],
            "marker": {"color": colour, "symbol": symbol, "size": 7, "opacity": 0.7},
        }
        for name, trials, colour, symbol in looks
    ]
    metric = view.study.spec.objectives[0].metric
    return chart(data, {"height": 320, "xaxis": axis("step", {}), "yaxis": axis(metric, {})})

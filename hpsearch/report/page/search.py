"""How the search went: values as trials ended, rungs, several objectives, matches.

Several objectives at once: the trials that no other one beats in all of them.

The rungs: how far trials came, and where the pruner gave them up.

How the members of a population stood in each match.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hpsearch.analysis.candidates import finished, front
from hpsearch.analysis.pictures import BLUE, GREEN, ORANGE, VERMILLION
from hpsearch.printable import interval_text
from hpsearch.report.page.html import (
    MAX_TICKS,
    OVER,
    QUIET,
    Chart,
    Html,
    Section,
    Trace,
    axis,
    chart,
    colour,
    dash,
    figure,
    intervals,
    join,
    missing,
    paragraph,
    symbol,
    table,
)
from hpsearch.report.page.material import Material
from hpsearch.study.options import NoPruning
from hpsearch.study.records import FAIL, PRUNED, Trial
from hpsearch.study.spec import Objective
from hpsearch.study.view import StudyView


def front_section(material: Material) -> Section | None:
    """Return the section on several objectives; None where there is one alone."""
    if len(material.view.study.spec.objectives) < 2:
        return None
    return Section("front", "Several objectives", join(_front_parts(material.view)))


def _front_parts(view: StudyView) -> Iterator[Html]:
    best = front(view)
    if not best:
        yield missing("No trial has finished yet.")
        return
    objectives = view.study.spec.objectives
    names = [objective.metric for objective in objectives]
    yield paragraph(
        f"{len(best)} of {len(finished(view))} finished trials are beaten by no other in all of "
        f"{', '.join(f'{objective.metric} ({objective.goal})' for objective in objectives)}. What "
        "is called the best elsewhere is the best in the first of them."
    )
    yield figure(front_chart(view, best), "pareto", f"{names[0]} against {names[1]}.")
    rows = [
        (str(trial.number), *(interval_text(trial.metrics[name]) for name in names))
        for trial in best
    ]
    yield table(("trial", *names), rows, strong=None)


def front_chart(view: StudyView, best: Sequence[Trial]) -> Chart:
    """Return the first two objectives of all finished trials, those of the front brought out."""
    first, second = (objective.metric for objective in view.study.spec.objectives[:2])
    in_front = {trial.number for trial in best}
    others = [trial for trial in finished(view) if trial.number not in in_front]
    looks = (
        ("beaten", others, {"color": QUIET, "symbol": "circle", "size": 6}),
        ("beaten by none", best, {"color": BLUE, "symbol": "diamond", "size": 10}),
    )
    data = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [trial.metrics[first]["value"] for trial in trials],
            "y": [trial.metrics[second]["value"] for trial in trials],
            "text": [f"trial {trial.number}" for trial in trials],
            "marker": marker,
        }
        for name, trials, marker in looks
    ]
    return chart(data, {"xaxis": axis(first, {}), "yaxis": axis(second, {})})


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
    return Section("rungs", "Rungs and pruning", join(_rung_parts(material.view, counted)))


def _rung_parts(view: StudyView, rungs: Rungs) -> Iterator[Html]:
    pruned = view.state.told(PRUNED)
    steps = sum(max(trial.reported, default=0) for trial in pruned)
    saved = sum(view.steps(trial) for trial in pruned) - steps
    yield paragraph(
        f"The pruner, {view.study.spec.pruner.name}, gave up {len(pruned)} of "
        f"{len(view.state.trials)} trials, which saved {saved:,} training steps."
    )
    yield figure(
        rungs_chart(rungs),
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


def rungs_chart(rungs: Rungs) -> Chart:
    steps = sorted({*rungs.reached, *rungs.pruned})
    looks = (("went on", rungs.reached, BLUE, ""), ("pruned", rungs.pruned, ORANGE, "/"))
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


def strength_chart(view: StudyView) -> Chart:
    judged = [match for match in view.state.population.matches.values() if match.is_over]
    members = sorted({member for match in judged for member in match.members})
    last = judged[-1]
    champion = next((m for m, trial in last.members.items() if trial == last.champion), None)
    data: list[Trace] = []
    for place, member in enumerate(members):
        played = [match for match in judged if member in match.members]
        trials = [match.members[member] for match in played]
        values = [match.strengths[t] for match, t in zip(played, trials, strict=True)]
        ends = [match.intervals[t] for match, t in zip(played, trials, strict=True)]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": f"member {member}",
                "x": [match.number for match in played],
                "y": values,
                "text": [f"trial {trial}" for trial in trials],
                "error_y": intervals(values, [e[0] for e in ends], [e[1] for e in ends]),
                "line": {
                    "color": colour(place),
                    "dash": dash(place),
                    "width": 3.5 if member == champion else 1.2,
                },
                "marker": {"symbol": symbol(place), "size": 6},
            }
        )
    return chart(
        data,
        {
            "xaxis": axis("match", {"dtick": 1} if len(judged) <= MAX_TICKS else {}),
            "yaxis": axis("strength", {}),
        },
    )


def history_section(material: Material) -> Section | None:
    """Return the section on how the search went; None where nothing has finished."""
    parts = list(_history_parts(material.view))
    return Section("history", "How the search went", join(parts)) if parts else None


def _history_parts(view: StudyView) -> Iterator[Html]:
    if view.study.spec.population is not None and any(
        match.is_over for match in view.state.population.matches.values()
    ):
        yield figure(
            strength_chart(view),
            "strengths",
            "Strength of the members in each match: the mean logarithm of rho over all opponents, "
            "who change from match to match; 95 % intervals, the champion's place bold.",
        )
    if not finished(view):
        return
    for place, objective in enumerate(view.study.spec.objectives):
        yield figure(
            history_chart(view, objective),
            f"history-{place}",
            f"{objective.metric} of each finished trial with its 95 % interval, in the order of "
            f"asking; the line is the best so far{_by_value(view)}. Marks below: pruned and failed "
            "trials.",
        )


def _by_value(view: StudyView) -> str:
    """Return what sets the best apart from a champion, where there is one."""
    if not view.state.population.archive:
        return ""
    return " by value, while the champion is chosen by strength"


def history_chart(view: StudyView, objective: Objective) -> Chart:
    trials = finished(view)
    numbers = [trial.number for trial in trials]
    estimates = [trial.metrics[objective.metric] for trial in trials]
    values = [estimate["value"] for estimate in estimates]
    measured = {
        "type": "scatter",
        "mode": "markers",
        "name": "finished",
        "x": numbers,
        "y": values,
        "text": [f"trial {number}" for number in numbers],
        "error_y": {
            **intervals(
                values,
                [estimate["low"] for estimate in estimates],
                [estimate["high"] for estimate in estimates],
            ),
            "color": "rgba(128,128,128,0.5)",
        },
        "marker": {"color": BLUE, "size": 6},
    }
    best = {
        "type": "scatter",
        "mode": "lines",
        "name": "best so far",
        "x": numbers,
        "y": best_so_far(values, objective.goal),
        "line": {"color": VERMILLION, "width": 2, "shape": "hv"},
    }
    return chart(
        [measured, best, *_marks(view)],
        {
            "xaxis": axis("trial", {}),
            "yaxis": axis(objective.metric, {}),
            "yaxis2": {"overlaying": "y", "range": [0, 1], "visible": False},
        },
    )


def best_so_far(values: Sequence[float], goal: str) -> list[float]:
    choose = max if goal == "maximize" else min
    best: list[float] = []
    for value in values:
        best.append(value if not best else choose(best[-1], value))
    return best


def _marks(view: StudyView) -> Iterator[dict[str, object]]:
    """Yield where trials ended without a value, along the lower edge."""
    kinds = ((PRUNED, GREEN, "line-ns-open", 0.02), (FAIL, VERMILLION, "x-thin-open", 0.05))
    for how, ink, mark, height in kinds:
        numbers = [trial.number for trial in view.state.told(how)]
        if numbers:
            yield {
                "type": "scatter",
                "mode": "markers",
                "name": how,
                "x": numbers,
                "y": [height] * len(numbers),
                "yaxis": "y2",
                "text": [f"trial {number}" for number in numbers],
                "hovertemplate": "trial %{x}<extra></extra>",
                "marker": {"color": ink, "symbol": mark, "size": 8},
            }

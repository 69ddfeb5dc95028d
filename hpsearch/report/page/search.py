"""How the search went: values as trials ended, rungs, several objectives, matches."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hpsearch.analysis.candidates import finished, front, judged_matches
from hpsearch.analysis.pictures import BLUE, GREEN, ORANGE, VERMILLION
from hpsearch.printable import interval_text
from hpsearch.report.page import charts, html
from hpsearch.report.page.charts import Chart, Trace
from hpsearch.report.page.html import Html
from hpsearch.report.page.material import Material
from hpsearch.study.options import NoPruning
from hpsearch.study.records import FAIL, PRUNED, Trial
from hpsearch.study.spec import Objective
from hpsearch.study.view import StudyView


def history_section(material: Material) -> Iterator[Html]:
    view = material.view
    if view.study.spec.population is not None and judged_matches(view):
        yield html.figure(
            strength_chart(view),
            "strengths",
            "Strength of the members in each match: the mean logarithm of rho over all opponents, "
            "who change from match to match; 95 % intervals, the champion's place bold.",
        )
    if not finished(view):
        return
    has_champion = bool(view.state.population.archive)
    by_value = " by value, while the champion is chosen by strength" if has_champion else ""
    marks = " Marks below: pruned and failed trials." if any(_marks(view)) else ""
    for place, objective in enumerate(view.study.spec.objectives):
        yield html.figure(
            history_chart(view, objective),
            f"history-{place}",
            f"{objective.metric} of each finished trial with its 95 % interval, in the order of "
            f"asking; the line is the best so far{by_value}.{marks}",
        )


def history_chart(view: StudyView, objective: Objective) -> Chart:
    trials = finished(view)
    numbers = [trial.number for trial in trials]
    estimates = [trial.metrics[objective.metric] for trial in trials]
    values, low, high = ([estimate[key] for estimate in estimates] for key in VALUE_AND_ENDS)
    error = charts.intervals(values, low, high) | {"color": "rgba(128,128,128,0.5)"}
    measured = charts.trial_points("finished", trials, numbers, values, {"color": BLUE, "size": 6})
    # The line must not take the clicks that are meant for the points below it.
    look = {"line": {"color": VERMILLION, "width": 2, "shape": "hv"}, "hoverinfo": "skip"}
    best = best_so_far(values, objective.goal)
    line = charts.scatter("lines", "best so far", numbers, best, look)
    layout = charts.axes("trial", objective.metric) | {
        "yaxis2": {"overlaying": "y", "range": [0, 1], "visible": False}
    }
    return charts.chart([{**measured, "error_y": error}, line, *_marks(view)], layout)


VALUE_AND_ENDS = ("value", "low", "high")


def best_so_far(values: Sequence[float], goal: str) -> list[float]:
    choose = max if goal == "maximize" else min
    best: list[float] = []
    for value in values:
        best.append(value if not best else choose(best[-1], value))
    return best


def _marks(view: StudyView) -> Iterator[Trace]:
    """Yield where trials ended without a value, along the lower edge."""
    kinds = ((PRUNED, GREEN, "line-ns-open", 0.02), (FAIL, VERMILLION, "x-thin-open", 0.05))
    for how, ink, mark, height in kinds:
        if trials := view.state.told(how):
            marker = {"color": ink, "symbol": mark, "size": 8}
            numbers = [trial.number for trial in trials]
            yield {
                **charts.trial_points(how, trials, numbers, [height] * len(trials), marker),
                "yaxis": "y2",
                "hovertemplate": "trial %{x}<extra></extra>",
            }


def strength_chart(view: StudyView) -> Chart:
    judged = judged_matches(view)
    last = judged[-1]
    champion = next((m for m, trial in last.members.items() if trial == last.champion), None)
    data: list[Trace] = []
    for place, member in enumerate(
        sorted({member for match in judged for member in match.members})
    ):
        played = [(match, match.members[member]) for match in judged if member in match.members]
        values = [match.strengths[trial] for match, trial in played]
        ends = [match.intervals[trial] for match, trial in played]
        more = {
            "text": [f"trial {trial}" for _, trial in played],
            "error_y": charts.intervals(values, [e[0] for e in ends], [e[1] for e in ends]),
            "line": charts.line(place, 3.5 if member == champion else 1.2),
            "marker": {"symbol": charts.symbol(place), "size": 6},
        }
        across = [match.number for match, _ in played]
        data.append(charts.scatter("lines+markers", f"member {member}", across, values, more))
    ticks = {"dtick": 1} if len(judged) <= charts.MAX_TICKS else {}
    layout = {"xaxis": charts.axis("match", ticks), "yaxis": charts.axis("strength", {})}
    return charts.chart(data, layout)


def front_section(material: Material) -> Iterator[Html]:
    view, objectives = material.view, material.view.study.spec.objectives
    if len(objectives) < 2:
        return
    best = front(view)
    if not best:
        yield html.missing("No trial has finished yet.")
        return
    names = [objective.metric for objective in objectives]
    yield html.paragraph(
        f"{len(best)} of {len(finished(view))} finished trials are beaten by no other in all of "
        f"{', '.join(f'{objective.metric} ({objective.goal})' for objective in objectives)}. What "
        "is called the best elsewhere is the best in the first of them."
    )
    yield html.figure(front_chart(view, best), "pareto", f"{names[0]} against {names[1]}.")
    rows = [
        (str(trial.number), *(interval_text(trial.metrics[name]) for name in names))
        for trial in best
    ]
    yield html.table(("trial", *names), rows)


def front_chart(view: StudyView, best: Sequence[Trial]) -> Chart:
    metrics = [objective.metric for objective in view.study.spec.objectives[:2]]
    in_front = {trial.number for trial in best}
    others = [trial for trial in finished(view) if trial.number not in in_front]

    def points(name: str, trials: Sequence[Trial], marker: Mapping[str, Any]) -> Trace:
        x, y = ([trial.metrics[metric]["value"] for trial in trials] for metric in metrics)
        return charts.trial_points(name, trials, x, y, marker)

    beaten = points("beaten", others, {"color": charts.QUIET, "symbol": "circle", "size": 6})
    front = points("beaten by none", best, {"color": BLUE, "symbol": "diamond", "size": 10})
    return charts.chart([beaten, front], charts.axes(*metrics))


def rungs_section(material: Material) -> Iterator[Html]:
    view, spec = material.view, material.view.study.spec
    is_pruned = not isinstance(spec.pruner, NoPruning) and len(spec.objectives) == 1
    if spec.population is not None or not is_pruned:
        return
    reached, given_up = rungs(view)
    if not reached and not given_up:
        return
    pruned = view.state.told(PRUNED)
    steps = sum(max(trial.reported, default=0) for trial in pruned)
    saved = sum(view.steps(trial) for trial in pruned) - steps
    yield html.paragraph(
        f"The pruner, {spec.pruner.name}, gave up {len(pruned)} of "
        f"{len(view.state.trials)} trials, which saved {saved:,} training steps."
    )
    yield html.figure(
        rungs_chart(reached, given_up),
        "rungs-reached",
        "Trials that reported a value at a step, by what then happened.",
    )
    yield html.figure(
        ends_chart(view),
        "rungs-values",
        "The last reported value of each trial that was given up, beside those that finished.",
    )


def rungs(view: StudyView) -> tuple[Counter[int], Counter[int]]:
    """Return by step how many trials reported there and went on, and how many were given up."""
    reached: Counter[int] = Counter()
    pruned: Counter[int] = Counter()
    for trial in view.state.trials.values():
        last = max(trial.reported, default=None)
        reached.update(trial.reported.keys())  # a mapping would add up its values
        if trial.prune and last is not None:
            pruned[last] += 1
            reached[last] -= 1
    return reached, pruned


def rungs_chart(reached: Mapping[int, int], pruned: Mapping[int, int]) -> Chart:
    steps = sorted({*reached, *pruned})
    looks = (("went on", reached, BLUE, ""), ("pruned", pruned, ORANGE, "/"))
    names = [f"{step:,}" for step in steps]
    data = []
    for name, counts, colour, shape in looks:
        numbers = [counts.get(step, 0) for step in steps]
        marker = {"color": colour, "pattern": {"shape": shape, **charts.OVER}}
        data.append({"type": "bar", "name": name, "x": names, "y": numbers, "marker": marker})
    across = charts.axis("step", {"type": "category"})
    layout = {
        "barmode": "stack",
        "height": 300,
        "xaxis": across,
        "yaxis": charts.axis("trials", {}),
    }
    return charts.chart(data, layout)


def ends_chart(view: StudyView) -> Chart:
    ended = [trial for trial in view.state.trials.values() if trial.told and trial.reported]
    whole = [trial for trial in ended if trial.told != PRUNED and trial.value is not None]
    pruned = [trial for trial in ended if trial.told == PRUNED]
    looks = (("finished", whole, BLUE, "circle"), ("pruned", pruned, VERMILLION, "x"))
    data = []
    for name, trials, colour, symbol in looks:
        last = [max(trial.reported.items()) for trial in trials]
        steps, values = [step for step, _ in last], [value for _, value in last]
        marker = {"color": colour, "symbol": symbol, "size": 7, "opacity": 0.7}
        data.append(charts.trial_points(name, trials, steps, values, marker))
    metric = view.study.spec.objectives[0].metric
    return charts.chart(data, {"height": 320, **charts.axes("step", metric)})

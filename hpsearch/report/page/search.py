"""How a search went and its trials learned, also beside a second study of the same objective."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

from hpsearch.analysis.candidates import finished, front, judged_matches
from hpsearch.analysis.lineage import lineage_or_why
from hpsearch.analysis.pictures import BLUE, GREEN, ORANGE, VERMILLION
from hpsearch.errors import UsageError
from hpsearch.printable import interval_text
from hpsearch.report.page import charts, html
from hpsearch.report.page.charts import Chart, Trace
from hpsearch.report.page.html import Html
from hpsearch.report.page.material import MAX_DRAWN, Material, MeasuredCurve, read_learning
from hpsearch.report.progress import seconds_at_work
from hpsearch.report.text import duration_text, endings_text
from hpsearch.study.options import NoPruning
from hpsearch.study.records import FAIL, PRUNED, Trial
from hpsearch.study.spec import Objective
from hpsearch.study.view import StudyView
from hpsearch.study.work import cost, steps_made


def history_section(material: Material) -> Iterator[Html]:
    view = material.view
    if view.study.spec.population is not None and judged_matches(view):
        yield html.figure(
            strength_chart(view),
            "strengths",
            f"Strength of the members in each match: {_strength_text(view)}; the champion's place "
            "bold.",
        )
    if not finished(view):
        return
    has_champion = bool(view.state.population.archive)
    by_value = " by value, while the champion is chosen by strength" if has_champion else ""
    marks = " Marks below: pruned and failed trials." if any(_marks(material.drawn)) else ""
    for place, objective in enumerate(view.study.spec.objectives):
        yield html.figure(
            history_chart(view, material.drawn, objective),
            f"history-{place}",
            f"{objective.metric} of each finished trial with its 95 % interval, in the order of "
            f"asking; the line is the best so far{by_value}.{marks}{material.drawn_text}",
        )
    if ended := view.state.tally.ended:
        yield html.paragraph(f"{endings_text(ended)}.")


def _strength_text(view: StudyView) -> str:
    if not view.study.is_program:
        return (
            "the mean logarithm of rho over all opponents, who change from match to match; 95 % "
            "intervals"
        )
    objective = view.study.spec.objectives[0]
    return objective.metric if objective.goal == "maximize" else f"minus {objective.metric}"


def history_chart(view: StudyView, drawn: StudyView, objective: Objective) -> Chart:
    """Return the values of the ``drawn`` trials, and the best so far of all."""
    trials = finished(drawn)
    numbers = [trial.number for trial in trials]
    rhos = [trial.metrics[objective.metric] for trial in trials]
    values, low, high = ([rho[key] for rho in rhos] for key in ("value", "low", "high"))
    error = charts.intervals(values, low, high) | {"color": "rgba(128,128,128,0.5)"}
    measured = charts.trial_points("finished", trials, numbers, values, {"color": BLUE, "size": 6})
    # The line must not take the clicks that are meant for the points below it.
    look = {"line": {"color": VERMILLION, "width": 2, "shape": "hv"}, "hoverinfo": "skip"}
    steps = best_steps(finished(view), objective)
    across = [trial.number for trial, _ in steps]
    line = charts.scatter("lines", "best so far", across, [best for _, best in steps], look)
    of_marks = {"overlaying": "y", "range": [0, 1], "visible": False}
    layout = charts.axes("trial", objective.metric) | {"yaxis2": of_marks}
    return charts.chart([{**measured, "error_y": error}, line, *_marks(drawn)], layout)


def best_steps(trials: Sequence[Trial], objective: Objective) -> list[tuple[Trial, float]]:
    """Return trials with the best value so far; of very many those at which it changed."""
    values = [trial.metrics[objective.metric]["value"] for trial in trials]
    steps = list(zip(trials, best_so_far(values, objective.goal), strict=True))
    if len(steps) <= MAX_DRAWN:
        return steps
    changes = [now for before, now in pairwise(steps) if now[1] != before[1]]
    return [steps[0], *changes, steps[-1]]


def best_so_far(values: Sequence[float], goal: str) -> list[float]:
    return list(accumulate(values, max if goal == "maximize" else min))


def _marks(view: StudyView) -> Iterator[Trace]:
    """Yield where trials ended without a value, along the lower edge."""
    kinds = ((PRUNED, GREEN, "line-ns-open", 0.02), (FAIL, VERMILLION, "x-thin-open", 0.05))
    for how, ink, mark, height in kinds:
        if trials := view.state.told(how):
            marker = {"color": ink, "symbol": mark, "size": 8}
            numbers, heights = [trial.number for trial in trials], [height] * len(trials)
            points = charts.trial_points(how, trials, numbers, heights, marker)
            yield points | {"yaxis": "y2", "hovertemplate": "trial %{x}<extra></extra>"}


def strength_chart(view: StudyView) -> Chart:
    """Return the members' strengths in the newest matches, of about `MAX_DRAWN` points in all."""
    judged = judged_matches(view)
    judged = judged[-max(1, MAX_DRAWN // len(judged[-1].members)) :]
    data: list[Trace] = []
    last = judged[-1]
    champion = next((m for m, trial in last.members.items() if trial == last.champion), None)
    members = sorted({member for match in judged for member in match.members})
    for place, member in enumerate(members):
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
    return charts.chart(data, charts.axes(charts.axis("match", ticks), "strength"))


def front_section(material: Material) -> Iterator[Html]:
    view, objectives = material.view, material.view.study.spec.objectives
    if len(objectives) < 2:
        return
    best = front(view)
    if not best:
        yield html.missing("No trial has finished yet.")
        return
    names = [objective.metric for objective in objectives]
    goals = ", ".join(f"{objective.metric} ({objective.goal})" for objective in objectives)
    yield html.paragraph(
        f"{len(best)} of {len(finished(view))} finished trials are beaten by no other in all of "
        f"{goals}. What is called the best elsewhere is the best in the first of them."
    )
    caption = f"{names[0]} against {names[1]}.{material.drawn_text}"
    yield html.figure(front_chart(material.drawn, best), "pareto", caption)
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
    caption = "Trials that reported a value at a step, by what then happened."
    yield html.figure(rungs_chart(reached, given_up), "rungs-reached", caption)
    caption = "The last reported value of each trial that was given up, beside those that finished."
    caption += material.drawn_text
    yield html.figure(ends_chart(material.drawn), "rungs-values", caption)


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
    axes = charts.axes(charts.axis("step", {"type": "category"}), "trials")
    return charts.chart(data, {"barmode": "stack", "height": 300, **axes})


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
    return charts.chart(data, {"height": 320, **charts.axes("step", view.metric)})


MAX_OTHERS: Final = 1000  # curves behind the best: more would be one grey area


def learning_section(material: Material) -> Iterator[Html]:
    view, learning, metric = material.view, material.learning, material.view.metric
    if learning.best or any(trial.reported for trial in view.state.trials.values()):
        yield html.figure(curves_chart(view, learning.best), "curves", _caption(material, metric))
    if not isinstance(learning.seeds, str):
        yield html.figure(
            seeds_chart(learning.seeds, metric),
            "curves-seeds",
            f"{metric} of the confirmed configurations, each trained on several seeds that the "
            "search never used: the mean over seeds, and a band from the lowest to the highest of "
            "them.",
        )


def _caption(material: Material, metric: str) -> str:
    what = "the best trials"
    if not isinstance(material.descent, str):
        what = "the lines that led to the strongest of the last match"
    newest = f", the newest {MAX_OTHERS:,}" if len(material.view.state.trials) > MAX_OTHERS else ""
    return (
        f"{metric} while training. In colour {what}, with 95 % intervals over games; behind them "
        f"what all others reported{newest}."
    )


def curves_chart(view: StudyView, best: Sequence[MeasuredCurve]) -> Chart:
    shown = {curve.trial for curve in best}
    others = [
        sorted(trial.reported.items())
        for trial in view.state.trials.values()
        if trial.number not in shown and trial.reported
    ][-MAX_OTHERS:]
    data: list[Trace] = []
    if others:
        look = {"color": charts.QUIET, "width": charts.thinner(1.0, len(others))}
        more = {"line": look, "hoverinfo": "skip"}
        data.append(charts.scatter("lines", "all others", *charts.shared_lines(others), more))
    for place, curve in enumerate(best):
        data += _with_band(f"trial {curve.trial}", curve, place)
    return charts.chart(data, charts.axes("step", view.metric))


def _with_band(name: str, curve: MeasuredCurve, place: int) -> list[Trace]:
    more = {"line": charts.line(place, 2), "marker": {"size": 4}}
    return [
        charts.band(curve.steps, curve.column(1), curve.column(2), charts.colour(place)),
        charts.scatter("lines+markers", name, curve.steps, curve.column(0), more),
    ]


def seeds_chart(seeds: Mapping[int, Sequence[MeasuredCurve]], metric: str) -> Chart:
    """Return the mean over seeds of each configuration, with a band from lowest to highest."""
    data: list[Trace] = []
    for place, (trial, curves) in enumerate(seeds.items()):
        steps, low, mean, high = over_seeds(curves)
        name = f"trial {trial}, {len(curves)} seeds"
        data.append(charts.band(steps, low, high, charts.colour(place)))
        data.append(charts.scatter("lines", name, steps, mean, {"line": charts.line(place, 2)}))
    return charts.chart(data, charts.axes("step", metric))


def over_seeds(
    curves: Sequence[MeasuredCurve],
) -> tuple[list[int], list[float], list[float], list[float]]:
    """Return steps, lowest, mean and highest value, at the steps that all curves have."""
    steps = sorted(set.intersection(*(set(curve.points) for curve in curves)))
    at_steps = [[curve.points[step][0] for curve in curves] for step in steps]
    means = [sum(values) / len(values) for values in at_steps]
    return steps, [min(values) for values in at_steps], means, [max(values) for values in at_steps]


def check_comparable(view: StudyView, other: StudyView) -> None:
    """Refuse studies whose first objectives differ; raises UsageError if they do."""
    goals = {each.name: each.study.spec.objectives[0] for each in (view, other)}
    if goals[view.name] != goals[other.name]:
        told = " and ".join(f"{name} ({goal.goal} {goal.metric})" for name, goal in goals.items())
        raise UsageError(
            f"two studies are laid over each other by their first objective, but {told} have "
            "different ones; name studies of one objective, or write a page of each"
        )


def overlay_section(material: Material) -> Iterator[Html]:
    if material.other is None:
        return
    views, metric = (material.view, material.other), material.view.metric
    yield html.paragraph(f"{views[0].name} and {views[1].name}, both by {metric}.")
    header = ("study", "best trial", metric, "trials", "steps", "GPU-hours", "time passed")
    yield html.table(header, map(_row, views))
    caption = f"The best {metric} so far, by finished trial."
    yield html.figure(best_chart(views), "overlay-best", caption)
    # Of the best trial, or where there is descent of the line to the strongest member.
    data: list[Trace] = []
    for place, view in enumerate(views):
        learning = read_learning(view, view.best(), "not drawn here", lineage_or_why(view))
        for curve in learning.best[:1]:
            data += _with_band(f"{view.name}, trial {curve.trial}", curve, place)
    if data:
        caption = f"{metric} of each best trial while it trained, with 95 % intervals over games."
        curves = charts.chart(data, charts.axes("step", metric))
        yield html.figure(curves, "overlay-curves", caption)


def _row(view: StudyView) -> tuple[str, ...]:
    best, metric = view.best(), view.metric
    return (
        view.name,
        "" if best is None else str(best.number),
        "" if best is None or metric not in best.metrics else interval_text(best.metrics[metric]),
        f"{view.state.num_done} of {view.study.spec.budget.trials}",
        f"{steps_made(view):,}",
        f"{cost(view).gpu_hours_spent:.2f}",
        duration_text(seconds_at_work(view, time.time())),
    )


def best_chart(views: Sequence[StudyView]) -> Chart:
    data: list[Trace] = []
    for place, view in enumerate(views):
        trials = finished(view)
        count = {trial.number: at for at, trial in enumerate(trials, 1)}
        steps = best_steps(trials, view.study.spec.objectives[0])
        look = {"line": charts.line(place, 2) | {"shape": "hv"}, "marker": {"size": 4}}
        more = charts.trial_texts([trial for trial, _ in steps]) | look
        across = [count[trial.number] for trial, _ in steps]
        best = [value for _, value in steps]
        data.append(charts.scatter("lines+markers", view.name, across, best, more))
    return charts.chart(data, charts.axes("finished trials", views[0].metric))

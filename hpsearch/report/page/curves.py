"""Learning curves, the table of all trials, and how to do the study again.

All trials as a table, and how to do the study again.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from hpsearch import yaml_file
from hpsearch.printable import interval_text
from hpsearch.report.page.html import (
    QUIET,
    Chart,
    Html,
    Section,
    Trace,
    axis,
    band,
    chart,
    code,
    colour,
    dash,
    figure,
    folded,
    heading,
    join,
    missing,
    paragraph,
    shared_lines,
    table,
    thinner,
)
from hpsearch.report.page.learning import MeasuredCurve, SeedCurves
from hpsearch.report.page.material import Material
from hpsearch.study.trial_list import setting_text, trial_state
from hpsearch.study.view import StudyView

MAX_OTHERS: Final = 1000
"""curves behind the best, of the newest trials: more would be one grey area"""


def curves_section(material: Material) -> Section | None:
    """Return the section on learning; None where nothing was measured while it trained."""
    parts = list(_parts(material))
    return Section("learning", "How they learned", join(parts)) if parts else None


def _parts(material: Material) -> Iterator[Html]:
    view, learning = material.view, material.learning
    metric = view.study.spec.objectives[0].metric
    if learning.best or any(trial.reported for trial in view.state.trials.values()):
        yield figure(curves_chart(view, learning.best), "curves", _caption(material, metric))
    if isinstance(learning.seeds, str):
        return
    yield figure(
        seeds_chart(learning.seeds, metric),
        "curves-seeds",
        f"{metric} of the confirmed configurations, each trained on several seeds that the search "
        "never used: the mean over seeds, and a band from the lowest to the highest of them.",
    )


def _caption(material: Material, metric: str) -> str:
    what = "the best trials"
    newest = f", the newest {MAX_OTHERS:,}" if len(material.view.state.trials) > MAX_OTHERS else ""
    if not isinstance(material.descent, str):
        what = "the lines that led to the strongest of the last match"
    return (
        f"{metric} while training. In colour {what}, with 95 % intervals over games; behind them "
        f"what all others reported{newest}."
    )


def curves_chart(view: StudyView, best: Sequence[MeasuredCurve]) -> Chart:
    """Return the best curves with bands, and all others as one quiet trace."""
    shown = {curve.trial for curve in best}
    others = [
        sorted(trial.reported.items())
        for trial in view.state.trials.values()
        if trial.number not in shown and trial.reported
    ][-MAX_OTHERS:]
    data: list[Trace] = []
    if others:
        x, y = shared_lines(others)
        quiet = {"type": "scatter", "mode": "lines", "name": "all others", "x": x, "y": y}
        data.append(
            {
                **quiet,
                "line": {"color": QUIET, "width": thinner(1.0, len(others))},
                "hoverinfo": "skip",
            }
        )
    for place, curve in enumerate(best):
        data.append(band(curve.steps, curve.low, curve.high, colour(place)))
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": f"trial {curve.trial}",
                "x": list(curve.steps),
                "y": list(curve.values),
                "line": {"color": colour(place), "dash": dash(place), "width": 2},
                "marker": {"size": 4},
            }
        )
    metric = view.study.spec.objectives[0].metric
    return chart(data, {"xaxis": axis("step", {}), "yaxis": axis(metric, {})})


def seeds_chart(seeds: Sequence[SeedCurves], metric: str) -> Chart:
    """Return the mean over seeds of each configuration, with a band from lowest to highest."""
    data: list[Trace] = []
    for place, seed in enumerate(seeds):
        steps, low, mean, high = over_seeds(seed.curves)
        data.append(band(steps, low, high, colour(place)))
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"trial {seed.trial}, {len(seed.curves)} seeds",
                "x": steps,
                "y": mean,
                "line": {"color": colour(place), "dash": dash(place), "width": 2},
            }
        )
    return chart(data, {"xaxis": axis("step", {}), "yaxis": axis(metric, {})})


def over_seeds(
    curves: Sequence[MeasuredCurve],
) -> tuple[list[int], list[float], list[float], list[float]]:
    """Return steps, lowest, mean and highest value, at the steps that all curves have."""
    of_each = [dict(zip(curve.steps, curve.values, strict=True)) for curve in curves]
    steps = sorted(set.intersection(*(set(curve) for curve in of_each)))
    at_steps = [[curve[step] for curve in of_each] for step in steps]
    means = [sum(values) / len(values) for values in at_steps]
    return steps, [min(values) for values in at_steps], means, [max(values) for values in at_steps]


def trials_section(material: Material) -> Section | None:
    """Return the section that lists all trials; None where there are none."""
    view = material.view
    if not view.state.trials:
        return None
    names, metrics = (
        view.study.space.order,
        [objective.metric for objective in view.study.spec.objectives],
    )
    header = ("trial", "state", *metrics, *names)
    listed = Html(f'<div class="sortable">{table(header, _rows(view), strong=None)}</div>')
    body = folded(f"{len(view.state.trials):,} trials", listed, is_open=False)
    body = join(
        [
            paragraph(
                "A click on a column's name sorts by it, again the other way round; a click on a "
                "trial's point in a chart leads to its row."
            ),
            body,
        ]
    )
    return Section("trials", "All trials", body)


def _rows(view: StudyView) -> Iterator[tuple[str, ...]]:
    names, metrics = (
        view.study.space.order,
        [objective.metric for objective in view.study.spec.objectives],
    )
    for trial in view.state.trials.values():
        settings = view.study.space.decode(trial.last_params)
        values = (interval_text(trial.metrics[m]) if m in trial.metrics else "" for m in metrics)
        shown = (setting_text(settings[name]) if name in settings else "" for name in names)
        yield (str(trial.number), trial_state(trial), *values, *shown)


def reproduction_section(material: Material) -> Section:
    return Section("again", "How to do it again", join(_again(material)))


def _again(material: Material) -> Iterator[Html]:
    reproduction, view, best = material.reproduction, material.view, material.best
    yield paragraph(
        "The same file, seed and versions give the same trials where one job runs at a time; with "
        "more jobs the order in which they end decides what is tried next."
    )
    name = f"{view.study.spec.name}{material.elsewhere}"
    file = _from_here(reproduction.file)
    lines = [f"hpsearch run {file}{material.elsewhere}", f"hpsearch confirm {name}"]
    if best is not None:
        lines += [f"hpsearch export {name} --trial {best.number} -o best"]
        config = _from_here(view.folder.trial(best.number).config)
        lines += [f"hpsearch train {config}{material.elsewhere}"]
    yield code("\n".join([*lines, f"hpsearch report {name}"]))
    yield heading("Versions")
    rows = [
        *reproduction.versions.items(),
        ("commit of this page's code", reproduction.commit or "unknown"),
    ]
    rows += [("code that jobs ran", commit) for commit in reproduction.jobs_ran]
    yield table(("what", "version"), rows, strong=None)
    yield heading("The study file")
    if not reproduction.is_file:
        yield missing(
            f"{file} is gone or says something else by now; this is what the database holds."
        )
    yield code(reproduction.text)
    for name, base in reproduction.bases.items():
        yield folded(f"The base configuration of {name}", code(base), is_open=False)
    if best is not None:
        text = code(yaml_file.dump(view.config(best)))
        yield folded(f"The complete configuration of trial {best.number}", text, is_open=False)


def _from_here(path: str | Path) -> str:
    """Return a path from the folder in which the page is made; it tells strangers no more."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else str(path)

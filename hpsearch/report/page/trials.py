"""All trials as a table, and how to do the study again."""

from collections.abc import Iterator
from pathlib import Path

from hpsearch import yaml_file
from hpsearch.printable import interval_text
from hpsearch.report.page import html
from hpsearch.report.page.html import Html
from hpsearch.report.page.material import Material
from hpsearch.study.trial_list import setting_text, trial_state
from hpsearch.study.view import StudyView


def trials_section(material: Material) -> Iterator[Html]:
    view = material.view
    if not view.state.trials:
        return
    yield html.paragraph(
        "A click on a column's name sorts by it, again the other way round; a click on a "
        "trial's point in a chart leads to its row."
    )
    header = ("trial", "state", *_metrics(view), *view.study.space.order)
    listed = Html(f'<div class="sortable">{html.table(header, _rows(view))}</div>')
    yield html.folded(f"{len(view.state.trials):,} trials", listed)


def _metrics(view: StudyView) -> list[str]:
    return [objective.metric for objective in view.study.spec.objectives]


def _rows(view: StudyView) -> Iterator[tuple[str, ...]]:
    names, metrics = view.study.space.order, _metrics(view)
    for trial in view.state.trials.values():
        settings = view.study.space.decode(trial.last_params)
        values = (interval_text(trial.metrics[m]) if m in trial.metrics else "" for m in metrics)
        shown = (setting_text(settings[name]) if name in settings else "" for name in names)
        yield (str(trial.number), trial_state(trial), *values, *shown)


def reproduction_section(material: Material) -> Iterator[Html]:
    reproduction, view, best = material.reproduction, material.view, material.best
    yield html.paragraph(
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
    yield html.code("\n".join([*lines, f"hpsearch report {name}"]))
    yield html.heading("Versions")
    yield html.table(
        ("what", "version"),
        [
            *reproduction.versions.items(),
            ("commit of this page's code", reproduction.commit or "unknown"),
            *(("code that jobs ran", commit) for commit in reproduction.jobs_ran),
        ],
    )
    yield html.heading("The study file")
    if not reproduction.is_file:
        yield html.missing(
            f"{file} is gone or says something else by now; this is what the database holds."
        )
    yield html.code(reproduction.text)
    for algorithm, base in reproduction.bases.items():
        yield html.folded(f"The base configuration of {algorithm}", html.code(base))
    if best is not None:
        config_text = html.code(yaml_file.dump(view.config(best)))
        yield html.folded(f"The complete configuration of trial {best.number}", config_text)


def _from_here(path: str | Path) -> str:
    """Return a path from the folder in which the page is made; it tells strangers no more."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else str(path)

"""All trials as a table, and how to do the study again."""

from collections.abc import Iterator
from pathlib import Path

from hpsearch import yaml_file
from hpsearch.report.interval_text import interval_text
from hpsearch.report.page.html import (
    Html,
    Section,
    code,
    folded,
    heading,
    join,
    missing,
    paragraph,
    table,
)
from hpsearch.report.page.material import Material
from hpsearch.report.trial_list import setting_text, trial_state
from hpsearch.report.view import StudyView


def trials_section(material: Material) -> Section | None:
    """Return the section that lists all trials; None where there are none."""
    view = material.view
    if not view.state.trials:
        return None
    names, metrics = view.study.space.order, [one.metric for one in view.study.spec.objectives]
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
    names, metrics = view.study.space.order, [one.metric for one in view.study.spec.objectives]
    for trial in view.state.trials.values():
        settings = view.study.space.decode(trial.last_params)
        values = (interval_text(trial.metrics[m]) if m in trial.metrics else "" for m in metrics)
        shown = (setting_text(settings[name]) if name in settings else "" for name in names)
        yield (str(trial.number), trial_state(trial), *values, *shown)


def reproduction_section(material: Material) -> Section:
    """Return the section on how to do it again."""
    return Section("again", "How to do it again", join(_again(material)))


def _again(material: Material) -> Iterator[Html]:
    found, view, best = material.reproduction, material.view, material.best
    yield paragraph(
        "The same file, seed and versions give the same trials where one job runs at a time; with "
        "more jobs the order in which they end decides what is tried next."
    )
    name = f"{view.study.spec.name}{material.elsewhere}"
    file = _from_here(found.file)
    lines = [f"hpsearch run {file}{material.elsewhere}", f"hpsearch confirm {name}"]
    if best is not None:
        lines += [f"hpsearch export {name} --trial {best.number} -o best"]
        config = _from_here(view.folder.trial(best.number).config)
        lines += [f"hpsearch train {config}{material.elsewhere}"]
    yield code("\n".join([*lines, f"hpsearch report {name}"]))
    yield heading("Versions")
    rows = [*found.versions.items(), ("commit of this page's code", found.commit or "unknown")]
    rows += [("code that jobs ran", one) for one in found.jobs_ran]
    yield table(("what", "version"), rows, strong=None)
    yield heading("The study file")
    if not found.is_file:
        yield missing(
            f"{file} is gone or says something else by now; this is what the database holds."
        )
    yield code(found.text)
    for name, base in found.bases.items():
        yield folded(f"The base configuration of {name}", code(base), is_open=False)
    if best is not None:
        text = code(yaml_file.dump(view.config(best)))
        yield folded(f"The complete configuration of trial {best.number}", text, is_open=False)


def _from_here(path: str | Path) -> str:
    """Return a path from the folder in which the page is made; it tells strangers no more."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else str(path)

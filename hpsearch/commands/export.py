"""hpsearch export: write trials as folders that stand alone, or their configuration."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from hpsearch import files
from hpsearch.commands.find import runs_option
from hpsearch.errors import UsageError
from hpsearch.export.choice import ChosenTrial, the_best, the_front, the_top, unconfirmed
from hpsearch.export.text import Format, config_text, print_rows, print_verdict
from hpsearch.names import check_places
from hpsearch.study.records import Trial
from hpsearch.study.view import StudyView, open_view
from hpsearch.terminal import Terminal, say

if TYPE_CHECKING:
    from hpsearch.export.writing import How


NUM_GAMES = 10_000
"""of a certificate, an opponent and mode"""


@dataclass(frozen=True)
class ExportArguments:
    """What is exported."""

    trial: int | None
    """by its number; None: the best"""
    top: int | None
    """how many of the best, a bundle each; None: one bundle"""
    pareto: bool
    """every trial that no other one beats in all objectives, a bundle each"""
    num_games: int
    """of a certificate, an opponent and mode"""
    key: Path | None
    """by which bundles are signed; None leaves them unsigned"""


def export(
    study: str,
    runs: Path,
    *,
    output: Path | None,
    trial: int | None,
    top: int | None,
    pareto: bool,
    form: Format | None,
    games: int,
    key: Path | None,
    as_json: bool,
) -> int:
    """Export the best, another or several trials, and print what they measure."""
    wanted = ExportArguments(trial, top, pareto, games, key)
    view = open_view(study, runs)
    if output is not None:
        check_places(output)
    if form is not None and as_json:
        raise UsageError("--json describes bundles; for a configuration: --format json")
    if form is not None and key is not None:
        raise UsageError("--sign signs bundles; leave out --format, or --sign")
    if form is not None:
        return _export_config(view, runs, output, wanted, form)
    if wanted.top is not None or wanted.pareto:
        return _export_several(view, runs, output, wanted, as_json=as_json)
    chosen = _one(view, trial, runs)
    folder, measures = write_export(view, chosen.trial, output, games, key)
    if as_json:
        print(json.dumps({**measures, "folder": str(folder)}, indent=1))
    else:
        number, config = chosen.trial.number, view.config(chosen.trial)
        print_verdict(Terminal(), measures["rows"], number, config)
        print_export(Terminal(), folder, measures)
    if chosen.remark is not None:
        say(chosen.remark)
    return 0


def write_export(
    view: StudyView, trial: Trial, output: Path | None, num_games: int, key: Path | None
) -> tuple[Path, dict[str, Any]]:
    """Write the bundle of a trial; return its folder and what was measured."""
    # Imported here: it loads torch.
    from hpsearch.export.writing import export_bundle

    folder = view.folder.best if output is None else output.absolute()
    return folder, export_bundle(view, trial, folder, _how(num_games, key))


def print_export(console: Console, folder: Path, measures: dict[str, Any]) -> None:
    """Print the trained player beside the scripted ones, and where the export lies."""
    print_rows(console, f"trial {measures['trial']}", measures["rows"])
    console.print(f"exported to {folder}", highlight=False, markup=False, soft_wrap=True)


def _export_several(
    view: StudyView, runs: Path, output: Path | None, wanted: ExportArguments, *, as_json: bool
) -> int:
    from hpsearch.export.writing import bundle_names, export_bundles

    trials, remark = _several(view, wanted, runs)
    default = view.folder.front if wanted.pareto else view.folder.top
    folder = default if output is None else output.absolute()
    exported = export_bundles(view, trials, folder, _how(wanted.num_games, wanted.key))
    if as_json:
        print(json.dumps({"bundles": exported, "folder": str(folder)}, indent=1))
    else:
        for trial, measures, name in zip(trials, exported, bundle_names(trials), strict=True):
            print_verdict(Terminal(), measures["rows"], trial.number, view.config(trial))
            print_export(Terminal(), folder / name, measures)
    if remark is not None:
        say(remark)
    return 0


def _export_config(
    view: StudyView, runs: Path, output: Path | None, wanted: ExportArguments, form: Format
) -> int:
    if wanted.top is not None or wanted.pareto:
        raise UsageError(
            "--format writes one configuration; choose it with --trial, or leave out --format"
        )
    trial = _one(view, wanted.trial, runs)
    text = config_text(view.config(trial.trial), form)
    if output is None:
        print(text, end="")
    else:
        files.write_text(output.absolute(), text)
        print(f"the configuration of trial {trial.trial.number} is in {output.absolute()}")
    if trial.remark is not None:
        say(trial.remark)
    return 0


def _one(view: StudyView, number: int | None, runs: Path) -> ChosenTrial:
    confirm = _confirm(view, runs)
    if number is None:
        return the_best(view, confirm)
    if number not in view.state.trials:
        there = f"only 0 to {len(view.state.trials) - 1}" if view.state.trials else "none yet"
        raise UsageError(f"the study {view.study.spec.name} has no trial {number}, {there}")
    return ChosenTrial(view.state.trials[number], unconfirmed(view, confirm))


def _several(
    view: StudyView, wanted: ExportArguments, runs: Path
) -> tuple[list[Trial], str | None]:
    if wanted.top is None:
        return the_front(view), None
    best = the_best(view, _confirm(view, runs))
    trials = the_top(view, wanted.top, best.trial)
    if len(trials) < wanted.top:
        say(f"{view.study.spec.name} has only {len(trials)} to export")
    return trials, best.remark


def _confirm(view: StudyView, runs: Path) -> str:
    return f"hpsearch confirm {view.study.spec.name}{runs_option(runs)}"


def _how(num_games: int, key: Path | None) -> "How":
    from hpsearch.export.writing import How, made_by

    return How(num_games, made_by(sys.argv[1:]), key)

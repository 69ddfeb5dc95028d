"""hpsearch export, report: trials as folders that stand alone; a study as one page."""

import json
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from hpsearch import files
from hpsearch.commands.command import JSON, STUDY, argument, command, count, flag, option, positive
from hpsearch.errors import DiskError, UsageError
from hpsearch.names import check_places, runs_option
from hpsearch.printable import say

if TYPE_CHECKING:
    from rich.console import Console

    from hpsearch.export.text import Format
    from hpsearch.export.writing import How, Measures
    from hpsearch.report.page.players import MeasuredPlayers
    from hpsearch.study.records import Trial
    from hpsearch.study.view import StudyView


NUM_GAMES = 10_000  # of a certificate, an opponent and mode


@command(
    "write the best trial as a folder that stands alone",
    *STUDY,
    JSON,
    option(
        "-o --output DIR",
        "folder, or file for --format; default: RUNS/STUDY/best, top or front, and the screen",
        Path,
    ),
    (
        option("--trial N", "another trial than the best", int),
        option("--top K", "the K best, one folder for each", positive),
        flag(
            "--pareto", "every trial that no other one beats in all objectives, one folder for each"
        ),
    ),
    option(
        "--format",
        "the trainer configuration alone; hydra: a file of a config group",
        choices=("yaml", "json", "hydra"),
        to="form",
    ),
    option(
        "--games G", "games of the certificate, per opponent and mode", positive, default=NUM_GAMES
    ),
    option("--sign KEY", "sign bundles by this SSH key, with ssh-keygen", Path, to="key"),
    examples=["quickstart -o best/", "quickstart --top 3"],
)
def export(
    study: str,
    runs: Path,
    *,
    output: Path | None,
    trial: int | None,
    top: int | None,
    pareto: bool,
    form: "Format | None",
    games: int,
    key: Path | None,
    as_json: bool,
) -> None:
    from hpsearch.study.view import open_view

    view = open_view(study, runs)
    if output is not None:
        check_places(output)
    if form is not None and as_json:
        raise UsageError("--json describes bundles; for a configuration: --format json")
    if form is not None and key is not None:
        raise UsageError("--sign signs bundles; leave out --format, or --sign")
    is_one = top is None and not pareto
    if form is not None and not is_one:
        raise UsageError(
            "--format writes one configuration; choose it with --trial, or leave out --format"
        )
    confirm = f"hpsearch confirm {view.name}{runs_option(runs)}"
    trials, remark = _trials(view, trial, top, confirm, pareto=pareto)
    default = view.folder.best if is_one else view.folder.front if pareto else view.folder.top
    if form is not None:
        from hpsearch.export.text import config_text

        text = config_text(view.config(trials[0]), form)
        if output is None:
            print(text, end="")
        else:
            files.write_text(output.absolute(), text)
            print(f"the configuration of trial {trials[0].number} is in {output.absolute()}")
    else:
        folder = default if output is None else output.absolute()
        how = conditions(games, key)
        _export_bundles(view, trials, folder, how, is_one=is_one, as_json=as_json)
    if remark is not None:
        say(remark)


def _trials(
    view: "StudyView", number: int | None, top: int | None, confirm: str, *, pareto: bool
) -> "tuple[list[Trial], str | None]":
    from hpsearch.analysis.candidates import the_front, the_top
    from hpsearch.analysis.confirmation import the_best, unconfirmed

    if pareto:
        return the_front(view), None
    if number is not None:
        if number not in view.state.trials:
            numbers = f"only 0 to {len(view.state.trials) - 1}" if view.state.trials else "none yet"
            raise UsageError(f"the study {view.name} has no trial {number}, {numbers}")
        return [view.state.trials[number]], unconfirmed(view, confirm)
    best, remark = the_best(view, confirm)
    if top is None:
        return [best], remark
    trials = the_top(view, top, best)
    if len(trials) < top:
        say(f"{view.name} has only {len(trials)} to export")
    return trials, remark


def _export_bundles(
    view: "StudyView",
    trials: "Sequence[Trial]",
    folder: Path,
    how: "How",
    *,
    is_one: bool,
    as_json: bool,
) -> None:
    from hpsearch.export.text import print_verdict
    from hpsearch.export.writing import bundle_names, export_bundle, export_bundles
    from hpsearch.terminal import Terminal

    if is_one:
        exported, places = [export_bundle(view, trials[0], folder, how)], [folder]
    else:
        exported = export_bundles(view, trials, folder, how)
        places = [folder / name for name in bundle_names(trials)]
    if as_json:
        plain = exported[0] if is_one else {"bundles": exported}
        print(json.dumps({**plain, "folder": str(folder)}, indent=1))
        return
    for trial, measures, place in zip(trials, exported, places, strict=True):
        print_verdict(Terminal(), measures["rows"], trial.number, view.config(trial))
        print_export(Terminal(), place, measures)


def conditions(num_games: int, key: Path | None) -> "How":
    from hpsearch.export.writing import How

    return How(num_games, " ".join(("hpsearch", *sys.argv[1:])), datetime.now(UTC), key)


def print_export(console: "Console", folder: Path, measures: "Measures") -> None:
    from hpsearch.export.text import print_rows
    from hpsearch.terminal import print_line

    print_rows(console, f"trial {measures['trial']}", measures["rows"])
    print_line(console, f"exported to {folder}")


@command(
    "write a study as one self-contained page with pictures",
    *STUDY,
    argument("other", "OTHER", "a second study, laid over the first", count="?"),
    option("-o --output FILE", "default: RUNS/STUDY/report.html", Path),
    option(
        "--games N",
        "games per opponent, to measure the best trial's players; 0 for none",
        count,
        default=4000,
    ),
    option(
        "--best-response STEPS",
        "train an opponent against them alone for so many steps, and show what it takes",
        positive,
    ),
    examples=["quickstart -o quickstart.html", "quickstart another -o both.html"],
)
def report(
    study: str,
    runs: Path,
    *,
    other: str | None,
    output: Path | None,
    games: int,
    best_response: int | None,
) -> None:
    from hpsearch.export.text import standing_verdict
    from hpsearch.report.page.material import gather
    from hpsearch.report.page.page import page_text, plotly_js
    from hpsearch.report.page.search import check_comparable
    from hpsearch.study.view import open_view

    if output is not None and output.suffix not in (".html", ".htm"):
        raise UsageError(f"a page is an .html file, got {str(output)!r}; change the file's name")
    if output is not None and not output.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {output.parent} for the page; make it first")
    program = plotly_js()
    elsewhere = runs_option(runs)
    view = open_view(study, runs)
    beside = None if other is None else open_view(other, runs)
    if beside is not None:
        check_comparable(view, beside)
    path = view.folder.report if output is None else output
    _check_place(path)

    def measure(view: "StudyView", trial: "Trial") -> "MeasuredPlayers | str":
        if games == 0:
            return f"none was asked for; do it with: hpsearch report {study}{elsewhere}"
        from hpsearch.analysis.examination import ExaminationPlan
        from hpsearch.report.page.players import measured
        from hpsearch.trainers.match import PUBLISHED

        plan = ExaminationPlan(games, PUBLISHED.num_moves, response_steps=best_response)
        return measured(view, trial, plan, say)

    material = gather(view, time.time(), elsewhere, measure, beside, certify=standing_verdict)
    say("drawing the page")
    files.write_text(path, page_text(material, program))
    print(path)


def _check_place(path: Path) -> None:
    """Refuse a file that cannot be written, before the work of half a minute begins."""
    if path.is_dir():
        raise UsageError(f"the page is a file, but {path} is a folder; choose another name")
    try:
        TemporaryFile(dir=path.absolute().parent).close()
    except OSError as error:
        raise DiskError(
            f"the page cannot be written to {path.absolute().parent} ({error.strerror}); choose "
            "another place with -o"
        ) from error

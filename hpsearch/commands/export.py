"""hpsearch export, report: trials as folders that stand alone; a study as one page."""

import json
import sys
import time
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

    from hpsearch.api.exporting import ExportedBundle
    from hpsearch.export.text import Format
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
    from hpsearch.api.exporting import choose_trials, conditions, export_chosen
    from hpsearch.api.study_reader import StudyReader
    from hpsearch.export.text import print_verdict
    from hpsearch.terminal import Terminal

    view = StudyReader(study, runs).view()
    if output is not None:
        check_places(output)
    if form is not None and as_json:
        raise UsageError("--json describes bundles; for a configuration: --format json")
    if form is not None and key is not None:
        raise UsageError("--sign signs bundles; leave out --format, or --sign")
    if form is not None and (top is not None or pareto):
        raise UsageError(
            "--format writes one configuration; choose it with --trial, or leave out --format"
        )
    chosen = choose_trials(view, runs, trial=trial, top=top, pareto=pareto)
    if form is not None:
        _export_config(view, chosen.trials[0], form, output)
    else:
        folder = chosen.folder if output is None else output.absolute()
        exported = export_chosen(view, chosen, folder, conditions(games, key, command_line()))
        if as_json:
            measures = [bundle.measures for bundle in exported]
            plain = measures[0] if chosen.is_one else {"bundles": measures}
            print(json.dumps({**plain, "folder": str(folder)}, indent=1))
        else:
            for bundle in exported:
                number, rows = bundle.trial.number, bundle.measures["rows"]
                print_verdict(Terminal(), rows, number, view.config(bundle.trial))
                print_bundle(Terminal(), bundle)
    if chosen.warning is not None:
        say(chosen.warning)


def _export_config(view: "StudyView", trial: "Trial", form: "Format", output: Path | None) -> None:
    from hpsearch.export.text import config_text

    text = config_text(view.config(trial), form)
    if output is None:
        print(text, end="")
    else:
        files.write_text(output.absolute(), text)
        print(f"the configuration of trial {trial.number} is in {output.absolute()}")


def command_line() -> str:
    """Return the command that this process was given, as the provenance of bundles names it."""
    return " ".join(("hpsearch", *sys.argv[1:]))


def print_bundle(console: "Console", bundle: "ExportedBundle") -> None:
    from hpsearch.export.text import print_rows
    from hpsearch.terminal import print_line

    print_rows(console, f"trial {bundle.trial.number}", bundle.measures["rows"])
    print_line(console, f"exported to {bundle.folder}")


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
    from hpsearch.api.study_reader import StudyReader
    from hpsearch.export.text import standing_verdict
    from hpsearch.report.page.material import gather
    from hpsearch.report.page.page import page_text, plotly_js
    from hpsearch.report.page.search import check_comparable

    if output is not None and output.suffix not in (".html", ".htm"):
        raise UsageError(f"a page is an .html file, got {str(output)!r}; change the file's name")
    if output is not None and not output.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {output.parent} for the page; make it first")
    program = plotly_js()
    elsewhere = runs_option(runs)
    view = StudyReader(study, runs).view()
    beside = None if other is None else StudyReader(other, runs).view()
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

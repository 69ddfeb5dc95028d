"""hpsearch report: a study as one page that stands alone."""

import time
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from hpsearch import files
from hpsearch.commands.command import STUDY, argument, command, count, option, positive
from hpsearch.errors import DiskError, UsageError
from hpsearch.names import runs_option

if TYPE_CHECKING:
    from hpsearch.report.page.players import MeasuredPlayers
    from hpsearch.study.records import Trial
    from hpsearch.study.view import StudyView

MATCH_MOVES = 10_000  # those of the published match


@command(
    "a study as one page that stands alone, with pictures",
    *STUDY,
    argument("other", "OTHER", "a second study, laid over the first", count="?"),
    option("-o --output FILE", "default: RUNS/STUDY/report.html", Path),
    option(
        "--games N",
        "games an opponent, to measure the best trial's players; 0 for none",
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
) -> int:
    from hpsearch.export.text import standing_verdict
    from hpsearch.report.page.curves import check_comparable
    from hpsearch.report.page.material import gather
    from hpsearch.report.page.page import page_text, plotly_js
    from hpsearch.study.view import open_view
    from hpsearch.terminal import say

    _check_output(output)
    program = plotly_js()
    view = open_view(study, runs)
    beside = None if other is None else open_view(other, runs)
    if beside is not None:
        check_comparable(view, beside)
    path = view.folder.report if output is None else output
    _check_place(path)
    elsewhere = runs_option(runs)

    def measure(view: "StudyView", trial: "Trial") -> "MeasuredPlayers | str":
        if games == 0:
            return f"none was asked for; do it with: hpsearch report {study}{elsewhere}"
        from hpsearch.analysis.examination import ExaminationPlan
        from hpsearch.report.page.players import measured

        plan = ExaminationPlan(games, match_moves=MATCH_MOVES, response_steps=best_response)
        return measured(view, trial, plan, say)

    material = gather(view, time.time(), elsewhere, measure, beside, certify=standing_verdict)
    say("drawing the page")
    files.write_text(path, page_text(material, program))
    print(path)
    return 0


def _check_output(output: Path | None) -> None:
    if output is not None and output.suffix not in (".html", ".htm"):
        raise UsageError(f"a page is an .html file, got {str(output)!r}; change the file's name")
    if output is not None and not output.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {output.parent} for the page; make it first")


def _check_place(path: Path) -> None:
    """Refuse a file that cannot be written, before the work of half a minute begins."""
    if path.is_dir():
        raise UsageError(f"the page is a file, but {path} is a folder; choose another name")
    try:
        with TemporaryFile(dir=path.absolute().parent):
            pass
    except OSError as error:
        raise DiskError(
            f"the page cannot be written to {path.absolute().parent} ({error.strerror}); choose "
            "another place with -o"
        ) from error

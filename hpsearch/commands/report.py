"""hpsearch report: a study as one page that stands alone."""

import time
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from hpsearch import files
from hpsearch.commands.find import runs_option
from hpsearch.errors import DiskError, UsageError
from hpsearch.report.page.curves import check_comparable
from hpsearch.report.page.material import gather
from hpsearch.report.page.page import page_text, plotly_js
from hpsearch.study.records import Trial
from hpsearch.study.view import StudyView, open_view
from hpsearch.terminal import say

if TYPE_CHECKING:
    from hpsearch.report.page.players import MeasuredPlayers

MATCH_MOVES = 10_000
"""those of the published match"""


def report(
    study: str,
    runs: Path,
    *,
    other: str | None,
    output: Path | None,
    games: int,
    response_steps: int | None,
) -> int:
    """Write the page of a study and print where it lies.

    Args:
        study: study file, or name of a started study.
        runs: the folder of the studies.
        other: a study to lay over it; None for none.
        output: the file; None for the study's own folder.
        games: an opponent by which the best trial's players are measured; 0 for none.
        response_steps: for which a best response to them trains; None for none.

    Raises:
        UsageError: if the file is no page or has no folder, plotly is missing, or the studies have
            different objectives.
        DiskError: if the page cannot be written.
    """
    if output is not None and output.suffix not in (".html", ".htm"):
        raise UsageError(f"a page is an .html file, got {str(output)!r}; change the file's name")
    if output is not None and not output.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {output.parent} for the page; make it first")
    program = plotly_js()
    view = open_view(study, runs)
    beside = None if other is None else open_view(other, runs)
    if beside is not None:
        check_comparable(view, beside)
    path = view.folder.report if output is None else output
    _try(path)

    elsewhere = runs_option(runs)

    def measure(view: StudyView, trial: Trial) -> "MeasuredPlayers | str":
        if games == 0:
            return f"none was asked for; do it with: hpsearch report {study}{elsewhere}"
        # Imported here: it loads torch.
        from hpsearch.analysis.examination import ExaminationPlan
        from hpsearch.report.page.players import measured

        plan = ExaminationPlan(games, match_moves=MATCH_MOVES, response_steps=response_steps)
        return measured(view, trial, plan, say)

    material = gather(view, time.time(), elsewhere, measure, beside)
    say("drawing the page")
    files.write_text(path, page_text(material, program))
    print(path)
    return 0


def _try(path: Path) -> None:
    """Find out whether a file can be written, before the work of half a minute begins.

    Raises:
        UsageError: if a folder has that name.
        DiskError: if nothing can be written there.
    """
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

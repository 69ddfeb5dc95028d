"""hpsearch report: a study as one page that stands alone."""

import time
from pathlib import Path

from hpsearch import atomic
from hpsearch.commands.find import runs_option
from hpsearch.errors import UsageError
from hpsearch.report.page.material import Measured, gather
from hpsearch.report.page.page import page_text, plotly_js
from hpsearch.report.view import StudyView, open_view
from hpsearch.study.records import Trial

MATCH_MOVES = 10_000
"""those of the published match"""


def report(study: str, runs: Path, *, output: Path | None, num_games: int) -> int:
    """Write the page of a study and print where it lies.

    Args:
        study: study file, or name of a started study.
        runs: the folder of the studies.
        output: the file; None for the study's own folder.
        num_games: games an opponent by which the best trial's players are measured; 0 for none.

    Raises:
        UsageError: if the file is no page or has no folder, or plotly is missing.
    """
    if output is not None and output.suffix not in (".html", ".htm"):
        raise UsageError(f"a page is an .html file, got {str(output)!r}; change the file's name")
    if output is not None and not output.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {output.parent} for the page; make it first")
    program = plotly_js()
    view = open_view(study, runs)

    elsewhere = runs_option(runs)

    def measure(view: StudyView, trial: Trial) -> Measured | str:
        if num_games == 0:
            return f"none was asked for; do it with: hpsearch report {study}{elsewhere}"
        # Imported here: it loads torch.
        from hpsearch.report.examination import Plan
        from hpsearch.report.page.measuring import measured

        return measured(view, trial, Plan(num_games=num_games, match_moves=MATCH_MOVES))

    path = view.folder.report if output is None else output
    atomic.write_text(path, page_text(gather(view, time.time(), elsewhere, measure), program))
    print(path)
    return 0

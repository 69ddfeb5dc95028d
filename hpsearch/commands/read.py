"""hpsearch ls, status, trials, best: look at studies without touching them.

hpsearch ls: the studies below a folder.
"""

import json
import signal
import sys
from pathlib import Path

from hpsearch.cluster.failures import stop_flag
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.commands.find import runs_option
from hpsearch.errors import StorageUnavailableError
from hpsearch.export.certified import standing_verdict
from hpsearch.printable import PrintableStream
from hpsearch.report.listing import list_studies, plain_list, study_table, write_csv
from hpsearch.report.progress import Watcher
from hpsearch.report.summary import status_summary, trial_summary
from hpsearch.report.text import awaited_text, print_best, print_status
from hpsearch.study.spec import load_spec
from hpsearch.study.state import BUSY, PAUSED
from hpsearch.study.trial_list import list_lines
from hpsearch.study.view import StudyView, best_trial, find_awaited, open_view
from hpsearch.terminal import Terminal, print_whole


def status(study: str, runs: Path, *, as_json: bool, every: float | None) -> int:
    """Print how far a study is; every so many seconds, if given, until it ends."""
    if every is None:
        _print_status(_look(study, runs), as_json=as_json)
        return 0
    watcher = Watcher(Terminal(), as_json=as_json)
    with stop_flag((signal.SIGINT,)) as flag:
        while not flag.is_set:
            view = _look(study, runs)
            is_over = view.state.status not in (*BUSY, PAUSED)
            watcher.show(view, is_over=is_over)
            if is_over:
                return 0
            flag.rest(every)
    raise KeyboardInterrupt  # by itself it may get lost in what Python does behind our back


def _look(name_or_file: str, runs: Path) -> StudyView:
    """Look at a study; while its database is away, say at least what its driver does.

    Raises:
        StorageUnavailableError: if the database does not answer.
    """
    try:
        return open_view(name_or_file, runs)
    except StorageUnavailableError as error:
        path = Path(name_or_file)
        name = load_spec(path).spec.name if path.suffix in (".yaml", ".yml") else name_or_file
        folder = StudyDir((runs / name).absolute())
        start = find_awaited(folder)
        driver = "no driver is there" if start is None else f"driver: {awaited_text(folder, start)}"
        raise StorageUnavailableError(f"{error}; {driver}") from error


def _print_status(view: StudyView, *, as_json: bool) -> None:
    summary = status_summary(view)
    if as_json:
        print(json.dumps(summary), flush=True)
    else:
        print_status(Terminal(), view, summary)


def trials(study: str, runs: Path, *, as_json: bool, as_csv: bool) -> int:
    """Print all trials of a study."""
    view = open_view(study, runs)
    if as_csv:
        # Its lines end in CRLF, of which a printable stream drops the CR; its cells are printable.
        out = sys.stdout
        write_csv(view, out.stream if isinstance(out, PrintableStream) else out)
        return 0
    if as_json:
        listed = view.state.trials.values()
        print(json.dumps([trial_summary(view, trial) for trial in listed], indent=1))
        return 0
    header, *lines = list_lines(view)
    Terminal().print(header, style="bold", highlight=False, soft_wrap=True)
    print("\n".join(lines))  # which rich would take a minute for, were they very many
    return 0


def best(study: str, runs: Path, *, as_json: bool) -> int:
    """Print the best finished trial."""
    view = open_view(study, runs)
    trial = best_trial(view)
    if as_json:
        print(json.dumps(trial_summary(view, trial), indent=1))
    else:
        console = Terminal()
        sentences = standing_verdict(view, trial)
        export = f"hpsearch export {view.study.spec.name}{runs_option(runs)}"
        for sentence in sentences or [f"beside other players it is measured by: {export}"]:
            console.print(sentence, highlight=False, markup=False, soft_wrap=True)
        print_best(console, view, trial)
    return 0


def ls(runs: Path, *, as_json: bool) -> int:
    """Print a line for each study that was started below a folder."""
    listed = list(list_studies(runs))
    if as_json:
        print(json.dumps(plain_list(listed), indent=1))
    elif listed:
        print_whole(Terminal(), study_table(listed))
    else:
        start = f"hpsearch run STUDY.yaml{runs_option(runs)}"
        print(f"no study was started below {runs}; start one with: {start}")
    return 0

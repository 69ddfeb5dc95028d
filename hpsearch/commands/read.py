"""hpsearch ls, status, trials, best, lineage: look at studies without touching them."""

import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from hpsearch import files
from hpsearch.cluster.failures import stop_flag
from hpsearch.commands.command import JSON, RUNS, STUDY, check_output, command, flag, option, period
from hpsearch.names import runs_option
from hpsearch.printable import PrintableStream


@command(
    "how far a study is, and what it has cost",
    *STUDY,
    JSON,
    option(
        "--watch SECONDS",
        "repeat every so many seconds, until the study ends or Ctrl-C; default: 2",
        period,
        to="every",
        implied=2.0,
    ),
    examples=["quickstart --watch", "quickstart --json"],
)
def status(study: str, runs: Path, *, as_json: bool, every: float | None) -> None:
    from hpsearch.api.study_reader import StudyReader
    from hpsearch.report.progress import Watcher
    from hpsearch.report.text import print_status, status_summary
    from hpsearch.study.state import BUSY, PAUSED
    from hpsearch.terminal import Terminal

    reader = StudyReader(study, runs)
    if every is None and as_json:
        print(json.dumps(reader.status()), flush=True)
        return
    if every is None:
        view = reader.view()
        print_status(Terminal(), view, status_summary(view))
        return
    watcher = Watcher(Terminal(), as_json=as_json)
    with stop_flag((signal.SIGINT,)) as flag:
        while not flag.is_set:
            view = reader.view()
            is_over = view.state.status not in (*BUSY, PAUSED)
            watcher.show(view, is_over=is_over)
            if is_over:
                return
            flag.rest(every)
    raise KeyboardInterrupt  # by itself it may get lost in what Python does behind our back


@command(
    "all trials of a study",
    *STUDY,
    (
        JSON,
        flag(
            "--csv",
            "for spreadsheets and data frames: number, state, values with intervals, parameters",
            to="as_csv",
        ),
    ),
    examples=["quickstart", "quickstart --csv > trials.csv"],
)
def trials(study: str, runs: Path, *, as_json: bool, as_csv: bool) -> None:
    from hpsearch.api.study_reader import StudyReader
    from hpsearch.report.listing import write_csv
    from hpsearch.report.trial_record import plain_record
    from hpsearch.study.view import list_lines
    from hpsearch.terminal import Terminal

    reader = StudyReader(study, runs)
    if as_json:
        print(json.dumps([plain_record(record) for record in reader.trials()], indent=1))
        return
    view = reader.view()
    # All cells are printable; a printable stream would look at each character again, and drop the
    # CR of the CRLF that ends a line of CSV.
    out = sys.stdout.stream if isinstance(sys.stdout, PrintableStream) else sys.stdout
    if as_csv:
        write_csv(view, out)
    else:
        header, *lines = list_lines(view)
        Terminal().print(header, style="bold", highlight=False, soft_wrap=True)
        # Written, as rich would take a minute for very many.
        out.write("\n".join([*lines, ""]))


@command("the best finished trial", *STUDY, JSON, examples=["quickstart --json"])
def best(study: str, runs: Path, *, as_json: bool) -> None:
    from hpsearch.api.study_reader import StudyReader
    from hpsearch.export.text import standing_verdict
    from hpsearch.report.text import print_best
    from hpsearch.report.trial_record import plain_record
    from hpsearch.study.view import best_trial
    from hpsearch.terminal import Terminal, print_line

    reader = StudyReader(study, runs)
    if as_json:
        print(json.dumps(plain_record(reader.best()), indent=1))
        return
    view = reader.view()
    trial = best_trial(view)
    if not view.study.is_program:
        export = f"hpsearch export {view.name}{runs_option(runs)}"
        unknown = [f"beside other players it is measured by: {export}"]
        for sentence in standing_verdict(view, trial) or unknown:
            print_line(Terminal(), sentence)
    print_best(Terminal(), view, trial)


@command(
    "all studies below --runs, a line each",
    RUNS,
    JSON,
    examples=["", "--runs /scratch/me/runs --json"],
)
def ls(runs: Path, *, as_json: bool) -> None:
    from hpsearch.api.study_reader import list_studies
    from hpsearch.report.listing import study_table
    from hpsearch.terminal import Terminal, print_whole

    listed = list_studies(runs)
    if as_json:
        print(json.dumps([asdict(row) for row in listed], indent=1))
    elif listed:
        print_whole(Terminal(), study_table(listed))
    else:
        start = f"hpsearch run STUDY.yaml{runs_option(runs)}"
        print(f"no study was started below {runs}; start one with: {start}")


@command(
    "the ancestry of a population",
    *STUDY,
    JSON,
    option("--trial N", "the line that leads to it; default: the champion", int),
    flag("--all", "list all trials, not one line", to="show_all"),
    option("-o --output FILE", "write it: .png, .svg or .pdf, or .json", Path),
    examples=["population_pairs --all -o lineage.svg"],
)
def lineage(
    study: str, runs: Path, *, trial: int | None, show_all: bool, output: Path | None, as_json: bool
) -> None:
    from hpsearch.analysis.lineage import plain_lineage, print_lineage, read_lineage, write_lineage
    from hpsearch.api.study_reader import StudyReader
    from hpsearch.terminal import Terminal, say

    check_output(output, "descent", (".json",))
    ancestry = read_lineage(StudyReader(study, runs).view())
    whose = ancestry.champion if trial is None else trial
    line = [] if whose is None else ancestry.line(whose)
    plain = plain_lineage(ancestry, line)
    if as_json:
        print(json.dumps(plain, indent=1))
    elif not ancestry.relatives:
        print(f"no trial of {study} has finished yet; look at it with: hpsearch status {study}")
    else:
        listed = list(ancestry.relatives.values()) if show_all or not line else line
        print_lineage(Terminal(), listed, ancestry.champion)
    if output is not None:
        if output.suffix == ".json":
            files.write_json(output, plain)
        else:
            write_lineage(ancestry, output)
        say(f"the descent is in {output}")

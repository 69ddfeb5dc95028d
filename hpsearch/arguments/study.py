"""The commands that take a study.

The commands about populations that make a study of their own.

The commands that show a study in a browser.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hpsearch.arguments.adding import (
    Call,
    StudyAdder,
    add_command,
    add_json,
    add_runs,
    count,
    positive,
    seconds,
)

if TYPE_CHECKING:
    from hpsearch.arguments.adding import Commands


def add_study_commands(commands: "Commands") -> None:
    """Add all of them."""
    add = StudyAdder(commands, EXAMPLES)
    add("validate", _validate, "check a study file and show what it would search", json=True)
    run = add("run", _run, "run a study in the foreground; again: go on with it")
    run.add_argument(
        "--trials",
        type=positive,
        metavar="N",
        help="trials in all, in place of the file's budget.trials; run, submit and resume keep to "
        "it until that number in the file changes, or --trials gives another",
    )
    run.add_argument("--no-export", action="store_true", help="don't export the best at the end")
    add("submit", _submit, "start a study and leave it to a driver without a terminal")
    add("tick", _tick, "do one round of the driver and exit")
    add("drive", _drive, "drive a submitted study without a terminal; what submit starts")
    _add_requests(add)
    ls = add_command(commands, "ls", _ls, "all studies below --runs, a line each", example=LS)
    add_runs(ls)
    add_json(ls)
    _add_views(add)
    gc = add("gc", _gc, "free disk space: what ended trials and jobs don't need", json=True)
    gc.add_argument("--dry-run", action="store_true", help="show what would be freed, free nothing")
    gc.add_argument(
        "--traces", action="store_true", help="remove TensorBoard's and the profiler's files too"
    )
    summary = "check that events, Optuna's tables and files of a study tell the same"
    audit = add("audit", _audit, summary, json=True)
    audit.add_argument(
        "--deep", action="store_true", help="read every checkpoint, not the newest and needed alone"
    )
    ready = "look whether this machine, or a study on it, is ready to run"
    add("doctor", _doctor, ready, json=True, without_study=True)


LS = """\
hpsearch ls
hpsearch ls --runs /scratch/me/runs --json"""
EXAMPLES = {
    "validate": "hpsearch validate studies/quickstart.yaml",
    "run": "hpsearch run studies/quickstart.yaml\nhpsearch run studies/quickstart.yaml --trials 32",
    "submit": "hpsearch submit studies/quickstart.yaml",
    "tick": "hpsearch tick studies/quickstart.yaml",
    "drive": "hpsearch drive quickstart",
    "gc": "hpsearch gc quickstart --dry-run",
    "audit": "hpsearch audit quickstart\nhpsearch audit quickstart --deep --json",
    "doctor": "hpsearch doctor\nhpsearch doctor studies/quickstart.yaml",
    "pause": "hpsearch pause quickstart",
    "resume": "hpsearch resume quickstart",
    "stop": "hpsearch stop quickstart",
    "cancel": "hpsearch cancel quickstart",
    "retry": "hpsearch retry quickstart --kind oom_host --kind nan",
    "status": "hpsearch status quickstart --watch\nhpsearch status quickstart --json",
    "trials": "hpsearch trials quickstart\nhpsearch trials quickstart --csv > trials.csv",
    "best": "hpsearch best quickstart --json",
    "lineage": "hpsearch lineage population_pairs --all -o lineage.svg",
    "export": "hpsearch export quickstart -o best/\nhpsearch export quickstart --top 3",
    "confirm": "hpsearch confirm quickstart --top 5 --seeds 5",
}


def _add_requests(add: StudyAdder) -> None:
    for verb, summary in (
        ("pause", "start nothing new until resume"),
        ("resume", "go on with a paused, stopped, cancelled or interrupted study"),
        ("stop", "end the study when what has begun has finished"),
        ("cancel", "end all jobs of a study at once"),
    ):
        add(verb, _request, summary).set_defaults(verb=verb)
    retry = add(
        "retry", _retry, "try failed trials again, as new ones, and start a driver if there is none"
    )
    retry.add_argument(
        "--kind", action="append", default=[], metavar="KIND", help="of failure; may be repeated"
    )
    retry.add_argument(
        "--trial", action="append", default=[], type=int, metavar="N", help="may be repeated"
    )


def _add_views(add: StudyAdder) -> None:
    status = add("status", _status, "how far a study is, and what it has cost", json=True)
    status.add_argument(
        "--watch",
        nargs="?",
        const=2.0,
        type=seconds,
        metavar="SECONDS",
        help="again and again, until the study ends or Ctrl-C; default: every 2",
    )
    trials = add("trials", _trials, "all trials of a study")
    form = trials.add_mutually_exclusive_group()
    add_json(form)
    form.add_argument(
        "--csv",
        action="store_true",
        help="for spreadsheets and data frames: number, state, values with intervals, parameters",
    )
    add("best", _best, "the best finished trial", json=True)
    lineage = add("lineage", _lineage, "the ancestry of a population", json=True)
    lineage.add_argument(
        "--trial", type=int, metavar="N", help="the line that leads to it; default: the champion"
    )
    lineage.add_argument("--all", action="store_true", help="list all trials, not one line")
    lineage.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write it: .png, .svg or .pdf, or .json"
    )
    _add_confirm(add)
    _add_export(add)


def _add_export(add: StudyAdder) -> None:
    summary = "write the best trial as a folder that stands alone"
    parser = add("export", _export, summary, json=True)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="folder, or file for --format; default: RUNS/STUDY/best, top or front, and the screen",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--trial", type=int, metavar="N", help="another trial than the best")
    which.add_argument("--top", type=positive, metavar="K", help="the K best, a folder each")
    which.add_argument(
        "--pareto",
        action="store_true",
        help="every trial that no other one beats in all objectives, a folder each",
    )
    parser.add_argument(
        "--format",
        choices=("yaml", "json", "hydra"),
        help="the trainer configuration alone; hydra: a file of a config group",
    )
    parser.add_argument(
        "--games",
        type=positive,
        default=10_000,
        metavar="G",
        help="games of the certificate, an opponent and mode; default: 10000",
    )
    parser.add_argument(
        "--sign", type=Path, metavar="KEY", help="sign bundles by this SSH key, with ssh-keygen"
    )


def _add_confirm(add: StudyAdder) -> None:
    summary = "the best of a study again on held-out seeds and starts, and which is the best"
    parser = add("confirm", _confirm, summary, json=True)
    parser.add_argument(
        "--top",
        type=positive,
        metavar="K",
        help="how many of the best; default: 5, or those whose confirmation was begun",
    )
    parser.add_argument(
        "--seeds",
        type=positive,
        metavar="N",
        help="trainings of each, on seeds of their own; default: 5, or as many as were begun",
    )
    parser.add_argument(
        "--games",
        type=positive,
        default=10_000,
        metavar="G",
        help="games of each, from starts that nothing else uses; default: 10000",
    )
    parser.add_argument(
        "--best-response",
        type=positive,
        metavar="STEPS",
        help="train an opponent against each player alone for so many steps: exploitability",
    )
    parser.add_argument(
        "--submit",
        action="store_true",
        help="leave the training to a driver without a terminal; the same command later compares",
    )


def _validate(options: argparse.Namespace) -> int:
    from hpsearch.commands.validate import validate

    return validate(Path(options.study), options.runs, as_json=options.json)


def _run(options: argparse.Namespace) -> int:
    from hpsearch.commands.run import run

    return run(
        options.study, options.runs, trials=options.trials, export_best=not options.no_export
    )


def _tick(options: argparse.Namespace) -> int:
    from hpsearch.commands.run import tick

    return tick(options.study, options.runs)


def _status(options: argparse.Namespace) -> int:
    from hpsearch.commands.read import status

    return status(options.study, options.runs, as_json=options.json, every=options.watch)


def _submit(options: argparse.Namespace) -> int:
    from hpsearch.commands.submit import submit

    return submit(options.study, options.runs)


def _drive(options: argparse.Namespace) -> int:
    from hpsearch.commands.run import drive_detached

    return drive_detached(options.study, options.runs)


def _request(options: argparse.Namespace) -> int:
    from hpsearch.commands.submit import request

    return request(options.study, options.runs, options.verb)


def _retry(options: argparse.Namespace) -> int:
    from hpsearch.commands.submit import retry

    return retry(options.study, options.runs, options.kind, options.trial)


def _ls(options: argparse.Namespace) -> int:
    from hpsearch.commands.read import ls

    return ls(options.runs, as_json=options.json)


def _trials(options: argparse.Namespace) -> int:
    from hpsearch.commands.read import trials

    return trials(options.study, options.runs, as_json=options.json, as_csv=options.csv)


def _best(options: argparse.Namespace) -> int:
    from hpsearch.commands.read import best

    return best(options.study, options.runs, as_json=options.json)


def _lineage(options: argparse.Namespace) -> int:
    from hpsearch.commands.lineage import lineage

    return lineage(
        options.study,
        options.runs,
        trial=options.trial,
        show_all=options.all,
        output=options.output,
        as_json=options.json,
    )


def _confirm(options: argparse.Namespace) -> int:
    from hpsearch.commands.confirm import ConfirmArguments, confirm

    wanted = ConfirmArguments(
        top=options.top,
        seeds=options.seeds,
        games=options.games,
        response_steps=options.best_response,
        submit=options.submit,
    )
    return confirm(options.study, options.runs, wanted, as_json=options.json)


def _export(options: argparse.Namespace) -> int:
    from hpsearch.commands.export import ExportArguments, export

    wanted = ExportArguments(
        trial=options.trial,
        top=options.top,
        pareto=options.pareto,
        format=options.format,
        num_games=options.games,
        key=options.sign,
    )
    return export(options.study, options.runs, options.output, wanted, as_json=options.json)


def _gc(options: argparse.Namespace) -> int:
    from hpsearch.commands.gc import gc

    return gc(
        options.study,
        options.runs,
        dry_run=options.dry_run,
        traces=options.traces,
        as_json=options.json,
    )


def _audit(options: argparse.Namespace) -> int:
    from hpsearch.commands.audit import audit_study

    return audit_study(options.study, options.runs, deep=options.deep, as_json=options.json)


def _doctor(options: argparse.Namespace) -> int:
    from hpsearch.commands.doctor import doctor

    return doctor(options.study, options.runs, as_json=options.json)


def add_population_commands(commands: "Commands") -> None:
    """Add all of them."""
    _add_replay(commands)
    _add_breed(commands)


def _add(
    commands: "Commands", name: str, call: Call, summary: str, example: str
) -> argparse.ArgumentParser:
    parser = add_command(commands, name, call, summary, example=example)
    add_runs(parser)
    return parser


def _add_replay(commands: "Commands") -> None:
    summary = "the schedule that led to a population's champion again, on held-out seeds"
    example = "hpsearch replay population_pairs --seeds 5"
    parser = _add(commands, "replay", _replay, summary, example)
    parser.add_argument("study", metavar="STUDY", help="study file, or name of a started study")
    add_json(parser)
    parser.add_argument(
        "--trial",
        type=count,
        metavar="N",
        help="whose schedule; default: the champion's, or its parent's where a closing made it",
    )
    parser.add_argument(
        "--seeds",
        type=positive,
        metavar="S",
        help="trainings, on seeds of their own; default: 5, or as many as were begun",
    )
    parser.add_argument(
        "--games",
        type=positive,
        default=1000,
        metavar="G",
        help="games of each pair, from starts that nothing else uses; default: 1000",
    )
    parser.add_argument(
        "--submit",
        action="store_true",
        help="leave the training to a driver without a terminal; the same command later compares",
    )


def _add_breed(commands: "Commands") -> None:
    summary = "a population that begins with the best of finished studies, of any shapes"
    example = "hpsearch breed dqn_small dqn_large --members 8 --submit"
    parser = _add(commands, "breed", _breed, summary, example)
    parser.add_argument(
        "studies", nargs="+", metavar="STUDY", help="study file, or name of a finished study"
    )
    parser.add_argument("--name", metavar="NAME", help="default: the first study's and -bred")
    parser.add_argument(
        "--members", type=positive, metavar="M", help="default: 8, or one for each study"
    )
    parser.add_argument(
        "--interval",
        type=positive,
        metavar="K",
        help="steps between two matches; default: a tenth of the training of the first founder",
    )
    parser.add_argument(
        "--trials", type=positive, metavar="T", help="intervals in all; default: six of each member"
    )
    parser.add_argument(
        "--seed", type=count, metavar="N", help="default: the first study's and 500000000"
    )
    parser.add_argument(
        "--submit", action="store_true", help="leave it to a driver without a terminal"
    )


def _replay(options: argparse.Namespace) -> int:
    from hpsearch.commands.replay import ReplayArguments, replay

    wanted = ReplayArguments(options.trial, options.seeds, options.games, options.submit)
    return replay(options.study, options.runs, wanted, as_json=options.json)


def _breed(options: argparse.Namespace) -> int:
    from hpsearch.commands.breed import BreedArguments, breed
    from hpsearch.study.bred import Numbers

    numbers = Numbers(options.members, options.interval, options.trials, options.seed)
    return breed(
        options.studies, options.runs, BreedArguments(options.name, numbers, options.submit)
    )


PAGE_EXAMPLES = {
    "report": "hpsearch report quickstart -o quickstart.html\n"
    "hpsearch report quickstart another -o both.html",
    "dashboard": "hpsearch dashboard quickstart\nhpsearch dashboard quickstart --port 0 --write",
    "tensorboard": "hpsearch tensorboard quickstart\nhpsearch tensorboard quickstart -o board/",
}


def add_page_commands(commands: "Commands") -> None:
    """Add all of them."""
    add = StudyAdder(commands, PAGE_EXAMPLES)
    _add_report(add)
    _add_dashboard(add)
    _add_tensorboard(add)


def _add_report(add: StudyAdder) -> None:
    report = add("report", _report, "a study as one page that stands alone, with pictures")
    report.add_argument(
        "other", nargs="?", metavar="OTHER", help="a second study, laid over the first"
    )
    report.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: RUNS/STUDY/report.html"
    )
    report.add_argument(
        "--games",
        type=count,
        default=4000,
        metavar="N",
        help="games an opponent, to measure the best trial's players; 0 for none; default: 4000",
    )
    report.add_argument(
        "--best-response",
        type=positive,
        metavar="STEPS",
        help="train an opponent against them alone for so many steps, and show what it takes",
    )


def _add_dashboard(add: StudyAdder) -> None:
    dashboard = add("dashboard", _dashboard, "Optuna's dashboard of a study, in a browser")
    _add_place(dashboard, 8080)
    dashboard.add_argument(
        "--write", action="store_true", help="let notes be written; nothing else is ever changed"
    )


def _add_tensorboard(add: StudyAdder) -> None:
    tensorboard = add("tensorboard", _tensorboard, "a study in TensorBoard, in a browser")
    _add_place(tensorboard, 6006)
    tensorboard.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="write what it reads there, serve nothing"
    )


def _add_place(parser: argparse.ArgumentParser, port: int) -> None:
    """Add where a page is served."""
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="default: this machine alone"
    )
    parser.add_argument(
        "--port",
        type=count,
        default=port,
        metavar="N",
        help=f"or the next one that is free; 0 for any; default: {port}",
    )


def _report(options: argparse.Namespace) -> int:
    from hpsearch.commands.report import report

    return report(
        options.study,
        options.runs,
        other=options.other,
        output=options.output,
        num_games=options.games,
        response_steps=options.best_response,
    )


def _dashboard(options: argparse.Namespace) -> int:
    from hpsearch.commands.dashboard import dashboard
    from hpsearch.commands.serving import ServedAt

    place = ServedAt(options.host, options.port)
    return dashboard(options.study, options.runs, place, writes=options.write)


def _tensorboard(options: argparse.Namespace) -> int:
    from hpsearch.commands.serving import ServedAt
    from hpsearch.commands.tensorboard import tensorboard

    place = ServedAt(options.host, options.port)
    return tensorboard(options.study, options.runs, place, output=options.output)

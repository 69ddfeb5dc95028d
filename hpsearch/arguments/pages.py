"""The commands that show a study in a browser."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hpsearch.arguments.adding import StudyAdder, count, positive

if TYPE_CHECKING:
    from hpsearch.arguments.adding import Commands

EXAMPLES = {
    "report": "hpsearch report quickstart -o quickstart.html\n"
    "hpsearch report quickstart another -o both.html",
    "dashboard": "hpsearch dashboard quickstart\nhpsearch dashboard quickstart --port 0 --write",
    "tensorboard": "hpsearch tensorboard quickstart\nhpsearch tensorboard quickstart -o board/",
}


def add_page_commands(commands: "Commands") -> None:
    """Add all of them."""
    add = StudyAdder(commands, EXAMPLES)
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
    from hpsearch.commands.serving import Place

    place = Place(options.host, options.port)
    return dashboard(options.study, options.runs, place, writes=options.write)


def _tensorboard(options: argparse.Namespace) -> int:
    from hpsearch.commands.serving import Place
    from hpsearch.commands.tensorboard import tensorboard

    place = Place(options.host, options.port)
    return tensorboard(options.study, options.runs, place, output=options.output)

"""The arguments of the command line, and the function that each command calls.

Commands are imported only when they are called, so that ``--help`` answers at once.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from hpsearch import __version__

EPILOG = """\
examples:
  hpsearch run studies/quickstart.yaml     run a study, or go on with it after Ctrl-C
  hpsearch submit studies/quickstart.yaml  the same, and go home
  hpsearch status quickstart --watch       how far it is
  hpsearch best quickstart --json          the best configuration, for a program
  hpsearch export quickstart -o best/      configuration, weights and measures of the best
  hpsearch train studies/trainers/ppo_20x3.yaml    one trainer without a study
  hpsearch evaluate runs/ppo_20x3          everything that can be measured of a player

STUDY is a study file or the name of a study that was started under --runs.
exit codes: 0 done, 1 failed, 2 wrong command, 3 wrong file, 4 conflict, 5 database, 6 disk,
7 damaged file, 8 training failed, 130 interrupted"""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the arguments; argparse by itself finds no KEY=VALUE that comes after an option."""
    parser = build_parser()
    options, others = parser.parse_known_args(arguments)
    if hasattr(options, "overrides") and not any(one.startswith("-") for one in others):
        options.overrides += others
    elif others:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    return options


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="hpsearch",
        description="Search hyperparameters of players of the polyhedral game.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"hpsearch {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    add = _Adder(commands)
    add("validate", _validate, "check a study file and show what it would search", json=True)
    run = add("run", _run, "run a study in the foreground; again: go on with it")
    run.add_argument("--no-export", action="store_true", help="don't export the best at the end")
    add("submit", _submit, "start a study and leave it to a driver without a terminal")
    add("tick", _tick, "do one round of the driver and exit")
    add("drive", _drive, "drive a submitted study without a terminal; what submit starts")
    status = add("status", _status, "how far a study is, and what it has cost", json=True)
    status.add_argument(
        "--watch",
        nargs="?",
        const=2.0,
        type=_seconds,
        metavar="SECONDS",
        help="again and again, until the study ends or Ctrl-C; default: every 2",
    )
    add("pause", _pause, "start nothing new until resume")
    add("resume", _resume, "go on with a paused, stopped, cancelled or interrupted study")
    add("stop", _stop, "end the study when what has begun has finished")
    add("cancel", _cancel, "end all jobs of a study at once")
    retry = add("retry", _retry, "try failed trials again, as new ones with the same parameters")
    retry.add_argument(
        "--kind", action="append", default=[], metavar="KIND", help="of failure; may be repeated"
    )
    retry.add_argument(
        "--trial", action="append", default=[], type=int, metavar="N", help="may be repeated"
    )
    add("trials", _trials, "all trials of a study", json=True)
    add("best", _best, "the best finished trial", json=True)
    export = add("export", _export, "write the best trial as a folder that stands alone", json=True)
    export.add_argument("-o", "--output", type=Path, metavar="DIR", help="default: RUNS/STUDY/best")
    export.add_argument("--trial", type=int, metavar="N", help="another trial than the best")
    gc = add("gc", _gc, "free disk space: what ended trials and jobs don't need", json=True)
    gc.add_argument("--dry-run", action="store_true", help="show what would be freed, free nothing")
    gc.add_argument(
        "--traces", action="store_true", help="remove TensorBoard's and the profiler's files too"
    )
    _add_doctor(commands)
    _add_train(commands)
    _add_init(commands)
    _add_checkpoint(commands)
    _add_evaluate(commands)
    return parser


def _add_train(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    summary = "train what one configuration says, without a study; again: go on with it"
    parser = commands.add_parser(
        "train", help=summary, description=f"{summary[0].upper()}{summary[1:]}."
    )
    parser.add_argument("config", type=Path, metavar="CONFIG", help="trainer configuration, a file")
    parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="a key to change, such as host.gamma=0.9"
    )
    parser.add_argument("--name", metavar="NAME", help="folder under --runs; default: the file's")
    parser.add_argument(
        "--runs", type=Path, default=Path("runs"), metavar="DIR", help="default: runs"
    )
    parser.add_argument(
        "--resume",
        choices=("auto", "never", "must"),
        help="go on from a checkpoint if there is one, begin anew, or insist; default: the file's",
    )
    parser.add_argument("--threads", type=_positive, metavar="N", help="default: all cores")
    parser.set_defaults(command=_train)


def _add_doctor(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    summary = "look whether this machine, or a study on it, is ready to run"
    parser = commands.add_parser(
        "doctor", help=summary, description=f"{summary[0].upper()}{summary[1:]}; 1 if not."
    )
    parser.add_argument(
        "study", nargs="?", metavar="STUDY", help="study file, or name of a started study"
    )
    parser.add_argument(
        "--runs", type=Path, default=Path("runs"), metavar="DIR", help="default: runs"
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(command=_doctor)


def _add_init(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    summary = "turn a configuration of hironaka.trainer into a complete one of ours"
    parser = commands.add_parser(
        "init",
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}, and list what changed meaning.",
    )
    parser.add_argument(
        "--from-hironaka",
        type=Path,
        required=True,
        metavar="OLD",
        help="the YAML file to convert; it stays as it is",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: the old name with .yaml, here"
    )
    parser.set_defaults(command=_init)


def _add_checkpoint(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    summary = "ask a training process for a checkpoint now"
    parser = commands.add_parser(
        "checkpoint", help=summary, description=f"{summary[0].upper()}{summary[1:]}."
    )
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="RUNS/NAME, or RUNS/STUDY/trials/NUMBER"
    )
    parser.set_defaults(command=_checkpoint)


def _add_evaluate(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    summary = "everything that can be measured of a trained or a scripted player"
    parser = commands.add_parser(
        "evaluate", help=summary, description=f"{summary[0].upper()}{summary[1:]}."
    )
    parser.add_argument(
        "checkpoint",
        type=Path,
        metavar="CHECKPOINT",
        help="checkpoint, folder of a trial (its newest one), or name of a scripted player",
    )
    parser.add_argument(
        "--match-steps",
        type=_count,
        default=10_000,
        metavar="N",
        help="moves of the published match; 0 leaves it out; default: 10000",
    )
    parser.add_argument(
        "--games",
        type=_positive,
        default=4000,
        metavar="N",
        help="games an opponent, for rho; default: 4000",
    )
    parser.add_argument(
        "--show-games", type=_count, default=0, metavar="K", help="print K games move by move"
    )
    parser.add_argument(
        "--tree",
        type=Path,
        metavar="FILE",
        help="draw the host's blow-up tree: .svg, .png, .pdf, or .txt",
    )
    parser.add_argument(
        "--tree-start", default="E6", metavar="NAME", help="A1 to A4, D4, D5, E6 to E8; default: E6"
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(command=_evaluate)


def _count(text: str) -> int:
    """Read a natural number."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be 0 or a positive whole number, got {text!r}")
    return int(text)


def _positive(text: str) -> int:
    """Read a natural number above 0."""
    if (number := _count(text)) == 0:
        raise argparse.ArgumentTypeError("must be at least 1, got 0")
    return number


def _seconds(text: str) -> float:
    """Return a number of seconds above zero; argparse reports what this raises."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, got {text!r}")
    return seconds


class _Adder:
    """Adds commands that take a study."""

    def __init__(self, commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
        self._commands = commands

    def __call__(
        self,
        name: str,
        command: Callable[[argparse.Namespace], int],
        summary: str,
        *,
        json: bool = False,
    ) -> argparse.ArgumentParser:
        parser = self._commands.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."
        )
        parser.add_argument("study", metavar="STUDY", help="study file, or name of a started study")
        parser.add_argument(
            "--runs", type=Path, default=Path("runs"), metavar="DIR", help="default: runs"
        )
        if json:
            parser.add_argument("--json", action="store_true", help="for programs")
        parser.set_defaults(command=command)
        return parser


def _validate(options: argparse.Namespace) -> int:
    from hpsearch.commands.validate import validate

    return validate(Path(options.study), as_json=options.json)


def _run(options: argparse.Namespace) -> int:
    from hpsearch.commands.run import run

    return run(options.study, options.runs, export_best=not options.no_export)


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


def _pause(options: argparse.Namespace) -> int:
    from hpsearch.commands.submit import request

    return request(options.study, options.runs, "pause")


def _resume(options: argparse.Namespace) -> int:
    from hpsearch.commands.submit import request

    return request(options.study, options.runs, "resume")


def _stop(options: argparse.Namespace) -> int:
    from hpsearch.commands.submit import request

    return request(options.study, options.runs, "stop")


def _cancel(options: argparse.Namespace) -> int:
    from hpsearch.commands.submit import request

    return request(options.study, options.runs, "cancel")


def _retry(options: argparse.Namespace) -> int:
    from hpsearch.commands.submit import retry

    return retry(options.study, options.runs, options.kind, options.trial)


def _trials(options: argparse.Namespace) -> int:
    from hpsearch.commands.read import trials

    return trials(options.study, options.runs, as_json=options.json)


def _best(options: argparse.Namespace) -> int:
    from hpsearch.commands.read import best

    return best(options.study, options.runs, as_json=options.json)


def _export(options: argparse.Namespace) -> int:
    from hpsearch.commands.export import export

    return export(options.study, options.runs, options.output, options.trial, as_json=options.json)


def _gc(options: argparse.Namespace) -> int:
    from hpsearch.commands.gc import gc

    return gc(
        options.study,
        options.runs,
        dry_run=options.dry_run,
        traces=options.traces,
        as_json=options.json,
    )


def _doctor(options: argparse.Namespace) -> int:
    from hpsearch.commands.doctor import doctor

    return doctor(options.study, options.runs, as_json=options.json)


def _train(options: argparse.Namespace) -> int:
    from hpsearch.commands.train import train

    return train(
        options.config,
        options.overrides,
        runs=options.runs,
        name=options.name,
        resume=options.resume,
        num_threads=options.threads,
    )


def _init(options: argparse.Namespace) -> int:
    from hpsearch.commands.init import from_hironaka

    return from_hironaka(options.from_hironaka, options.output)


def _checkpoint(options: argparse.Namespace) -> int:
    from hpsearch.commands.checkpoint import request_checkpoint

    return request_checkpoint(options.folder)


def _evaluate(options: argparse.Namespace) -> int:
    from hpsearch.commands.evaluate import evaluate

    return evaluate(
        options.checkpoint,
        match_steps=options.match_steps or None,
        num_games=options.games,
        sample_games=options.show_games,
        tree=options.tree,
        tree_start=options.tree_start,
        as_json=options.json,
    )

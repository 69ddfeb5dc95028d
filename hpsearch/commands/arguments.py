"""What each command takes: its arguments by the names that its function gives them.

They stand apart from the functions, whose modules load what a command works with, so that
``hpsearch COMMAND --help`` answers at once: 0.1 s, where `run` would load for 0.9.
"""

import argparse
from pathlib import Path

SHELLS = ("bash", "zsh", "fish", "tcsh")


def add_study(parser: argparse.ArgumentParser) -> None:
    """Add the study, and the folder below which studies lie."""
    parser.add_argument("study", metavar="STUDY", help="study file, or name of a started study")
    add_runs(parser)


def add_study_json(parser: argparse.ArgumentParser) -> None:
    """Add a study, and the form for programs."""
    add_study(parser)
    add_json(parser)


def add_runs(parser: argparse.ArgumentParser) -> None:
    """Add the folder below which studies and runs lie."""
    parser.add_argument(
        "--runs", type=Path, default=Path("runs"), metavar="DIR", help="default: runs"
    )


def add_json(parser: argparse._ActionsContainer) -> None:
    """Add the form for programs."""
    parser.add_argument("--json", dest="as_json", action="store_true", help="for programs")


def add_submit(parser: argparse.ArgumentParser, later: str = "") -> None:
    """Add the choice to train without a terminal; ``later`` says what comes after."""
    parser.add_argument(
        "--submit", action="store_true", help=f"leave it to a driver without a terminal{later}"
    )


def add_place(parser: argparse.ArgumentParser, port: int) -> None:
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


def count(text: str) -> int:
    """Read a natural number."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be 0 or a positive whole number, got {text!r}")
    return int(text)


def positive(text: str) -> int:
    """Read a natural number above 0."""
    if (number := count(text)) == 0:
        raise argparse.ArgumentTypeError("must be at least 1, got 0")
    return number


def seconds(text: str) -> float:
    """Return a number of seconds above zero; argparse reports what this raises."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, got {text!r}")
    return number


def add_init(parser: argparse.ArgumentParser) -> None:
    """Add a template or an old configuration, and where to write."""
    parser.add_argument(
        "target",
        nargs="?",
        type=Path,
        metavar="DIR|FILE",
        help="folder, or study file ending in .yaml, whose name becomes the study's; default: here",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--template", metavar="NAME", help="of --list; default: search")
    what.add_argument(
        "--list", dest="lists", action="store_true", help="name the templates, a line each"
    )
    what.add_argument(
        "--from-hironaka",
        dest="old",
        type=Path,
        metavar="OLD",
        help="turn a configuration of hironaka.trainer into a complete one of ours, with a study "
        "around it where DIR|FILE is given, and list what changed meaning; OLD stays as it is",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="of --from-hironaka without a study; default: the old name with .yaml, here",
    )


def add_doctor(parser: argparse.ArgumentParser) -> None:
    """Add a study, if one is meant."""
    what = "study file, or name of a started study"
    parser.add_argument("study", nargs="?", metavar="STUDY", help=what)
    add_runs(parser)
    add_json(parser)


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Add the shell."""
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add a study, its total and whether to export."""
    add_study(parser)
    parser.add_argument(
        "--trials",
        type=positive,
        metavar="N",
        help="trials in all, in place of the file's budget.trials; run, submit and resume keep to "
        "it until that number in the file changes, or --trials gives another",
    )
    parser.add_argument(
        "--no-export",
        dest="export_best",
        action="store_false",
        help="don't export the best at the end",
    )


def add_retry(parser: argparse.ArgumentParser) -> None:
    """Add a study, and which of its failed trials."""
    add_study(parser)
    parser.add_argument(
        "--kind",
        dest="kinds",
        action="append",
        default=[],
        metavar="KIND",
        help="of failure; may be repeated",
    )
    parser.add_argument(
        "--trial",
        dest="numbers",
        action="append",
        default=[],
        type=int,
        metavar="N",
        help="may be repeated",
    )


def add_breed(parser: argparse.ArgumentParser) -> None:
    """Add studies, and the numbers of the population."""
    parser.add_argument(
        "studies", nargs="+", metavar="STUDY", help="study file, or name of a finished study"
    )
    add_runs(parser)
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
    add_submit(parser)


def add_train(parser: argparse.ArgumentParser) -> None:
    """Add a configuration, changed keys and where to train."""
    parser.add_argument("config", type=Path, metavar="CONFIG", help="trainer configuration, a file")
    parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="a key to change, such as host.gamma=0.9"
    )
    parser.add_argument("--name", metavar="NAME", help="folder under --runs; default: the file's")
    add_runs(parser)
    parser.add_argument(
        "--resume",
        choices=("auto", "never", "must"),
        help="go on from a checkpoint if there is one, begin anew, or insist; default: the file's",
    )
    parser.add_argument("--threads", type=positive, metavar="N", help="default: all cores")


def add_status(parser: argparse.ArgumentParser) -> None:
    """Add a study, and how often to look."""
    add_study_json(parser)
    parser.add_argument(
        "--watch",
        dest="every",
        nargs="?",
        const=2.0,
        type=seconds,
        metavar="SECONDS",
        help="again and again, until the study ends or Ctrl-C; default: every 2",
    )


def add_trials(parser: argparse.ArgumentParser) -> None:
    """Add a study and the form."""
    add_study(parser)
    form = parser.add_mutually_exclusive_group()
    add_json(form)
    form.add_argument(
        "--csv",
        dest="as_csv",
        action="store_true",
        help="for spreadsheets and data frames: number, state, values with intervals, parameters",
    )


def add_ls(parser: argparse.ArgumentParser) -> None:
    """Add the folder of studies and the form."""
    add_runs(parser)
    add_json(parser)


def add_lineage(parser: argparse.ArgumentParser) -> None:
    """Add a study, whose line and where to write."""
    add_study_json(parser)
    parser.add_argument(
        "--trial", type=int, metavar="N", help="the line that leads to it; default: the champion"
    )
    parser.add_argument(
        "--all", dest="show_all", action="store_true", help="list all trials, not one line"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write it: .png, .svg or .pdf, or .json"
    )


def add_dashboard(parser: argparse.ArgumentParser) -> None:
    """Add a study and where it is served."""
    add_study(parser)
    add_place(parser, 8080)
    parser.add_argument(
        "--write",
        dest="writes",
        action="store_true",
        help="let notes be written; nothing else is ever changed",
    )


def add_tensorboard(parser: argparse.ArgumentParser) -> None:
    """Add a study and where it is served or written."""
    add_study(parser)
    add_place(parser, 6006)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="write what it reads there, serve nothing"
    )


def add_confirm(parser: argparse.ArgumentParser) -> None:
    """Add a study, how many of its best and how they are measured."""
    add_study_json(parser)
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
        dest="response_steps",
        type=positive,
        metavar="STEPS",
        help="train an opponent against each player alone for so many steps: exploitability",
    )
    add_submit(parser, "; the same command later compares")


def add_replay(parser: argparse.ArgumentParser) -> None:
    """Add a study, whose schedule and how it is measured."""
    add_study_json(parser)
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
    add_submit(parser, "; the same command later compares")


def add_crossplay(parser: argparse.ArgumentParser) -> None:
    """Add players, how they play and where to write."""
    parser.add_argument(
        "players",
        nargs="+",
        metavar="PLAYER",
        help="study (its best trials), checkpoint, folder of a run or a trial (its newest "
        "checkpoint), or name of a scripted player",
    )
    add_runs(parser)
    _add_who_plays(parser)
    _add_how(parser)
    parser.add_argument(
        "--intervals", action="store_true", help="print the matrix with its 95 %% intervals"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="write the matrix: .png, .svg or .pdf, .csv, or .json",
    )
    add_json(parser)


def _add_who_plays(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--top",
        type=positive,
        default=3,
        metavar="K",
        help="trials of a study, of each role that learns; default: 3",
    )
    parser.add_argument(
        "--panel",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="let the scripted players play too, on both sides; default: yes",
    )


def _add_how(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--games",
        type=positive,
        default=1000,
        metavar="N",
        help="games a pair, from the same starts for all; default: 1000",
    )
    parser.add_argument(
        "--seed", type=count, default=0, metavar="N", help="of the starts; default: 0"
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--greedy",
        dest="sampled",
        action="store_false",
        default=False,
        help="learned players play what they hold best; the default",
    )
    mode.add_argument(
        "--sampled",
        action="store_true",
        help="they draw moves as often as evaluation.er of their configuration says",
    )
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: a GPU if any"
    )


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    """Add a player, and what is measured of it."""
    parser.add_argument(
        "player",
        type=Path,
        metavar="CHECKPOINT",
        help="checkpoint, folder of a trial (its newest one), name of a scripted player, or a "
        "bundle that export wrote, whose certificate is measured again",
    )
    parser.add_argument(
        "--match-steps",
        type=count,
        metavar="N",
        help="moves of the published match; 0 leaves it out; default: 10000",
    )
    parser.add_argument(
        "--games",
        type=positive,
        metavar="N",
        help="games an opponent, for rho; default: 4000",
    )
    parser.add_argument(
        "--best-response",
        dest="response_steps",
        type=positive,
        metavar="STEPS",
        help="train an opponent against the player alone for so many steps, and measure what it "
        "takes: exploitability/host, exploitability/agent",
    )
    parser.add_argument(
        "--show-games", type=count, default=0, metavar="K", help="print K games move by move"
    )
    parser.add_argument(
        "--tree",
        type=Path,
        metavar="FILE",
        help="draw the host's blow-up tree: .svg, .png, .pdf, or .txt",
    )
    parser.add_argument(
        "--tree-start", metavar="NAME", help="A1 to A4, D4, D5, E6 to E8; default: E6"
    )
    parser.add_argument(
        "--signers",
        type=Path,
        metavar="FILE",
        help="refuse a bundle that none of these signed: lines of NAME KEYTYPE KEY, as ssh-keygen "
        "reads them",
    )
    add_json(parser)


def add_export(parser: argparse.ArgumentParser) -> None:
    """Add a study, which trials, and how they are written."""
    add_study_json(parser)
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
        dest="form",
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
        "--sign",
        dest="key",
        type=Path,
        metavar="KEY",
        help="sign bundles by this SSH key, with ssh-keygen",
    )


def add_report(parser: argparse.ArgumentParser) -> None:
    """Add a study, perhaps another one, and what is measured."""
    add_study(parser)
    parser.add_argument(
        "other", nargs="?", metavar="OTHER", help="a second study, laid over the first"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: RUNS/STUDY/report.html"
    )
    parser.add_argument(
        "--games",
        type=count,
        default=4000,
        metavar="N",
        help="games an opponent, to measure the best trial's players; 0 for none; default: 4000",
    )
    parser.add_argument(
        "--best-response",
        dest="response_steps",
        type=positive,
        metavar="STEPS",
        help="train an opponent against them alone for so many steps, and show what it takes",
    )


def add_gc(parser: argparse.ArgumentParser) -> None:
    """Add a study, and what is removed."""
    add_study_json(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be freed, free nothing"
    )
    parser.add_argument(
        "--traces", action="store_true", help="remove TensorBoard's and the profiler's files too"
    )


def add_audit(parser: argparse.ArgumentParser) -> None:
    """Add a study, and how deep to look."""
    add_study_json(parser)
    parser.add_argument(
        "--deep", action="store_true", help="read every checkpoint, not the newest and needed alone"
    )


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Add the folder of what trains."""
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="RUNS/NAME, or RUNS/STUDY/trials/NUMBER"
    )

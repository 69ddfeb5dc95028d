"""All commands, and how the words of a command line become a call of one."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pkgutil import resolve_name
from typing import Any

from hpsearch import __version__
from hpsearch.commands.arguments import (
    add_audit,
    add_breed,
    add_checkpoint,
    add_completion,
    add_confirm,
    add_crossplay,
    add_dashboard,
    add_doctor,
    add_evaluate,
    add_export,
    add_gc,
    add_init,
    add_lineage,
    add_ls,
    add_replay,
    add_report,
    add_retry,
    add_run,
    add_status,
    add_study,
    add_study_json,
    add_tensorboard,
    add_train,
    add_trials,
)
from hpsearch.errors import UsageError, unknown_name


@dataclass(frozen=True)
class Command:
    """A command of the command line."""

    name: str
    place: str
    """MODULE:FUNCTION, which takes every argument by its name and returns the exit code"""
    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    examples: tuple[str, ...]
    """command lines at the end of its help"""
    fixed: Mapping[str, str] = field(default_factory=dict)
    """what its function takes besides, where several commands share it"""


COMMANDS = {
    "begin": (
        Command(
            "init",
            "hpsearch.commands.init:init",
            "write a study to begin with, every key explained; or convert from hironaka",
            add_init,
            ("hpsearch init --template ppo my_study.yaml",),
        ),
        Command(
            "validate",
            "hpsearch.commands.validate:validate",
            "check a study file and show what it would search",
            add_study_json,
            ("hpsearch validate studies/quickstart.yaml",),
        ),
        Command(
            "doctor",
            "hpsearch.commands.doctor:doctor",
            "look whether this machine, or a study on it, is ready to run",
            add_doctor,
            ("hpsearch doctor", "hpsearch doctor studies/quickstart.yaml"),
        ),
        Command(
            "completion",
            "hpsearch.commands.completion:completion",
            "print a script by which a shell completes commands, options, files and studies",
            add_completion,
            (
                "hpsearch completion bash > ~/.local/share/bash-completion/completions/hpsearch",
                "hpsearch completion zsh > ~/.zfunc/_hpsearch",
            ),
        ),
    ),
    "run": (
        Command(
            "run",
            "hpsearch.commands.run:run",
            "run a study in the foreground; again: go on with it",
            add_run,
            (
                "hpsearch run studies/quickstart.yaml",
                "hpsearch run studies/quickstart.yaml --trials 32",
            ),
        ),
        Command(
            "submit",
            "hpsearch.commands.submit:submit",
            "start a study and leave it to a driver without a terminal",
            add_study,
            ("hpsearch submit studies/quickstart.yaml",),
        ),
        Command(
            "pause",
            "hpsearch.commands.submit:request",
            "start nothing new until resume",
            add_study,
            ("hpsearch pause quickstart",),
            fixed={"verb": "pause"},
        ),
        Command(
            "resume",
            "hpsearch.commands.submit:request",
            "go on with a paused, stopped, cancelled or interrupted study",
            add_study,
            ("hpsearch resume quickstart",),
            fixed={"verb": "resume"},
        ),
        Command(
            "stop",
            "hpsearch.commands.submit:request",
            "end the study when what has begun has finished",
            add_study,
            ("hpsearch stop quickstart",),
            fixed={"verb": "stop"},
        ),
        Command(
            "cancel",
            "hpsearch.commands.submit:request",
            "end all jobs of a study at once",
            add_study,
            ("hpsearch cancel quickstart",),
            fixed={"verb": "cancel"},
        ),
        Command(
            "retry",
            "hpsearch.commands.submit:retry",
            "try failed trials again, as new ones, and start a driver if there is none",
            add_retry,
            ("hpsearch retry quickstart --kind oom_host --kind nan",),
        ),
        Command(
            "breed",
            "hpsearch.commands.breed:breed",
            "a population that begins with the best of finished studies, of any shapes",
            add_breed,
            ("hpsearch breed dqn_small dqn_large --members 8 --submit",),
        ),
        Command(
            "train",
            "hpsearch.commands.train:train",
            "train what one configuration says, without a study; again: go on with it",
            add_train,
            (
                "hpsearch train studies/trainers/ppo_20x3.yaml",
                "hpsearch train studies/trainers/dqn_20x3.yaml host.gamma=0.95 --name gamma95",
            ),
        ),
    ),
    "look": (
        Command(
            "ls",
            "hpsearch.commands.read:ls",
            "all studies below --runs, a line each",
            add_ls,
            ("hpsearch ls", "hpsearch ls --runs /scratch/me/runs --json"),
        ),
        Command(
            "status",
            "hpsearch.commands.read:status",
            "how far a study is, and what it has cost",
            add_status,
            ("hpsearch status quickstart --watch", "hpsearch status quickstart --json"),
        ),
        Command(
            "trials",
            "hpsearch.commands.read:trials",
            "all trials of a study",
            add_trials,
            ("hpsearch trials quickstart", "hpsearch trials quickstart --csv > trials.csv"),
        ),
        Command(
            "best",
            "hpsearch.commands.read:best",
            "the best finished trial",
            add_study_json,
            ("hpsearch best quickstart --json",),
        ),
        Command(
            "lineage",
            "hpsearch.commands.lineage:lineage",
            "the ancestry of a population",
            add_lineage,
            ("hpsearch lineage population_pairs --all -o lineage.svg",),
        ),
        Command(
            "dashboard",
            "hpsearch.commands.dashboard:dashboard",
            "Optuna's dashboard of a study, in a browser",
            add_dashboard,
            ("hpsearch dashboard quickstart", "hpsearch dashboard quickstart --port 0 --write"),
        ),
        Command(
            "tensorboard",
            "hpsearch.commands.tensorboard:tensorboard",
            "a study in TensorBoard, in a browser",
            add_tensorboard,
            ("hpsearch tensorboard quickstart", "hpsearch tensorboard quickstart -o board/"),
        ),
    ),
    "compare": (
        Command(
            "confirm",
            "hpsearch.commands.confirm:confirm",
            "the best of a study again on held-out seeds and starts, and which is the best",
            add_confirm,
            ("hpsearch confirm quickstart --top 5 --seeds 5",),
        ),
        Command(
            "replay",
            "hpsearch.commands.replay:replay",
            "the schedule that led to a population's champion again, on held-out seeds",
            add_replay,
            ("hpsearch replay population_pairs --seeds 5",),
        ),
        Command(
            "crossplay",
            "hpsearch.commands.crossplay:crossplay",
            "every host against every agent: a matrix, ratings, cycles",
            add_crossplay,
            ("hpsearch crossplay quickstart runs/ppo_20x3 zeillinger --top 5 -o matrix.svg",),
        ),
        Command(
            "evaluate",
            "hpsearch.commands.evaluate:evaluate",
            "everything that can be measured of a trained or a scripted player",
            add_evaluate,
            (
                "hpsearch evaluate runs/ppo_20x3",
                "hpsearch evaluate runs/ppo_20x3 --match-steps 0 --best-response 500",
                "hpsearch evaluate zeillinger --match-steps 0 --tree tree.txt",
            ),
        ),
    ),
    "take away": (
        Command(
            "export",
            "hpsearch.commands.export:export",
            "write the best trial as a folder that stands alone",
            add_export,
            ("hpsearch export quickstart -o best/", "hpsearch export quickstart --top 3"),
        ),
        Command(
            "report",
            "hpsearch.commands.report:report",
            "a study as one page that stands alone, with pictures",
            add_report,
            (
                "hpsearch report quickstart -o quickstart.html",
                "hpsearch report quickstart another -o both.html",
            ),
        ),
    ),
    "plumbing": (
        Command(
            "gc",
            "hpsearch.commands.gc:gc",
            "free disk space: what ended trials and jobs don't need",
            add_gc,
            ("hpsearch gc quickstart --dry-run",),
        ),
        Command(
            "audit",
            "hpsearch.commands.audit:audit_study",
            "check that events, Optuna's tables and files of a study tell the same",
            add_audit,
            ("hpsearch audit quickstart", "hpsearch audit quickstart --deep --json"),
        ),
        Command(
            "checkpoint",
            "hpsearch.commands.checkpoint:request_checkpoint",
            "ask a training process for a checkpoint now",
            add_checkpoint,
            ("hpsearch checkpoint runs/ppo_20x3",),
        ),
        Command(
            "drive",
            "hpsearch.commands.run:drive_detached",
            "drive a submitted study without a terminal; what submit starts",
            add_study,
            ("hpsearch drive quickstart",),
        ),
        Command(
            "tick",
            "hpsearch.commands.run:tick",
            "do one round of the driver and exit",
            add_study,
            ("hpsearch tick studies/quickstart.yaml",),
        ),
    ),
}
"""all commands, by the group in which the help lists them"""
NAMES = tuple(command.name for commands in COMMANDS.values() for command in commands)
SEVERAL = ("overrides", "players", "studies")
"""arguments of which a command takes several"""
EPILOG = """\
examples:
  hpsearch init my_study.yaml              a study to begin with, every key explained
  hpsearch run studies/quickstart.yaml     run a study, or go on with it after Ctrl-C
  hpsearch submit studies/quickstart.yaml  the same, and go home
  hpsearch status quickstart --watch       how far it is
  hpsearch ls                              all studies here
  hpsearch best quickstart --json          the best configuration, for a program
  hpsearch confirm quickstart              whether the best was lucky, on seeds held out
  hpsearch report quickstart               everything to look at, as one page
  hpsearch dashboard quickstart            the same study in Optuna's dashboard
  hpsearch export quickstart -o best/      policy, weights, configuration and measures of the best
  hpsearch breed quickstart other          a population of the best of both
  hpsearch train studies/trainers/ppo_20x3.yaml    one trainer without a study
  hpsearch evaluate runs/ppo_20x3          everything that can be measured of a player
  hpsearch crossplay quickstart runs/ppo_20x3      how strong several players are

STUDY is a study file or the name of a study that was started under --runs.
hpsearch alone prints this help, with exit code 2: nothing was done.
exit codes: 0 done, 1 failed, 2 wrong command, 3 wrong file, 4 conflict, 5 database, 6 disk,
7 damaged file, 8 training failed, 130 interrupted"""


@dataclass(frozen=True)
class ParsedCommand:
    """A call that is ready to be made."""

    name: str
    arguments: dict[str, Any]
    call: Callable[[], int]
    """loads the command's module, calls its function, and returns the exit code"""


def parse(arguments: Sequence[str] | None) -> ParsedCommand:
    """Read the words of a command line, ``sys.argv`` where None are given.

    Raises:
        UsageError: if there is no such command.
        SystemExit: of argparse, after help and after a wrong argument.
    """
    parser = build_parser()
    words = sys.argv[1:] if arguments is None else arguments
    name = next((word for word in words if not word.startswith("-")), None)
    if name is not None and name not in NAMES:  # argparse would not say which one was meant
        raise UsageError(unknown_name("command", name, NAMES))
    options, others = parser.parse_known_args(words)
    given = vars(options)
    if name is None:
        return ParsedCommand("", {}, partial(_no_command, parser))
    # argparse by itself finds no more of several that come after an option.
    several: list[str] | None = next((given[key] for key in SEVERAL if key in given), None)
    if several is not None and not any(other.startswith("-") for other in others):
        several += others
    elif others:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    command: Command = given.pop("command")
    given |= command.fixed
    return ParsedCommand(name, given, partial(_call, command.place, given))


def _call(place: str, arguments: Mapping[str, Any]) -> int:
    exit_code: int = resolve_name(place)(**arguments)
    return exit_code


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="hpsearch",
        description="Search hyperparameters of players of the polyhedral game.",
        epilog=EPILOG,
        formatter_class=GroupedHelp,
    )
    parser.add_argument("--version", action="version", version=f"hpsearch {__version__}")
    added = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in chain.from_iterable(COMMANDS.values()):
        summary, examples = command.summary, command.examples
        lines = "".join(f"\n  {line}" for line in examples)
        own = added.add_parser(
            command.name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=f"{'examples' if len(examples) > 1 else 'example'}:{lines}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(own)
        own.set_defaults(command=command)
    return parser


def _no_command(parser: argparse.ArgumentParser) -> int:
    """Print the help; like git, with an exit code that tells programs that nothing was done."""
    parser.print_help()
    return UsageError.exit_code


class GroupedHelp(argparse.RawDescriptionHelpFormatter):
    """Lists the commands in groups; argparse alone puts all thirty in one list."""

    def _format_action(self, action: argparse.Action) -> str:
        if not isinstance(action, argparse._SubParsersAction):
            return super()._format_action(action)
        lines = {line.dest: line for line in action._get_subactions()}
        # argparse measures the names without the indentation that they get.
        self._action_max_length += self._indent_increment
        text = ""
        for title, commands in COMMANDS.items():
            text += f"{'':{self._current_indent}}{title}:\n"
            self._indent()
            text += "".join(
                super(GroupedHelp, self)._format_action(lines[command.name]) for command in commands
            )
            self._dedent()
        return text

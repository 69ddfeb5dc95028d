"""The arguments of the command line, and the function that each command calls.

Commands are imported only when they are called, so that ``--help`` answers at once.
"""

import argparse
import sys
from collections.abc import Sequence

from hpsearch import __version__
from hpsearch.arguments.player import add_beginning_commands, add_crossplay, add_player_commands
from hpsearch.arguments.study import add_page_commands, add_population_commands, add_study_commands
from hpsearch.errors import UsageError, unknown_name

GROUPS = {
    "begin": ("init", "validate", "doctor", "completion"),
    "run": ("run", "submit", "pause", "resume", "stop", "cancel", "retry", "breed", "train"),
    "look": ("ls", "status", "trials", "best", "lineage", "dashboard", "tensorboard"),
    "compare": ("confirm", "replay", "crossplay", "evaluate"),
    "take away": ("export", "report"),
    "plumbing": ("gc", "audit", "checkpoint", "drive", "tick"),
}
"""all commands, as the help lists them"""
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


class GroupedHelp(argparse.RawDescriptionHelpFormatter):
    """Lists the commands in groups; argparse alone puts all thirty in one list."""

    def _format_action(self, action: argparse.Action) -> str:
        if not isinstance(action, argparse._SubParsersAction):
            return super()._format_action(action)
        lines = {line.dest: line for line in action._get_subactions()}
        # argparse measures the names without the indentation that they get.
        self._action_max_length += self._indent_increment
        text = ""
        for title, names in GROUPS.items():
            text += f"{'':{self._current_indent}}{title}:\n"
            self._indent()
            text += "".join(super(GroupedHelp, self)._format_action(lines[name]) for name in names)
            self._dedent()
        return text


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the arguments; argparse by itself finds no more of several that come after an option.

    Raises:
        UsageError: if there is no such command.
    """
    parser = build_parser()
    words = sys.argv[1:] if arguments is None else arguments
    _check_command(words)
    options, others = parser.parse_known_args(words)
    lists = (vars(options).get(name) for name in ("overrides", "players", "studies"))
    several: list[str] | None = next((values for values in lists if values is not None), None)
    if several is not None and not any(other.startswith("-") for other in others):
        several += others
    elif others:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    return options


def _check_command(words: Sequence[str]) -> None:
    """Refuse an unknown command; argparse would not say which one was meant."""
    command = next((word for word in words if not word.startswith("-")), None)
    known = [name for names in GROUPS.values() for name in names]
    if command is not None and command not in known:
        raise UsageError(unknown_name("command", command, known))


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="hpsearch",
        description="Search hyperparameters of players of the polyhedral game.",
        epilog=EPILOG,
        formatter_class=GroupedHelp,
    )
    parser.set_defaults(command=lambda _: _no_command(parser), parser=parser)
    parser.add_argument("--version", action="version", version=f"hpsearch {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command_name")
    add_beginning_commands(commands)
    add_study_commands(commands)
    add_page_commands(commands)
    add_population_commands(commands)
    add_player_commands(commands)
    add_crossplay(commands)
    return parser


def _no_command(parser: argparse.ArgumentParser) -> int:
    """Print the help; like git, with an exit code that tells programs that nothing was done."""
    parser.print_help()
    return UsageError.exit_code

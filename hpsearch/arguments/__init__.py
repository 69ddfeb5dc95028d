"""The arguments of the command line, and the function that each command calls.

Commands are imported only when they are called, so that ``--help`` answers at once.
"""

import argparse
from collections.abc import Sequence

from hpsearch import __version__
from hpsearch.arguments.beginning import add_beginning_commands
from hpsearch.arguments.crossplay import add_crossplay
from hpsearch.arguments.pages import add_page_commands
from hpsearch.arguments.players import add_player_commands
from hpsearch.arguments.populations import add_population_commands
from hpsearch.arguments.studies import add_study_commands

EPILOG = """\
examples:
  hpsearch init my_study.yaml              a study to begin with, every key explained
  hpsearch run studies/quickstart.yaml     run a study, or go on with it after Ctrl-C
  hpsearch submit studies/quickstart.yaml  the same, and go home
  hpsearch status quickstart --watch       how far it is
  hpsearch best quickstart --json          the best configuration, for a program
  hpsearch confirm quickstart              whether the best was lucky, on seeds held out
  hpsearch report quickstart               everything to look at, as one page
  hpsearch dashboard quickstart            the same study in Optuna's dashboard
  hpsearch export quickstart -o best/      policy, weights, configuration and measures of the best
  hpsearch breed quickstart other          a population of the best of both
  hpsearch train studies/trainers/ppo_20x3.yaml    one trainer without a study
  hpsearch evaluate runs/ppo_20x3          everything that can be measured of a player
  hpsearch crossplay quickstart runs/ppo_20x3      who beats whom, and who is how strong

STUDY is a study file or the name of a study that was started under --runs.
exit codes: 0 done, 1 failed, 2 wrong command, 3 wrong file, 4 conflict, 5 database, 6 disk,
7 damaged file, 8 training failed, 130 interrupted"""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the arguments; argparse by itself finds no more of several that come after an option."""
    parser = build_parser()
    options, others = parser.parse_known_args(arguments)
    lists = (vars(options).get(name) for name in ("overrides", "players", "studies"))
    several: list[str] | None = next((one for one in lists if one is not None), None)
    if several is not None and not any(one.startswith("-") for one in others):
        several += others
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
    add_beginning_commands(commands)
    add_study_commands(commands)
    add_page_commands(commands)
    add_population_commands(commands)
    add_player_commands(commands)
    add_crossplay(commands)
    return parser

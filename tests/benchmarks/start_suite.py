"""What a user waits for before anything is done: the command line."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import rows
from measuring import Case, Contender
from setting import Setting

START = "from hpsearch.cli import entry; entry()"
COMMANDS = {
    "python": ["-c", "pass"],
    "import torch": ["-c", "import torch"],
    "hpsearch --help": ["-c", START, "--help"],
    "hpsearch validate": ["-c", START, "validate", "studies/quickstart.yaml"],
}
QUICK = ("python", "hpsearch --help")


def start_up(setting: Setting) -> Iterator[dict[str, object]]:
    """Measure processes from their start to their end."""
    commands = setting.pick(full=COMMANDS, quick={name: COMMANDS[name] for name in QUICK})
    case = Case(
        name="start-up",
        sizes="studies/quickstart.yaml",
        unit="start",
        contenders={
            name: Contender(_start(command), calls=1) for name, command in commands.items()
        },
        baselines=("python",),
        goal="0.5 s",
    )
    yield from setting.time([case])


def _start(command: list[str]) -> Callable[[], int]:
    environment = os.environ | {"PYTHONPATH": str(rows.ROOT)}

    def run() -> int:
        subprocess.run(
            [sys.executable, *command],
            cwd=rows.ROOT,
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return 1

    return run

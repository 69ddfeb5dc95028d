"""The commands that the documentation gives, and studies that are small enough to run them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hpsearch import yaml_file

PROGRAMS = ("hpsearch", "optuna", "make", "python", "pip", "sudo", "slurm/dev-cluster")
SMALL: dict[str, Any] = {
    "max_num_points": 5,
    "num_points": 5,
    "steps": 40,
    "interval": 20,
    "num_games": 20,
    "final_num_games": 40,
    "best_response": 10,
    "max_steps": 20,
    "learning_starts": 2,
    "rollout_length": 2,
    "updates_per_step": 1,
    "rollout_size": 16,
    "batch_size": 16,
    "minibatch_size": 16,
    "train_epochs": 1,
    "buffer_size": 400,
    "net_arch": [8],
    "value_net_arch": [8],
    "seconds": None,
    "trials": 2,
    "members": 2,
    "n_startup_trials": 2,
    "num_steps": 10,
    "generations": 1,
}
"""by the last key, wherever a file has it with a value of its own"""


def commands(text: str) -> Iterator[str]:
    """Yield the commands of a page: those of blocks, and inline ones that are spelled out."""
    pattern = re.compile(r"```(\w*)\n(.*?)```|(?<!`)`([^`\n]+)`(?!`)", flags=re.DOTALL)
    for language, block, inline in pattern.findall(text):
        if block and not language:
            yield from filter(_is_command, map(_bare, block.splitlines()))
        elif _is_command(inline) and not re.search(r"\b[A-Z]{2,}\b|\.\.\.|\[|\b[A-Z]\b", inline):
            yield inline


def _bare(line: str) -> str:
    return re.sub(r"\s+#\s.*", "", line).removeprefix("login$ ")


def _is_command(line: str) -> bool:
    """Whether there is a program and something to do with it; `hpsearch run` alone is its name."""
    program, *words = line.split()[:3] or [""]
    return program in PROGRAMS and len(words) >= (2 if program == "hpsearch" else 1)


def shrink(path: Path) -> None:
    """Make a study or a trainer configuration small, in its place."""
    data = _small(yaml_file.load(path))
    if "space" in data:
        # A pilot takes the intervals, the matches and the closing of a population one by one.
        pilot = {"pilot": True} if "population" in data else {}
        data["executor"] = {"name": "local", "jobs": 1, "members_per_job": 20} | pilot
    path.write_text(yaml_file.dump(data))


def _small(data: Any) -> Any:
    if isinstance(data, list):
        return [_small(item) for item in data]
    if not isinstance(data, dict):
        return data
    # A range of the space has the key of what it searches, and keeps it.
    return {
        key: SMALL[key] if key in SMALL and not isinstance(value, dict) else _small(value)
        for key, value in data.items()
    }

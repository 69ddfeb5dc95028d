"""How long the process of a look at a study of many trials takes, with a snapshot and without."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import rows
from measuring import Case, Contender
from setting import Setting

sys.path.append(str(rows.ROOT / "tests"))
from long_study import long_study, write_snapshot

START = "from hpsearch.cli import entry; entry()"


def looks(setting: Setting) -> Iterator[dict[str, object]]:
    """Measure `hpsearch status` and `hpsearch trials` into a file, and the page of most trials."""
    for trials in setting.pick(full=(4_118, 100_000), quick=(20, 80)):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            without, with_one = folder / "without", folder / "with"
            for each in (without, with_one):
                each.mkdir()
            write_snapshot(long_study(with_one, trials))
            contenders = {"python": _run(folder, "-c", "pass")}
            for command in ("status", "trials"):
                contenders[command] = _look(with_one, command)
            if trials == setting.pick(full=4_118, quick=20):
                long_study(without, trials)
                contenders["status, no snapshot"] = _look(without, "status")
                contenders["trials, no snapshot"] = _look(without, "trials")
            yield from setting.time([_case("look at a study", trials, contenders, goal="1 s")])
            if trials == setting.pick(full=100_000, quick=80):
                draw = _look(with_one, "report", "--out", str(folder / "page.html"))
                page = {"python": contenders["python"], "report": draw}
                yield from setting.time([_case("a page of a study", trials, page)])


def _case(name: str, trials: int, runs: Mapping[str, Callable[[], int]], *, goal: str = "") -> Case:
    contenders = {key: Contender(run, calls=1) for key, run in runs.items()}
    sizes = f"{trials:,} trials, SQLite"
    return Case(
        name=name,
        sizes=sizes,
        unit="look",
        contenders=contenders,
        baselines=("python",),
        goal=goal,
    )


def _look(folder: Path, command: str, *options: str) -> Callable[[], int]:
    return _run(folder, "-c", START, command, "long", "--runs", str(folder / "runs"), *options)


def _run(folder: Path, *command: str) -> Callable[[], int]:
    environment = os.environ | {"PYTHONPATH": str(rows.ROOT)}

    def run() -> int:
        with (folder / "output").open("w") as output:
            subprocess.run([sys.executable, *command], env=environment, check=True, stdout=output)
        return 1

    return run

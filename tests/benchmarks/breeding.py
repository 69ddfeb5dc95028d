"""Does breeding find a better player than searching does, at as many training steps?

    python tests/benchmarks/breeding.py --seeds 101 102 103 104 105

Every way of `WAYS` gets the same base, space and number of training steps, and hands over the trial
that it holds best by its own measurements. That one is measured on 10,000 unused starts.
A step is the same work in every way: the same games, networks and updates; distillation makes
updates besides. Ways whose number of
steps is not known beforehand (successive halving) say how many they took. Each row appended to
reports/benchmarks/breeding.csv is one study; the page shows interquartile means over the seeds.

`GAMES` are where it is tried. All ways that breed select alike, so what differs is the operators:
those by which children come that train on (pbt), and those of generations after that, whose
children take no step (closing).
Seeds are the studies' own; nothing else in the project uses those that a row names.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

from hpsearch.cluster.threads import SPIN_SHORTLY

os.environ |= SPIN_SHORTLY  # as the command line does

import page
import rows

from hpsearch import yaml_file
from hpsearch.cluster.machine import num_cores

GAMES = {
    "20x3": {"dimension": 3, "max_num_points": 20},
    "10x4": {"dimension": 4, "max_num_points": 10},
}
"""points and dimension; at 10x4 hosts still learn fast when the budget ends, at 20x3 hardly"""
METRIC = "rho/host/choose_first"
BASE = rows.ROOT / "studies/trainers/choose_first.yaml"
MEMBERS, GENERATIONS, INTERVAL = 8, 6, 400
MEMBERS_PER_JOB = 4
WHOLE = GENERATIONS * INTERVAL
"""steps of a trial of a search: those of a member from its beginning to its end"""
HALVED_TRIALS = 22
"""of successive halving, which cuts most of them short: about as many steps as the others"""
SPACE = {
    "host.optim.args.lr": {"type": "float", "low": 1.0e-4, "high": 3.0e-3, "log": True},
    "host.gamma": {"type": "float", "low": 0.8, "high": 0.97},
    "host.er": {"type": "float", "low": 0.01, "high": 0.3, "log": True},
    "host.steps_before_update_target": {"type": "int", "low": 20, "high": 200, "log": True},
}
CLONE = {"name": "clone"}


def distillation(compare: str) -> dict[str, Any]:
    """Return the operator whose child learns from both parents, or at each position from one."""
    learning = {
        "num_steps": 500,
        "batch_size": 256,
        "lr": 3.0e-4,
        "beta1": 0.9,
        "beta2": 0.999,
        "eps": 1.0e-8,
        "temperature": 0.03,
        "value_weight": 0.5,
        "compare": compare,
    }
    return {"name": "distillation", "learning": learning}


LAYERS = {"name": "layer_crossover", "share": 0.5}
AVERAGE = {"name": "aligned_average", "share": 0.5}
DISTILLATION = distillation("mean")
OPERATORS: dict[str, dict[str, Any]] = {
    "gaussian": {"name": "gaussian_mutation", "strength": 0.03},
    "safe": {"name": "safe_mutation", "bound": 0.1},
    "layers": LAYERS,
    "average": AVERAGE,
    "filter": distillation("raw"),
    "distillation": DISTILLATION,
}
CLOSING = (LAYERS, AVERAGE, DISTILLATION)
ADOPTION = {"num_games": 1000, "confidence": 0.5}
"""a child takes a place unless a copy of its first parent is rather stronger"""
SELECTION = {"name": "truncation", "share": 0.25, "confidence": 0.5}
"""acts on any difference, as population-based training was published (arXiv 1711.09846)"""
ISLANDS = {
    "members": MEMBERS_PER_JOB,
    "generations": 2,
    "num_games": 500,
    "selection": SELECTION,
}


def search(sampler: str, trials: int, pruner: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a study that searches."""
    return {"sampler": {"name": sampler}, "pruner": pruner, "budget": {"trials": trials}}


def population(
    *operators: dict[str, Any],
    closing: tuple[dict[str, Any], ...] = (),
    islands: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the keys of a study that breeds by clones and other operators, and how it closes."""
    return {
        "sampler": {"name": "random"},
        "budget": {"trials": MEMBERS * GENERATIONS},
        "population": {
            "members": MEMBERS,
            "interval": INTERVAL,
            "generations": {"name": "synchronous", "quorum": 1.0},
            "matches": {"num_games": 1000, "panel": ["choose_first"], "weighing": "uniform"},
            "selection": SELECTION,
            "operators": [CLONE, *operators],
            "adoption": ADOPTION,
            "closing": {"operators": list(closing)} if closing else None,
            "islands": islands,
        },
    }


HALVING = {"name": "successive_halving", "min_resource": INTERVAL, "reduction_factor": 2}
WAYS: dict[str, dict[str, Any]] = {
    "random search": search("random", MEMBERS, {"name": "none"}),
    "tpe, halving": search("tpe", HALVED_TRIALS, HALVING),
    "pbt as published": population(),
    **{f"pbt, {name}": population(operator) for name, operator in OPERATORS.items()},
    **{f"closing, {name}": population(closing=(operator,)) for name, operator in OPERATORS.items()},
    "bred": population(closing=CLOSING),
    "bred, islands": population(closing=CLOSING, islands=ISLANDS),
}


def run(game: str, way: str, seed: int, folder: Path) -> dict[str, object]:
    """Run one study in an empty folder and return its row."""
    name = "ablation"
    base = yaml_file.load(BASE) | GAMES[game]
    base["steps"] = WHOLE
    base["evaluation"]["interval"] = base["checkpoint"]["interval"] = INTERVAL // 2
    (folder / "base.yaml").write_text(yaml_file.dump(base))
    study = {
        "name": name,
        "seed": seed,
        "storage": f"sqlite:///{folder}/ablation.db",
        "base": "base.yaml",
        "objectives": [{"metric": METRIC, "goal": "maximize"}],
        "space": SPACE,
        "executor": {
            "name": "local",
            "jobs": num_cores(),
            "members_per_job": MEMBERS_PER_JOB,
            "pilot": True,
        },
    }
    (folder / "study.yaml").write_text(yaml_file.dump(study | WAYS[way]))
    began = time.perf_counter()
    command = [sys.executable, "-m", "hpsearch.cli"]
    run_command([*command, "run", "study.yaml"], folder)
    seconds = time.perf_counter() - began
    listed = run_command([*command, "trials", name, "--json"], folder)
    measured = json.loads((folder / "runs" / name / "best/evaluation.json").read_text())
    trained = next(row for row in measured["rows"] if row["player"] == "trained")
    rho = trained["metrics"][METRIC]
    return rows.context("cpu", num_cores()) | {
        "game": game,
        "way": way,
        "seed": seed,
        "steps": sum(steps_of(folder / "runs" / name, load) for load in json.loads(listed)),
        "rho": f"{rho['value']:.5f}",
        "low": f"{rho['low']:.5f}",
        "high": f"{rho['high']:.5f}",
        "seconds": f"{seconds:.0f}",
    }


def run_command(command: list[str], folder: Path) -> str:
    """Return what a command prints; who ends badly is heard."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def steps_of(folder: Path, trial: dict[str, Any]) -> int:
    """Return the steps that a trial made itself, not its ancestors."""
    began = 0 if trial["origin"] is None else next(iter(trial["origin"]["parent_steps"]), 0)
    if trial["state"] == "finished":
        return int(trial["config"]["steps"]) - began
    curve = folder / "trials" / str(trial["trial"]) / "metrics.jsonl"
    lines = curve.read_text().splitlines() if curve.exists() else []
    return max((int(json.loads(line)["step"]) for line in lines), default=began) - began


def main() -> None:
    """Run every way with every seed in every game; append the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--games", nargs="+", choices=GAMES, default=list(GAMES), metavar="GAME")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), metavar="WAY")
    parser.add_argument("--out", type=Path, default=rows.REPORTS)
    options = parser.parse_args()
    for game, seed, way in product(options.games, options.seeds, options.ways):
        with tempfile.TemporaryDirectory() as folder:
            rows_of_run = run(game, way, seed, Path(folder))
        print(", ".join(str(value) for value in rows_of_run.values()), flush=True)
        rows.append(options.out / "breeding.csv", [rows_of_run])
    page.write(options.out)


if __name__ == "__main__":
    main()

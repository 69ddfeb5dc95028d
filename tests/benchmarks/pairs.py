"""Does the pair that cross-play chooses beat every member's own pair?

    python tests/benchmarks/pairs.py --seeds 303 304

Runs studies/population_pairs.yaml, then lets its champion meet the pair with which each member
ended its training, on 10,000 unused starts. Every member of such a pair has trained against
its own partner, which is therefore the hardest rival to surpass. Each row appended to
reports/benchmarks/pairs.csv is one member of one study; see `pairs_page` for what it says.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from hpsearch.cluster.threads import SPIN_SHORTLY

os.environ |= SPIN_SHORTLY  # as the command line does

import breeding
import numpy as np
import page
import rows
import torch

from hpsearch import yaml_file
from hpsearch.analysis.players import HowToPlay, find_players, play_round_robin
from hpsearch.cluster.machine import num_cores
from hpsearch.population.statistics import Floats, interval, resampled_rho
from hpsearch.study.records import COMPLETE
from hpsearch.study.view import StudyView, open_view

STUDY = rows.ROOT / "studies/population_pairs.yaml"
NAME = "population_pairs"
STARTS = 10
"""seed of the starts, which no match of a study uses"""
NUM_GAMES = 10_000
NUM_SAMPLES = 2000
CONFIDENCE = 0.95


def run(seed: int, folder: Path) -> list[dict[str, object]]:
    """Run one study in an empty folder and return the rows of its members."""
    spec = yaml_file.load(STUDY)
    spec |= {
        "seed": seed,
        "storage": f"sqlite:///{folder}/{NAME}.db",
        "base": str(STUDY.parent / spec["base"]),
    }
    (folder / "study.yaml").write_text(yaml_file.dump(spec))
    began = time.perf_counter()
    breeding.run_command([sys.executable, "-m", "hpsearch.cli", "run", "study.yaml"], folder)
    seconds = time.perf_counter() - began
    view = open_view(NAME, folder / "runs")
    champion = view.state.population.archive[-1]
    trained = trained_trials(view)
    context = rows.context("cpu", num_cores())
    about = {"seed": seed, "seconds": f"{seconds:.0f}", "champion": champion}
    gains_by_trial = compared(view, champion, list(trained.values()))
    return [
        context | about | {"member": member, "trial": trial} | gains_by_trial[trial]
        for member, trial in trained.items()
    ]


def trained_trials(view: StudyView) -> dict[int, int]:
    """Return each member's newest trial that has trained."""
    finished = sorted(view.state.told(COMPLETE), key=lambda trial: trial.number)
    return {trial.member: trial.number for trial in finished if trial.trains}


def compared(view: StudyView, champion: int, trials: Sequence[int]) -> dict[int, dict[str, str]]:
    """Return what the champion's host, its agent and both gain over each trial's pair."""
    players = list(dict.fromkeys([champion, *trials]))
    folders = [str(view.folder.trial(number).root) for number in players]
    how = HowToPlay(NUM_GAMES, STARTS, sampled=False, device=torch.device("cpu"))
    round_robin = find_players(
        folders, view.folder.root.parent, top=1, panel=False, device=how.device
    )
    played = play_round_robin(round_robin, how)
    rho = resampled_rho(played.moves, NUM_SAMPLES, np.random.default_rng(0))
    # The first sample is what was measured, the others say how sure that is.
    logs = np.log(np.concatenate([played.rho()[None], rho]))
    place = {number: index for index, number in enumerate(players)}
    best = place[champion]
    gains = {}
    for number in trials:
        own = place[number]
        host = logs[:, best, own] - logs[:, own, own]
        agent = logs[:, own, own] - logs[:, own, best]
        gains[number] = _cells("host", host) | _cells("agent", agent) | _cells("both", host + agent)
    return gains


def _cells(name: str, gains: Floats) -> dict[str, str]:
    low, high = interval(gains[1:], CONFIDENCE)
    return {
        f"{name}_gain": f"{gains[0]:.4f}",
        f"{name}_low": f"{low:.4f}",
        f"{name}_high": f"{high:.4f}",
    }


def main() -> None:
    """Run the study with every seed; append the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--out", type=Path, default=rows.REPORTS)
    options = parser.parse_args()
    for seed in options.seeds:
        with tempfile.TemporaryDirectory() as folder:
            measurements = run(seed, Path(folder))
        for gains in measurements:
            print(", ".join(str(value) for value in gains.values()), flush=True)
        rows.append(options.out / "pairs.csv", measurements)
    page.write(options.out)


if __name__ == "__main__":
    main()

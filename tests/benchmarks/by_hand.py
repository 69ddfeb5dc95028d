"""A search by hand, as one writes it without hpsearch: Optuna, a database, a process a trial.

    python tests/benchmarks/by_hand.py WAY FOLDER SEED

One worker; as many as there are cores share the study in FOLDER. A trial is a process that trains
one host, by the seed's trainer or by `hpsearch train`, and writes its measurements to
FOLDER/trial-N/metrics.jsonl. All ways search the same four parameters; what counts steps is given
in the units of each trainer.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import optuna
import rows
from seed_dqn import SeedLearning
from seed_trainer import METRIC, SeedSettings, write_settings

MEASURE_INTERVAL, NUM_GAMES = 200, 2000
"""steps of choose_first.yaml between two measurements, and the games of each"""
OWN_STEPS, UPDATES_PER_STEP = 2400, 2
PUBLISHED_STEPS = 100_000
NAME = "by-hand"
MANY_TRIALS = 1000  # more than a study has
SEED_TRAINER = Path(__file__).with_name("seed_trainer.py")
BASE = rows.ROOT / "studies/trainers/choose_first.yaml"


def published(trial: optuna.Trial, seed: int) -> SeedSettings:
    """Return the seed's trainer with its published settings, but for what is searched."""
    learning = SeedLearning(
        net_arch=["r256", "r256"],
        batch_size=256,
        memory_size=100_000,
        lr=trial.suggest_float("lr", 1e-4, 3e-3, log=True),
        gamma=trial.suggest_float("gamma", 0.8, 0.97),
        max_grad_norm=1.0,
    )
    return SeedSettings(
        learning=learning,
        steps=PUBLISHED_STEPS,
        steps_before_update_target=trial.suggest_int("target", 200, 2000, log=True),
        steps_before_rollout=400,
        rollout_size=20,
        max_rollout_step=20,
        initial_rollout_size=100,
        er=0.2,
        er_steps=trial.suggest_int("er_steps", 12_500, 62_500),
        measure_interval=2000,
        num_games=NUM_GAMES,
        seed=seed,
    )


def as_ours(trial: optuna.Trial, seed: int) -> SeedSettings:
    """Return the seed's trainer with the settings of choose_first.yaml, its rollouts 20 moves."""
    learning = SeedLearning(
        net_arch=[64, 64],
        batch_size=256,
        memory_size=50_000,
        lr=trial.suggest_float("lr", 1e-4, 3e-3, log=True),
        gamma=trial.suggest_float("gamma", 0.8, 0.97),
        max_grad_norm=10.0,
    )
    return SeedSettings(
        learning=learning,
        steps=OWN_STEPS * UPDATES_PER_STEP,
        steps_before_update_target=UPDATES_PER_STEP
        * trial.suggest_int("target", 20, 200, log=True),
        steps_before_rollout=20 * UPDATES_PER_STEP,
        rollout_size=256,
        max_rollout_step=20,
        initial_rollout_size=256,
        er=0.05,
        er_steps=UPDATES_PER_STEP * trial.suggest_int("er_steps", 300, 1500),
        measure_interval=UPDATES_PER_STEP * MEASURE_INTERVAL,
        num_games=NUM_GAMES,
        seed=seed,
    )


Command = Callable[[optuna.Trial, int, Path], list[str]]
"""from a trial, the seed of its training, and its folder"""


def train_by(settings: Callable[[optuna.Trial, int], SeedSettings]) -> Command:
    """Return what gives the command of a trial that the seed's trainer trains."""

    def command(trial: optuna.Trial, seed: int, folder: Path) -> list[str]:
        write_settings(settings(trial, seed), folder / "settings.json")
        return [sys.executable, str(SEED_TRAINER), str(folder / "settings.json"), str(folder)]

    return command


def our_command(trial: optuna.Trial, seed: int, folder: Path) -> list[str]:
    """Return the command of a trial that our trainer trains alone."""
    keys = {
        "seed": seed,
        "host.optim.args.lr": trial.suggest_float("lr", 1e-4, 3e-3, log=True),
        "host.gamma": trial.suggest_float("gamma", 0.8, 0.97),
        "host.steps_before_update_target": trial.suggest_int("target", 20, 200, log=True),
        "host.er_schedule.steps": trial.suggest_int("er_steps", 300, 1500),
        "evaluation.interval": MEASURE_INTERVAL,
        "evaluation.num_games": NUM_GAMES,
    }
    given = [f"{key}={value}" for key, value in keys.items()]
    options = ["--name", folder.name, "--runs", str(folder.parent), "--threads", "1"]
    return [sys.executable, "-m", "hpsearch.cli", "train", str(BASE), *given, *options]


COMMANDS: dict[str, Command] = {
    "seed as published": train_by(published),
    "seed, our settings": train_by(as_ours),
    "ours, one member": our_command,
}


def database(folder: Path) -> str:
    """Return where the study in a folder is stored."""
    return f"sqlite:///{folder}/study.db"


def create_study(folder: Path) -> None:
    """Create the study before its workers start: two at once get into each other's way."""
    optuna.create_study(study_name=NAME, storage=database(folder), direction="maximize")


def main() -> None:
    """Run trials until this process is stopped."""
    way, folder, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(n_startup_trials=8, seed=seed)
    study = optuna.load_study(study_name=NAME, storage=database(folder), sampler=sampler)

    def objective(trial: optuna.Trial) -> float:
        own = folder / f"trial-{trial.number}"
        own.mkdir()
        command = COMMANDS[way](trial, seed * MANY_TRIALS + trial.number, own)
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        last = (own / "metrics.jsonl").read_text().splitlines()[-1]
        return float(json.loads(last)["metrics"][METRIC]["value"])

    study.optimize(objective)


if __name__ == "__main__":
    main()

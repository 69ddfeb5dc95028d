"""One trial by hand: a DQN host that the seed, hironaka.trainer, trains against choose_first.

    python tests/benchmarks/seed_trainer.py SETTINGS.json FOLDER

Written from a description of its DQNTrainer: a step is an update of the network, games are begun
anew for each rollout, and every rollout plays its games as `seed_game` does, in floats. Measured
now and then as ours are, by the same games; each measurement is a line of FOLDER/metrics.jsonl.
"""

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from seed_dqn import SeedDQN, SeedLearning
from seed_game import PublishedGame, choose_first, rescale
from torch import Tensor

from hpsearch.game.rules import GameConfig
from hpsearch.trainers.evaluation import Measurement, evaluate, scripted
from hpsearch.trainers.metrics import MODES
from hpsearch.trainers.policies import Turn

NUM_POINTS, DIMENSION, NUM_ACTIONS, MAX_VALUE, MAX_MOVES = 20, 3, 4, 20, 100
METRIC = "rho/host/choose_first"
SCHEDULE_INTERVAL = 1000
"""steps between two changes of the exploration: the seed's schedules stand still within a call"""


@dataclass(frozen=True)
class SeedSettings:
    learning: SeedLearning
    steps: int  # updates
    steps_before_update_target: int
    steps_before_rollout: int
    rollout_size: int  # games of a rollout
    max_rollout_step: int  # moves of a rollout
    initial_rollout_size: int
    er: float  # the share of moves that are drawn, from 1 down to this
    er_steps: int  # after which it is reached, in a straight line
    measure_interval: int
    num_games: int  # of a measurement
    seed: int


class SeedTrainer:
    """One host, its memory and its games."""

    def __init__(self, settings: SeedSettings) -> None:
        """Play the first games."""
        self.settings = settings
        self.learner = SeedDQN((NUM_POINTS, DIMENSION), NUM_ACTIONS, settings.learning)
        self.learner.num_filled = 0
        self.num_added = 0
        self.step = 0
        self.game = PublishedGame(DIMENSION, self.learner.net, choose_first, rescale=True)
        self.play(settings.initial_rollout_size)

    def train(self, steps: int) -> None:
        """Make updates, and rollouts between them."""
        settings = self.settings
        for _ in range(steps):
            if self.step % settings.steps_before_update_target == 0:
                self.learner.target_net.load_state_dict(self.learner.net.state_dict())
            self.learner.net.train()
            self.learner.update(self.learner.sample())
            if self.step % settings.steps_before_rollout == 0:
                self.play(settings.rollout_size)
            self.step += 1

    @torch.no_grad()
    def play(self, num_games: int) -> None:
        """Play new games and remember the moves of those that were not over."""
        self.learner.net.eval()
        starts = torch.randint(MAX_VALUE + 1, (num_games, NUM_POINTS, DIMENSION))
        points = rescale(self.game.newton_polytope(starts.float()))
        for _ in range(self.settings.max_rollout_step):
            points, sample = self.game.step(points, self.exploration())
            if not len(sample.done):
                break
            self.remember(sample)

    def exploration(self) -> float:
        """Return the share of moves that are drawn."""
        step = self.step - self.step % SCHEDULE_INTERVAL
        share = min(1.0, step / self.settings.er_steps)
        return 1.0 + share * (self.settings.er - 1.0)

    def remember(self, sample: tuple[Tensor, ...]) -> None:
        """Write moves over the oldest."""
        size = self.settings.learning.memory_size
        places = (torch.arange(len(sample[0])) + self.num_added) % size
        for ring, values in zip(self.learner.memory, sample, strict=True):
            ring[places] = values.reshape(-1, *ring.shape[1:]).to(ring.dtype)
        self.num_added += len(places)
        self.learner.num_filled = min(size, self.num_added)

    def rho(self) -> float:
        """Return what the greedy host does against choose_first, in games that ours play too."""
        self.learner.net.eval()
        game = GameConfig(
            dimension=DIMENSION,
            max_num_points=NUM_POINTS,
            max_value=MAX_VALUE,
            max_steps=MAX_MOVES,
            reposition=True,
            reward="terminal",
        )
        num_games, device = self.settings.num_games, torch.device("cpu")
        how = Measurement(game, num_games, MAX_MOVES, 0.0, "search", MODES[:1], device)
        (evaluation,) = evaluate("host", self._policy, scripted(["choose_first"]), 1, how)
        return evaluation.metrics[METRIC].value

    @torch.no_grad()
    def _policy(self, turn: Turn) -> Tensor:
        points = rescale(turn.position.points[0].float())
        return self.learner.net(self.game.features(points)).argmax(dim=1)[None]


def read_settings(path: Path) -> SeedSettings:
    """Return what `write_settings` wrote."""
    given = json.loads(path.read_text())
    return SeedSettings(**given | {"learning": SeedLearning(**given["learning"])})


def write_settings(settings: SeedSettings, path: Path) -> None:
    """Write the settings of a trial."""
    path.write_text(json.dumps(asdict(settings)))


def main() -> None:
    """Train, and append what is measured."""
    settings, folder = read_settings(Path(sys.argv[1])), Path(sys.argv[2])
    torch.set_num_threads(1)
    torch.manual_seed(settings.seed)
    trainer = SeedTrainer(settings)
    with (folder / "metrics.jsonl").open("a") as curve:
        while trainer.step < settings.steps:
            trainer.train(settings.measure_interval)
            metrics = {METRIC: {"value": trainer.rho()}}
            row = {"step": trainer.step, "at": time.time(), "metrics": metrics}
            curve.write(json.dumps(row) + "\n")
            curve.flush()


if __name__ == "__main__":
    main()

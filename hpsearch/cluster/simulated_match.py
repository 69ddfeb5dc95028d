"""Matches without players: a checkpoint's skill is what its ancestors' intervals have taught it."""

import hashlib
import math
from collections.abc import Callable

import numpy as np

from hpsearch import yaml_file
from hpsearch.cluster.match_dir import Entrant, Games, MatchPlan
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.trainers.config import TrainerConfig, read_config

MEAN_MOVES = 20.0
"""of two players without skill"""
Teaching = Callable[[TrainerConfig, int], float]
"""what a configuration teaches from a step to its end"""


def teaches_nothing(config: TrainerConfig, first: int) -> float:
    """Return that nobody gets stronger: for clusters on which no match decides anything."""
    return 0.0


def simulated_games(study: StudyDir, plan: MatchPlan, teaching: Teaching) -> Games:
    """Return games whose mean length is `MEAN_MOVES` times exp(agent's skill - host's skill).

    The starts of a set are the same in every cell: some take long for everybody.
    """
    hosts = np.array([_skill(study, one, teaching) for one in plan.hosts])
    agents = np.array([_skill(study, one, teaching) for one in plan.agents])
    means = MEAN_MOVES * np.exp(agents[None, :] - hosts[:, None])
    starts = np.stack([_starts(split, plan.num_games) for split in plan.splits])
    moves = np.maximum(1, np.rint(means[None, :, :, None] * starts[:, None, None, :]))
    moves = moves.clip(max=plan.max_steps).astype(np.int64)
    return Games(moves, moves < plan.max_steps)


def _starts(split: str, num_games: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return how long each start takes, beside the mean."""
    seed = int.from_bytes(hashlib.sha256(split.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).uniform(0.5, 1.5, num_games)


def _skill(study: StudyDir, entrant: Entrant, teaching: Teaching) -> float:
    if entrant.checkpoint is None:
        return 0.0
    skill, trial = 0.0, int(entrant.name)
    while True:
        folder = study.trial(trial)
        config = read_config(yaml_file.load(folder.config), source=str(folder.config))
        lineage = folder.read_lineage()
        skill += teaching(config, lineage.first_step)
        if not lineage.parents or lineage.parents[0].trial is None:
            return skill if math.isfinite(skill) else 0.0
        trial = lineage.parents[0].trial

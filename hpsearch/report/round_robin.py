"""Cross-play of the entrants that a user named."""

from dataclasses import dataclass

import torch

from hpsearch.population.crossplay import CrossPlay
from hpsearch.population.round_robin import Players, play_everybody
from hpsearch.report.entrants import Entrants


@dataclass(frozen=True)
class HowToPlay:
    """What is played."""

    num_games: int
    """of each pair, G"""
    seed: int
    """of the starts, and of what is drawn"""
    sampled: bool
    """whether learned players draw their moves, as often as in their own evaluations"""
    device: torch.device


def play_round_robin(entrants: Entrants, how: HowToPlay) -> CrossPlay:
    """Let every host play every agent, from the same starts in every cell."""
    hosts, agents = (
        Players(side.learned, side.scripted) for side in (entrants.host, entrants.agent)
    )
    return play_everybody(
        hosts,
        agents,
        entrants.game,
        num_games=how.num_games,
        max_steps=entrants.max_steps,
        split=f"cross-play {how.seed}",
        sampled=how.sampled,
        device=how.device,
    )

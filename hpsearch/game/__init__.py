"""The polyhedral game: its rules, its players, and many games at once on one device."""

from hpsearch.game import rules
from hpsearch.game.fused_game import FusedGame
from hpsearch.game.kernels.interface import Step
from hpsearch.game.rules import GameConfig, HostActionEncoder

__all__ = ["FusedGame", "GameConfig", "HostActionEncoder", "Step", "rules"]

"""Okabe and Ito's colours, which the colour-blind can tell apart.

Without yellow, and where a background may be dark or light without black, which it would swallow.
"""

from typing import Final

BLUE, VERMILLION, GREEN = "#0072B2", "#D55E00", "#009E73"
PURPLE, ORANGE, SKY = "#CC79A7", "#E69F00", "#56B4E9"
BLACK: Final = "#000000"
COLOURS: Final = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)
"""in the order in which they are given out"""

"""What a game is: its size, its starts, its end and its reward."""

from dataclasses import dataclass

from hpsearch.game.rules import MAX_COORDINATE, MAX_DIMENSION, reward_function


@dataclass(frozen=True, kw_only=True)
class GameConfig:
    """The parameters of a game. No field has a default."""

    dimension: int
    """D, the coordinates of a point, at least 2."""
    max_num_points: int
    """N, the points a start is drawn with, and the rows of its tensor."""
    max_value: int
    """The largest coordinate of a start, itself included, at least 1."""
    max_steps: int
    """A game that is not done after so many moves is truncated, at least 1."""
    reposition: bool
    """Whether each coordinate's minimum is subtracted after each move."""
    reward: str
    """What the host gets for a move, a name in `rewards.REWARDS`; the agent gets its negative."""

    def __post_init__(self) -> None:
        """Refuse values that no game can have."""
        _check_range("dimension", self.dimension, 2, MAX_DIMENSION)
        _check_range("max_num_points", self.max_num_points, 1, None)
        _check_range("max_value", self.max_value, 1, MAX_COORDINATE)
        _check_range("max_steps", self.max_steps, 1, 2**31 - 1)
        reward_function(self.reward)


def _check_range(name: str, value: int, low: int, high: int | None) -> None:
    if value < low or (high is not None and value > high):
        upper = "" if high is None else f" and at most {high}"
        raise ValueError(f"{name} must be at least {low}{upper}, got {name}={value}")

"""Old steps and ours: a step of theirs is one gradient step, with a rollout now and then.

Their rollout of T moves comes every U gradient steps. Ours makes T / g moves and then U / g updates
each step, g = gcd(T, U): the same moves for the same updates, evenly spread.
"""

import math
import sys
from dataclasses import dataclass

from hpsearch.trainers.from_hironaka.old_config import OldRole


@dataclass(frozen=True)
class Pace:
    """How moves and updates alternate."""

    rollout_length: int
    """moves a step of ours"""
    updates_per_step: int
    """gradient steps, which are their steps, a step of ours"""

    def steps(self, old_steps: int) -> int:
        """Return how many of our steps make so many gradient steps, rounded, at least 1."""
        return max(1, round(old_steps / self.updates_per_step))

    def factor(self, old_rate: float) -> float:
        """Return the factor a step of ours of what shrinks by ``old_rate`` a gradient step."""
        return _short(max(old_rate**self.updates_per_step, sys.float_info.min))

    def inverse_rate(self, old_rate: float) -> float:
        """Return the rate of an inverse schedule: rate / (t + rate / initial), t in our steps."""
        return _short(old_rate / self.updates_per_step)

    def tau(self, role: OldRole) -> float:
        """Return the share that takes over as much; several old updates may fall into one."""
        times = self.updates_per_step / role.steps_before_update_target
        return _short(1 - (1 - role.tau) ** times) if times > 1 else role.tau

    def first_batch(self, role: OldRole) -> int:
        """Return the steps without updates until a batch of transitions has been played."""
        return math.ceil(role.batch_size / (role.rollout_size * self.rollout_length)) - 1


def pace_of(role: OldRole) -> Pace:
    """Return the pace of a role."""
    common = math.gcd(role.max_rollout_step, role.steps_before_rollout)
    return Pace(role.max_rollout_step // common, role.steps_before_rollout // common)


def _short(number: float) -> float:
    """Return a number without the digits that only rounding made."""
    return float(f"{number:.10g}")

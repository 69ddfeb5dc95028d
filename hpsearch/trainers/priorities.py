"""Priorities of remembered transitions (Schaul et al., arXiv 1511.05952, section 3).

Axes: P members, R places of the ring, G moves added at a time, B transitions.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from hpsearch.trainers.config import PrioritisedReplay


class Priorities:
    """How often each place of a ring is drawn, and the weights that correct for it.

    Attributes:
        priority: float32 (P, R), to the power alpha; 0 where nothing lies.
        highest: float32 (P,), the highest so far; a new transition gets it.
    """

    def __init__(
        self, size: int, options: Sequence[PrioritisedReplay], device: torch.device
    ) -> None:
        """Begin with no transitions in ``size`` R places."""
        numbers = [(one.alpha, one.beta, float(one.beta_steps), one.eps) for one in options]
        columns = torch.tensor(numbers, device=device)[:, None]
        self._alpha, self._beta, self._beta_steps, self._eps = (
            one.clone() for one in columns.unbind(2)
        )
        self.priority = torch.zeros(len(options), size, device=device)
        self.highest = torch.ones(len(options), device=device)

    def add(self, places: Tensor, complete: Tensor, are_there: Tensor) -> None:
        """Take in new moves at ``places`` int64 (P, G), not to be drawn before the next ones.

        Those at ``complete`` (P, G), if ``are_there`` bool (P,), get the highest priority now.
        """
        self.priority.scatter_(1, places, 0.0)
        highest = (self.highest * are_there)[:, None]
        self.priority.scatter_(1, complete, highest.expand(complete.shape))

    def sample(self, noise: Tensor, filled: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        """Return places int64 (P, B) drawn by ``noise`` float64 (P, B), and weights (P, B).

        A weight is (number of transitions times probability)^-beta, over the batch's largest.
        """
        cumulated = self.priority.double().cumsum(dim=1)
        total = cumulated[:, -1:]
        places = torch.searchsorted(cumulated, noise * total, right=True)
        # While there is nothing to draw, any place will do.
        places = places.clamp(max=self.priority.shape[1] - 1)
        share = self.priority.gather(1, places) / total.float()
        beta = torch.lerp(self._beta, torch.ones_like(self._beta), self._progress(step))
        weights = torch.where(total > 0, filled * share, 1.0) ** -beta
        return places, weights / weights.amax(dim=1, keepdim=True)

    def update(self, places: Tensor, errors: Tensor) -> None:
        """Set the priorities at ``places`` (P, B) by the errors float32 (P, B) made there.

        What is not to be drawn stays so: updates may be made while there is nothing to learn from.
        """
        # Of a net that diverged an error may be no number; what is drawn must lie in the ring.
        priority = (errors.abs().nan_to_num() + self._eps) ** self._alpha
        priority = priority.where(self.priority.gather(1, places) > 0, 0.0)
        self.priority.scatter_(1, places, priority)
        torch.maximum(self.highest, priority.amax(dim=1), out=self.highest)

    def _progress(self, step: Tensor) -> Tensor:
        return (step[:, None] / self._beta_steps).clamp(max=1.0)

    def forget(self) -> None:
        """Begin with no transitions again."""
        self.priority.zero_()
        self.highest.fill_(1.0)

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that a checkpoint keeps, each with the member axis first."""
        return {"priority": self.priority, "highest": self.highest}

    def settings(self) -> dict[str, Tensor]:
        """Return what the configurations say, each with the member axis first."""
        return {
            "alpha": self._alpha,
            "beta": self._beta,
            "beta_steps": self._beta_steps,
            "eps": self._eps,
        }

"""Many games at once on one device: P members with B games each.

Axes: P members, B games, N points, D coordinates.
"""

from dataclasses import replace

import torch
from torch import Tensor

from hpsearch.game.kernels import BACKENDS
from hpsearch.game.kernels.interface import GameState, Step
from hpsearch.game.random import lanes_of
from hpsearch.game.rules import REWARDS, GameConfig, reward_function


class FusedGame:
    """P x B games in progress. A game that ends is replaced by the next start of its lane.

    Start s of lane b of member p is a function of (keys[p], b, s), so a member's games do not
    depend on the other members. The tensors are those of `GameState`, changed in place and never
    replaced. Code that writes into ``points`` calls `refresh` afterwards.
    """

    def __init__(
        self,
        config: GameConfig,
        keys: Tensor,
        num_games: int,
        device: torch.device | str,
        backend: str,
        *,
        observes: bool,
        lanes: Tensor | None = None,
    ) -> None:
        """Begin start 0 in every lane of each member, whose keys are int64 (P,).

        ``lanes`` int64 (B,) are the numbers of the lanes, 0 to B - 1 where none are given.
        ``backend`` is a name in `kernels.BACKENDS`. Scripted players need no observations; where
        nothing ``observes`` the positions, they are not computed. ValueError if an argument is out
        of its range.
        """
        self.device = torch.device(device)
        if config.max_num_points < 2:
            raise ValueError(
                f"a game starts with at least 2 points, got max_num_points={config.max_num_points}"
            )
        if keys.ndim != 1 or keys.dtype != torch.int64:
            raise ValueError(f"keys must be int64 (P,), got {keys.dtype} {tuple(keys.shape)}")
        if num_games < 1:
            raise ValueError(f"num_games must be at least 1, got {num_games=}")
        if backend not in BACKENDS:
            raise ValueError(f"backend must be one of {sorted(BACKENDS)}, got {backend=}")
        if backend == "cpu" and self.device.type != "cpu":
            kind = self.device.type
            raise ValueError(f"backend 'cpu' needs a device of type 'cpu', got {kind!r}")
        self.config = config
        self.backend = backend
        self._kernels = BACKENDS[backend]
        self.keys = keys.to(self.device, copy=True)
        shape = (len(keys), num_games)
        self.starts = torch.zeros(shape, dtype=torch.int64, device=self.device)
        self.lengths = torch.zeros(shape, dtype=torch.int32, device=self.device)
        self._lanes = (lanes_of(self.starts) if lanes is None else lanes).to(self.device)
        self.points = self._draw(self.keys, self.starts)
        width = config.max_num_points * config.dimension if observes else 0
        self.observation = torch.empty((*shape, width), device=self.device)
        self._state = GameState(
            self.points, self.lengths, self.starts, self.keys, self._lanes, self.observation
        )
        self.refresh()

    @property
    def num_members(self) -> int:
        return self.lengths.shape[0]

    @property
    def num_games(self) -> int:
        return self.lengths.shape[1]

    def observe(self) -> Tensor:
        """Compute what the hosts see, float32 (P, B, N * D), anew; see `rules.observe`."""
        return self._kernels.observe(self.points)

    def restart(self, member: int) -> None:
        """Leave all games of one member and begin the next start in every lane."""
        self.starts[member] += 1
        self.lengths[member] = 0
        own = slice(member, member + 1)
        self.points[own].copy_(self._draw(self.keys[own], self.starts[own]))
        self.refresh()

    def _draw(self, keys: Tensor, starts: Tensor) -> Tensor:
        return self._kernels.random_starts(
            keys,
            starts,
            num_points=self.config.max_num_points,
            dimension=self.config.dimension,
            max_value=self.config.max_value,
            lanes=self._lanes,
        )

    def refresh(self) -> None:
        """Bring ``observation`` up to date after ``points`` were changed from outside."""
        if self._state.observes:
            self.observation.copy_(self.observe())

    def replace_reward(self, name: str) -> None:
        """Reward the hosts by another function from now on; a ValueError if there is none."""
        self.config = replace(self.config, reward=name)

    def step(self, host_action: Tensor, agent_axis: Tensor) -> Step:
        """Play one move in every game, and start again those that ended; see `Backend.step`."""
        config = self.config
        if config.reward in REWARDS.own:
            return self._kernels.step(self._state, host_action, agent_axis, config)
        # Backends compute our own rewards alone.
        points, by_own = self.points.clone(), replace(config, reward="terminal")
        step = self._kernels.step(self._state, host_action, agent_axis, by_own)
        reward = reward_function(config.reward)(points, step.next_points, step.done)
        return step._replace(reward=reward)

    def state(self) -> dict[str, Tensor]:
        return {"points": self.points, "lengths": self.lengths, "starts": self.starts}

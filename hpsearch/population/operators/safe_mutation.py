"""Safe mutation: noise on weights that changes what a player does by no more than a bound.

Lehman, Chen, Clune, Stanley, Safe mutations for deep and recurrent neural networks through output
gradients, arXiv 1712.06563 (SM-G-SUM and SM-R): the proximal mutation of Bodnar et al., arXiv
1906.09807. Also positions that players meet, to mutate and to imitate on.

Axes: P members, G games, T moves, B = T * G positions, I inputs, A actions, O outputs, W weights of
one member, K backward passes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from hpsearch.game.fused_game import FusedGame
from hpsearch.game.kernels import default_backend
from hpsearch.game.rules import GameConfig
from hpsearch.game.stream import Stream
from hpsearch.population.operators.base import (
    check_members,
    check_shares,
    child,
    normal,
    row_sizes,
    scratch,
)
from hpsearch.trainers.config.weight_layout import POLICY, num_actions
from hpsearch.trainers.networks import Network
from hpsearch.trainers.playing import NOISE
from hpsearch.trainers.policies import Policy, Position, choose, features_of, legal_values, softmax

NUM_PASSES = 16  # backward passes at most that tell what matters to a mutation, K


def sensitivity(net: Network, features: Tensor, stream: Stream) -> Tensor:
    """Return how far the outputs of the policy move with each weight, float32 (P, W).

    The root of the sum, over outputs, of the squared mean derivative over positions ``features``
    (P, B, I); 0 for other towers. More than `NUM_PASSES` outputs are stood for by so many sums of
    them with random signs, whose expected squares are the same.
    """
    copy = scratch(net)
    squares = torch.zeros_like(net.weights)
    for signs in _sums(net.towers[POLICY].num_outputs, stream).unbind(1):
        out = copy(features, tower=POLICY).mean(dim=1)
        squares += copy.gradients((out * signs).sum()).square()
    return squares.sqrt()


def _sums(num_outputs: int, stream: Stream) -> Tensor:
    """Return which sums of outputs to derive, (P, K, O): each alone, or with random signs."""
    if num_outputs <= NUM_PASSES:
        each = torch.eye(num_outputs, device=stream.keys.device)
        return each.expand(stream.keys.shape[0], -1, -1)
    signs = torch.where(stream.uniform(NUM_PASSES * num_outputs) < 0.5, -1.0, 1.0)
    sums: Tensor = signs.unflatten(1, (NUM_PASSES, num_outputs)) / sqrt(NUM_PASSES)
    return sums


Measure = Callable[[Tensor, Tensor, Tensor], Tensor]
"""from outputs before and after, float32 (P, B, A), and what is legal, bool (P, B, A), how
differently a member plays, float32 (P,), 0 where nothing changed"""


def policy_change(before: Tensor, after: Tensor, legal: Tensor) -> Tensor:
    """Return the mean total variation between the policies of players who draw their moves.

    It is the share of moves that would be others.
    """
    change = softmax(after, legal) - softmax(before, legal)
    return 0.5 * change.abs().sum(dim=2).mean(dim=1)


def greedy_change(before: Tensor, after: Tensor, legal: Tensor) -> Tensor:
    """Return the share of positions where another action is valued highest."""
    best, new = (legal_values(values, legal).argmax(dim=2) for values in (before, after))
    return (best != new).float().mean(dim=1)


LEAST_SENSITIVITY = 0.1
"""of the tower's root mean square: what matters less moves as if it mattered so much"""

SMALLEST_LOG2_SCALE = -24.0
"""the first lower end, in root mean squares of the weights; the upper is 0, noise as large as the
weights"""

NUM_HALVINGS = 16  # of that range: the scale is found to 0.03 %


def safe_mutation(
    net: Network, seen: "MetPositions", *, bound: Tensor, measure: Measure, stream: Stream
) -> Network:
    """Return children whose policies differ by as much noise as ``bound`` float32 (P,) admits.

    The noise on a weight is divided by how much the weight matters (`sensitivity`), which is true
    to first order only; so it is scaled by bisection (the paper's SM-R) on what ``measure`` says.
    Noise is never larger than the weights themselves; where none is near enough, or the parent has
    diverged, the child is the parent. Another tower and running statistics stay the parent's.
    ``seen`` are positions that the parents meet. ValueError if something is not of P members.
    """
    check_shares(net, bound=bound)
    check_members(net, features=seen.features, stream=stream)
    matters = sensitivity(net, seen.features, stream)
    own = net.layout.columns(POLICY)
    noise = torch.zeros_like(net.weights)
    noise[:, own] = normal(stream, own.stop - own.start) / _floored(matters[:, own])
    noise *= row_sizes(net.weights[:, own]) / row_sizes(noise[:, own])
    scale = _largest_scale(net, seen, noise, bound, measure)
    return child(net, net.weights + scale[:, None] * noise, net.statistics)


@torch.no_grad()
def _largest_scale(
    net: Network, seen: "MetPositions", noise: Tensor, bound: Tensor, measure: Measure
) -> Tensor:
    """Return the largest scale (P,) found at which the measure keeps to the bound, else 0."""
    before, tried = net(seen.features, tower=POLICY), scratch(net)
    low, high = torch.full_like(bound, SMALLEST_LOG2_SCALE), torch.zeros_like(bound)
    largest = torch.zeros_like(bound)
    for _ in range(NUM_HALVINGS):
        middle = (low + high) / 2
        scale = middle.exp2()
        tried.weights.copy_(net.weights + scale[:, None] * noise)
        is_safe = measure(before, tried(seen.features, tower=POLICY), seen.legal) <= bound
        largest = torch.where(is_safe, scale, largest)
        low, high = torch.where(is_safe, middle, low), torch.where(is_safe, high, middle)
    return largest


def _floored(matters: Tensor) -> Tensor:
    """Return sensitivities in units of their root mean square, no longer near 0."""
    size = row_sizes(matters)
    # Outputs that no weight moves, as of a member that has died, leave all weights alike.
    return torch.where(size > 0, matters / size, 1.0).clamp(min=LEAST_SENSITIVITY)


@dataclass(frozen=True)
class MetPositions:
    """Positions that a role meets: what it sees, and what it may do."""

    features: Tensor  # float32 (P, B, I)
    legal: Tensor  # bool (P, B, A), at least one a position

    def __add__(self, other: "MetPositions") -> "MetPositions":
        features = torch.cat([self.features, other.features], dim=1)
        return MetPositions(features, torch.cat([self.legal, other.legal], dim=1))

    def at(self, index: Tensor) -> "MetPositions":
        """Return the positions int64 (P, b), for each member its own."""
        member = torch.arange(len(index), device=index.device)[:, None]
        return MetPositions(self.features[member, index], self.legal[member, index])


@torch.no_grad()
def visited(
    role: str,
    host: Policy,
    agent: Policy,
    game: GameConfig,
    *,
    starts: Tensor,
    num_games: int,
    num_moves: int,
    exploration: tuple[Tensor, Tensor],
    stream: Stream,
) -> MetPositions:
    """Return every position of ``role`` in games of P members, one after another in each lane.

    Host and agent play for P members, with ``exploration`` rates float32, (P, G) or what broadcasts
    to it. ``starts`` int64 (P,) are keys; there are ``num_games`` G lanes of ``num_moves`` T moves.
    ``stream`` is for what players draw.
    """
    device = starts.device
    games = FusedGame(game, starts, num_games, device, default_backend(device), observes=False)
    features, legal = [], []
    for _ in range(num_moves):
        noise = stream.uniform(num_games * NOISE).unflatten(1, (num_games, NOISE)).chunk(2, dim=2)
        # The games continue in place.
        position = Position.of(games.points.clone())
        action, subset, axis = choose(host, agent, position, noise, exploration)
        seen = None if role == "host" else subset
        features.append(features_of(position.observation, seen))
        if seen is None:
            seen = subset.new_ones(*subset.shape[:2], num_actions(role, game.dimension))
        legal.append(seen)
        games.step(action, axis)
    return MetPositions(torch.cat(features, dim=1), torch.cat(legal, dim=1))

"""Offspring: a child's networks, made from its parents' by an operator, and the child's test.

Axes: P = 1, the child; in the test R samples of the starts.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from operator import add
from typing import Final, assert_never

import numpy as np
import torch

from hpsearch.game.kernels.threads import threads
from hpsearch.game.random import derive_key
from hpsearch.game.stream import Stream
from hpsearch.population.crossplay import banks, crossplay, scripted_groups
from hpsearch.population.operators import options, safe_mutation, weights
from hpsearch.population.operators.alignment import aligned
from hpsearch.population.operators.distillation import distilled
from hpsearch.population.operators.grow import grow
from hpsearch.population.operators.options import Grow, SameShape
from hpsearch.population.operators.safe_mutation import MetPositions, visited
from hpsearch.population.statistics import Floats, chance_better, resampled_rho
from hpsearch.trainers.config.players import host_first
from hpsearch.trainers.members import member_stream
from hpsearch.trainers.networks import Network
from hpsearch.trainers.opponents import SavedPlayer
from hpsearch.trainers.policies import Policy, ScriptedPolicy
from hpsearch.trainers.rollouts import game_config

NUM_LANES: Final = 64
"""games at a time in which a parent's positions are seen, against each opponent of its panel"""

NUM_MOVES: Final = 16
"""of each of these lanes: about one game of 20 points, so that early and late positions come"""

ByRole = Mapping[str, SavedPlayer]  # what one checkpoint holds, by role; all of P = 1


@threads(1)  # how many there are would change digits, and follows how busy a machine is
def offspring(operator: SameShape, parents: Sequence[ByRole], seed: int) -> dict[str, Network]:
    """Return the child's networks, by role: of every role that the first parent has learned.

    The same arguments give the same child, bit for bit on one kind of device. ValueError if the
    parents, of one game and as many as the operator takes, do not fit together.
    """
    if isinstance(operator, options.HostAndAgent):
        host_of, agent_of = ({role: player.net for role, player in own.items()} for own in parents)
        return weights.host_and_agent(host_of, agent_of)
    by_role = {role: [own[role] for own in parents] for role in parents[0]}
    return {role: _of_role(operator, role, players, seed) for role, players in by_role.items()}


def grown(operator: Grow, role: str, parent: SavedPlayer, target: Network, seed: int) -> Network:
    """Return the network of the role that grows: it plays as the parent's and looks as ``target``.

    The same arguments give the same child. ValueError if the parent's network cannot grow so.
    """
    stream = _stream(parent.net.weights.device, seed, role)
    return grow(parent.net, target, noise=operator.noise, stream=stream)


def _of_role(operator: SameShape, role: str, parents: Sequence[SavedPlayer], seed: int) -> Network:
    first, second = parents[0].net, parents[-1].net
    stream = _stream(first.weights.device, seed, role)
    match operator:
        case options.Clone() | options.HostAndAgent():
            return weights.clone(first)
        case options.GaussianMutation(strength=strength):
            strengths = _number(strength, first)
            return weights.gaussian_mutation(first, strength=strengths, stream=stream)
        case options.SafeMutation(bound=bound):
            draws_moves = parents[0].policy.own_rate > 0
            how = safe_mutation.policy_change if draws_moves else safe_mutation.greedy_change
            seen, most = _met_positions(role, parents, seed), _number(bound, first)
            return safe_mutation.safe_mutation(first, seen, bound=most, measure=how, stream=stream)
        case options.MutationExtension():
            return _fitting(operator.name, partial(operator.child, first, stream), first)
        case options.DistillationCrossover(learning=learning):
            seen = _met_positions(role, parents, seed)
            return distilled(first, second, first, seen=seen, options=learning, stream=stream)
        case options.LayerCrossover():
            share = _number(operator.share, first)
            mixed = weights.layer_crossover(first, second, share=share, stream=stream)
        case options.UnitCrossover():
            share, other = _number(operator.share, first), aligned(second, first)
            mixed = weights.unit_crossover(first, other, share=share, stream=stream)
        case options.AlignedAverage():
            share = _number(operator.share, first)
            mixed = weights.aligned_average(first, second, share=share)
        case options.CrossoverExtension():
            child = partial(operator.child, first, second, stream)
            mixed = _fitting(operator.name, child, first)
        case _:
            assert_never(operator)
    if not mixed.statistics.shape[1]:
        return mixed
    # Batch norms must know what the mixture computes itself, not what its parents did.
    return weights.with_statistics_of(mixed, _met_positions(role, parents, seed).features)


def _fitting(name: str, child: Callable[[], Network], parent: Network) -> Network:
    """Return what another package's operator makes; ValueError if it is no child of its parent's.

    Or if that fails.
    """
    try:
        made = child()
        is_alike = made.structure == parent.structure and made.weights.shape == parent.weights.shape
        is_finite = bool(made.weights.isfinite().all() and made.statistics.isfinite().all())
    except Exception as error:  # whatever the code of another package raises
        raise ValueError(f"the operator {name} failed ({type(error).__name__}: {error})") from error
    if not (is_alike and is_finite):
        rule = "the structure of its parent's" if not is_alike else "finite weights"
        raise ValueError(f"the child by the operator {name} must have {rule}, but has not")
    return made


def _met_positions(role: str, players: Sequence[SavedPlayer], seed: int) -> MetPositions:
    """Return positions that players meet against their panels, playing as in training's games."""
    device = players[0].net.weights.device
    never = torch.zeros(1, device=device)
    parts = []
    for player in players:
        own: Policy = player.policy
        rate = torch.full((1,), player.policy.own_rate, device=device)
        for name in player.config.measured_against()[role]:
            part = visited(
                role,
                *host_first(role, own, ScriptedPolicy(name)),
                game_config(player.config),
                starts=_stream(device, seed, role, "starts", name).keys,
                num_games=NUM_LANES,
                num_moves=NUM_MOVES,
                exploration=host_first(role, rate, never),
                stream=_stream(device, seed, role, "moves", name),
            )
            parts.append(part)
    return reduce(add, parts)


def _stream(device: torch.device, seed: int, *purpose: str) -> Stream:
    return member_stream([seed], device, "birth", *purpose)


def _number(value: float, net: Network) -> torch.Tensor:
    """Return a number of the one child, float32 (1,)."""
    return torch.full((1,), value, device=net.weights.device)


NUM_SAMPLES: Final = 1000  # of the starts, R: chances are multiples of a thousandth


def chance_stronger(first: ByRole, second: ByRole, *, num_games: int, seed: int) -> float:
    """Return the chance that the first is stronger than the second, equals counting half.

    Both, of one game and the same roles, play greedily against the scripted players that they are
    measured by, from the same starts, which ``seed`` names. A host's strength is its mean log rho,
    an agent's minus that; those of a pair are added.
    """
    pairs = {role: {"first": first[role], "second": second[role]} for role in first}
    strengths = [_strengths(role, pair, num_games, seed) for role, pair in pairs.items()]
    total = np.sum(strengths, axis=0)
    return chance_better(total[:, 0], total[:, 1])


def _strengths(role: str, players: Mapping[str, SavedPlayer], num_games: int, seed: int) -> Floats:
    """Return the strength of both players in one role, float64 (R, 2)."""
    config = players["first"].config
    own, scripted = banks(players), scripted_groups(config.measured_against()[role])
    played = crossplay(
        *host_first(role, own, scripted),
        game_config(config),
        num_games=num_games,
        max_steps=config.evaluation.max_steps,
        split=f"birth {seed}",
        device=torch.device(players["first"].net.weights.device),
    )
    # Both roles resample with one seed, since they played from the same starts.
    rng = np.random.default_rng(derive_key(seed, "birth", "resampling"))
    log_rho = np.log(resampled_rho(played.moves, NUM_SAMPLES, rng))
    return np.asarray(log_rho.mean(axis=2) if role == "host" else -log_rho.mean(axis=1))

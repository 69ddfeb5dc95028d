"""What rewards, scripted players and encoders promise, on positions of games of several sizes."""

from collections.abc import Iterator
from typing import Final

import torch
from torch import Tensor

from hpsearch.game import rules
from hpsearch.game.players import AgentPlayer, HostPlayer
from hpsearch.game.random import random_starts
from hpsearch.game.stream import Stream
from hpsearch.trainers.config.net_arch import parse
from hpsearch.trainers.config.players import ROLES, EncoderExtension
from hpsearch.trainers.config.weight_layout import Inputs, Tower, num_actions
from hpsearch.trainers.networks import Arithmetic, Network

NUM_GAMES: Final = 64
SIZES: Final = ((2, 3), (3, 5), (4, 20))  # coordinates, points
MAX_VALUE: Final = 9


def starts(dimension: int, num_points: int) -> Tensor:
    """Return the starts of some games, int32 (B, N, D)."""
    drawn = random_starts(
        torch.tensor([7]),
        torch.zeros(1, NUM_GAMES, dtype=torch.int64),
        num_points=num_points,
        dimension=dimension,
        max_value=MAX_VALUE,
    )
    return drawn[0]


def _positions() -> Iterator[Tensor]:
    """Yield points int32 (B, N, D): starts, and what a few moves make of them."""
    for dimension, num_points in SIZES:
        points = starts(dimension, num_points)
        subset = torch.zeros(NUM_GAMES, dimension, dtype=torch.bool)
        subset[:, :2] = True
        for axis in (0, 1, 0):
            yield points
            points = rules.move(points, subset, torch.full((NUM_GAMES,), axis))


def _rows(of_games: Tensor) -> Tensor:
    """Return (B, ...) as (2, B / 2, ...)."""
    return of_games.reshape(2, -1, *of_games.shape[1:])


def _noise(seed: int) -> Tensor:
    return Stream(torch.tensor([seed])).uniform(NUM_GAMES)[0]


def check_reward(reward: rules.Reward) -> None:
    """Promise float32, a finite number for each game by that game alone, arguments as they were."""
    for points in _positions():
        subset = torch.ones(NUM_GAMES, points.shape[-1], dtype=torch.bool)
        next_points = rules.move(points, subset, torch.zeros(NUM_GAMES, dtype=torch.int64))
        given = (points, next_points, rules.is_over(next_points))
        before = [tensor.clone() for tensor in given]
        earned = reward(*given)
        assert earned.shape == given[2].shape, f"a reward has a number a game, not {earned.shape}"
        assert earned.dtype == torch.float32, f"rewards are float32, not {earned.dtype}"
        assert earned.isfinite().all(), "rewards are finite"
        assert all(map(torch.equal, given, before)), "a reward changes no argument"
        alone = reward(*(tensor[3:4] for tensor in given))
        assert torch.equal(alone, earned[3:4]), "the reward of a game depends on no other game"
        in_rows = reward(*map(_rows, given))
        assert torch.equal(in_rows.flatten(), earned), "games may stand in rows, P members with B"


def check_host(host: HostPlayer) -> None:
    """Promise an action's index for each game, by that game and its noise alone."""
    for points in _positions():
        num_actions = rules.HostActionEncoder(points.shape[-1]).num_actions
        noise, before = _noise(1), points.clone()
        action = host(points, noise)
        assert action.dtype == torch.int64, f"actions are int64, not {action.dtype}"
        assert action.shape == noise.shape, f"a host has an action a game, not {action.shape}"
        is_action = (action >= 0) & (action < num_actions)
        assert is_action.all(), f"actions lie in 0..{num_actions - 1}"
        assert torch.equal(points, before), "a host changes no points"
        in_rows = host(_rows(points), _rows(noise))
        assert torch.equal(in_rows.flatten(), action), "games may stand in rows, P members with B"
        assert torch.equal(host(points[5:6], noise[5:6]), action[5:6]), "a game is played by itself"


def check_agent(agent: AgentPlayer) -> None:
    """Promise a coordinate of the host's subset for each game, by that game and its noise alone."""
    for points in _positions():
        encoder = rules.HostActionEncoder(points.shape[-1])
        subset = encoder.decode((_noise(2).double() * encoder.num_actions).long())
        noise, before = _noise(3), points.clone()
        axis = agent(points, subset, noise)
        assert axis.dtype == torch.int64, f"coordinates are int64, not {axis.dtype}"
        assert axis.shape == noise.shape, f"an agent has a coordinate a game, not {axis.shape}"
        rules.check_move(subset, axis)
        assert torch.equal(points, before), "an agent changes no points"
        in_rows = agent(_rows(points), _rows(subset), _rows(noise))
        assert torch.equal(in_rows.flatten(), axis), "games may stand in rows, P members with B"
        alone = agent(points[5:6], subset[5:6], noise[5:6])
        assert torch.equal(alone, axis[5:6]), "a game is played by itself"


def check_encoder(encoder: EncoderExtension) -> None:
    """Promise as many features as it says, of each game alone, by operations that can be exported.

    Those are the same whatever the points are: an ``if`` on a number of a tensor is none.
    """
    for points in _positions():
        shape = points.shape[1:]
        seen = _rows(rules.observe(points).unflatten(1, shape))
        before = seen.clone()
        features = encoder.features(seen)
        assert torch.equal(seen, before), "an encoder changes no points"
        expected = (*seen.shape[:2], encoder.num_features(*shape))
        assert features.shape == expected, f"features are {expected}, not {tuple(features.shape)}"
        assert features.dtype == seen.dtype, f"features are {seen.dtype}, not {features.dtype}"
        assert features.isfinite().all(), "features are finite, also where points are padding"
        alone = encoder.features(seen[1:, 5:6])
        torch.testing.assert_close(alone, features[1:, 5:6], msg="a game is seen by itself")
    _check_exported(encoder)


def _check_exported(encoder: EncoderExtension) -> None:
    # Imported here, as torch.export loads compilers, which nothing else here needs.
    from hpsearch.export.folder import FORMAT
    from hpsearch.export.greedy import greedy_policy
    from hpsearch.export.programs import traced

    dimension, num_points = SIZES[1]
    for role in ROLES:
        inputs = Inputs(num_points, dimension, dimension if role == "agent" else 0)
        tower = Tower(encoder, parse((4,)), "relu", num_actions(role, dimension))
        net = Network(inputs, [tower], Arithmetic("fp32", "off"), Stream(torch.tensor([1])))
        try:
            traced(greedy_policy(role, net, FORMAT, autocast=True))
        except Exception as error:
            raise AssertionError(f"torch cannot export the encoder: {error}") from error

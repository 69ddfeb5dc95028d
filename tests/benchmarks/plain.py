"""What the plain loops share: torch.nn networks, what they see, Adam, and the game.

Axes: B positions, N points, D coordinates, I inputs.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from hpsearch.game import FusedGame
from hpsearch.game.kernels import default_backend
from hpsearch.game.random import derive_key
from hpsearch.trainers.config import CommonConfig, LearningRole
from hpsearch.trainers.config.optim import AdamArgs
from hpsearch.trainers.config.players import FlattenEncoder
from hpsearch.trainers.networks import Network
from hpsearch.trainers.rollouts import game_config


def mlp(widths: Sequence[int]) -> nn.Sequential:
    """Return linear layers of these widths, inputs first, with ReLU between them."""
    layers: list[nn.Module] = []
    for num_inputs, num_outputs in pairwise(widths):
        layers += [nn.Linear(num_inputs, num_outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def num_points_seen(role: LearningRole) -> int:
    """Return how many points the network takes in."""
    assert isinstance(role.encoder, FlattenEncoder)
    return role.encoder.num_points


def see(points: Tensor, num_points: int) -> Tensor:
    """Return what a network takes in, float32 (B, I): the first points, divided by the largest.

    ``points`` int32 (B, N, D) are canonical.
    """
    largest = points.amax(dim=(1, 2), keepdim=True).clamp(min=1)
    first = points[:, :num_points]
    return torch.where(first >= 0, first / largest, -1.0).flatten(1)


def adam(net: nn.Module, role: LearningRole) -> torch.optim.Adam:
    """Return the optimizer of a role, as torch has it."""
    args = role.optim.args
    assert isinstance(args, AdamArgs)
    betas = (args.beta1, args.beta2)
    return torch.optim.Adam(net.parameters(), lr=args.lr, betas=betas, eps=args.eps)


def new_game(config: CommonConfig, role: LearningRole, device: torch.device) -> FusedGame:
    """Return the games in which a role learns, by the fastest kernel of the device."""
    key = torch.tensor([derive_key(config.seed, "plain")])
    backend = default_backend(device)
    game = game_config(config)
    return FusedGame(game, key, role.rollout_size, device, backend, observes=False)


@torch.no_grad()
def take_over(net: nn.Module, ours: Network, tower: str = "") -> None:
    """Give ``net`` the weights of the only member of a network, or of one of its towers."""
    layers = ours.layers(0)
    linears = [module for module in net.modules() if isinstance(module, nn.Linear)]
    for index, linear in enumerate(linears):
        linear.weight.copy_(layers[f"{tower}{index}.weight"])
        linear.bias.copy_(layers[f"{tower}{index}.bias"])

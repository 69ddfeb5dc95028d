"""Networks of every encoder and layer, and what players really see."""

import pytest
import torch
from torch import Tensor

from hpsearch.game.fused_game import FusedGame
from hpsearch.game.players import agent_player, host_player
from hpsearch.game.rules import GameConfig, HostActionEncoder
from hpsearch.game.stream import Stream
from hpsearch.trainers.config.net_arch import parse
from hpsearch.trainers.config.players import AttentionEncoder, DeepSetsEncoder, FlattenEncoder
from hpsearch.trainers.config.weight_layout import Inputs, Tower
from hpsearch.trainers.networks import Arithmetic, Network
from hpsearch.trainers.policies import features_of

P, D, N, B = 3, 3, 4, 24
FP32 = Arithmetic("fp32", "off")
ENCODERS = {
    "flatten": FlattenEncoder("flatten", 3),
    "deep sets": DeepSetsEncoder("deep_sets", (7, 6), "mean"),
    "deep sets max": DeepSetsEncoder("deep_sets", (6,), "max"),
    "attention": AttentionEncoder("attention", width=8, heads=2, blocks=2),
}
NET_ARCHES = {
    "linear": [],
    "hidden": [7, 5],
    "batch norms": ["b", 7, "b", 5, "b"],
    "layer norms": ["l", 7, "l", 5, "l"],
    "residual": [6, "r6", "r8", "r8"],
    "residual with layer norms": ["rl6", "rl8", "rl8", 3],
    "all kinds": [8, "b", "rl5", "l", 4, "r7", "r7", "b"],
}


def stream(*seeds: int) -> Stream:
    keys = torch.tensor(seeds)
    return Stream(keys, torch.zeros_like(keys))


def tower(net_arch, **changes) -> Tower:
    fields = {
        "encoder": ENCODERS["flatten"],
        "layers": parse(net_arch),
        "activation": "relu",
        "num_outputs": 4,
        "init": "uniform",
        "last_scale": 1.0,
        "dueling": False,
    }
    return Tower(**fields | changes)


def network(*towers: Tower, seeds=(1, 2, 3), num_more: int = 0) -> Network:
    """Return a network whose norms are not the identity, as after some training."""
    net = Network(Inputs(N, D, num_more), towers, FP32, stream(*seeds))
    generator = torch.Generator().manual_seed(seeds[0])
    net.weights += 0.1 * torch.randn(net.weights.shape, generator=generator)
    net.statistics += 0.5 * torch.rand(net.statistics.shape, generator=generator)
    return net


def every_network(**changes) -> dict[str, tuple[Tower, ...]]:
    """Return the towers of networks that have every encoder, layer, activation and output."""
    nets = {name: (tower(net_arch),) for name, net_arch in NET_ARCHES.items()}
    for name, encoder in ENCODERS.items():
        nets[name] = (tower([5, "r5"], encoder=encoder),)
    nets["dueling"] = (tower([7, "r6"], dueling=True),)
    nets["tanh"] = (tower([7, "l", "r6"], activation="tanh"),)
    nets["actor-critic"] = (
        tower([8, "l", "r6"], encoder=ENCODERS["attention"]),
        tower([5, "b"], encoder=ENCODERS["attention"], num_outputs=1),
    )
    nets["flat actor-critic"] = (
        tower(["b", 8, "rl6"], activation="tanh"),
        tower([5, "b", 5], activation="tanh", num_outputs=1),
    )
    return nets


every_structure = pytest.mark.parametrize(
    "towers", every_network().values(), ids=every_network().keys()
)


def observations(num_more: int = 0) -> Tensor:
    """Return what players see in games between scripted players, float32 (P, B, I)."""
    game = GameConfig(
        dimension=D, max_num_points=N, max_value=9, max_steps=20, reposition=True, reward="terminal"
    )
    fused = FusedGame(game, torch.arange(P), B, "cpu", "cpu", observes=False)
    noise = stream(*range(P))
    for _ in range(4):
        action = host_player("random")(fused.points, noise.uniform(B))
        subset = HostActionEncoder(D).decode(action)
        axis = agent_player("random")(fused.points, subset, noise.uniform(B))
        seen = fused.observe()
        fused.step(action, axis)
    return features_of(seen, subset) if num_more else seen


def outputs(net: Network, x: Tensor) -> list[Tensor]:
    with torch.no_grad():
        return [net(x, tower=index) for index in range(len(net.towers))]


def assert_same_function(net: Network, other: Network, x: Tensor) -> None:
    for own, its in zip(outputs(net, x), outputs(other, x), strict=True):
        torch.testing.assert_close(own, its, rtol=1e-4, atol=2e-5)

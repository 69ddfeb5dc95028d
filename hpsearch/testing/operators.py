"""What mutations and crossovers promise, on networks of several encoders, layers and towers."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import torch

from hpsearch.game.stream import Stream
from hpsearch.population.operators.options import CrossoverExtension, MutationExtension
from hpsearch.trainers.config.net_arch import parse
from hpsearch.trainers.config.players import (
    AttentionEncoder,
    DeepSetsEncoder,
    Encoder,
    FlattenEncoder,
)
from hpsearch.trainers.config.weight_layout import Inputs, Tower
from hpsearch.trainers.networks import Arithmetic, Network

ENCODERS: Final[tuple[Encoder, ...]] = (
    FlattenEncoder("flatten", 3),
    DeepSetsEncoder("deep_sets", (7, 6), "mean"),
    AttentionEncoder("attention", width=8, heads=2, blocks=1),
)
NET_ARCHES: Final[tuple[tuple[Any, ...], ...]] = ((), (6, "b", "r8", "rl8", "l"))


def check_mutation(operator: MutationExtension) -> None:
    """Promise a finite child of its parent's structure, by the seed, from an unchanged parent."""
    for first, _ in _parents():
        _check(partial(operator.child, first), [first])


def check_crossover(operator: CrossoverExtension) -> None:
    """Promise a finite child of the parents' structure, by the seed, from unchanged parents."""
    for first, second in _parents():
        _check(partial(operator.child, first, second), [first, second])


def _parents() -> Iterator[tuple[Network, Network]]:
    for encoder in ENCODERS:
        for net_arch in NET_ARCHES:
            policy = Tower(encoder, parse(net_arch), "relu", num_outputs=4)
            value = Tower(encoder, parse(net_arch), "relu", num_outputs=1, dueling=True)
            towers = [policy, value]
            first, second = (
                Network(Inputs(4, 3, 0), towers, Arithmetic("fp32", "off"), _stream(seed))
                for seed in (1, 2)
            )
            yield first, second


def _stream(seed: int) -> Stream:
    return Stream(torch.tensor([seed]))


def _check(make: Callable[[Stream], Network], parents: list[Network]) -> None:
    before = [(net.weights.clone(), net.statistics.clone()) for net in parents]
    child, again = make(_stream(9)), make(_stream(9))
    assert child.structure == parents[0].structure, "a child has its parents' structure"
    assert child.weights.shape == parents[0].weights.shape, "a child is one member"
    for own, its in ((child.weights, again.weights), (child.statistics, again.statistics)):
        assert own.isfinite().all(), "a child's weights and statistics are finite"
        assert torch.equal(own, its), "the same seed gives the same child"
    for net, (weights, statistics) in zip(parents, before, strict=True):
        is_same = torch.equal(net.weights, weights) and torch.equal(net.statistics, statistics)
        assert is_same, "parents stay as they are"
        for own, its in ((child.weights, net.weights), (child.statistics, net.statistics)):
            is_own = not own.numel() or own.data_ptr() != its.data_ptr()
            assert is_own, "a child has its own memory"

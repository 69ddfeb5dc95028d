"""Operators do without compilation; without what a bare node lacks: trainers/test_bare_machine."""

from dataclasses import replace

import pytest
import torch
from operator_nets import FP32, D, N, P, observations, stream, tower

from hpsearch.population.operators.distillation import distilled
from hpsearch.population.operators.options import Distillation
from hpsearch.population.operators.safe_mutation import MetPositions, policy_change, safe_mutation
from hpsearch.trainers.config.weight_layout import Inputs
from hpsearch.trainers.networks import Network


@pytest.fixture
def compiled_net(monkeypatch) -> Network:
    """Return a network that must not be compiled."""

    def refuse(function):
        def compiled(*args):
            raise AssertionError("an operator has a network compiled")

        return compiled

    monkeypatch.setattr(torch, "compile", refuse)
    arithmetic = replace(FP32, compile="default")
    return Network(Inputs(N, D, 0), [tower([7, "b"])], arithmetic, stream(1, 2, 3))


def test_the_stand_in_for_a_compiled_net_refuses(compiled_net):
    with pytest.raises(AssertionError, match="an operator has a network compiled"):
        compiled_net.update_pass(observations())


def test_safe_mutation_compiles_nothing(compiled_net):
    child = safe_mutation(
        compiled_net,
        MetPositions(observations(), torch.ones(P, 24, 4, dtype=torch.bool)),
        bound=torch.full((P,), 0.1),
        measure=policy_change,
        stream=stream(7, 8, 9),
    )
    assert child.arithmetic == compiled_net.arithmetic


def test_distillation_compiles_nothing(compiled_net):
    seen = MetPositions(observations(), torch.ones(P, 24, 4, dtype=torch.bool))
    child = distilled(
        compiled_net,
        compiled_net,
        compiled_net,
        seen=seen,
        options=Distillation(
            num_steps=2,
            batch_size=8,
            lr=1e-3,
            beta1=0.9,
            beta2=0.999,
            eps=1e-8,
            temperature=1.0,
            value_weight=1.0,
            compare="raw",
        ),
        stream=stream(7, 8, 9),
    )
    assert child.arithmetic == compiled_net.arithmetic

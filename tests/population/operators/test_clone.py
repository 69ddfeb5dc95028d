"""Copies are equal and share nothing."""

import pytest
import torch
from operator_nets import every_structure, network, observations, outputs, tower

from hpsearch.population.operators.weights import clone, host_and_agent


@every_structure
def test_a_clone_is_equal_and_its_own(towers):
    net, x = network(*towers), observations()
    copy = clone(net)
    for own, its in zip(outputs(net, x), outputs(copy, x), strict=True):
        assert torch.equal(own, its)
    before = {name: tensor.clone() for name, tensor in net.state().items()}
    for tensor in copy.state().values():
        tensor.add_(1.0)
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state().items())


def test_a_pair_is_the_host_of_one_and_the_agent_of_the_other():
    hosts, agents = network(tower([7, "b"])), network(tower([5], num_outputs=3), num_more=3)
    pair = host_and_agent({"host": hosts}, {"host": network(tower([2])), "agent": agents})
    assert torch.equal(pair["host"].weights, hosts.weights)
    assert torch.equal(pair["host"].statistics, hosts.statistics)
    assert torch.equal(pair["agent"].weights, agents.weights)
    assert pair["host"].weights.data_ptr() != hosts.weights.data_ptr()
    with pytest.raises(ValueError, match=r"the agent's parent must have learned the agent, got"):
        host_and_agent({"host": hosts}, {"host": hosts})

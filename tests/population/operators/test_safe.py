"""Safe mutation: sensitivities are those of torch's Jacobians, and the bound holds."""

import pytest
import torch
from operator_nets import P, every_structure, network, observations, outputs, stream, tower
from torch import Tensor, nn

from hpsearch.population.operators import safe_mutation as module
from hpsearch.population.operators.base import normal
from hpsearch.population.operators.safe_mutation import (
    MetPositions,
    greedy_change,
    policy_change,
    safe_mutation,
    sensitivity,
)
from hpsearch.trainers.networks import Network

BOUND = torch.tensor([0.01, 0.02, 0.04])


def output_change(before: Tensor, after: Tensor, legal: Tensor) -> Tensor:
    """Return the root mean square change of the outputs at ``legal`` bool (P, B, A)."""
    squares = (after - before).square().where(legal, 0.0)
    return (squares.sum(dim=(1, 2)) / legal.sum(dim=(1, 2))).sqrt()


def relative_change(before: Tensor, after: Tensor, legal: Tensor) -> Tensor:
    """Return the same in standard deviations of the outputs before."""
    mean = before.where(legal, 0.0).sum(dim=(1, 2)) / legal.sum(dim=(1, 2))
    spread = output_change(mean[:, None, None].expand_as(before), before, legal)
    return output_change(before, after, legal) / spread


def legal(num_outputs: int = 4) -> Tensor:
    mask = torch.rand(P, 24, num_outputs, generator=torch.Generator().manual_seed(0)) < 0.7
    mask[..., 0] = True
    return mask


def mutated(net: Network, measure=policy_change, **changes) -> Network:
    options = {"bound": BOUND, "measure": measure, "stream": stream(7, 8, 9)}
    return safe_mutation(net, MetPositions(observations(), legal()), **options | changes)


def jacobian(net: Network, member: int, x: Tensor) -> Tensor:
    """Return d output / d weight of torch's modules, (B, O, W), laid out as the bank."""
    module = nn.Sequential(nn.Linear(9, 7), nn.ReLU(), nn.LayerNorm(7), nn.Linear(7, 4)).double()
    names = dict(zip("012", "023", strict=True))
    state = {}
    for name, tensor in net.layers(member).items():
        layer, kind = name.split(".")
        state[f"{names[layer]}.{kind}"] = tensor.double()

    def function(state):
        return torch.func.functional_call(module, state, (x[:, :9].double(),))

    jacobians = torch.func.jacrev(function)(state)
    parts = [
        (jacobians[name].transpose(2, 3) if jacobians[name].ndim == 4 else jacobians[name]).flatten(
            2
        )
        for layer in "023"
        for name in (f"{layer}.weight", f"{layer}.bias")
    ]
    return torch.cat(parts, dim=2)


def test_sensitivities_are_those_of_torchs_jacobian():
    net, x = network(tower([7, "l"])), observations()
    sensitivities = sensitivity(net, x, stream(7, 8, 9))
    for p in range(P):
        by_output = jacobian(net, p, x[p]).mean(dim=0)
        expected = by_output.square().sum(dim=0).sqrt()
        torch.testing.assert_close(sensitivities[p].double(), expected, rtol=1e-3, atol=1e-6)


def test_few_passes_estimate_the_sum_over_many_outputs(monkeypatch):
    net, x = network(tower([7], num_outputs=40)), observations()
    estimates = []
    for num_passes in (40, 30):
        monkeypatch.setattr(module, "NUM_PASSES", num_passes)
        estimates.append(sensitivity(net, x, stream(7, 8, 9)))
    exact, few = estimates
    ratio = few.square().sum(dim=1) / exact.square().sum(dim=1)
    assert ((ratio - 1).abs() < 0.5).all()


def test_as_many_outputs_as_passes_are_derived_one_by_one(monkeypatch):
    """Then nothing is drawn."""
    net, x = network(tower([7], num_outputs=5)), observations()
    monkeypatch.setattr(module, "NUM_PASSES", 5)
    assert torch.equal(sensitivity(net, x, stream(7, 8, 9)), sensitivity(net, x, stream(1, 2, 3)))


def test_what_changes_no_move_is_within_a_bound_of_none():
    net, x = network(tower([7, "l"])), observations()
    child = mutated(net, greedy_change, bound=torch.zeros(P))
    best = [
        outputs(player, x)[0].masked_fill(~legal(), -torch.inf).argmax(dim=2)
        for player in (net, child)
    ]
    assert torch.equal(*best)
    assert not torch.equal(child.weights, net.weights)


@every_structure
def test_the_policy_moves_as_far_as_it_may(towers):
    """The bound holds on outputs computed anew, and is met unless the noise is at its largest."""
    net, x = network(*towers), observations()
    before = {name: tensor.clone() for name, tensor in net.state().items()}
    child = mutated(net)
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state().items())
    assert torch.equal(child.statistics, net.statistics)
    old, new = (outputs(player, x)[0].masked_fill(~legal(), -torch.inf) for player in (net, child))
    change = 0.5 * (new.softmax(dim=2) - old.softmax(dim=2)).abs().sum(dim=2).mean(dim=1)
    assert (change <= BOUND * (1 + 1e-5)).all()
    moved, size = (
        tensor[:, net.layout.columns(0)].square().mean(dim=1).sqrt()
        for tensor in (child.weights - net.weights, net.weights)
    )
    assert ((change > 0.97 * BOUND) | (moved > 0.99 * size)).all()


def test_the_policy_mutates_and_the_value_stays():
    net, every = network(tower([7, "l"]), tower([5, "b"], num_outputs=1)), legal()
    child = mutated(net, relative_change)
    old, new = outputs(net, observations()), outputs(child, observations())
    assert torch.equal(old[1], new[1])
    for p in range(P):
        seen = old[0][p][every[p]]
        change = (new[0][p][every[p]] - seen).square().mean().sqrt() / seen.std(correction=0)
        assert change.item() == pytest.approx(BOUND[p].item(), rel=0.01)


def test_greedy_players_keep_to_their_share_of_moves():
    net, x = network(tower([7, "l"])), observations()
    bound = torch.tensor([0.05, 0.1, 0.2])
    child = mutated(net, greedy_change, bound=bound)
    best = [
        outputs(player, x)[0].masked_fill(~legal(), -torch.inf).argmax(dim=2)
        for player in (net, child)
    ]
    change = (best[0] != best[1]).float().mean(dim=1)
    assert (change <= bound).all()
    assert change[2] > 0


def test_outputs_change_by_their_root_mean_square():
    net, x = network(tower([7, "l"])), observations()
    child = mutated(net, output_change)
    for p in range(P):
        change = (outputs(child, x)[0][p] - outputs(net, x)[0][p])[legal()[p]]
        assert change.square().mean().sqrt().item() == pytest.approx(BOUND[p].item(), rel=0.01)


def test_what_matters_less_moves_more():
    net = network(tower([32, "l", 32]))
    child = mutated(net)
    matters = sensitivity(net, observations(), stream(7, 8, 9))
    moved = (child.weights - net.weights).abs()
    for p in range(P):
        is_low = matters[p] < matters[p].median()
        assert moved[p][is_low].mean() > 2 * moved[p][~is_low].mean()


def test_what_hardly_matters_moves_ten_times_as_far_as_what_matters_as_usual():
    """By the same noise as where all weights matter alike; the scale of a member is taken out."""
    net = network(tower([32, "l", 32]))
    own = net.layout.columns(0)
    matters = sensitivity(net, observations(), stream(7, 8, 9))[:, own]
    usual = matters.square().mean(dim=1, keepdim=True).sqrt()
    noise = normal(stream(7, 8, 9), own.stop - own.start)
    moved = (mutated(net).weights - net.weights)[:, own]
    shares = matters / usual
    assert (shares < 0.1).any(dim=1).all()
    expected = noise / shares.clamp(min=0.1)
    scale = moved.norm(dim=1, keepdim=True) / expected.norm(dim=1, keepdim=True)
    torch.testing.assert_close(moved / scale, expected, rtol=1e-3, atol=1e-3)


def test_no_room_means_no_change_and_a_diverged_parent_stays():
    net = network(tower([7]))
    assert torch.equal(mutated(net, bound=torch.zeros(P)).weights, net.weights)
    net.weights[1] = torch.nan
    child = mutated(net, output_change)
    assert child.weights[1].isnan().all()
    assert not child.weights[[0, 2]].isnan().any()


def test_noise_never_exceeds_the_weights():
    net = network(tower([7]))
    change = mutated(net, bound=torch.ones(P)).weights - net.weights
    size, moved = (tensor.square().mean(dim=1).sqrt() for tensor in (net.weights, change))
    torch.testing.assert_close(moved, size, rtol=1e-3, atol=0)


def test_a_child_depends_on_its_own_seed_alone():
    net = network(tower([7]))
    whole, again = mutated(net), mutated(net, stream=stream(1, 8, 2))
    assert torch.equal(whole.weights[1], again.weights[1])
    assert not torch.equal(whole.weights[0], again.weights[0])


def test_arguments_must_fit():
    net = network(tower([7]))
    with pytest.raises(ValueError, match="bound must hold one number"):
        mutated(net, bound=BOUND[:2])
    with pytest.raises(ValueError, match=r"stream needs a row for each of 3 members, got \(2,\)"):
        mutated(net, stream=stream(7, 8))
    with pytest.raises(ValueError, match=r"features needs a row for each of 3 members, got \(2,\)"):
        safe_mutation(
            net, MetPositions(observations()[:2], legal()),
            bound=BOUND, measure=policy_change, stream=stream(7, 8, 9),
        )  # fmt: skip

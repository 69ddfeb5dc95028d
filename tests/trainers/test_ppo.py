"""Policy optimisation against slow loops over single moves, in plain torch and plain Python.

The oracle reads a network's weights by its names, 0.* the policy's and 1.* the value's, and knows
the one hidden layer of tests/conftest.py.
"""

import math

import pytest
import torch
from scipy.stats import chisquare

from hpsearch.trainers import networks
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.ppo import _as_it_went_on, normalized
from hpsearch.trainers.ranks import ALONE
from hpsearch.trainers.rollouts import stack

SUBSETS = ((0, 1), (0, 2), (1, 2), (0, 1, 2))
UNCLIPPED = {"host.max_grad_norm": 1e9, "agent.max_grad_norm": 1e9}
ROLES = pytest.mark.parametrize("role", ["host", "agent"])


@pytest.fixture
def trained(tiny_config):
    """Return a function to a trainer of two members whose host and agent have learned a little."""

    def make(changes, per_member=({}, {}), steps=2):
        members = [
            tiny_config({"agent": "learn", **UNCLIPPED, **changes, **own, "seed": seed}, "ppo")
            for seed, own in enumerate(per_member, start=1)
        ]
        trainer = build_trainer(members)
        trainer.train(steps)
        return trainer

    return make


def learner_of(trainer, role):
    return {"host": trainer.host, "agent": trainer.agent}[role]


def play(trainer):
    """Return the rollout of every learner, as a step makes it."""
    played = trainer.rollouts.play(trainer.config.rollout_length, looks_ahead=True)
    return [_as_it_went_on(stack(moves)) for moves in zip(*played, strict=True)]


def moves_of(trainer, role):
    played = zip(trainer.roles.groups, play(trainer), strict=True)
    return next(trainer._moves(*part) for part in played if part[0].learner.name == role)


def features_of(points, subset=None) -> list[float]:
    """Return what the network takes in: three of four points, and for an agent the subset."""
    largest = max(1, max(max(row) for row in points))
    seen = [c / largest if row[0] >= 0 else -1.0 for row in points[:3] for c in row]
    return seen if subset is None else seen + [float(k in subset) for k in range(3)]


def tower(bank, index, x):
    """Return the outputs of one tower for inputs (..., I); ``bank`` is one member's, by name."""
    hidden = torch.relu(x @ bank[f"{index}.0.weight"] + bank[f"{index}.0.bias"][0])
    return hidden @ bank[f"{index}.1.weight"] + bank[f"{index}.1.bias"][0]


def bank_of(learner, member, weights=None):
    parts = learner.net.parts(learner.net.weights if weights is None else weights)
    return {name: part[member].double().clone() for name, part in parts.items()}


def inputs(learner, features):
    """Return features (m, I), which hold what the network takes in and no more."""
    assert features.shape[1] == (12 if learner.name == "agent" else 9)
    return features.double()


def log_probs_of(bank, x, legal):
    """Return the log-probability of every legal action at one position, by action."""
    actions = [action for action, is_legal in enumerate(legal.tolist()) if is_legal]
    logits = tower(bank, 0, x)[actions]
    return dict(zip(actions, logits - logits.logsumexp(0), strict=True))


def slow_loss(trainer, learner, batch, member, bank):
    """Return loss, policy loss, value loss, entropy, divergence and share clipped of one member."""
    options = trainer.configs[member].ppo
    clip, bound = options.clip_range, options.value_clip_range
    advantages = batch.advantage[member].double()
    if options.normalize_advantages:
        spread = (advantages - advantages.mean()).square().mean().sqrt()
        advantages = (advantages - advantages.mean()) / (spread + 1e-8)
    x, count = inputs(learner, batch.features[member]), len(advantages)
    policy = value_loss = entropy = divergence = 0.0
    clipped = 0
    for move in range(count):
        log_probs = log_probs_of(bank, x[move], batch.legal[member, move])
        ratio = (log_probs[int(batch.action[member, move])] - batch.log_prob[member, move]).exp()
        advantage = advantages[move]
        if advantage > 0:  # nothing is gained above 1 + clip
            policy = policy - (ratio if ratio < 1 + clip else 1 + clip) * advantage / count
        else:  # nor below 1 - clip
            policy = policy - (ratio if ratio > 1 - clip else 1 - clip) * advantage / count
        value = tower(bank, 1, x[move])[0]
        old, target = batch.value[member, move], batch.target[member, move]
        worse = (value - target) ** 2
        if bound is not None and (value - old).abs() > bound:
            bounded = old + bound * (value - old).sign()
            worse = max(worse, (bounded - target).double() ** 2)
        value_loss = value_loss + worse / 2 / count
        entropy = entropy - sum(prob.exp() * prob for prob in log_probs.values()) / count
        divergence = divergence + (ratio - 1 - ratio.log()) / count
        clipped += bool((ratio - 1).abs() > clip) / count
    loss = policy + options.vf_coef * value_loss - options.ent_coef * entropy
    return loss, policy, value_loss, entropy, divergence, clipped


def perturbed(trainer, learner, moves):
    """Return moves as if other networks had played and as if other things had come of them."""
    generator = torch.Generator().manual_seed(3)

    def noise(scale):
        return scale * torch.randn(moves.action.shape, generator=generator)

    return moves._replace(
        log_prob=moves.log_prob + noise(0.4),
        value=moves.value + noise(0.5),
        target=moves.target + noise(1.0),
        advantage=noise(1.0),
    )


@ROLES
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("value_clip", [None, 0.2])
def test_an_updates_loss_and_gradient(trained, role, normalize, value_clip):
    options = {"ppo.normalize_advantages": normalize, "ppo.value_clip_range": value_clip}
    numbers = ({"ppo.clip_range": 0.1, "ppo.ent_coef": 0.2}, {"ppo.vf_coef": 2.0})
    trainer = trained(options, numbers)
    learner = learner_of(trainer, role)
    batch = perturbed(trainer, learner, moves_of(trainer, role))
    banks = [bank_of(learner, member) for member in range(2)]
    update(trainer, learner, batch, torch.ones(2, dtype=torch.bool))
    for member, bank in enumerate(banks):
        leaves = [tensor.requires_grad_() for tensor in bank.values()]
        loss, *others = slow_loss(trainer, learner, batch, member, bank)
        names = ("policy_loss", "value_loss", "policy_entropy", "kl", "clipped")
        for name, expected in zip(("loss", *names), (loss, *others), strict=True):
            computed = learner.statistics[name][member].item()
            assert computed == pytest.approx(
                torch.as_tensor(expected).detach().item(), rel=1e-4, abs=1e-5
            ), name
        gradients = torch.autograd.grad(loss, leaves)
        mine = bank_of(learner, member, learner.gradients)
        for (name, computed), expected in zip(mine.items(), gradients, strict=True):
            torch.testing.assert_close(computed, expected, rtol=1e-3, atol=1e-5, msg=name)


@ROLES
def test_the_batch_above_is_clipped_in_every_way(trained, role):
    """Both signs of the advantage, above and below, and values beyond their bound."""
    trainer = trained({})
    learner = learner_of(trainer, role)
    batch = perturbed(trainer, learner, moves_of(trainer, role))
    values = learner.net(batch.features).masked_fill(~batch.legal, -torch.inf)
    log_prob = values.log_softmax(2).gather(2, batch.action[..., None]).squeeze(2)
    ratio = (log_prob - batch.log_prob).exp()
    for beyond in (ratio > 1.2, ratio < 0.8, (ratio > 0.8) & (ratio < 1.2)):
        assert (beyond & (batch.advantage > 0)).any()
        assert (beyond & (batch.advantage < 0)).any()
    assert ((learner.value(batch.features) - batch.value).abs() > 0.2).any()


def update(trainer, learner, batch, active):
    if trainer.config.ppo.normalize_advantages:
        advantage = normalized(batch.advantage, ALONE)
        batch = batch._replace(advantage=advantage)
    return trainer._update(learner, batch, active, learner.lr_scheduler(trainer.step))


def watch(trainer):
    """Return a list that fills with (learner, batch, statistics, active after) of every update."""
    seen, update = [], trainer._update

    def watched(learner, batch, active, lr):
        after = update(learner, batch, active, lr)
        seen.append((learner, batch, dict(learner.statistics), after.clone()))
        return after

    trainer._update = watched
    return seen


@pytest.mark.parametrize("net_arch", [[8], ["b", 8], ["r8", "b"]])
def test_the_first_minibatch_meets_the_policy_that_played(trained, net_arch):
    """The ratio is 1: whatever has been learned before, with batch norms too."""
    changes = {f"{role}.{key}": net_arch for role in ROLES_BOTH for key in NETS}
    trainer = trained(changes, steps=4)
    seen = watch(trainer)
    trainer.train(1)
    updates = 2 * 3  # epochs times minibatches, first of the host, then of the agent
    for learner, batch, statistics, _ in (seen[0], seen[updates]):
        assert statistics["kl"].abs().max() < 1e-6
        assert (statistics["clipped"] == 0).all()
        advantage = batch.advantage - batch.advantage.mean(1, keepdim=True)
        assert torch.allclose(statistics["policy_loss"], torch.zeros(2), atol=1e-5)
        assert advantage.abs().max() > 0
        assert learner is seen[0][0] or learner is trainer.agent
    assert seen[1][2]["kl"].max() > 1e-9


ROLES_BOTH, NETS = ("host", "agent"), ("net_arch", "value_net_arch")


def test_log_probabilities_are_those_of_the_policy_that_played(trained):
    trainer = trained({})
    banks = {
        learner.name: [bank_of(learner, member) for member in range(2)]
        for learner in trainer.learners
    }
    for group, rollout in zip(trainer.roles.groups, play(trainer), strict=True):
        learner, moves = group.learner, trainer._moves(group, rollout)
        for member in range(2):
            bank = banks[learner.name][member]
            x = inputs(learner, moves.features[member])
            for place in range(16):
                move, game = divmod(place, 8)
                subset = SUBSETS[int(rollout.subset[member, move, game])]
                points = rollout.points[member, move, game].tolist()
                seen = features_of(points, subset if learner.name == "agent" else None)
                assert x[place].tolist() == pytest.approx(seen)
                legal = set(subset) if learner.name == "agent" else {0, 1, 2, 3}
                assert set(moves.legal[member, place].nonzero().flatten().tolist()) == legal
                log_prob = log_probs_of(bank, x[place], moves.legal[member, place])
                expected = log_prob[int(rollout.action[member, move, game])]
                recorded = moves.log_prob[member, place].item()
                assert recorded == pytest.approx(expected.item(), abs=1e-5)


def test_actions_are_drawn_by_the_policys_probabilities(tiny_config):
    changes = {"host.rollout_size": 4000, "host.last_policy_scale": 1.0}
    trainer = build_trainer([tiny_config(changes, "ppo")])
    logits = trainer.host_net(trainer.fused_game.observe()).detach()
    (seen,) = next(trainer.rollouts.play(1, looks_ahead=True))
    probabilities = logits[0].double().softmax(1).sum(0)
    counts = seen.action[0].bincount(minlength=4)
    probabilities *= 4000 / probabilities.sum()
    assert chisquare(counts.numpy(), probabilities.numpy()).pvalue > 1e-3
    assert probabilities.max() > 1.1 * probabilities.min()


# Minibatches, epochs.


@pytest.mark.parametrize(
    ("size", "sizes"), [(6, [6, 6, 4]), (16, [16]), (5, [5, 5, 5, 1]), (8, [8, 8])]
)
def test_every_pass_goes_over_every_move_once(trained, size, sizes):
    """Also where minibatches do not divide the moves (seeds.md B34)."""
    trainer = trained({"ppo.minibatch_size": size, "ppo.train_epochs": 3})
    seen = watch(trainer)
    trainer.train(1)
    passes = len(sizes)
    for role in range(2):
        orders = []
        for epoch in range(3):
            first = (3 * role + epoch) * passes
            batches = [batch for _, batch, _, _ in seen[first : first + passes]]
            assert [batch.action.shape[1] for batch in batches] == sizes
            orders.append(
                torch.cat([batch.features.sum(2) + batch.log_prob for batch in batches], 1)
            )
        # The same moves in another order, of each member its own.
        for order in orders[1:]:
            torch.testing.assert_close(order.sort(1).values, orders[0].sort(1).values)
            assert not torch.equal(order, orders[0])
    assert len(seen) == 2 * 3 * passes


def test_a_last_minibatch_of_a_single_move_does_no_harm(trained):
    """16 moves in minibatches of 5: one is left, whose advantage has no deviation (B34)."""
    trainer = trained({"ppo.minibatch_size": 5}, steps=3)
    assert trainer.is_finite() == [True, True]


def test_the_fields_of_a_move_stay_together_in_minibatches(trained):
    """16 moves of two members in minibatches of 5, of which the last one holds 1."""
    trainer = trained({"ppo.minibatch_size": 5, "ppo.normalize_advantages": False})
    for group, rollout in zip(trainer.roles.groups, play(trainer), strict=True):
        moves = trainer._moves(group, rollout)
        fields = list(zip(*trainer._minibatches(group, moves), strict=True))
        for member in range(2):
            joined = [torch.cat([part[member] for part in field]) for field in fields]
            assert rows_of_moves(joined) == rows_of_moves(field[member] for field in moves)


def rows_of_moves(fields):
    """Return all that is known of each move, in order."""
    return sorted(zip(*(field.tolist() for field in fields), strict=True))


def test_normalized_advantages():
    advantage = torch.tensor([[1.0, 2.0, 6.0], [5.0, 5.0, 8.0]])
    scaled = normalized(advantage, ALONE)
    spread = (14 / 3) ** 0.5
    assert scaled[0].tolist() == pytest.approx([-2 / spread, -1 / spread, 3 / spread])
    assert scaled[1].tolist() == pytest.approx([-(0.5**0.5), -(0.5**0.5), 2**0.5])


@pytest.mark.parametrize("recompute", [True, False])
def test_later_epochs_take_their_advantages_from_newer_values(trained, recompute):
    trainer = trained({"ppo.recompute_advantages": recompute, "ppo.train_epochs": 3})
    learner, seen, inner = trainer.host, [], trainer._advantages

    def watched(caller, rollout, features):
        weights = caller.net.weights.clone()
        advantages = inner(caller, rollout, features)
        if caller is learner:
            seen.append((rollout, weights, advantages))
        return advantages

    trainer._advantages = watched
    updates = watch(trainer)
    trainer.train(1)
    assert len(seen) == (3 if recompute else 1)
    for rollout, weights, (advantage, target, value) in seen:
        for member in range(2):
            expected = slow_advantages(trainer, learner, rollout, member, weights)
            assert advantage[member].tolist() == pytest.approx(expected, rel=1e-3, abs=1e-5)
        torch.testing.assert_close(target, advantage + value)
    # The three epochs of the host: three minibatches each.
    targets = [epoch_of(updates, epoch, "target") for epoch in range(3)]
    torch.testing.assert_close(targets[0], seen[0][2][1].sort(1).values)
    for epoch in (1, 2):
        assert torch.equal(targets[epoch], targets[0]) != recompute
        # What values are clipped around stays what the network said while it played.
        assert torch.equal(epoch_of(updates, epoch, "value"), epoch_of(updates, 0, "value"))
        assert torch.equal(epoch_of(updates, epoch, "log_prob"), epoch_of(updates, 0, "log_prob"))


def epoch_of(updates, epoch, field):
    batches = [getattr(batch, field) for _, batch, _, _ in updates[3 * epoch : 3 * epoch + 3]]
    return torch.cat(batches, dim=1).sort(dim=1).values


def slow_advantages(trainer, learner, rollout, member, weights) -> list[float]:
    """Return the advantage of every move of the host, by the definition, move after move."""
    bank, config = bank_of(learner, member, weights), trainer.configs[member]
    gamma, carry = config.host.gamma, config.host.gamma * config.ppo.gae_lambda

    def value(points):
        return tower(bank, 1, torch.tensor(features_of(points.tolist())).double()).item()

    num_moves, num_games = rollout.action.shape[1:]
    by_move = {}
    for game in range(num_games):
        after = 0.0
        for move in reversed(range(num_moves)):
            at = (member, move, game)
            done, cut = bool(rollout.done[at]), bool(rollout.truncated[at])
            error = rollout.reward[at].item() - value(rollout.points[at])
            error += 0.0 if done else gamma * value(rollout.next_points[at])
            after = error if done or cut else error + carry * after
            by_move[move, game] = after
    return [by_move[move, game] for move in range(num_moves) for game in range(num_games)]


# Stopping.


def test_a_step_stops_for_exactly_the_members_that_went_too_far(trained):
    """Before the first update whose minibatch says so; the next step begins anew."""
    targets = (1e-9, None, 2e-4)
    changes = {"ppo.train_epochs": 4, "ppo.target_kl": None, "host.last_policy_scale": 1.0}
    trainer = trained(changes, [{"ppo.target_kl": target} for target in targets], steps=0)
    seen = watch(trainer)
    expected = torch.zeros(3)
    for _ in range(3):
        seen.clear()
        trainer.train(1)
        mine = [
            (stats["kl"], active) for learner, _, stats, active in seen if learner.name == "host"
        ]
        assert len(mine) == 12
        for member, target in enumerate(targets):
            going = True
            for divergence, active in mine:
                going = going and (target is None or divergence[member].item() <= target)
                assert bool(active[member]) == going
                expected[member] += going
        assert trainer.host_optimizer.averages.updates.flatten().tolist() == expected.tolist()
    assert expected[0] < 6  # an update moves the policy, so the second minibatch is too far
    assert expected[1] == 36
    assert 3 < expected[2] < 36


def test_a_member_that_has_stopped_keeps_its_weights(trained):
    trainer = trained({"ppo.target_kl": None}, ({"ppo.target_kl": 1e-9}, {}))
    learner = trainer.host
    batch = perturbed(trainer, learner, moves_of(trainer, "host"))
    before = learner.net.weights.clone()
    active = update(trainer, learner, batch, torch.ones(2, dtype=torch.bool))
    assert active.tolist() == [False, True]
    assert torch.equal(learner.net.weights[0], before[0])
    assert not torch.equal(learner.net.weights[1], before[1])
    # A member that has stopped stays so, however near the policy is again.
    same = moves_of(trainer, "host")
    assert update(trainer, learner, same, active).tolist() == [False, True]


# Illegal actions.


def test_illegal_actions_enter_nothing(trained):
    """Axis 2 outside every subset: however its values lie, nothing changes and nothing moves."""
    trainer = trained({"host": {"player": "random"}})
    learner = trainer.agent
    moves = perturbed(trainer, learner, moves_of(trainer, "agent"))
    moves = moves._replace(
        legal=torch.tensor([True, True, False]).expand(moves.legal.shape),
        action=moves.action.clamp(max=1),
    )
    still = torch.zeros(2, dtype=torch.bool)
    outcomes = []
    for shift in (0.0, 50.0, -50.0):
        last = learner.net.parts(learner.net.weights)["0.1.bias"]
        last[:, 0, 2] += shift
        update(trainer, learner, moves, still)
        last[:, 0, 2] -= shift
        outcomes.append((dict(learner.statistics), learner.gradients.clone()))
        parts = learner.net.parts(learner.gradients)
        for name in ("0.1.weight", "0.1.bias"):
            assert (parts[name][:, :, 2] == 0).all()
            assert (parts[name][:, :, :2] != 0).any()
        assert (learner.statistics["policy_entropy"] <= math.log(2) + 1e-6).all()
    for statistics, gradients in outcomes[1:]:
        assert torch.equal(gradients, outcomes[0][1])
        assert all(torch.equal(value, outcomes[0][0][name]) for name, value in statistics.items())


# What an agent sees of the host's next choice.


@pytest.mark.parametrize("host", ["learn", {"player": "random"}])
def test_the_next_choice_is_the_hosts_real_one_where_the_game_goes_on(tiny_config, host):
    changes = {"agent": "learn", "host": host, "rollout_length": 6, "max_steps": 3}
    trainer = build_trainer([tiny_config({**changes, "seed": seed}, "ppo") for seed in (1, 2)])
    played = [seen[-1] for seen in trainer.rollouts.play(6, looks_ahead=True)]
    drawn = stack(played)
    rollout = _as_it_went_on(drawn)
    ended = drawn.done | drawn.truncated
    assert drawn.done.any()
    assert drawn.truncated.any()
    for move in range(5):
        going = ~ended[:, move]
        same = (rollout.next_points[:, move] == rollout.points[:, move + 1]).flatten(2).all(2)
        assert same[going].all()
        assert torch.equal(rollout.next_subset[:, move][going], rollout.subset[:, move + 1][going])
        over = ~going
        assert torch.equal(rollout.next_subset[:, move][over], drawn.next_subset[:, move][over])
    assert torch.equal(rollout.next_subset[:, -1], drawn.next_subset[:, -1])
    assert (drawn.next_subset != rollout.next_subset).any()  # drawn with noise of its own
    for name in rollout._fields:
        if name != "next_subset":
            assert torch.equal(getattr(rollout, name), getattr(drawn, name))


# Batch norms.


def test_batch_norms_follow_each_step_once(trained):
    """The running mean moves a tenth of the way to that of all moves of the step."""
    trainer = trained({"host.net_arch": ["b", 8], "host.value_net_arch": ["b", 6]})
    learner = trainer.host
    before = learner.net.statistics.clone()
    seen = watch(trainer)
    trainer.train(1)
    batches = [batch.features for owner, batch, _, _ in seen if owner is learner][:3]
    moves = torch.cat(batches, dim=1)
    mean, var = moves.mean(1), moves.var(1, correction=1)
    expected = before.lerp(torch.cat([mean, var] * 2, dim=1), 0.1)
    torch.testing.assert_close(learner.net.statistics, expected)


@ROLES
@pytest.mark.parametrize("max_steps", [100, 2])
def test_a_position_that_two_moves_share_is_valued_once(monkeypatch, trained, role, max_steps):
    """To the last digit what passes for both give, where games were broken off, too."""
    monkeypatch.setattr(networks, "WIDE", 1)
    trainer = trained({"max_steps": max_steps})
    learner = learner_of(trainer, role)
    rollout = dict(zip(("host", "agent"), play(trainer), strict=True))[role]
    assert rollout.truncated[:, :-1].any() == (max_steps == 2)
    assert rollout.done.any()

    def value_of(observation, subset):
        features = learner.features(observation.flatten(1, 2), subset.flatten(1))
        return learner.value(features).view_as(subset)

    value = value_of(rollout.observation, rollout.subset)
    found = trainer._next_value(learner, rollout, value)
    each = value_of(rollout.next_observation, rollout.next_subset)
    assert torch.equal(found[~rollout.done], each[~rollout.done])
    with monkeypatch.context() as shared:
        passed = []
        inner = learner.value
        shared.setattr(learner, "value", lambda x: passed.append(x.shape[1]) or inner(x))
        trainer._next_value(learner, rollout, value)
    broken_off = rollout.truncated[:, :-1].any(dim=0)  # of some member
    assert passed == [rollout.reward.shape[2] + broken_off.sum()]

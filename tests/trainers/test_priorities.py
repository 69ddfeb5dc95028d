"""Prioritised replay (arXiv 1511.05952) against its formulas in plain Python."""

import pytest
import torch
from batches import drawn
from scipy.stats import chisquare

from hpsearch.game.stream import Stream
from hpsearch.trainers import config
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import PrioritisedReplay
from hpsearch.trainers.ranks import Ranks, Shards
from hpsearch.trainers.replay_buffer import Priorities, ReplayBuffer
from hpsearch.trainers.rollouts import Transitions

CPU = torch.device("cpu")
OPTIONS = (
    PrioritisedReplay(alpha=0.6, beta=0.4, beta_steps=10, eps=0.1),
    PrioritisedReplay(alpha=1.0, beta=0.0, beta_steps=4, eps=0.01),
    PrioritisedReplay(alpha=0.0, beta=1.0, beta_steps=1, eps=0.5),
)
NUM_MEMBERS, SIZE, FILLED = 3, 12, 9
ERRORS = [-3.0, 0.0, 1.0, 2.0, -0.5, 0.25, 4.0, 0.125, 1.5]
PLAIN = {"alpha": 0.6, "beta": 0.4, "beta_steps": 8, "eps": 1e-3}


def expected_priority(option, error) -> float:
    return (abs(error) + option.eps) ** option.alpha


def filled() -> Priorities:
    """Return priorities of 9 of 12 places, by ERRORS."""
    priorities = Priorities(SIZE, OPTIONS, CPU)
    places = torch.arange(FILLED).expand(NUM_MEMBERS, -1)
    priorities.add(places, places, torch.ones(NUM_MEMBERS, dtype=torch.bool))
    priorities.update(places, torch.tensor(ERRORS).expand(NUM_MEMBERS, -1))
    return priorities


def noise(count: int) -> torch.Tensor:
    keys = torch.arange(NUM_MEMBERS)
    return Stream(keys, torch.zeros_like(keys)).uniform(count).double()


def sample(priorities, count=20_000, step=0):
    number = torch.full((NUM_MEMBERS, 1), FILLED)
    return priorities.sample(noise(count), number, torch.full((NUM_MEMBERS,), step))


def test_a_priority_is_the_error_plus_eps_to_the_power_alpha():
    priority = filled().priority
    for member, option in enumerate(OPTIONS):
        expected = [expected_priority(option, error) for error in ERRORS]
        assert priority[member].tolist() == pytest.approx(expected + [0.0] * 3)


def test_a_transition_is_drawn_as_often_as_its_priority_says():
    places, _ = sample(filled())
    for member, option in enumerate(OPTIONS):
        priority = torch.tensor([expected_priority(option, error) for error in ERRORS]).double()
        counts = places[member].bincount(minlength=SIZE)
        assert counts[FILLED:].sum() == 0  # empty places are never drawn
        expected = priority / priority.sum() * counts.sum()
        assert chisquare(counts[:FILLED].numpy(), expected.numpy()).pvalue > 1e-3


def test_alpha_zero_is_uniform():
    """Frequencies and weights: as if there were no priorities."""
    places, weights = sample(filled())
    assert chisquare(places[2].bincount(minlength=FILLED).numpy()).pvalue > 1e-3
    assert torch.allclose(weights[2], torch.ones(1))


@pytest.mark.parametrize("step", [0, 1, 3, 5, 10, 1000])
def test_weights_correct_for_frequencies_more_and_more(step):
    """(N * P(i))^-beta over the batch's largest; beta goes from its first value to 1 in a line."""
    places, weights = sample(filled(), count=50, step=step)
    for member, option in enumerate(OPTIONS):
        beta = option.beta + (1 - option.beta) * min(step / option.beta_steps, 1)
        priority = [expected_priority(option, error) for error in ERRORS]
        raw = [(FILLED * priority[p] / sum(priority)) ** -beta for p in places[member].tolist()]
        expected = [weight / max(raw) for weight in raw]
        assert weights[member].tolist() == pytest.approx(expected, rel=1e-4)
        assert weights[member].max() == 1


def test_a_new_transition_gets_the_highest_priority_so_far():
    priorities = filled()
    highest = [expected_priority(option, 4.0) for option in OPTIONS]
    highest = [max(priority, 1.0) for priority in highest]  # that of a memory without an error
    priorities.update(torch.tensor([[6]] * 3), torch.zeros(3, 1))  # the largest is forgotten
    new, complete = torch.tensor([[10, 2]] * 3), torch.tensor([[9, 0]] * 3)
    priorities.add(new, complete, torch.tensor([True, True, False]))
    for member, priority in enumerate(highest):
        # Not before its next move has been made; for the third member these are the first moves.
        assert priorities.priority[member, [10, 2]].tolist() == [0.0] * 2
        expected = [priority if member < 2 else 0.0] * 2
        assert priorities.priority[member, [9, 0]].tolist() == pytest.approx(expected)


def test_where_there_is_nothing_to_draw_any_place_will_do():
    priorities = Priorities(SIZE, OPTIONS, CPU)
    none = torch.zeros(NUM_MEMBERS, 1, dtype=torch.int64)
    places, weights = priorities.sample(noise(50), none, torch.zeros(NUM_MEMBERS))
    assert places.min() >= 0
    assert places.max() < SIZE
    assert weights.isfinite().all()


@pytest.mark.parametrize("last", [0.0, 1 - 2.0**-24])
def test_the_extremes_of_the_noise_draw_what_there_is(last):
    priorities = filled()
    extreme = torch.full((NUM_MEMBERS, 1), last).double()
    places, weights = priorities.sample(
        extreme, torch.full((NUM_MEMBERS, 1), FILLED), torch.zeros(NUM_MEMBERS)
    )
    assert places.flatten().tolist() == ([0] if last == 0.0 else [FILLED - 1]) * 3
    assert (weights == 1).all()


def test_a_member_that_forgets_begins_anew():
    priorities = filled()
    priorities.forget()
    fresh = Priorities(SIZE, OPTIONS, CPU)
    assert all(torch.equal(t, fresh.state()[n]) for n, t in priorities.state().items())


# In the buffer and in training.


def numbered(first: int, count: int) -> Transitions:
    number = torch.arange(first, first + count).expand(NUM_MEMBERS, -1)
    points = number[..., None, None].expand(-1, -1, 2, 3).int()
    seen, no = points.flatten(2).float(), torch.zeros_like(number, dtype=torch.bool)
    reward = number.float()
    none = torch.zeros(number.shape)
    before = points, seen, number, number, none, reward
    return Transitions(*before, points, seen, number, no, no, no)


def memory_of(size):
    """Return a memory of ``size`` moves, to which four games add."""
    keys = torch.arange(NUM_MEMBERS)
    options = [
        config.ReplayBufferConfig(buffer_size=size, save=True, prioritised=option)
        for option in OPTIONS
    ]
    return ReplayBuffer(
        observation_size=6,
        points_shape=(0, 3),
        num_games=4,
        options=options,
        stream=Stream(keys, torch.zeros_like(keys)),
        how="off",
    )


def test_the_ring_overwrites_priorities_with_their_transitions():
    memory = memory_of(6)
    step, gamma = torch.zeros(NUM_MEMBERS, dtype=torch.int64), torch.ones(NUM_MEMBERS)
    memory.add(numbered(0, 4))
    memory.add(numbered(4, 4))  # the ring has places for 6 moves and for 4 that cannot be drawn yet
    every = torch.arange(4).expand(NUM_MEMBERS, -1)
    memory.reprioritise(every, torch.full((NUM_MEMBERS, 4), 1e-6))
    assert sample_numbers(memory, gamma, step)[1] == {0, 1, 2, 3}
    memory.add(numbered(8, 4))  # at places 8, 9, 0, 1
    rare = memory.state()["priority"][1]
    assert rare[[8, 9, 0, 1]].tolist() == [0.0] * 4
    assert rare[[4, 5, 6, 7]].tolist() == [1.0] * 4
    assert rare[[2, 3]].tolist() == pytest.approx([0.01] * 2, rel=1e-3)
    counts = (
        next(memory.sample(1, batch_size=5000, n_step=1, gamma=gamma, step=step))
        .subset[1]
        .bincount(minlength=12)
    )
    assert counts[:2].sum() == counts[8:].sum() == 0
    assert 0 < counts[2:4].sum() < 100 < counts[4:8].min()


@pytest.mark.parametrize("prioritised", [True, False])
def test_the_memories_of_two_ranks_make_up_the_whole(prioritised):
    """What lies at the places that each rank names is that of one rank that has all shards."""
    num_games, num_shards = 8, 4
    options = [
        config.ReplayBufferConfig(
            buffer_size=24, save=True, prioritised=option if prioritised else None
        )
        for option in OPTIONS
    ]

    def filled_memory(ranks: Ranks) -> ReplayBuffer:
        shards, keys = Shards.of(num_shards, ranks), torch.arange(NUM_MEMBERS)
        memory = ReplayBuffer(
            observation_size=6,
            points_shape=(2, 3),
            num_games=num_games,
            options=options,
            stream=Stream(keys, torch.zeros_like(keys)),
            how="off",
            shards=shards,
        )
        lanes = shards.lanes(num_games, 1, CPU)
        for first in range(0, 32, num_games):
            seen = numbered(first, num_games)
            memory.add(Transitions(*(shards.split(field[:, lanes], 1) for field in seen)))
        drawn = next(
            memory.sample(
                1,
                batch_size=num_games,
                n_step=1,
                gamma=torch.ones(3),
                step=torch.zeros(3, dtype=torch.int64),
            )
        )
        memory.reprioritise(drawn.places, drawn.reward - 20)
        return memory

    whole = filled_memory(Ranks(0, 1)).state()
    parts = [filled_memory(Ranks(rank, 2)) for rank in range(2)]
    assert ("priority" in whole) == prioritised
    for name, tensor in whole.items():
        together = torch.full_like(tensor, 0)
        for part in parts:
            if name in part.places():
                together[:, part.places()[name]] = part.state()[name]
            else:  # all ranks have the same
                together = part.state()[name]
        assert torch.equal(together, tensor), name
    assert parts[0].places().keys() <= whole.keys()


def test_each_batch_is_drawn_by_the_priorities_that_the_one_before_left():
    memory = memory_of(8)
    for first in (0, 4, 8):
        memory.add(numbered(first, 4))
    step, gamma = torch.zeros(NUM_MEMBERS, dtype=torch.int64), torch.ones(NUM_MEMBERS)
    batches = memory.sample(2, batch_size=400, n_step=1, gamma=gamma, step=step)
    assert set(next(batches).subset[1].tolist()) == set(range(8))
    errors = torch.full((NUM_MEMBERS, 8), 1e-9)
    errors[:, 5] = 1e9
    memory.reprioritise(torch.arange(8).expand(NUM_MEMBERS, -1), errors)
    assert (next(batches).subset[1] == 5).sum() > 390


def sample_numbers(memory, gamma, step):
    seen = next(memory.sample(1, batch_size=400, n_step=1, gamma=gamma, step=step)).subset
    return [set(row.tolist()) for row in seen]


@pytest.fixture
def trained(tiny_config):
    def make(changes, steps=3):
        options = {"replay_buffer.prioritised": PLAIN, "agent": "learn", **changes}
        trainer = build_trainer([tiny_config({**options, "seed": seed}) for seed in (1, 2)])
        trainer.train(steps)
        return trainer

    return make


def test_the_loss_is_multiplied_by_the_weight_and_not_by_the_priority(trained):
    """seeds.md B35; an oracle of one hidden layer, for the loss and for its gradient's norm."""
    trainer = trained({"dqn.double": False})
    learner = trainer.host
    size = learner.config.batch_size
    batch = drawn(trainer, learner, size)
    parts = {k: v.clone() for k, v in learner.net.parts(learner.net.weights).items()}
    target_parts = learner.target_net.parts(learner.target_net.weights)
    trainer._update(learner, batch, learner.lr_scheduler(trainer.step), None)
    assert batch.weight.min() < 0.9
    for member in range(2):
        bank = [parts[name][member].requires_grad_() for name in parts]

        def q(observation, w1, b1, w2, b2, member=member):
            features = observation[member, :, : w1.shape[0]]
            return torch.relu(features @ w1 + b1) @ w2 + b2

        best = q(batch.next_observation, *(part[member] for part in target_parts.values())).amax(
            dim=1
        )
        target = batch.reward[member] + batch.discount[member] * best
        chosen = q(batch.observation, *bank).gather(1, batch.action[member][:, None]).squeeze(1)
        each = torch.nn.functional.huber_loss(chosen, target, reduction="none", delta=0.5)
        loss = (batch.weight[member] * each).mean()
        norm = torch.cat([g.flatten() for g in torch.autograd.grad(loss, bank)]).norm()
        torch.testing.assert_close(learner.statistics["loss"][member], loss.detach())
        torch.testing.assert_close(learner.statistics["gradient_norm"][member], norm)
        assert not torch.isclose(each.mean(), loss, rtol=1e-2)
        # What was drawn now has the priority that its error gives.
        error = (chosen - target).detach()
        priority = learner.replay_buffer.state()["priority"][member]
        expected = (error.abs() + PLAIN["eps"]) ** PLAIN["alpha"]
        torch.testing.assert_close(priority[batch.places[member]], expected, rtol=1e-4, atol=1e-5)


def test_training_goes_on_the_same_after_saving(trained, tmp_path):
    trainer = trained({})
    folders = [trainer.save(tmp_path / str(member), member) for member in range(2)]
    trainer.train(2)
    fresh = build_trainer(trainer.configs)
    for member, folder in enumerate(folders):
        fresh.load(folder, member)
    fresh.train(2)
    names = [name for name in fresh.state() if "priority" in name or "highest" in name]
    assert len(names) == 4
    for name in [*names, "host.net.weights", "agent.net.weights"]:
        assert torch.equal(fresh.state()[name], trainer.state()[name])


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1e30])
def test_a_member_that_diverges_harms_itself_alone(trained, value):
    """Its errors are no numbers; what is drawn by them must still lie in the ring."""
    trainer, healthy = trained({}), trained({})
    for learner in trainer.learners:
        learner.net.weights[1] = value
    trainer.train(5)
    healthy.train(5)
    for name, tensor in healthy.state().items():
        assert torch.equal(trainer.state()[name][0], tensor[0]), name

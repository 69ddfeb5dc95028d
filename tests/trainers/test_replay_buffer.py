"""The replay buffer against a list of everything that was added."""

import random

import pytest
import torch
from scipy.stats import chisquare

from hpsearch.game.philox import Stream
from hpsearch.trainers import config
from hpsearch.trainers.replay_buffer import Batch, ReplayBuffer
from hpsearch.trainers.transitions import Transitions

NUM_MEMBERS, NUM_POINTS, DIMENSION = 3, 2, 3
GAMMA = torch.tensor([0.5, 0.9, 1.0])
STEP = torch.zeros(NUM_MEMBERS, dtype=torch.int64)


def transitions(first: int, count: int) -> Transitions:
    """Return transitions each of whose fields tells its number: member * 1000 + place."""
    number = torch.arange(NUM_MEMBERS)[:, None] * 1000 + torch.arange(first, first + count)
    points = number[..., None, None].expand(-1, -1, NUM_POINTS, DIMENSION).to(torch.int32)
    return Transitions(
        points=points,
        subset=number,
        action=number + 1,
        reward=number.float(),
        next_points=points + 1,
        next_subset=number + 2,
        done=number % 2 == 0,
        truncated=number % 3 == 0,
    )


def stream(seed: int = 0) -> Stream:
    keys = torch.arange(NUM_MEMBERS) + seed
    return Stream(keys, torch.zeros_like(keys))


def buffer(size: int, num_games: int) -> ReplayBuffer:
    options = [config.ReplayBuffer(buffer_size=size, save=True, prioritised=None)] * NUM_MEMBERS
    return ReplayBuffer(NUM_POINTS, DIMENSION, num_games, options, stream())


def sample(memory: ReplayBuffer, batch_size: int, n_step: int = 1) -> Batch:
    return memory.sample(batch_size, n_step, GAMMA, STEP)


def places(sampled: Transitions, member: int) -> list[int]:
    return (sampled.subset[member] - 1000 * member).tolist()


def test_the_fields_of_a_transition_stay_together():
    memory = buffer(10, 8)
    memory.add(transitions(0, 8))
    sampled = sample(memory, 64).transitions
    number = sampled.subset
    assert torch.equal(number // 1000, torch.arange(NUM_MEMBERS)[:, None].expand(-1, 64))
    assert torch.equal(sampled.action, number + 1)
    assert torch.equal(sampled.next_subset, number + 2)
    assert torch.equal(sampled.reward, number.float())
    assert torch.equal(sampled.done, number % 2 == 0)
    assert torch.equal(sampled.truncated, number % 3 == 0)
    assert (sampled.points == number[..., None, None]).all()
    assert (sampled.next_points == number[..., None, None] + 1).all()


def test_what_was_never_written_is_never_drawn():
    memory = buffer(100, 3)
    memory.add(transitions(0, 3))
    sampled = sample(memory, 500).transitions
    for member in range(NUM_MEMBERS):
        assert set(places(sampled, member)) == {0, 1, 2}


@pytest.mark.parametrize("num_games", [1, 2, 3, 5, 7])
def test_the_newest_overwrite_the_oldest(num_games):
    memory, added = buffer(7, num_games), 0
    for _ in range(9):
        memory.add(transitions(added, num_games))
        added += num_games
        sampled = sample(memory, 400).transitions
        for member in range(NUM_MEMBERS):
            assert set(places(sampled, member)) == set(range(max(0, added - 7), added))


def test_sampling_is_uniform_and_each_members_own():
    memory, number = buffer(20, 5), 20_000
    for first in range(0, 25, 5):
        memory.add(transitions(first, 5))
    batch = sample(memory, number)
    sampled = batch.transitions
    counts = torch.stack(
        [torch.tensor(places(sampled, m)).bincount(minlength=25)[5:] for m in range(NUM_MEMBERS)]
    )
    for member in range(NUM_MEMBERS):
        assert counts[member].sum() == number
        assert chisquare(counts[member].numpy()).pvalue > 1e-3
    assert places(sampled, 0) != places(sampled, 1)
    assert (batch.weight == 1).all()


def test_a_members_sample_does_not_depend_on_the_others():
    memory, keys = buffer(20, 20), stream().keys[1:2]
    options = [config.ReplayBuffer(buffer_size=20, save=True, prioritised=None)]
    own = Stream(keys, torch.zeros_like(keys))
    alone = ReplayBuffer(NUM_POINTS, DIMENSION, 20, options, own)
    memory.add(transitions(0, 20))
    alone.add(Transitions(*(tensor[1:2] for tensor in transitions(0, 20))))
    for _ in range(3):
        by_itself = alone.sample(9, 1, GAMMA[1:2], STEP[1:2]).transitions
        assert places(sample(memory, 9).transitions, 1) == [
            number - 1000 for number in by_itself.subset[0].tolist()
        ]


def test_whoever_forgets_begins_empty():
    memory = buffer(20, 4)
    for first in range(0, 24, 4):
        memory.add(transitions(first, 4))
    memory.forget()
    memory.add(transitions(100, 4))
    assert set(places(sample(memory, 200).transitions, 1)) == {100, 101, 102, 103}


# n-step returns: games are recorded, then walked through in plain Python.


def record(num_moves: int, num_games: int, seed: int) -> list[Transitions]:
    """Return moves of games that end at random; a move's number is its subset."""
    draws = random.Random(seed)
    moves = []
    for move in range(num_moves):
        made = transitions(move * num_games, num_games)
        shape = made.done.shape
        ends = [[draws.choice(("done", "truncated", "", "", "")) for _ in range(shape[1])]] * 3
        reward = torch.tensor([[draws.uniform(-1, 1) for _ in range(shape[1])] for _ in range(3)])
        done = torch.tensor([[end == "done" for end in row] for row in ends])
        truncated = torch.tensor([[end == "truncated" for end in row] for row in ends])
        moves.append(made._replace(reward=reward, done=done, truncated=truncated))
    return moves


def walk(moves, number, member, n_step, num_games) -> tuple[int, float, float]:
    """Return the last move of up to n, the sum of their rewards, and gamma to their number."""
    total, discount, gamma = 0.0, 1.0, GAMMA[member].item()
    for ahead in range(n_step):
        move, game = divmod(number + ahead * num_games, num_games)
        if move >= len(moves):
            break  # not made yet
        last = number + ahead * num_games
        total += discount * moves[move].reward[member, game].item()
        discount *= gamma
        if moves[move].done[member, game] or moves[move].truncated[member, game]:
            break
    return last, total, discount


@pytest.mark.parametrize("n_step", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("size", "num_games", "num_moves"),
    [(40, 4, 6), (40, 4, 10), (40, 4, 25), (10, 3, 9), (7, 5, 8), (5, 5, 4), (23, 1, 60)],
)
def test_returns_of_n_moves_are_those_of_a_walk(size, num_games, num_moves, n_step):
    """Half full, just full, full; rings that hold no whole number of moves (odd sizes)."""
    memory, moves = buffer(size, num_games), record(num_moves, num_games, seed=size + n_step)
    for made in moves:
        memory.add(made)
    batch = sample(memory, 300, n_step)
    for member in range(NUM_MEMBERS):
        numbers = places(batch.transitions, member)
        assert len(set(numbers)) == min(size, num_moves * num_games)  # every place was drawn
        for place, number in enumerate(numbers):
            last, total, discount = walk(moves, number, member, n_step, num_games)
            move, game = divmod(last, num_games)
            assert batch.transitions.reward[member, place].item() == pytest.approx(total, abs=1e-5)
            assert batch.discount[member, place].item() == pytest.approx(discount)
            for name in ("next_points", "next_subset", "done", "truncated"):
                expected = getattr(moves[move], name)[member, game]
                assert torch.equal(getattr(batch.transitions, name)[member, place], expected)


def test_n_steps_see_every_kind_of_end():
    """So that the test above means something: ends by both causes, and by the end of memory."""
    moves = record(25, 4, seed=43)
    full = [walk(moves, number, 2, 3, 4)[0] == number + 8 for number in range(60, 100)]
    assert any(full)
    assert not all(full)
    assert any(made.done.any() for made in moves)
    assert any(made.truncated.any() for made in moves)


def test_one_step_is_the_plain_transition():
    memory, moves = buffer(11, 4), record(7, 4, seed=1)
    for made in moves:
        memory.add(made)
    batch = sample(memory, 100)
    for member in range(NUM_MEMBERS):
        for place, number in enumerate(places(batch.transitions, member)):
            move, game = divmod(number, 4)
            for field, plain in zip(batch.transitions, moves[move], strict=True):
                assert torch.equal(field[member, place], plain[member, game])
    assert torch.equal(batch.discount, GAMMA[:, None].expand(-1, 100))


def test_places_name_where_the_first_move_lies():
    memory = buffer(10, 4)
    for first in range(0, 16, 4):
        memory.add(transitions(first, 4))
    batch = sample(memory, 100, n_step=3)
    rings = memory.state()
    for member in range(NUM_MEMBERS):
        found = rings["subset"][member][batch.places[member]]
        assert torch.equal(found, batch.transitions.subset[member])

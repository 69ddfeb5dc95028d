"""The replay buffer against a list of everything that was added."""

import random
from dataclasses import dataclass

import pytest
import torch
from scipy.stats import chisquare

from hpsearch.game.stream import Stream
from hpsearch.trainers import config, replay_buffer
from hpsearch.trainers.moves import Batch
from hpsearch.trainers.ranks import ALONE, WHOLE, Shards
from hpsearch.trainers.replay_buffer import ReplayBuffer
from hpsearch.trainers.rollouts import Transitions

NUM_MEMBERS, NUM_POINTS, DIMENSION, NUM_FEATURES = 3, 2, 3, 5
GAMMA = torch.tensor([0.5, 0.9, 1.0])
STEP = torch.zeros(NUM_MEMBERS, dtype=torch.int64)


def transitions(first: int, count: int) -> Transitions:
    """Return transitions each of whose fields tells its number: member * 1000 + place."""
    number = torch.arange(NUM_MEMBERS)[:, None] * 1000 + torch.arange(first, first + count)
    points = number[..., None, None].expand(-1, -1, NUM_POINTS, DIMENSION).to(torch.int32)
    observation = number[..., None].expand(-1, -1, NUM_FEATURES + 2).float()
    unknown = torch.full_like(points, -7)  # where a move led to is found in the next one
    return Transitions(
        points=points,
        observation=observation,
        subset=number,
        action=number + 1,
        log_prob=torch.zeros(number.shape),
        reward=number.float(),
        next_points=unknown,
        next_observation=torch.full_like(observation, -7.0),
        next_subset=torch.full_like(number, -7),
        done=torch.zeros_like(number, dtype=torch.bool),
        truncated=torch.zeros_like(number, dtype=torch.bool),
        last=torch.zeros_like(number, dtype=torch.bool),
    )


def stream(seed: int = 0) -> Stream:
    keys = torch.arange(NUM_MEMBERS) + seed
    return Stream(keys, torch.zeros_like(keys))


def buffer(
    size: int, num_games: int, num_points: int = NUM_POINTS, shards: Shards = WHOLE
) -> ReplayBuffer:
    options = [
        config.ReplayBufferConfig(buffer_size=size, save=True, prioritised=None)
    ] * NUM_MEMBERS
    return make(num_points, num_games, options, stream(), shards)


def make(
    num_points: int, num_games: int, options, own: Stream, shards: Shards = WHOLE
) -> ReplayBuffer:
    return ReplayBuffer(
        observation_size=NUM_FEATURES,
        points_shape=(num_points, DIMENSION),
        num_games=num_games,
        options=options,
        stream=own,
        how="off",
        shards=shards,
    )


def sample(memory: ReplayBuffer, batch_size: int, n_step: int = 1) -> Batch:
    return next(memory.sample(1, batch_size=batch_size, n_step=n_step, gamma=GAMMA, step=STEP))


def places(batch: Batch, member: int) -> list[int]:
    return (batch.subset[member] - 1000 * member).tolist()


@pytest.mark.parametrize("at_once", [1, 2, 3])
@pytest.mark.parametrize("num_shards", [1, 2])
def test_several_batches_are_those_of_one_after_another(monkeypatch, at_once, num_shards):
    monkeypatch.setattr(replay_buffer, "MOST_ROWS", at_once * NUM_MEMBERS * 10)
    shards = Shards.of(num_shards, ALONE)
    together, one_by_one = buffer(40, 8, shards=shards), buffer(40, 8, shards=shards)
    for memory in (together, one_by_one):
        for first in range(0, 32, 8):
            seen = transitions(first, 8)
            memory.add(Transitions(*(shards.of_shards(field) for field in seen)))
        memory.added[:] = torch.tensor([16, 24, 32]) // num_shards  # some begin with more
    for batch in together.sample(3, batch_size=10, n_step=3, gamma=GAMMA, step=STEP):
        other = sample(one_by_one, 10, n_step=3)
        assert all(torch.equal(a, b) for a, b in zip(batch, other, strict=True))
        assert all(tensor.is_contiguous() for tensor in batch)  # else loops are compiled once more


def test_the_fields_of_a_move_stay_together_and_the_next_ones_are_the_same_games():
    memory = buffer(20, 8)
    for first in (0, 8, 16):
        memory.add(transitions(first, 8))
    batch = sample(memory, 64)
    number = batch.subset
    assert torch.equal(number // 1000, torch.arange(NUM_MEMBERS)[:, None].expand(-1, 64))
    assert torch.equal(batch.action, number + 1)
    assert torch.equal(batch.reward, number.float())
    assert torch.equal(batch.next_subset, number + 8)
    assert batch.observation.shape == batch.next_observation.shape == (3, 64, NUM_FEATURES)
    assert (batch.observation == number[..., None]).all()
    assert (batch.next_observation == number[..., None] + 8).all()
    assert (batch.points == number[..., None, None]).all()
    assert (batch.weight == 1).all()


def test_points_are_kept_on_demand_alone():
    memory = buffer(20, 4, num_points=0)
    for first in (0, 4):
        memory.add(transitions(first, 4))
    assert sample(memory, 6).points.shape == (NUM_MEMBERS, 6, 0, DIMENSION)


def test_a_move_can_be_drawn_once_the_next_one_is_made():
    memory = buffer(100, 3)
    memory.add(transitions(0, 3))
    assert memory.filled.tolist() == [0] * NUM_MEMBERS
    sample(memory, 50)  # does no harm
    memory.add(transitions(3, 3))
    assert memory.filled.tolist() == [3] * NUM_MEMBERS
    batch = sample(memory, 500)
    for member in range(NUM_MEMBERS):
        assert set(places(batch, member)) == {0, 1, 2}


@pytest.mark.parametrize("num_games", [1, 2, 3, 5, 7])
def test_the_newest_overwrite_the_oldest(num_games):
    memory, added = buffer(7, num_games), 0
    for _ in range(9):
        memory.add(transitions(added, num_games))
        added += num_games
        if added == num_games:
            continue
        batch, complete = sample(memory, 400), added - num_games
        for member in range(NUM_MEMBERS):
            assert set(places(batch, member)) == set(range(max(0, complete - 7), complete))


def test_sampling_is_uniform_and_each_members_own():
    memory, number = buffer(20, 5), 20_000
    for first in range(0, 30, 5):
        memory.add(transitions(first, 5))
    batch = sample(memory, number)
    counts = torch.stack(
        [torch.tensor(places(batch, m)).bincount(minlength=25)[5:] for m in range(NUM_MEMBERS)]
    )
    for member in range(NUM_MEMBERS):
        assert counts[member].sum() == number
        assert chisquare(counts[member].numpy()).pvalue > 1e-3
    assert places(batch, 0) != places(batch, 1)
    assert (batch.weight == 1).all()


def test_a_members_sample_does_not_depend_on_the_others():
    memory, keys = buffer(20, 10), stream().keys[1:2]
    options = [config.ReplayBufferConfig(buffer_size=20, save=True, prioritised=None)]
    own = Stream(keys, torch.zeros_like(keys))
    alone = make(NUM_POINTS, 10, options, own)
    for first in (0, 10, 20):
        memory.add(transitions(first, 10))
        alone.add(Transitions(*(tensor[1:2] for tensor in transitions(first, 10))))
    for _ in range(3):
        by_itself = next(alone.sample(1, batch_size=9, n_step=1, gamma=GAMMA[1:2], step=STEP[1:2]))
        assert places(sample(memory, 9), 1) == [
            number - 1000 for number in by_itself.subset[0].tolist()
        ]


def test_a_member_that_forgets_begins_empty():
    memory = buffer(20, 4)
    for first in range(0, 24, 4):
        memory.add(transitions(first, 4))
    memory.forget()
    for first in (100, 104):
        memory.add(transitions(first, 4))
    assert set(places(sample(memory, 200), 1)) == {100, 101, 102, 103}


# n-step returns: games are recorded, then walked through in plain Python.


def record(num_moves: int, num_games: int, seed: int) -> list[Transitions]:
    """Return moves of games that end at random; a move's number is its subset."""
    draws = random.Random(seed)
    moves = []
    for move in range(num_moves):
        made = transitions(move * num_games, num_games)
        shape = made.done.shape
        kinds = ("done", "truncated", "done at last", "", "", "")
        ends = [[draws.choice(kinds) for _ in range(shape[1])]] * 3
        reward = torch.tensor([[draws.uniform(-1, 1) for _ in range(shape[1])] for _ in range(3)])
        done = torch.tensor([[end.startswith("done") for end in row] for row in ends])
        truncated = torch.tensor([[end == "truncated" for end in row] for row in ends])
        last = torch.tensor([[end in ("truncated", "done at last") for end in row] for row in ends])
        moves.append(made._replace(reward=reward, done=done, truncated=truncated, last=last))
    return moves


@dataclass
class Walk:
    """What a walk of up to n moves finds."""

    reward: float
    """sum of the rewards, discounted"""
    bootstrap: float
    """gamma to the number of moves; 0 after the end of a game"""
    after: int
    """number of the same game's next move"""
    counts: bool
    """whether the position that it leads to is known"""


def walk(moves, number, member, n_step, num_games) -> Walk:
    """Walk on from a move, to the end of its game, or to where what comes is not known."""
    reward, discount, gamma = 0.0, 1.0, GAMMA[member].item()
    for ahead in range(n_step):
        move, game = divmod(number + ahead * num_games, num_games)
        is_newest = move == len(moves) - 1
        if ahead and (is_newest or moves[move].last[member, game]):
            return Walk(reward, discount, number + ahead * num_games, True)
        reward += discount * moves[move].reward[member, game].item()
        discount *= gamma
        after = number + (ahead + 1) * num_games
        if moves[move].last[member, game]:
            return Walk(reward, discount, after, False)
        if moves[move].done[member, game]:
            return Walk(reward, 0.0, after, True)
    return Walk(reward, discount, after, True)


@pytest.mark.parametrize("n_step", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("size", "num_games", "num_moves"),
    [(40, 4, 6), (40, 4, 11), (40, 4, 25), (10, 3, 9), (7, 5, 8), (5, 5, 4), (23, 1, 60)],
)
def test_returns_of_n_moves_are_those_of_a_walk(size, num_games, num_moves, n_step):
    """Half full, just full, full; rings that hold no whole number of moves (odd sizes)."""
    memory, moves = buffer(size, num_games), record(num_moves, num_games, seed=size + n_step)
    for made in moves:
        memory.add(made)
    batch = sample(memory, 300, n_step)
    for member in range(NUM_MEMBERS):
        numbers = places(batch, member)
        assert len(set(numbers)) == min(size, (num_moves - 1) * num_games)  # each was drawn
        for place, number in enumerate(numbers):
            expected = walk(moves, number, member, n_step, num_games)
            assert batch.known[member, place].item() == expected.counts
            if not expected.counts:
                continue
            assert batch.reward[member, place].item() == pytest.approx(expected.reward, abs=1e-5)
            assert batch.discount[member, place].item() == pytest.approx(expected.bootstrap)
            if expected.bootstrap:
                after = 1000 * member + expected.after
                assert batch.next_subset[member, place].item() == after
                assert (batch.next_observation[member, place] == after).all()


def test_n_steps_see_every_kind_of_end():
    """So that the test above means something: ends by both causes, and by the end of memory."""
    moves = record(25, 4, seed=43)
    walks = [walk(moves, number, 2, 3, 4) for number in range(56, 96)]
    assert {walk.bootstrap == 0.0 for walk in walks} == {True, False}
    assert {walk.counts for walk in walks} == {True, False}
    lengths = {
        (walk.after - number) // 4 for walk, number in zip(walks, range(56, 96), strict=True)
    }
    assert lengths == {1, 2, 3}


def test_one_step_is_the_plain_move():
    memory, moves = buffer(11, 4), record(7, 4, seed=1)
    for made in moves:
        memory.add(made)
    batch = sample(memory, 100)
    for member in range(NUM_MEMBERS):
        for place, number in enumerate(places(batch, member)):
            move, game = divmod(number, 4)
            for name in ("subset", "action", "reward"):
                plain = getattr(moves[move], name)[member, game]
                assert torch.equal(getattr(batch, name)[member, place], plain)
            is_over = bool(moves[move].done[member, game])
            assert batch.discount[member, place] == (0.0 if is_over else GAMMA[member])


def test_places_name_where_the_first_move_lies():
    memory = buffer(10, 4)
    for first in range(0, 20, 4):
        memory.add(transitions(first, 4))
    batch = sample(memory, 100, n_step=3)
    rings = memory.state()
    for member in range(NUM_MEMBERS):
        stored = rings["subset"][member][batch.places[member]]
        assert torch.equal(stored, batch.subset[member])


def test_each_position_is_stored_once():
    """An observation, four small numbers and two flags a move; no second position."""
    memory = buffer(1000, 10, num_points=0)
    rings = {n: t for n, t in memory.state().items() if n not in ("added", "counters")}
    bytes_a_move = sum(ring.nbytes for ring in rings.values()) / NUM_MEMBERS / 1010
    assert bytes_a_move == 4 * NUM_FEATURES + 8 + 8 + 4 + 1 + 1

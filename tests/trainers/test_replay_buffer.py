"""The replay buffer against a list of everything that was added."""

import torch
from scipy.stats import chisquare

from hpsearch.game.philox import Stream
from hpsearch.trainers.replay_buffer import ReplayBuffer, Transitions

NUM_MEMBERS, NUM_POINTS, DIMENSION = 3, 2, 3
CPU = torch.device("cpu")


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
    )


def stream(seed: int = 0) -> Stream:
    keys = torch.arange(NUM_MEMBERS) + seed
    return Stream(keys, torch.zeros_like(keys))


def buffer(size: int) -> ReplayBuffer:
    return ReplayBuffer(NUM_MEMBERS, size, NUM_POINTS, DIMENSION, CPU)


def places(sampled: Transitions, member: int) -> list[int]:
    return (sampled.subset[member] - 1000 * member).tolist()


def test_the_fields_of_a_transition_stay_together():
    memory = buffer(10)
    memory.add(transitions(0, 8))
    sampled = memory.sample(64, stream())
    number = sampled.subset
    assert torch.equal(number // 1000, torch.arange(NUM_MEMBERS)[:, None].expand(-1, 64))
    assert torch.equal(sampled.action, number + 1)
    assert torch.equal(sampled.next_subset, number + 2)
    assert torch.equal(sampled.reward, number.float())
    assert torch.equal(sampled.done, number % 2 == 0)
    assert (sampled.points == number[..., None, None]).all()
    assert (sampled.next_points == number[..., None, None] + 1).all()


def test_what_was_never_written_is_never_drawn():
    memory = buffer(100)
    memory.add(transitions(0, 3))
    sampled = memory.sample(500, stream())
    for member in range(NUM_MEMBERS):
        assert set(places(sampled, member)) == {0, 1, 2}


def test_the_newest_overwrite_the_oldest():
    memory, added = buffer(7), 0
    for count in (3, 3, 3, 7, 1, 5, 2):
        memory.add(transitions(added, count))
        added += count
        sampled = memory.sample(400, stream())
        for member in range(NUM_MEMBERS):
            assert set(places(sampled, member)) == set(range(max(0, added - 7), added))


def test_sampling_is_uniform_and_each_members_own():
    memory, number = buffer(20), 20_000
    memory.add(transitions(0, 20))
    memory.add(transitions(20, 5))
    sampled = memory.sample(number, stream())
    counts = torch.stack(
        [torch.tensor(places(sampled, m)).bincount(minlength=25)[5:] for m in range(NUM_MEMBERS)]
    )
    for member in range(NUM_MEMBERS):
        assert counts[member].sum() == number
        assert chisquare(counts[member].numpy()).pvalue > 1e-3
    assert places(sampled, 0) != places(sampled, 1)


def test_a_members_sample_does_not_depend_on_the_others():
    memory, alone = buffer(20), ReplayBuffer(1, 20, NUM_POINTS, DIMENSION, CPU)
    memory.add(transitions(0, 20))
    alone.add(Transitions(*(tensor[1:2] for tensor in transitions(0, 20))))
    streams = stream()
    own = Stream(streams.keys[1:2], streams.counters[1:2])
    for _ in range(3):
        assert places(memory.sample(9, streams), 1) == [
            number - 1000 for number in alone.sample(9, own).subset[0].tolist()
        ]

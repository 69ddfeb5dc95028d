import pytest
import torch

from hpsearch.game.kernels import BACKENDS
from hpsearch.game.random import derive_key, philox4x32, split_words
from hpsearch.game.stream import Stream

# Known answers of the Random123 library: counter, key, words.
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip


def words(text: str) -> torch.Tensor:
    return torch.tensor([int(word, 16) for word in text.split()])


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_known_answers(counter, key, answer):
    assert torch.equal(philox4x32(words(counter), words(key)), words(answer))


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_known_answer_through_a_backend(backend):
    numbers = BACKENDS[backend].uniform(torch.tensor([0]), torch.tensor([0]), 4)
    expected = (words(KNOWN_ANSWERS[0][2]) >> 8) / 2.0**24
    assert torch.equal(numbers, expected.unsqueeze(0))


def test_split_words():
    assert split_words(torch.tensor([-1, 2**32 + 5])).tolist() == [[2**32 - 1] * 2, [5, 1]]


def test_derived_keys_are_distinct_and_fixed():
    parts = [(1, 2), (2, 1), (12,), ("1", 2), (1, "2"), ("12",), (1, 2, ""), (1, 2, 0)]
    keys = [derive_key(*p) for p in parts]
    assert len(set(keys)) == len(keys)
    assert all(0 <= key < 2**63 for key in keys)
    assert derive_key(1, 0, 3, "host", "exploration") == FIXED_KEY


FIXED_KEY = 2053037189221857315


def stream(num_members: int) -> Stream:
    keys = torch.tensor([derive_key("test", member) for member in range(num_members)])
    return Stream(keys, torch.zeros_like(keys))


def test_a_members_numbers_do_not_depend_on_the_others():
    together = stream(5)
    alone = Stream(together.keys[3:4], together.counters[3:4])
    for count in (1, 4, 7, 100):
        assert torch.equal(together.uniform(count)[3:4], alone.uniform(count))


def test_rows_alone_have_the_same_numbers_and_leave_all_streams_alike():
    every, some = stream(5), stream(5)
    for rows in ([3, 1], [4], []):
        numbers = some.uniform(5, torch.tensor(rows, dtype=torch.int64))
        assert torch.equal(numbers, every.uniform(5)[rows])
    assert torch.equal(some.counters, every.counters)


def test_numbers_of_several_calls_are_those_of_one_call_after_another():
    once, one_by_one = stream(3), stream(3)
    for count, num_numbers in ((1, 5), (4, 6), (3, 8)):
        numbers = once.repeated_uniform(count, num_numbers)
        expected = torch.stack([one_by_one.uniform(num_numbers) for _ in range(count)])
        assert torch.equal(numbers, expected)
    assert torch.equal(once.counters, one_by_one.counters)


def test_numbers_are_uniform():
    numbers = stream(2).uniform(100_000)
    assert numbers.dtype == torch.float32
    assert (numbers >= 0).all()
    assert (numbers < 1).all()
    counts = torch.stack([row.histc(100, 0, 1) for row in numbers])
    chi_square = ((counts - 1000) ** 2 / 1000).sum(-1)  # 99 degrees of freedom: 99 +- 14
    assert ((chi_square > 50) & (chi_square < 160)).all()


def test_calls_never_repeat_a_number():
    source = stream(1)
    blocks = torch.cat([source.uniform(n) for n in (3, 4, 5, 1)], dim=1)
    assert len(blocks.unique()) == 13
    assert source.counters.tolist() == [1 + 1 + 2 + 1]


def test_counters_beyond_a_word():
    keys = torch.tensor([derive_key("far")])
    numbers = {
        name: BACKENDS[name].uniform(keys, torch.tensor([2**32 - 1]), 8)
        for name in ("reference", "cpu")
    }
    assert torch.equal(numbers["cpu"], numbers["reference"])
    assert not torch.equal(numbers["cpu"][:, 4:], BACKENDS["cpu"].uniform(keys, keys * 0, 4))


def test_mismatched_streams_are_an_error():
    with pytest.raises(ValueError, match=r"one length, got .*\(2,\).*\(3,\)"):
        Stream(torch.zeros(2, dtype=torch.int64), torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"int64, got keys.dtype=torch.float32"):
        Stream(torch.zeros(2), torch.zeros(2))

"""What every training algorithm promises of ranks: their number is no part of the result."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_trainers import CASES, members_of

from hpsearch.schema import to_plain

pytestmark = pytest.mark.slow

TRAIN = Path(__file__).parents[1] / "train_ranks.py"
SIZES = (1, 2, 4)
NUM_STEPS = 15
LONG = {"dqn: plain host": 50, "ppo: now, earlier and scripted": 50}
SHARDED = {"dqn": {"shards": 4}, "ppo": {"shards": 4, "ppo.minibatch_size": 8}}
STEADY = {"optim.args.eps": 1e-4}
"""Of a bias in front of a batch norm the gradient is rounding alone, which Adam divides by its own
size: with a small eps such a bias walks at random, by other bits with other ranks."""
NAMES = [
    f"{algorithm}: {name}"
    for name, (algorithms, _) in CASES.items()
    for algorithm in algorithms.split()
]
COUNTS = (".snapshots.moves", ".snapshots.finished", ".snapshots.own")
"""what each rank counts of its own games until the counts are added up"""


def train(folder: Path, size: int, cases: dict) -> dict:
    """Return what each rank came to, by case."""
    folder.mkdir()
    (folder / "cases.json").write_text(json.dumps(cases))
    command = [sys.executable, str(TRAIN)]
    ranks = [
        subprocess.Popen([*command, str(rank), str(size), str(folder)]) for rank in range(size)
    ]
    assert [rank.wait(timeout=300) for rank in ranks] == [0] * size
    return {
        name: [torch.load(folder / f"{name}-{rank}.pt") for rank in range(size)] for name in cases
    }


@pytest.fixture(scope="module")
def cases(tiny_config) -> dict:
    cases = {}
    for name in NAMES:
        algorithm, _, title = name.partition(": ")
        case = CASES[title][1]
        if title.startswith("residual"):
            case = replace(case, both=case.both | STEADY)
        configs = members_of(tiny_config, algorithm, case, **SHARDED[algorithm])
        steps = LONG.get(name, NUM_STEPS)
        cases[name] = {"configs": [to_plain(config) for config in configs], "steps": steps}
    return cases


@pytest.fixture(scope="module")
def trained(cases, tmp_path_factory) -> dict:
    """What the ranks came to, by their number."""
    folder = tmp_path_factory.mktemp("ranks")
    return {size: train(folder / str(size), size, cases) for size in SIZES}


def test_the_same_ranks_come_to_the_same_bits(cases, trained, tmp_path):
    chosen = {name: cases[name] for name in ("dqn: batch norms, agent", "ppo: plain host")}
    for name, ranks in train(tmp_path / "again", 2, chosen).items():
        for rank, before in zip(ranks, trained[2][name], strict=True):
            for part in ("state", "statistics"):
                for key, tensor in rank[part].items():
                    assert torch.equal(tensor, before[part][key]), key


def whole(ranks: list) -> dict:
    """Return the state of all ranks, put together."""
    state = {}
    for name, tensor in ranks[0]["state"].items():
        parts = [rank["state"][name] for rank in ranks]
        if name in ranks[0]["places"]:
            places = torch.cat([rank["places"][name] for rank in ranks])
            assert places.sort().values.tolist() == list(range(len(places)))
            state[name] = torch.empty_like(torch.cat(parts, dim=1))
            state[name][:, places] = torch.cat(parts, dim=1)
        elif name.endswith(COUNTS):
            state[name] = sum(parts)
        else:
            assert all(torch.equal(tensor, part) for part in parts), name
            state[name] = tensor
    return state


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", SIZES[1:])
def test_as_many_ranks_as_there_may_be_come_to_the_same(trained, name, size):
    """The same games, and but for rounding the same weights."""
    alone, together = whole(trained[1][name]), whole(trained[size][name])
    assert alone.keys() == together.keys()
    for key, tensor in alone.items():
        if tensor.is_floating_point():
            torch.testing.assert_close(
                together[key],
                tensor,
                rtol=1e-3,
                atol=1e-4,
                msg=lambda text, key=key: f"{key}: {text}",
            )
        else:
            assert torch.equal(together[key], tensor), key

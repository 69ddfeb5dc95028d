"""What every training algorithm promises of ranks: their number is no part of the result."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
from test_trainers import CASES, members_of
from tried import tried

from hpsearch.errors import CorruptError
from hpsearch.schema import to_plain
from hpsearch.trainers import checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]  # all processes of a core take turns

TRAIN = Path(__file__).parents[1] / "train_ranks.py"
SIZES = (1, 2, 4)
NUM_STEPS = (12, 50)
LONG = ("dqn: plain host", "ppo: now, earlier and scripted")
"""what makes the larger number of steps in any case"""
SHARDED = {"dqn": {"shards": 4}, "ppo": {"shards": 4, "ppo.minibatch_size": 8}}
STEADY = {"optim.args.eps": 1e-4}
"""Of a bias in front of a batch norm the gradient is rounding alone, which Adam divides by its own
size: with a small eps such a bias walks at random, by other bits with other ranks."""
NAMES = [
    f"{algorithm}: {name}"
    for name, (algorithms, _) in CASES.items()
    for algorithm in algorithms.split()
]
REPEATED = ("dqn: batch norms, agent", "ppo: plain host")
RESUMED = (
    "dqn: now, earlier and scripted",
    "dqn: n-step, prioritised, dueling",
    "ppo: pool of snapshots",
)
AT_FOUR = {*REPEATED, *RESUMED, "dqn: pool of snapshots", "ppo: dynamic pool"}
AT_FOUR |= {"ppo: KL stop, no clipping of values"}
"""what four ranks do too, which take turns on few cores: whatever ranks share besides gradients"""
SAVED_AT = 7
COUNTS = (".snapshots.moves", ".snapshots.finished", ".snapshots.own")
"""what each rank counts of its own games until the counts are added up"""


@pytest.fixture(scope="module", params=tried(NUM_STEPS, slow=NUM_STEPS[:1]))
def cases(request, tiny_config) -> dict:
    cases = {}
    for name in NAMES:
        algorithm, _, title = name.partition(": ")
        case = CASES[title][1]
        if title.startswith("residual"):
            case = replace(case, both=case.both | STEADY)
        configs = members_of(tiny_config, algorithm, case, **SHARDED[algorithm])
        steps = max(NUM_STEPS) if name in LONG else request.param
        cases[name] = {"configs": [to_plain(config) for config in configs], "steps": steps}
    return cases


@pytest.fixture(scope="module")
def folder(cases, tmp_path_factory) -> Path:
    """Where the ranks have left what they came to, stage by stage."""
    folder = tmp_path_factory.mktemp("ranks")
    four = {name: case for name, case in cases.items() if name in AT_FOUR}
    stages = {f"{size}": {"size": size, "cases": four if size == 4 else cases} for size in SIZES}
    for size in SIZES[1:]:
        again = {name: cases[name] for name in REPEATED}
        stages[f"{size} again"] = {"size": size, "cases": again}
    first, then = {}, {}
    for name in RESUMED:
        path = str(folder / "saved" / name)
        first[name] = {**cases[name], "steps": SAVED_AT, "save": path}
        then[name] = {**cases[name], "steps": cases[name]["steps"] - SAVED_AT, "load": path}
    stages["first"] = {"size": 2, "cases": first}
    for size in SIZES:
        stages[f"then {size}"] = {"size": size, "cases": then}
    (folder / "stages.json").write_text(json.dumps(stages))
    command = [sys.executable, str(TRAIN)]
    ranks = [subprocess.Popen([*command, str(rank), str(folder)]) for rank in range(max(SIZES))]
    try:
        assert [rank.wait(timeout=1400) for rank in ranks] == [0] * len(ranks)
    finally:
        for rank in ranks:
            rank.kill()
    return folder


def of_ranks(folder: Path, stage: str, name: str) -> list[dict]:
    size = int(stage.split()[1 if stage.startswith("then") else 0])
    return [torch.load(folder / stage / f"{name}-{rank}.pt") for rank in range(size)]


def whole(ranks: list[dict]) -> dict[str, torch.Tensor]:
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


def assert_alike(state: dict, expected: dict) -> None:
    """Whole numbers are equal, others but for rounding."""
    assert state.keys() == expected.keys()
    for key, tensor in expected.items():
        if tensor.is_floating_point():
            torch.testing.assert_close(
                state[key], tensor, rtol=1e-3, atol=1e-4, msg=lambda text, key=key: f"{key}: {text}"
            )
        else:
            assert torch.equal(state[key], tensor), key


@pytest.mark.parametrize(("size", "name"), [*product([2], NAMES), *product([4], sorted(AT_FOUR))])
def test_as_many_ranks_as_there_may_be_come_to_the_same(folder, name, size):
    """The same games, evaluations and matches, and but for rounding the same weights."""
    together, (alone,) = of_ranks(folder, f"{size}", name), of_ranks(folder, "1", name)
    assert_alike(whole(together), whole([alone]))
    assert {rank["evaluation"] for rank in together} == {alone["evaluation"]}
    assert all(rank["match"] == alone["match"] for rank in together)


@pytest.mark.parametrize("size", SIZES[1:])
def test_the_same_ranks_come_to_the_same_bits(folder, size):
    for name in REPEATED:
        once, again = of_ranks(folder, f"{size}", name), of_ranks(folder, f"{size} again", name)
        for rank, other in zip(once, again, strict=True):
            for part in ("state", "statistics"):
                for key, tensor in rank[part].items():
                    assert torch.equal(tensor, other[part][key]), key


@pytest.mark.parametrize("size", SIZES)
def test_any_number_of_ranks_goes_on_from_a_checkpoint_of_two(folder, size):
    for name in RESUMED:
        gone_on = whole(of_ranks(folder, f"then {size}", name))
        undisturbed = whole(of_ranks(folder, "2", name))
        if size == 2:
            assert all(torch.equal(gone_on[key], tensor) for key, tensor in undisturbed.items())
        else:
            assert_alike(gone_on, undisturbed)


def test_a_checkpoint_of_which_a_rank_wrote_no_part_is_not_whole(folder, tmp_path):
    path = checkpoint.newest(folder / "saved" / RESUMED[0] / "0")
    assert path is not None
    assert {file.name for file in path.iterdir()} >= {
        "tensors.safetensors",
        "tensors-1.safetensors",
    }
    torn, missing = (tmp_path / name / path.name for name in ("torn", "missing"))
    shutil.copytree(path, torn)
    shutil.copytree(path, missing)
    os.truncate(torn / "tensors-1.safetensors", 1000)
    (missing / "tensors-1.safetensors").unlink()
    for copy in (torn, missing):
        assert not checkpoint.is_whole(copy)
        with pytest.raises(CorruptError, match=r"tensors-1\.safetensors"):
            checkpoint.load(copy)
    assert list(checkpoint.valid_steps(tmp_path / "torn")) == []

"""Exported policies against those of the trainers: every action on thousands of positions."""

import errno
import functools
import shutil
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from tried import tried

from hpsearch.export import programs
from hpsearch.export.folder import FORMAT, SORTED_POINTS
from hpsearch.export.greedy import greedy_policy, sample_positions
from hpsearch.export.programs import (
    MISSING,
    differing_actions,
    save_program,
    traced,
    write_onnx,
    write_program,
)
from hpsearch.game import rules
from hpsearch.game.kernels.cpu_loops import reduce_rows, unrolled
from hpsearch.game.rules import subset_bits
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import read_config
from hpsearch.trainers.opponents import load_player
from hpsearch.trainers.rollouts import game_config

FLATTEN = {"name": "flatten", "num_points": 3}
SETS = {"name": "deep_sets", "widths": [6, 5], "pool": "max"}
MEANS = {"name": "deep_sets", "widths": [6], "pool": "mean"}
ATTENTION = {"name": "attention", "width": 6, "heads": 3, "blocks": 1}
CASES = {
    "dqn": ("dqn", {"host.encoder": FLATTEN, "host.net_arch": [8, "b", "r8"]}),
    "dqn, dueling": ("dqn", {"dqn.dueling": True, "host.encoder": SETS}),
    "dqn, attention in bf16": ("dqn", {"host.encoder": ATTENTION, "precision": "bf16"}),
    "dqn in two dimensions": ("dqn", {"dimension": 2, "host.net_arch": [8, "rl6"]}),
    "ppo in five dimensions": ("ppo", {"dimension": 5, "host.encoder": MEANS}),
    "ppo, attention": ("ppo", {"host.encoder": ATTENTION, "host.net_arch": ["l", 8]}),
}
ROLES = ("host", "agent")
both_roles = pytest.mark.parametrize("role", ROLES)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, plain_config):
    """Return a function case -> (trainer, its checkpoint) of a pair that has learned a little."""
    known = {}

    def make(case: str):
        if case not in known:
            algorithm, changes = CASES[case]
            plain = plain_config(changes, algorithm)
            plain["agent"] = plain["host"]
            trainer = build_trainer([read_config(plain, source=case)])
            trainer.train(3)
            shake(trainer)
            known[case] = trainer, trainer.save(tmp_path_factory.mktemp("trained"), 0)
        return known[case]

    return make


def shake(trainer) -> None:
    """Move the weights until no action is the best everywhere."""
    generator, some = torch.Generator().manual_seed(3), asked(trainer)
    for learner in trainer.learners:
        if (learner.name, trainer.config.dimension) == ("host", 2):
            continue  # it has one action
        weights = learner.net.weights
        while len(played(trainer, learner.name, *some).unique()) == 1:
            weights.add_(torch.randn(weights.shape, generator=generator))


def asked(trainer) -> tuple[Tensor, Tensor]:
    """Return points (B, N, D) and subsets (B, D): any coordinates, any number of points."""
    config, generator = trainer.config, torch.Generator().manual_seed(5)
    shape = (3000, config.max_num_points, config.dimension)
    points = torch.randint(0, 9, shape, generator=generator, dtype=torch.int32)
    live = torch.randint(1, config.max_num_points + 1, (3000, 1), generator=generator)
    is_live = torch.arange(config.max_num_points) < live
    points = rules.newton_polytope(points.where(is_live[..., None], -1))
    actions = subset_bits(config.dimension)
    drawn = torch.tensor(actions)[torch.randint(len(actions), (3000,), generator=generator)]
    return points, (drawn[:, None] >> torch.arange(config.dimension) & 1).bool()


@torch.no_grad()
def played(trainer, role: str, points: Tensor, subset: Tensor) -> Tensor:
    """Return the greedy actions (B,) that the trainer's own network values highest."""
    observation = rules.observe(points)
    if role == "host":
        return trainer.host_net(observation[None])[0].argmax(dim=-1)
    values = trainer.agent_net(torch.cat([observation, subset.float()], dim=1)[None])[0]
    return values.masked_fill(~subset, -torch.inf).argmax(dim=-1)


def player_of(trained, case: str, role: str):
    trainer, path = trained(case)
    return trainer, load_player(path, role, torch.device("cpu"))


@pytest.mark.parametrize(
    ("case", "role"),
    tried(
        product(CASES, ROLES),
        slow=[
            *product(("dqn, attention in bf16", "dqn in two dimensions"), ROLES),
            *(("dqn, dueling", "agent"), ("ppo in five dimensions", "host")),
            ("ppo, attention", "agent"),
        ],
    ),
)
def test_the_program_plays_as_the_trainer_on_every_position(trained, tmp_path, case, role):
    trainer, player = player_of(trained, case, role)
    positions = sample_positions(game_config(trainer.config), 1)
    write_program(tmp_path / "policy.pt2", player, role, positions)
    policy = torch.export.load(tmp_path / "policy.pt2").module()
    points, subset = asked(trainer)
    for batch in (1, 7, 3000):
        some = points[:batch], subset[:batch]
        answers = policy(*(some if role == "agent" else some[:1]))
        assert answers.dtype == torch.int64
        assert torch.equal(answers, played(trainer, role, *some))
    if (role, trainer.config.dimension) != ("host", 2):
        assert len(answers.unique()) > 1


@pytest.mark.parametrize(
    ("case", "role"),
    tried(
        product(["dqn, attention in bf16", "ppo, attention"], ROLES),
        slow=[("dqn, attention in bf16", "host"), ("ppo, attention", "agent")],
    ),
)
def test_onnx_plays_as_the_trainer(trained, tmp_path, case, role):
    onnxruntime = pytest.importorskip("onnxruntime")
    trainer, player = player_of(trained, case, role)
    positions = sample_positions(game_config(trainer.config), 1)
    assert write_onnx(tmp_path / "policy.onnx", player, role, positions) is None
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    points, subset = asked(trainer)
    for batch in (1, 7, 3000):
        named = {"points": points[:batch].to(torch.int64).numpy()}
        if role == "agent":
            named["subset"] = subset[:batch].numpy()
        answers = torch.from_numpy(session.run(None, named)[0])
        same = (answers == played(trainer, role, points[:batch], subset[:batch])).double().mean()
        assert same >= (0.97 if trainer.config.precision == "bf16" else 1.0)


def test_positions_are_of_all_ages(tiny_config):
    config = game_config(tiny_config())
    positions = sample_positions(config, 1)
    live = (positions.points[..., 0] >= 0).sum(dim=1)
    assert positions.points.dtype == torch.int32
    assert set(live.tolist()) == {1, 2, 3, 4}
    assert (positions.subset.sum(dim=1) >= 2).all()
    assert torch.equal(rules.newton_polytope(positions.points), positions.points)
    assert torch.equal(positions.points, sample_positions(config, 1).points)


@pytest.mark.slow
def test_a_program_of_another_player_is_found_out(trained, tmp_path):
    trainer, player = player_of(trained, "dqn", "host")
    _, other = player_of(trained, "dqn, dueling", "host")
    positions = sample_positions(game_config(trainer.config), 1)
    write_program(tmp_path / "policy.pt2", player, "host", positions)
    assert differing_actions(tmp_path / "policy.pt2", player, "host", FORMAT, positions) == 0
    assert differing_actions(tmp_path / "policy.pt2", other, "host", FORMAT, positions) > 0


# Raw points.


def raw_points(num_points: int, dimension: int) -> Tensor:
    """Return points int64 (B, N, D) as users may have them, the awkward ones first."""
    largest = rules.MAX_COORDINATE
    origin, ones = [0] * dimension, [1] * dimension
    axes = torch.eye(dimension, dtype=torch.int64).tolist()
    above = [[largest - k] * dimension for k in range(num_points)]
    rows = [
        [ones] * num_points,  # one point, again and again
        [[4] * dimension, *above[1:-1], ones],  # all above the last
        [origin, *above[1:]],
        [*above[1:], origin],  # all above the origin
        [[largest, *origin[1:]], [*origin[1:], largest], [largest] * dimension],
        [[largest, *origin[1:]], [largest - 1, *ones[1:]]],
        [[7] * dimension],  # a single point, which ends the game
        [origin],
        [*axes, *axes, ones],
        [],
    ]
    generator = torch.Generator().manual_seed(8)
    empty = [-1] * dimension
    awkward = torch.tensor([(game + [empty] * num_points)[:num_points] for game in rows])
    drawn = torch.cat(
        [
            torch.randint(0, most, (700, num_points, dimension), generator=generator)
            for most in (3, 9, largest + 1)
        ]
    )
    is_empty = torch.rand(drawn.shape[:2], generator=generator) < 0.3
    every = torch.cat([awkward, drawn.masked_fill(is_empty[..., None], -1)])
    order = torch.rand(every.shape[:2], generator=generator).argsort(dim=1)
    return torch.cat([every, every.gather(1, order[..., None].expand_as(every))])


def reduced(points: Tensor) -> Tensor:
    """Return points as the solver reduces them, int32 (B, N, D), row by row."""
    known = torch.full_like(points, -1, dtype=torch.int32)
    for game, rows in zip(known, points.numpy(), strict=True):
        live = np.ascontiguousarray(rows[rows[:, 0] >= 0], dtype=np.int32)
        count = reduce_rows(live, len(live), unrolled(points.shape[-1]))
        game[:count] = torch.from_numpy(live[:count])
    return known


def any_subsets(points: Tensor) -> Tensor:
    """Return a subset bool (B, D) for each game."""
    dimension = points.shape[-1]
    actions = torch.tensor(subset_bits(dimension))
    some = actions[torch.arange(len(points)) % len(actions)]
    return (some[:, None] >> torch.arange(dimension) & 1).bool()


def test_the_solver_and_the_rules_reduce_alike():
    points = raw_points(6, 3)
    assert torch.equal(reduced(points), rules.newton_polytope(points).to(torch.int32))


@pytest.mark.parametrize(
    ("case", "role"),
    [
        ("dqn", "host"),
        ("ppo in five dimensions", "agent"),
        pytest.param("dqn", "agent", marks=pytest.mark.exhaustive),
        pytest.param("ppo in five dimensions", "host", marks=pytest.mark.exhaustive),
    ],
)
def test_the_program_takes_raw_points_of_both_dtypes(trained, tmp_path, case, role):
    trainer, player = player_of(trained, case, role)
    points = raw_points(trainer.config.max_num_points, trainer.config.dimension)
    subset = any_subsets(points)
    wanted = played(trainer, role, reduced(points), subset)
    save_program(tmp_path / "policy.pt2", player, role, FORMAT)
    policy = torch.export.load(tmp_path / "policy.pt2").module()
    for dtype in (torch.int32, torch.int64):
        given = points.to(dtype), subset
        assert torch.equal(policy(*(given if role == "agent" else given[:1])), wanted)
    if (case, role) == ("dqn", "host"):  # these points do tell a policy that does not reduce
        save_program(tmp_path / "older.pt2", player, role, SORTED_POINTS)
        older = torch.export.load(tmp_path / "older.pt2").module()
        assert not torch.equal(older(points.to(torch.int32)), wanted)


def test_running_statistics_are_sliced_as_in_the_programs_of_earlier_bundles(trained):
    """A bundle is certified byte for byte, so other operations would make those before invalid."""
    _, player = player_of(trained, "dqn", "host")
    program = traced(greedy_policy("host", player.net, FORMAT, autocast=True))
    used = {str(node.target) for node in program.graph.nodes}
    assert "aten.slice.Tensor" in used
    assert not used & {"aten.chunk.default", "aten.split.Tensor"}


def test_a_full_disk_is_met_before_torch_writes(trained, tmp_path, monkeypatch):
    """torch's own writer ends the whole process where the disk is full."""

    def full(path, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    written = []
    save = torch.export.save
    monkeypatch.setattr(Path, "write_bytes", full)
    monkeypatch.setattr(torch.export, "save", lambda what, to: (written.append(to), save(what, to)))
    _, player = player_of(trained, "dqn", "host")
    with pytest.raises(OSError, match="No space left"):
        save_program(tmp_path / "policy.pt2", player, "host", FORMAT)
    assert written
    assert tmp_path / "policy.pt2" not in written


@pytest.fixture(scope="module")
def onnx(trained, tmp_path_factory):
    """Return a function role -> the ONNX file of a player of "dqn"."""
    pytest.importorskip("onnxruntime")
    folder = tmp_path_factory.mktemp("onnx")

    @functools.cache
    def write(role: str) -> Path:
        trainer, player = player_of(trained, "dqn", role)
        positions = sample_positions(game_config(trainer.config), 1)
        assert write_onnx(folder / f"{role}.onnx", player, role, positions) is None
        return folder / f"{role}.onnx"

    return write


@pytest.mark.parametrize("role", tried(ROLES, slow=["host"]))
def test_onnx_takes_raw_points(trained, onnx, role):
    import onnxruntime

    trainer, _ = trained("dqn")
    session = onnxruntime.InferenceSession(onnx(role))
    points = raw_points(trainer.config.max_num_points, trainer.config.dimension)
    subset = any_subsets(points)
    wanted = played(trainer, role, reduced(points), subset)
    for dtype in (np.int32, np.int64):
        named = {"points": points.numpy().astype(dtype).astype(np.int64)}
        if role == "agent":
            named["subset"] = subset.numpy()
        answers = torch.from_numpy(session.run(None, named)[0])
        assert torch.equal(answers, wanted)


def test_without_the_packages_of_onnx(trained, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    trainer, player = player_of(trained, "dqn", "host")
    positions = sample_positions(game_config(trainer.config), 1)
    assert write_onnx(tmp_path / "policy.onnx", player, "host", positions) == MISSING
    assert not (tmp_path / "policy.onnx").exists()


def test_what_torch_cannot_write_for_onnx(trained, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")

    def fail(*_: object, **__: object) -> None:
        raise torch.onnx.errors.OnnxExporterError("no such operation")

    monkeypatch.setattr(torch.onnx, "export", fail)
    trainer, player = player_of(trained, "dqn", "host")
    positions = sample_positions(game_config(trainer.config), 1)
    said = write_onnx(tmp_path / "policy.onnx", player, "host", positions)
    assert said == "no ONNX policy of the host: torch cannot write it (no such operation)"


@pytest.mark.slow
def test_an_onnx_policy_of_another_player_is_not_left(trained, onnx, tmp_path, monkeypatch):
    trainer, player = player_of(trained, "dqn, dueling", "host")
    monkeypatch.setattr(programs, "save_onnx", lambda path, *_: shutil.copy(onnx("host"), path))
    positions = sample_positions(game_config(trainer.config), 1)
    said = write_onnx(tmp_path / "policy.onnx", player, "host", positions)
    assert said.startswith("no ONNX policy of the host: onnxruntime plays otherwise on ")
    assert not list(tmp_path.iterdir())

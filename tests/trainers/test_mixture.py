"""A list of opponents: each game draws one by the weights, keeps it, and is played by it."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch

from hpsearch.game.random import uniform
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.opponents import Draws, load_player
from hpsearch.trainers.policies import MixedPolicy, Position, Turn

KEYS = torch.tensor([11, 12, 13])
POOL = {
    "size": 2,
    "at_once": 2,
    "choice": {"mode": "uniform"},
    "sync": {"mode": "fixed", "interval": 1},
    "max_staleness": 9,
}


def drawn(keys: torch.Tensor, starts: torch.Tensor, weights: tuple[float, ...]) -> torch.Tensor:
    draws = Draws(weights, keys, starts.shape[1], torch.arange(starts.shape[1]))
    draws.draw(starts, uniform)
    return draws.opponent.clone()


def test_opponents_come_as_often_as_their_weights_say():
    starts = torch.arange(50).expand(3, 4000, -1).permute(2, 0, 1)
    draws = torch.stack([drawn(KEYS, start, (1.0, 2.0, 5.0)) for start in starts])
    shares = torch.stack([(draws == k).double().mean() for k in range(3)])
    # 600,000 draws: three standard errors of a share of .5 are .002.
    torch.testing.assert_close(
        shares, torch.tensor([0.125, 0.25, 0.625]).double(), atol=0.002, rtol=0
    )


def test_a_draw_depends_on_member_lane_and_start_alone():
    starts = torch.randint(0, 1000, (3, 40), generator=torch.Generator().manual_seed(0))
    weights = (1.0, 1.0, 1.0)
    whole = drawn(KEYS, starts, weights)
    for member in range(3):
        alone = drawn(KEYS[member : member + 1], starts[member : member + 1], weights)
        assert torch.equal(alone[0], whole[member])
    changed = starts.clone()
    changed[:, 7] += 1
    again = drawn(KEYS, changed, weights)
    same = torch.arange(40) != 7
    assert torch.equal(again[:, same], whole[:, same])
    # Neighbouring lanes, starts and members are drawn apart.
    zero = torch.zeros(3, 4000, dtype=torch.int64)
    first, second = drawn(KEYS, zero, weights), drawn(KEYS, zero + 1, weights)
    for draw, other in ((first[0], first[1]), (first, second), (first[:, 1:], first[:, :-1])):
        assert (draw == other).double().mean() == pytest.approx(1 / 3, abs=0.03)


class Always:
    """A player that always makes one choice."""

    def __init__(self, choice: int) -> None:
        self.choice = choice

    def __call__(self, turn):
        return torch.full(turn.position.points.shape[:2], self.choice)


def test_each_game_is_played_by_the_opponent_that_was_drawn_for_it():
    draws = Draws((1.0, 1.0, 1.0), KEYS, 20, torch.arange(20))
    draws.draw(torch.zeros(3, 20, dtype=torch.int64), uniform)
    policy = MixedPolicy((Always(5), Always(6), Always(7)), draws.opponent)
    position = Position.of(torch.zeros(3, 20, 4, 3, dtype=torch.int32))
    assert torch.equal(policy(Turn(position, None, None, None)), draws.opponent + 5)


def test_a_game_keeps_its_opponent(tiny_config, monkeypatch):
    """choose_first answers the lowest coordinate of a subset, choose_last the highest one."""
    agents = [{"player": "choose_first", "weight": 1.0}, {"player": "choose_last", "weight": 1.0}]
    changes = {"agent": None, "opponents": agents, "host.rollout_size": 32}
    trainer = build_trainer([tiny_config(changes)])
    draws, game = trainer.roles.groups[0].draws, trainer.fused_game
    moves, step = [], game.step

    def watched(action, axis):
        moves.append((action, axis, draws.opponent.clone(), game.starts.clone()))
        return step(action, axis)

    monkeypatch.setattr(game, "step", watched)
    trainer.train(20)
    for action, axis, opponent, _ in moves:
        subset = trainer.rollouts.encoder.decode(action).to(torch.uint8)
        first, last = subset.argmax(dim=-1), 2 - subset.flip(-1).argmax(dim=-1)
        assert torch.equal(axis, torch.where(opponent == 0, first, last))
    kept = changed = 0
    for (*_, before, old), (*_, after, new) in pairwise(moves):
        assert torch.equal(before[old == new], after[old == new])
        kept += int((old == new).sum())
        changed += int((before != after).sum())
    assert min(kept, changed) > 100


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_a_list_of_one_is_that_opponent(tiny_config, algorithm):
    listed = {"agent": None, "opponents": [{"player": "random", "weight": 0.3}]}
    trainers = [build_trainer([tiny_config(changes, algorithm)]) for changes in ({}, listed)]
    for trainer in trainers:
        trainer.train(6)
    plain, mixed = (trainer.state() for trainer in trainers)
    assert plain.keys() == mixed.keys()
    assert all(torch.equal(plain[name], mixed[name]) for name in plain)


def test_each_checkpoint_plays_as_it_did(tiny_config, tmp_path):
    paths = []
    for seed in (1, 2):
        trainer = build_trainer([tiny_config({"agent": "learn", "seed": seed})])
        trainer.agent_net.weights.normal_(generator=torch.Generator().manual_seed(seed))
        paths.append(str(trainer.save(tmp_path / str(seed), 0)))
    listed = [{"checkpoint": path, "weight": 1.0} for path in paths]
    changes = {"agent": None, "opponents": listed, "host.rollout_size": 40}
    trainer = build_trainer([tiny_config({**changes, "seed": seed}) for seed in (3, 4)])
    trainer.train(1)
    (table,) = trainer.roles.groups
    generator = torch.Generator().manual_seed(0)
    points = torch.randint(0, 6, (2, 40, 4, 3), generator=generator, dtype=torch.int32)
    position = Position.of(points)
    subset, noise = torch.ones(2, 40, 3, dtype=torch.bool), torch.rand(2, 40, 2)
    played = table.agent(Turn(position, subset, noise, torch.zeros(2, 40)))
    own = [load_player(Path(path), "agent", torch.device("cpu")).policy for path in paths]
    for member in range(2):
        place = Position.of(points[member : member + 1])
        rest = subset[member : member + 1], noise[member : member + 1], torch.zeros(1, 40)
        expected = torch.stack([policy(Turn(place, *rest))[0] for policy in own])
        opponent = table.draws.opponent[member]
        assert torch.equal(played[member], expected.gather(0, opponent[None])[0])
    assert not torch.equal(expected[0], expected[1])  # else any checkpoint would do


def test_snapshots_count_their_own_games_alone(tiny_config, monkeypatch):
    listed = [
        {"player": "random", "weight": 1.0},
        {"player": "learner", "weight": 1.0},
        {"snapshots": {**POOL, "sync": {"mode": "fixed", "interval": 9}}, "weight": 2.0},
    ]
    changes = {"agent": "learn", "opponents": listed, "host.rollout_size": 32}
    trainer = build_trainer([tiny_config(changes)])
    game, step = trainer.fused_game, trainer.fused_game.step
    moves = ended = 0

    def watched(action, axis):
        nonlocal moves, ended
        now = step(action, axis)
        for table in trainer.roles.groups:
            if table.learner.name == "host":
                meets = table.draws.opponent == 2
                moves += int(meets.sum())
                ended += int((meets & now.done[:, table.lanes]).sum())
        return now

    monkeypatch.setattr(game, "step", watched)
    trainer.train(8)
    state = trainer.roles.snapshots["agent"].state()
    assert (int(state["moves"].sum()), int(state["finished"].sum())) == (moves, ended)
    assert ended > 0

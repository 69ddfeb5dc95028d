"""What every training algorithm promises of actors: who plays is no part of the result."""

from dataclasses import replace
from itertools import pairwise, product

import pytest
import torch
from fake_actors import FIXED, FakeActors, trained
from test_ranks import AT_FOUR, NAMES, SHARDED, STEADY, assert_alike
from test_trainers import CASES, members_of
from tried import tried

from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config.rollouts import ActorRollouts
from hpsearch.trainers.policies import log_prob

NUM_STEPS = 12


def configs_of(tiny_config, name: str, how: ActorRollouts) -> list:
    algorithm, _, title = name.partition(": ")
    case = CASES[title][1]
    if title.startswith("residual"):
        case = replace(case, both=case.both | STEADY)
    configs = members_of(tiny_config, algorithm, case, **SHARDED[algorithm])
    return [replace(config, rollouts=how) for config in configs]


@pytest.mark.parametrize(
    ("name", "count"),
    tried(product(NAMES, (2, 4)), slow=[*product(NAMES, (2,)), *product(AT_FOUR, (4,))]),
)
def test_all_in_step_come_to_what_one_process_comes_to(tiny_config, name, count):
    configs = configs_of(tiny_config, name, replace(FIXED, actors=count))
    alone, together = trained(configs, None), trained(configs, FakeActors(count))
    assert_alike(together.state(), alone.state())
    assert together.games_ended() == alone.games_ended()
    assert {part.age for part in together.actor_games.parts} == {0}
    assert not any(part.played_here or part.too_old for part in together.actor_games.parts)
    numbers, expected = together.statistics(), alone.statistics()
    assert numbers.keys() == expected.keys()
    for key, number in expected.items():
        torch.testing.assert_close(numbers[key], number, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_what_changes_the_members_reaches_the_actors(tiny_config, algorithm):
    """New members, another reward, and only some of them: as where one process plays."""
    configs = configs_of(tiny_config, f"{algorithm}: now, earlier and scripted", FIXED)
    states = []
    for actors in (None, FakeActors(2)):
        trainer = trained(configs, actors, 4)
        trainer.begin(1, replace(configs[1], seed=77))
        trainer.train(3)
        trainer.replace_reward_func("step_penalty")
        trainer.train(3)
        trainer = trainer.select([0, 2])
        trainer.train(3)
        states.append(trainer.state())
    assert_alike(states[1], states[0])


@pytest.mark.parametrize(
    ("changes", "ages"),
    [
        ({"sync_interval": 3, "max_staleness": 2}, [0, 1, 2, 0, 1, 2]),
        # A rollout waits while the actor plays the next one: it has learned nothing of it yet.
        ({"sync_style": "dynamic_by_trainer", "max_staleness": 1}, [0, 1, 1, 1, 1, 1]),
        ({"sync_style": "dynamic_by_trainer", "max_staleness": 3}, [0, 1, 2, 3, 3, 3]),
        ({"sync_style": "dynamic_by_explorer", "max_staleness": 3}, [0, 1, 2, 3, 3, 3]),
    ],
)
def test_how_old_the_weights_are_that_played(tiny_config, changes, ages):
    how = replace(FIXED, actors=1, **changes)
    trainer = build_trainer(configs_of(tiny_config, "ppo: plain host", how), actors=FakeActors(1))
    seen = []
    for _ in ages:
        trainer.train(1)
        seen.append(trainer.actor_games.parts[0].age)
    assert seen == ages
    assert trainer.actor_games.parts[0].too_old == 0


def test_what_is_played_by_weights_that_are_too_old_is_played_again(tiny_config):
    how = replace(FIXED, actors=1, sync_style="dynamic_by_trainer")
    trainer = build_trainer(configs_of(tiny_config, "ppo: plain host", how), actors=FakeActors(1))
    for _ in range(4):
        trainer.train(1)
        assert trainer.actor_games.parts[0].age == 0
    assert trainer.actor_games.parts[0].too_old == 3  # of all after the first step


def test_newer_weights_wait_until_the_last_ones_have_been_read(tiny_config):
    how = replace(FIXED, actors=1, sync_style="dynamic_by_trainer", max_staleness=4)
    actors = FakeActors(1)
    (actor,) = actors.actors
    trainer = build_trainer(configs_of(tiny_config, "ppo: plain host", how), actors=actors)
    for is_read, versions in ((True, []), (False, []), (False, []), (True, [3]), (True, [3, 4])):
        actor.has_weights = is_read
        trainer.train(1)
        assert actor.versions == versions
        (part,) = trainer.actor_games.parts
        assert (part.state == "require_sync") is not is_read


def test_an_action_is_as_likely_as_by_the_policy_that_drew_it(tiny_config):
    how = replace(FIXED, actors=1, sync_style="dynamic_by_trainer", max_staleness=1)
    trainer = build_trainer(configs_of(tiny_config, "ppo: plain host", how), actors=FakeActors(1))
    (group,) = trainer.roles.groups
    learner, versions = group.learner, []
    for step in range(4):
        versions.append(learner.net.weights.clone())
        trainer.train(1)
        (rollout,) = trainer._played
        moves = trainer._moves(group, rollout)
        now = learner.net.weights.clone()
        for version in (step - trainer.actor_games.parts[0].age, step):
            learner.net.weights.copy_(versions[version])
            expected = log_prob(learner.net(moves.features), moves.legal, moves.action)
            is_by_it = torch.allclose(moves.log_prob, expected, atol=1e-5)
            assert is_by_it == (version == max(0, step - 1))
        learner.net.weights.copy_(now)


@pytest.mark.parametrize(
    ("style", "strategy"),
    [
        (style, strategy)
        for style in ("fixed", "dynamic_by_trainer", "dynamic_by_explorer")
        for strategy in ("fifo", "uniform", "recent")
        if (style, strategy) != ("fixed", "recent")
    ],
)
def test_no_target_reaches_across_what_was_not_learned_from(tiny_config, style, strategy):
    """Either a game's next move follows in memory, or it is noted that it is not known."""
    how = replace(
        FIXED, sync_style=style, sync_interval=2, max_staleness=3, sample_strategy=strategy
    )
    configs = configs_of(tiny_config, "dqn: n-step, prioritised, dueling", how)
    configs = [replace_buffer(config) for config in configs]
    trainer = build_trainer(configs, actors=FakeActors(2))
    moves = []
    learner = trainer.learners[0]
    add = learner.replay_buffer.add
    learner.replay_buffer.add = lambda seen: (moves.append(seen), add(seen))
    for _ in range(NUM_STEPS):
        trainer.train(1)
        assert max(part.age for part in trainer.actor_games.parts) <= how.max_staleness
    lasts = learner.replay_buffer.state()["last"]  # (P, S * R)
    num_games = moves[0].reward.shape[1]
    lasts = lasts.view(len(moves[0].reward), -1)
    broken = 0
    for number, (move, after) in enumerate(pairwise(moves)):
        goes_on = (move.next_points == after.points).flatten(2).all(dim=2)
        is_known = ~lasts[:, number * num_games : (number + 1) * num_games]
        assert (goes_on | move.done | ~is_known).all()
        broken += int((~is_known & ~move.last).sum())
    assert (broken > 0) == (strategy != "fifo")
    dropped = sum(part.too_old for part in trainer.actor_games.parts)
    assert dropped == 0 if strategy == "fifo" else dropped > 0 or strategy == "uniform"


def replace_buffer(config):
    """Let the memory hold every move, so that each stays where it was added."""
    return replace(config, replay_buffer=replace(config.replay_buffer, buffer_size=1200))

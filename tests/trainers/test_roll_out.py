"""What is played and remembered, against the rules in plain Python."""

from dataclasses import replace

import pytest
import torch

from hpsearch.trainers.algorithms import build
from hpsearch.trainers.transitions import Transitions

SUBSETS = ((0, 1), (0, 2), (1, 2), (0, 1, 2))
ALWAYS, NEVER = 1.0, 0.0


def minimal(points) -> set[tuple[int, ...]]:
    points = {tuple(row) for row in points if row[0] >= 0}
    return {
        p
        for p in points
        if not any(q != p and all(a <= b for a, b in zip(q, p, strict=True)) for q in points)
    }


def moved(points, subset, axis) -> set[tuple[int, ...]]:
    """Return the position after a move: shifted, reduced, each minimum subtracted."""
    shifted = []
    for row in points:
        if row[0] >= 0:
            new = list(row)
            new[axis] = sum(row[k] for k in subset)
            shifted.append(new)
    lowest = [min(column) for column in zip(*minimal(shifted), strict=True)]
    return {tuple(c - m for c, m in zip(p, lowest, strict=True)) for p in minimal(shifted)}


def rates(host: float, agent: float) -> dict[str, object]:
    constant = {"mode": "constant"}
    changes = {"agent": "learn", "host.er": host, "host.er_schedule": constant}
    return {**changes, "agent.er": agent, "agent.er_schedule": constant}


def play(trainer, moves: int) -> None:
    """Play and remember."""
    for _ in range(moves):
        for learner, seen in zip(trainer.learners, trainer._roll_out(), strict=True):
            learner.replay_buffer.add(seen)


def stored(learner):
    """Yield each stored transition of every member as Python numbers."""
    state = learner.replay_buffer.state()
    rings = {name: state[name] for name in Transitions._fields}
    for member, added in enumerate(state["added"].tolist()):
        for place in range(min(added, learner.replay_buffer.size)):
            yield {name: ring[member, place].tolist() for name, ring in rings.items()}


def check_rules(name, moves) -> int:
    """Check every move that the role ``name`` saw and return how many there are."""
    count = 0
    for seen in moves:
        count += 1
        subset = SUBSETS[seen["subset"]]
        if name == "host":
            assert seen["action"] == seen["subset"]
            axes, reward = subset, 1.0
        else:
            assert seen["action"] in subset  # no illegal action, explored or not
            axes, reward = [seen["action"]], -1.0
        nexts = [moved(seen["points"], subset, axis) for axis in axes]
        reached = {tuple(row) for row in seen["next_points"] if row[0] >= 0}
        assert reached in nexts
        assert seen["done"] == (len(reached) == 1)
        assert seen["reward"] == (reward if seen["done"] else 0.0)
        assert not (seen["truncated"] and seen["done"])
        assert len(minimal(seen["points"])) > 1  # a finished game is not played on
    return count


def populations():
    yield "host learns", {"agent": {"player": "random"}}
    yield "host learns, first", {"agent": {"player": "choose_first"}}
    for host in ("random", "random_pair", "all_coord", "zeillinger"):
        yield f"agent learns, {host}", {"agent": "learn", "host": {"player": host}}
    yield "both learn", {"agent": "learn"}


CASES = dict(populations())


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_every_remembered_transition_is_a_legal_move(tiny_config, changes):
    trainer = build([tiny_config({**changes, "seed": seed}) for seed in (1, 2)])
    trainer.train(4)
    for learner in trainer.learners:
        assert check_rules(learner.name, stored(learner)) == 2 * 40  # a full ring each


@pytest.mark.parametrize(("host", "agent"), [(ALWAYS, NEVER), (NEVER, ALWAYS), (ALWAYS, ALWAYS)])
def test_players_that_always_explore_stay_legal(tiny_config, host, agent):
    trainer = build([tiny_config(rates(host, agent))])
    trainer.train(4)
    counts = [check_rules(learner.name, stored(learner)) for learner in trainer.learners]
    assert counts == [40, 40]


def test_a_role_explores_in_its_own_games_alone(tiny_config):
    trainer = build([tiny_config(rates(ALWAYS, ALWAYS))])
    play(trainer, 4)
    greedy_hosts, greedy_agents = greedy(trainer)
    hosts = [seen["subset"] for seen in stored(trainer.agent)]
    assert hosts == greedy_hosts(trainer.agent, "points")
    assert [seen["action"] for seen in stored(trainer.host)] != greedy_hosts(trainer.host, "points")
    assert [seen["action"] for seen in stored(trainer.agent)] != greedy_agents(trainer.agent)


def test_the_agents_next_subset_is_the_one_it_will_meet(tiny_config):
    """The host's greedy choice, whatever rate anybody explores with (seeds.md B3)."""
    trainer = build([tiny_config(rates(ALWAYS, ALWAYS))])
    play(trainer, 4)
    hosts = [seen["next_subset"] for seen in stored(trainer.agent)]
    assert hosts == greedy(trainer)[0](trainer.agent, "next_points")


def greedy(trainer):
    """Return functions to the greedy actions at what a learner remembers."""

    def observation(learner, field):
        count = int(learner.replay_buffer.added.clamp(max=learner.replay_buffer.size)[0])
        points = learner.replay_buffer.state()[field][:, :count]
        return trainer.kernel.observe(points)

    def hosts(learner, field):
        return trainer.host_net(observation(learner, field)).argmax(2)[0].tolist()

    def agents(learner):
        seen = list(stored(learner))
        subset = torch.tensor([[[k in SUBSETS[s["subset"]] for k in range(3)] for s in seen]])
        features = torch.cat([observation(learner, "points"), subset.float()], dim=2)
        values = trainer.agent_net(features)[0].tolist()
        return [
            max(SUBSETS[s["subset"]], key=v.__getitem__) for s, v in zip(seen, values, strict=True)
        ]

    return hosts, agents


def test_schedules_move_inside_one_call_of_train(tiny_config):
    """seeds.md B4: each step has the rates of its own number."""
    changes = {
        "learning_starts": 0,
        "updates_per_step": 1,
        "rollout_length": 1,
        "host.er": 0.25,
        "host.er_schedule": {"mode": "linear", "initial": 1.0, "steps": 4},
        "host.optim.args.lr": 1e-4,
        "host.optim.lr_schedule": {"mode": "linear", "initial": 1e-3, "steps": 3},
    }
    trainer = build([tiny_config(changes)])
    lrs, ers = [], []
    (table,) = trainer.tables
    optimizer_step, host_policy = trainer.host.optimizer.step, table.host

    def step(weights, gradients, lr, active):
        lrs.append(lr.item())
        optimizer_step(weights, gradients, lr=lr, active=active)

    def policy(points, noise, exploration):
        ers.append(exploration[0, 0].item())
        return host_policy(points, noise, exploration)

    trainer.host.optimizer.step = step
    trainer.tables = (replace(table, host=policy),)
    trainer.train(6)
    assert lrs == pytest.approx([1e-3, 7e-4, 4e-4, 1e-4, 1e-4, 1e-4])
    assert ers == pytest.approx([1.0, 0.8125, 0.625, 0.4375, 0.25, 0.25])


# Both algorithms: what `_roll_out` returns.

POOL = {
    "size": 3,
    "at_once": 2,
    "choice": {"mode": "uniform"},
    "sync": {"mode": "fixed", "interval": 1},
    "max_staleness": 3,
}
BOTH_ALGORITHMS = pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
MORE_CASES = {**CASES, "both learn, a pool": {"agent": "learn", "opponents": POOL}}


def as_python(seen):
    """Yield each transition of every member as Python numbers."""
    members, games = seen.action.shape
    for member in range(members):
        for game in range(games):
            yield {name: t[member, game].tolist() for name, t in seen._asdict().items()}


@BOTH_ALGORITHMS
@pytest.mark.parametrize("changes", MORE_CASES.values(), ids=MORE_CASES)
def test_every_move_that_is_learned_from_is_legal(tiny_config, changes, algorithm):
    configs = [tiny_config({**changes, "seed": seed}, algorithm) for seed in (1, 2)]
    trainer = build(configs)
    for _ in range(3):
        trainer.train(1)
        for learner, seen in zip(trainer.learners, trainer._roll_out(), strict=True):
            assert check_rules(learner.name, as_python(seen)) == 2 * 8
            assert (learner.name == "host") == torch.equal(seen.action, seen.subset)
            legal = trainer.legal(learner, seen.subset)
            assert legal.gather(2, seen.action[..., None]).all()


@BOTH_ALGORITHMS
def test_a_game_is_cut_off_after_max_steps_and_goes_on_until_then(tiny_config, algorithm):
    changes = {"agent": "learn", "host": {"player": "all_coord"}, "max_steps": 3}
    trainer = build([tiny_config(changes, algorithm)])
    lengths, cut = [0] * 8, 0
    previous = [None] * 8
    for _ in range(12):
        (seen,) = trainer._roll_out()
        for game, move in enumerate(as_python(seen)):
            if lengths[game]:
                assert move["points"] == previous[game]
            lengths[game] += 1
            assert move["truncated"] == (lengths[game] == 3 and not move["done"])
            cut += move["truncated"]
            previous[game] = move["next_points"]
            if move["done"] or move["truncated"]:
                lengths[game] = 0
    assert cut > 5


@BOTH_ALGORITHMS
def test_the_same_seed_gives_the_same_moves_and_another_others(tiny_config, algorithm):
    def played(seed):
        trainer = build([tiny_config({"agent": "learn", "seed": seed}, algorithm)])
        trainer.train(2)
        return [tensor for seen in trainer._roll_out() for tensor in seen]

    first, again, other = played(1), played(1), played(2)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])


@pytest.mark.parametrize("reward", ["terminal", "step_penalty", "points_removed"])
def test_rewards_are_of_zero_sum(tiny_config, reward):
    """The agent gets the host's reward with the other sign, each in its own games."""
    trainer = build([tiny_config({"agent": "learn", "reward": reward})])

    def live(points):
        return sum(row[0] >= 0 for row in points)

    for _ in range(4):
        for learner, seen in zip(trainer.learners, trainer._roll_out(), strict=True):
            sign = 1.0 if learner.name == "host" else -1.0
            for move in as_python(seen):
                expected = {
                    "terminal": float(move["done"]),
                    "step_penalty": -1.0,
                    "points_removed": (live(move["points"]) - live(move["next_points"])) / 4,
                }[reward]
                assert move["reward"] == sign * expected

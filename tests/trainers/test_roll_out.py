"""What is played and remembered, against the rules in plain Python."""

from collections import defaultdict
from dataclasses import replace

import pytest
import torch
from batches import drawn

from hpsearch.game import rules
from hpsearch.game.random import uniform
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.policies import LearnedPolicy
from hpsearch.trainers.ranks import Ranks, Shards
from hpsearch.trainers.replay_buffer import ReplayBuffer

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


@pytest.fixture
def remembered(monkeypatch):
    """Return by buffer what was added to it."""
    added = defaultdict(list)
    add = ReplayBuffer.add

    def watched(buffer, seen):
        added[buffer].append(seen)
        add(buffer, seen)

    monkeypatch.setattr(ReplayBuffer, "add", watched)
    return added


def play(trainer, moves: int) -> None:
    """Play and remember."""
    for _ in range(moves):
        trainer._play()


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
def test_every_remembered_move_is_a_legal_one(tiny_config, changes, remembered):
    trainer = build_trainer([tiny_config({**changes, "seed": seed}) for seed in (1, 2)])
    trainer.train(4)
    for learner in trainer.learners:
        moves = remembered[learner.replay_buffer]
        assert check_rules(learner.name, many_as_python(moves)) == 2 * 64


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_what_is_drawn_is_what_was_seen(tiny_config, changes, remembered):
    """Each position that a move led to is found in the same game's next move."""
    trainer = build_trainer([tiny_config({**changes, "seed": seed}) for seed in (1, 2)])
    trainer.train(3)
    for learner in trainer.learners:
        batch = drawn(trainer, learner, 60)
        assert batch.known.all()
        for member in range(2):
            moves = [m for seen in remembered[learner.replay_buffer] for m in seen_by(seen, member)]
            for place in range(60):
                check_drawn(moves, {n: t[member, place] for n, t in batch._asdict().items()})


def check_drawn(moves, drawn) -> None:
    """Check that something that was seen is what was drawn."""
    transitions = [
        move
        for move in moves
        if starts_with(move["observation"], drawn["observation"])
        and (move["subset"], move["action"]) == (drawn["subset"], drawn["action"])
        and move["reward"] == drawn["reward"]
    ]
    assert transitions
    if drawn["discount"]:
        assert any(
            starts_with(transition["next_observation"], drawn["next_observation"])
            for transition in transitions
        )
    else:
        assert all(transition["done"] for transition in transitions)


def starts_with(observation, beginning) -> bool:
    return observation[: len(beginning)] == beginning.tolist()


def seen_by(seen, member):
    """Yield the moves of one member as Python numbers."""
    for game in range(seen.action.shape[1]):
        yield {name: tensor[member, game].tolist() for name, tensor in seen._asdict().items()}


def many_as_python(moves):
    for seen in moves:
        yield from as_python(seen)


@pytest.mark.parametrize(("host", "agent"), [(ALWAYS, NEVER), (NEVER, ALWAYS), (ALWAYS, ALWAYS)])
def test_players_that_always_explore_stay_legal(tiny_config, host, agent, remembered):
    trainer = build_trainer([tiny_config(rates(host, agent))])
    trainer.train(4)
    for learner in trainer.learners:
        moves = remembered[learner.replay_buffer]
        assert check_rules(learner.name, many_as_python(moves)) == 64


def test_a_role_explores_in_its_own_games_alone(tiny_config, remembered):
    trainer = build_trainer([tiny_config(rates(ALWAYS, ALWAYS))])
    play(trainer, 4)
    of_host, of_agent = (Seen(trainer, remembered, learner) for learner in trainer.learners)
    assert of_agent.all("subset") == of_agent.greedy_hosts()
    assert of_host.all("action") != of_host.greedy_hosts()
    assert of_agent.all("action") != of_agent.greedy_agents()


def test_the_agents_next_subset_is_the_one_it_will_meet(tiny_config):
    """The host's greedy choice, whatever rate the roles explore with (seeds.md B3)."""
    trainer = build_trainer([tiny_config(rates(ALWAYS, ALWAYS))])
    _, seen = next(trainer.rollouts.play(1, looks_ahead=True))
    greedy = trainer.host_net(trainer.rollouts.kernel.observe(seen.next_points)).argmax(2)
    assert torch.equal(seen.next_subset, greedy)


def test_the_agents_next_subset_in_memory_is_the_one_it_met(tiny_config, remembered):
    trainer = build_trainer([tiny_config(rates(ALWAYS, ALWAYS))])
    play(trainer, 4)
    subsets = Seen(trainer, remembered, trainer.agent).all("subset")
    batch = drawn(trainer, trainer.agent, 100)
    for place, after in zip(batch.places[0].tolist(), batch.next_subset[0].tolist(), strict=True):
        # 64 moves in a ring of 40 places and those of the newest 8.
        number = place + 48 if place + 48 < 64 else place
        assert after == subsets[number + 8]


class Seen:
    """All that a learner of one member has seen, and the greedy actions there."""

    def __init__(self, trainer, remembered, learner):
        self.trainer = trainer
        self.moves = list(many_as_python(remembered[learner.replay_buffer]))
        points = torch.tensor([[move["points"] for move in self.moves]], dtype=torch.int32)
        self.observation = rules.observe(points)

    def all(self, name):
        return [move[name] for move in self.moves]

    def greedy_hosts(self):
        return self.trainer.host_net(self.observation).argmax(2)[0].tolist()

    def greedy_agents(self):
        subsets = [SUBSETS[move["subset"]] for move in self.moves]
        subset = torch.tensor([[[k in subset for k in range(3)] for subset in subsets]])
        features = torch.cat([self.observation, subset.float()], dim=2)
        values = self.trainer.agent_net(features)[0].tolist()
        return [max(s, key=v.__getitem__) for s, v in zip(subsets, values, strict=True)]


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
    trainer = build_trainer([tiny_config(changes)])
    lrs, ers = [], []
    (table,) = trainer.roles.groups
    optimizer_step = trainer.host.optimizer.step

    def step(weights, update, target):
        lrs.append(update.lr.item())
        optimizer_step(weights, update, target)

    class WatchedPolicy(LearnedPolicy):
        def _choose(self, turn, values, legal):
            ers.append(turn.exploration[0, 0].item())
            return super()._choose(turn, values, legal)

    trainer.host.optimizer.step = step
    trainer.roles.groups = (
        replace(table, host=WatchedPolicy(table.host.net, table.host.plays_by)),
    )
    trainer.train(6)
    assert lrs == pytest.approx([1e-3, 7e-4, 4e-4, 1e-4, 1e-4, 1e-4])
    assert ers == pytest.approx([1.0, 0.8125, 0.625, 0.4375, 0.25, 0.25])


# Both algorithms: what `Rollouts.play` returns.

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
    trainer = build_trainer(configs)
    for _ in range(3):
        trainer.train(1)
        for learner, seen in zip(
            trainer.learners, next(trainer.rollouts.play(1, looks_ahead=True)), strict=True
        ):
            assert check_rules(learner.name, as_python(seen)) == 2 * 8
            assert (learner.name == "host") == torch.equal(seen.action, seen.subset)
            assert torch.equal(seen.observation, rules.observe(seen.points))
            assert torch.equal(seen.next_observation, rules.observe(seen.next_points))
            legal = learner.legal(seen.subset)
            assert legal.gather(2, seen.action[..., None]).all()


def test_each_choice_of_a_move_has_random_numbers_of_its_own(tiny_config, monkeypatch):
    trainer = build_trainer([tiny_config({"agent": "learn", "seed": seed}) for seed in (1, 2)])
    stream, heard, choose = trainer.rollouts._stream, [], LearnedPolicy.with_log_prob
    numbers = uniform(stream.keys, stream.counters, 16 * 6).view(2, 16, 3, 2)

    def hear(policy, turn):
        heard.append(turn.noise)
        return choose(policy, turn)

    monkeypatch.setattr(LearnedPolicy, "with_log_prob", hear)
    next(trainer.rollouts.play(1, looks_ahead=True))
    of_host, of_agent = numbers[:, :8], numbers[:, 8:]
    expected = [of_host[:, :, 0], of_host[:, :, 1], *of_agent.unbind(2)]
    assert all(torch.equal(*pair) for pair in zip(heard, expected, strict=True))


@BOTH_ALGORITHMS
def test_a_game_is_cut_off_after_max_steps_and_goes_on_until_then(tiny_config, algorithm):
    changes = {"agent": "learn", "host": {"player": "all_coord"}, "max_steps": 3}
    trainer = build_trainer([tiny_config(changes, algorithm)])
    lengths, cut = [0] * 8, 0
    previous = [None] * 8
    for _ in range(12):
        (seen,) = next(trainer.rollouts.play(1, looks_ahead=True))
        for game, move in enumerate(as_python(seen)):
            if lengths[game]:
                assert move["points"] == previous[game]
            lengths[game] += 1
            assert move["truncated"] == (lengths[game] == 3 and not move["done"])
            assert move["last"] == (lengths[game] == 3)
            cut += move["truncated"]
            previous[game] = move["next_points"]
            if move["done"] or move["truncated"]:
                lengths[game] = 0
    assert cut > 5


@BOTH_ALGORITHMS
def test_the_same_seed_gives_the_same_moves_and_another_others(tiny_config, algorithm):
    def played(seed):
        trainer = build_trainer([tiny_config({"agent": "learn", "seed": seed}, algorithm)])
        trainer.train(2)
        (moves,) = trainer.rollouts.play(1, looks_ahead=True)
        return [tensor for seen in moves for tensor in seen]

    first, again, other = played(1), played(1), played(2)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])


@BOTH_ALGORITHMS
def test_several_moves_are_those_of_one_after_another(tiny_config, algorithm):
    configs = [tiny_config({"agent": "learn", "seed": seed}, algorithm) for seed in (1, 2)]
    together, one_by_one = build_trainer(configs), build_trainer(configs)
    for moves in together.rollouts.play(5, looks_ahead=True):
        (expected,) = one_by_one.rollouts.play(1, looks_ahead=True)
        for seen, other in zip(moves, expected, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(seen, other, strict=True))


@pytest.mark.parametrize("reward", ["terminal", "step_penalty", "points_removed"])
def test_rewards_are_of_zero_sum(tiny_config, reward):
    """The agent gets the host's reward with the other sign, each in its own games."""
    trainer = build_trainer([tiny_config({"agent": "learn", "reward": reward})])

    def live(points):
        return sum(row[0] >= 0 for row in points)

    for _ in range(4):
        for learner, seen in zip(
            trainer.learners, next(trainer.rollouts.play(1, looks_ahead=True)), strict=True
        ):
            sign = 1.0 if learner.name == "host" else -1.0
            for move in as_python(seen):
                expected = {
                    "terminal": float(move["done"]),
                    "step_penalty": -1.0,
                    "points_removed": (live(move["points"]) - live(move["next_points"])) / 4,
                }[reward]
                assert move["reward"] == sign * expected


@pytest.mark.parametrize("num_groups", [1, 3])
def test_ranks_share_the_lanes_out(num_groups):
    cpu = torch.device("cpu")
    of_one = Shards.of(4, Ranks(0, 1)).lanes(24, num_groups, cpu)
    assert of_one.tolist() == list(range(24))
    of_two = [Shards.of(4, Ranks(rank, 2)).lanes(24, num_groups, cpu) for rank in range(2)]
    assert torch.cat(of_two).sort().values.tolist() == list(range(24))
    for lanes in of_two:  # as many in each group of games
        assert lanes.unflatten(0, (num_groups, -1)).tolist() == [
            [lane for lane in lanes.tolist() if lane * num_groups // 24 == group]
            for group in range(num_groups)
        ]


def test_a_number_of_ranks_that_does_not_divide_the_shards_is_an_error(tiny_config):
    sentence = (
        "the number of ranks must divide shards=1, but is 3; shards is a key of the trainer's"
    )
    with pytest.raises(ValueError, match=sentence):
        build_trainer([tiny_config()], Ranks(1, 3))

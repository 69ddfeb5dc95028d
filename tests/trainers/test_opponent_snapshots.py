"""Snapshots of opponents: when they are taken, which is met, and that they stay the same."""

import pytest
import torch
from scipy.stats import chisquare

from hpsearch.game.stream import Stream
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config.net_arch import parse
from hpsearch.trainers.config.players import (
    DynamicSync,
    FixedSync,
    FlattenEncoder,
    OpponentPool,
    PrioritisedChoice,
    UniformChoice,
)
from hpsearch.trainers.config.weight_layout import Inputs, Tower
from hpsearch.trainers.networks import Arithmetic, Network
from hpsearch.trainers.opponents import Snapshots

NUM_MEMBERS, GAMES = 2, 8
UNIFORM = UniformChoice("uniform")


def network() -> Network:
    """Return a network whose weights all say the step, once `at` has set them."""
    tower = Tower(FlattenEncoder("flatten", 2), parse(["b", 4]), "relu", 3, "uniform", 1.0, False)
    keys = torch.arange(NUM_MEMBERS)
    inputs = Inputs(num_points=2, dimension=3, num_more=0)
    return Network(inputs, [tower], Arithmetic("fp32", "off"), Stream(keys, keys * 0))


def at(net: Network, step: int) -> Network:
    net.weights.fill_(float(step))
    net.statistics.fill_(step + 0.5)
    return net


def steps(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers)


def pool(sync, choice=UNIFORM, size=3, at_once=2, max_staleness=100) -> OpponentPool:
    return OpponentPool(size, at_once, choice, sync, max_staleness)


def snapshots(options, role="host", net=None) -> Snapshots:
    keys = torch.arange(NUM_MEMBERS) + 5
    return Snapshots(role, net or at(network(), 0), [options] * NUM_MEMBERS, keys)


def fixed(interval: int) -> FixedSync:
    return FixedSync("fixed", interval)


def kept(taken: torch.Tensor) -> list[set[int]]:
    return [set(row.tolist()) - {-1} for row in taken]


# When snapshots are taken.


@pytest.mark.parametrize("interval", [1, 2, 3, 5])
def test_fixed_sync_takes_one_every_so_many_steps(interval):
    net, opponents = network(), snapshots(pool(fixed(interval)))
    taken = [0]
    for step in range(1, 20):
        opponents.sync(at(net, step), steps(step, step))
        if step % interval == 0:
            taken.append(step)
        assert kept(opponents.taken) == [set(taken[-3:])] * 2  # the last three


def test_what_is_met_is_the_network_as_it_was():
    """Weights and running statistics, of the step that `taken` says."""
    net, opponents = network(), snapshots(pool(fixed(2), at_once=4))
    assert torch.equal(opponents.net.weights, torch.zeros(8, net.weights.shape[1]))
    before = opponents.taken.gather(1, opponents.met).flatten()
    for step in range(1, 15):
        opponents.sync(at(net, step), steps(step, step))
        met = opponents.taken.gather(1, opponents.met).flatten()
        assert torch.equal(
            opponents.net.weights, met[:, None].float().expand_as(opponents.net.weights)
        )
        expected = (met[:, None] + 0.5).expand_as(opponents.net.statistics)
        assert torch.equal(opponents.net.statistics, expected)
        if step % 2:  # the one that is met stays until the next look
            assert torch.equal(met, before)
        before = met.clone()


def test_members_take_at_their_own_steps():
    net, opponents = network(), snapshots(pool(fixed(4)))
    for step in range(1, 9):
        opponents.sync(at(net, step), steps(step, step + 2))
    assert kept(opponents.taken) == [{0, 4, 8}, {0, 4, 8}]
    weights = opponents.state()["weights"][:, :, 0]
    by_step = dict(zip(opponents.taken[1].tolist(), weights[1].tolist(), strict=True))
    assert by_step == {0: 0.0, 4: 2.0, 8: 6.0}  # the second member is two steps ahead


def feed(opponents, *finished: int) -> None:
    """Let ten moves of eight own games go by, in which so many games of each member ended."""
    for move in range(10):
        done = torch.zeros(NUM_MEMBERS, GAMES, dtype=torch.bool)
        for member, number in enumerate(finished):
            done[member, : min(GAMES, max(0, number - move * GAMES))] = True
        opponents.count_own(done)


@pytest.mark.parametrize("role", ["host", "agent"])
def test_dynamic_sync_takes_one_when_the_role_has_become_better(role):
    """Host: rho from 20/80 by a quarter up to 25/80; agent: down to 16/80. Others wait."""
    better, worse, nearly = (25, 16, 24) if role == "host" else (16, 25, 17)
    options = pool(DynamicSync("dynamic", 2, 0.25))
    net, opponents = network(), snapshots(options, role)
    feed(opponents, 20, 20)  # the first look sets what later ones are compared with
    opponents.sync(at(net, 2), steps(2, 2))
    assert kept(opponents.taken) == [{0}, {0}]
    feed(opponents, nearly, worse)
    opponents.sync(at(net, 4), steps(4, 4))
    assert kept(opponents.taken) == [{0}, {0}]
    feed(opponents, better, better)
    opponents.sync(at(net, 5), steps(5, 5))  # no look
    assert kept(opponents.taken) == [{0}, {0}]
    opponents.sync(at(net, 6), steps(6, 6))
    assert kept(opponents.taken) == [{0, 6}, {0, 6}]
    # From here it is compared with the new one: the same results are no improvement any more.
    for step in (8, 10, 12):
        feed(opponents, better, nearly)
        opponents.sync(at(net, step), steps(step, step))
        assert kept(opponents.taken) == [{0, 6}, {0, 6}]


def test_dynamic_sync_forgets_counts_at_every_look():
    """A good stretch before the look does not lift a bad one after it."""
    options = pool(DynamicSync("dynamic", 1, 0.5))
    net, opponents = network(), snapshots(options)
    feed(opponents, 10, 10)
    opponents.sync(at(net, 1), steps(1, 1))
    feed(opponents, 14, 14)
    opponents.sync(at(net, 2), steps(2, 2))
    feed(opponents, 14, 16)
    opponents.sync(at(net, 3), steps(3, 3))
    assert kept(opponents.taken) == [{0}, {0, 3}]


def test_dynamic_sync_takes_one_all_the_same_before_the_newest_grows_stale():
    options = pool(DynamicSync("dynamic", 2, 0.25), max_staleness=7)
    net, opponents = network(), snapshots(options)
    for step in range(1, 25):
        feed(opponents, 20, 20)
        assert (opponents.staleness(steps(step, step)) <= 7).all()
        opponents.sync(at(net, step), steps(step, step))
    # A look at 6 sees that by the next one, at 8, the snapshot would be older than 7.
    assert kept(opponents.taken) == [{12, 18, 24}] * 2


# Which snapshot is met.


@pytest.mark.parametrize("max_staleness", [3, 4, 7, 100])
@pytest.mark.parametrize("interval", [1, 3])
def test_no_member_meets_a_stale_snapshot(interval, max_staleness):
    """Staleness is the age of what is met, at every step between two looks."""
    options = pool(fixed(interval), size=5, max_staleness=max_staleness)
    net, opponents = network(), snapshots(options)
    oldest = 0
    for step in range(1, 40):
        stale = opponents.staleness(steps(step, step))
        ages = step - opponents.taken.gather(1, opponents.met)
        assert torch.equal(stale, ages)
        assert (stale <= max_staleness).all()
        oldest = max(oldest, int(stale.max()))
        opponents.sync(at(net, step), steps(step, step))
    assert oldest == min(max_staleness - max_staleness % interval, 5 * interval)


def met_often(options, role, results, looks=800):
    """Return how often each snapshot, by its step, is met in many looks that take nothing."""
    net, opponents = network(), snapshots(options, role)
    for step in (1, 2, 3):
        opponents.sync(at(net, step), steps(step, step))
    counts = {step: [0, 0] for step in (1, 2, 3)}
    taken = opponents.taken.clone()
    by_place = {place: step for place, step in enumerate(taken[0].tolist())}
    for look in range(looks):
        opponents.taken.copy_(taken)
        opponents.result.copy_(
            torch.tensor([[results[by_place[place]] for place in range(3)]]).expand(2, -1)
        )
        opponents._is_due = lambda look, step: torch.zeros_like(look)
        opponents.sync(net, steps(4 + look, 4 + look))
        for member in range(NUM_MEMBERS):
            for place in opponents.met[member].tolist():
                counts[by_place[place]][member] += 1
    return counts


def test_a_uniform_choice_meets_all_alike():
    counts = met_often(pool(fixed(1), max_staleness=10_000), "host", {1: 0.1, 2: 0.5, 3: 0.01})
    for member in range(NUM_MEMBERS):
        assert chisquare([both[member] for both in counts.values()]).pvalue > 1e-3


@pytest.mark.parametrize(
    ("role", "power"),
    [
        ("host", 2.0),
        ("agent", 1.0),
        ("agent", 0.0),
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for case in (("host", 0.0), ("host", 1.0), ("agent", 2.0))
        ),
    ],
)
def test_a_prioritised_choice_meets_the_hard_ones_more_often(role, power):
    """A host that wins fast is hard (rho), an agent that lasts is (1 / rho)."""
    results = {1: 0.1, 2: 0.2, 3: 0.4}
    choice = PrioritisedChoice("prioritised", power)
    counts = met_often(pool(fixed(1), choice, max_staleness=10_000), role, results)
    sign = 1 if role == "host" else -1
    weights = [result ** (sign * power) for result in results.values()]
    expected = [1600 * weight / sum(weights) for weight in weights]
    for member in range(NUM_MEMBERS):
        observed = [both[member] for both in counts.values()]
        assert chisquare(observed, expected).pvalue > 1e-3


@pytest.mark.parametrize("role", ["host", "agent"])
def test_a_high_power_meets_only_the_hardest_that_is_not_stale(role):
    """result^power by itself would exceed float32."""
    choice = PrioritisedChoice("prioritised", 30.0)
    results = {1: 1e-5, 2: 0.02, 3: 0.01} if role == "agent" else {1: 1.0, 2: 0.01, 3: 0.02}
    counts = met_often(pool(fixed(1), choice, max_staleness=10_000), role, results, looks=20)
    assert counts[1] == [40, 40]
    net, opponents = network(), snapshots(pool(fixed(1), choice, max_staleness=2), role)
    for step in range(1, 9):
        opponents.result.copy_(torch.full_like(opponents.result, 1e-5))
        opponents.sync(at(net, step), steps(step, step))
        assert (opponents.staleness(steps(step, step)) <= 1).all()


def test_every_member_has_its_own_power_and_margin():
    uniform, steep = (PrioritisedChoice("prioritised", power) for power in (0.0, 30.0))
    opponents = Snapshots(
        "host", at(network(), 0), [pool(fixed(1), uniform), pool(fixed(1), steep)], steps(1, 2)
    )
    net = network()
    for step in (1, 2):
        opponents.sync(at(net, step), steps(step, step))
    opponents.result.copy_(torch.tensor([[0.1, 0.2, 0.4]]).expand(2, -1))
    chances = opponents._chances(steps(3, 3))
    assert chances[0].tolist() == pytest.approx([1 / 3] * 3)
    assert chances[1].max() > 0.999
    low, high = (pool(DynamicSync("dynamic", 1, margin)) for margin in (0.1, 1.0))
    opponents = Snapshots("host", at(network(), 0), [low, high], steps(1, 2))
    feed(opponents, 10, 10)
    opponents.sync(at(net, 1), steps(1, 1))
    feed(opponents, 14, 14)
    opponents.sync(at(net, 2), steps(2, 2))
    assert kept(opponents.taken) == [{0, 2}, {0}]


def test_the_baseline_is_what_a_look_saw():
    """Not what a single step between two looks did."""
    net, opponents = network(), snapshots(pool(DynamicSync("dynamic", 4, 0.5)))
    for step in range(1, 9):
        feed(opponents, 1 if step == 1 else 10, 1 if step == 1 else 10)
        opponents.sync(at(net, step), steps(step, step))
    assert kept(opponents.taken) == [{0}, {0}]


def test_one_member_begins_anew():
    net, opponents = network(), snapshots(pool(fixed(1)))
    for step in (1, 2):
        opponents.sync(at(net, step), steps(step, step))
    other = opponents.taken[0].clone()
    opponents.begin_with(at(net, 9), steps(2, 2), member=1)
    assert kept(opponents.taken) == [{0, 1, 2}, {2}]
    assert torch.equal(opponents.taken[0], other)
    assert (opponents.net.weights.unflatten(0, (NUM_MEMBERS, 2))[1] == 9.0).all()
    assert (opponents.net.weights.unflatten(0, (NUM_MEMBERS, 2))[0] < 9.0).all()


def test_members_choose_independently():
    opponents = snapshots(pool(fixed(1), size=8, at_once=8))
    net, met = network(), []
    for step in range(1, 30):
        opponents.sync(at(net, step), steps(step, step))
        met.append(opponents.met.clone())
    assert any(not torch.equal(places[0], places[1]) for places in met)
    changed = snapshots(pool(fixed(1), size=8, at_once=8))
    for step in range(1, 30):
        changed.sync(at(net, step), steps(step, 1))  # another member at other steps changes nothing
        assert torch.equal(changed.met[0], met[step - 1][0])


# Results.


def games(*ended: int) -> torch.Tensor:
    """Return which of 8 games of each member ended: so many of each of two groups of 4."""
    done = torch.zeros(NUM_MEMBERS, 2, 4, dtype=torch.bool)
    for group, number in enumerate(ended):
        done[:, group, :number] = True
    return done.flatten(1)


def count(opponents, done: torch.Tensor) -> None:
    """Let all games be against snapshots."""
    opponents.count(done, torch.ones_like(done))


def set_met(opponents, *places: int) -> None:
    opponents.met.copy_(torch.tensor(places).expand(NUM_MEMBERS, -1))


def results(opponents) -> dict[int, float]:
    return dict(zip(opponents.taken[0].tolist(), opponents.result[0].tolist(), strict=True))


def with_three() -> tuple[Network, Snapshots]:
    net, opponents = network(), snapshots(pool(fixed(10), size=3))
    for step in (10, 20):
        opponents.sync(at(net, step), steps(step, step))
    return net, opponents


def test_results_are_rho_of_the_games_against_each_snapshot():
    """Moves in which a game ended, over all moves; of none at least half a game."""
    net, opponents = with_three()
    set_met(opponents, 1, 2)
    count(opponents, games(2, 0))
    count(opponents, games(1, 0))
    opponents.sync(at(net, 30), steps(30, 30))
    rates = results(opponents)
    assert rates[10] == pytest.approx(3 / 8)
    assert rates[20] == pytest.approx(0.5 / 8)
    set_met(opponents, 1, 2)
    count(opponents, games(1, 1))
    opponents.sync(at(net, 40), steps(40, 40))
    assert results(opponents)[20] == pytest.approx(1 / 4)  # counted from 0 again


def test_a_snapshot_that_is_met_twice_is_judged_by_all_its_games():
    net, opponents = with_three()
    set_met(opponents, 1, 1)
    count(opponents, games(4, 1))
    opponents.sync(at(net, 30), steps(30, 30))
    assert results(opponents)[10] == pytest.approx(5 / 8)


@pytest.mark.parametrize("role", ["host", "agent"])
def test_a_new_snapshot_counts_as_the_hardest_so_far(role):
    """Of those there are: places that hold none yet say nothing."""
    net, opponents = network(), snapshots(pool(fixed(10), size=4), role)
    count(opponents, games(1, 1))
    opponents.sync(at(net, 10), steps(10, 10))
    assert results(opponents)[0] == pytest.approx(1 / 4)
    assert results(opponents)[10] == pytest.approx(1 / 4)
    set_met(opponents, 1, 1)
    count(opponents, games(2, 2))
    opponents.sync(at(net, 20), steps(20, 20))
    assert results(opponents)[20] == pytest.approx(1 / 2 if role == "host" else 1 / 4)


# In training.

POOL = {
    "size": 3,
    "at_once": 2,
    "choice": {"mode": "prioritised", "power": 1.0},
    "sync": {"mode": "fixed", "interval": 2},
    "max_staleness": 6,
}
ALGORITHMS = pytest.mark.parametrize("algorithm", ["dqn", "ppo"])


@pytest.fixture
def trainer_of(tiny_config):
    def make(algorithm="dqn", seeds=(1, 2), **options):
        changes = {"agent": "learn", "opponents": {**POOL, **options}}
        return build_trainer([tiny_config({**changes, "seed": seed}, algorithm) for seed in seeds])

    return make


@ALGORITHMS
@pytest.mark.parametrize("other", ["host", "agent"])
def test_opponents_in_the_other_roles_games_play_by_the_snapshots(trainer_of, algorithm, other):
    """Games 0..3 of a member against its first snapshot, 4..7 against its second.

    A snapshot that always plays its last action is seen in those games, and in no others.
    """
    trainer = trainer_of(algorithm)
    trainer.train(5)
    net = trainer.roles.snapshots[other].net
    parts = net.parts(net.weights)
    last = "0.1.bias" if algorithm == "ppo" else "1.bias"
    parts[last][1, 0, -1] = 1e4  # member 0's second one
    parts[last][2, 0, 0] = 1e4  # member 1's first one
    for _ in range(3):
        seen = next(trainer.rollouts.play(1, looks_ahead=True))
        by_role = dict(zip(("host", "agent"), seen, strict=True))
        if other == "host":
            choices = by_role["agent"].subset
            assert (choices[0, 4:] == 3).all()
            assert (choices[1, :4] == 0).all()
            own = by_role["host"].subset
        else:
            # The highest axis of the subset that the host chose; the lowest where 0 is in it.
            assert_axes(by_role["host"], trainer)
            own = by_role["agent"].action
        assert not (own[0, 4:] == own.max()).all() or not (own[1, :4] == 0).all()


def assert_axes(seen, trainer):
    after = seen.next_points
    subset = trainer.rollouts.encoder.decode(seen.subset)
    for member, lanes, axis_of in ((0, range(4, 8), max), (1, range(4), min)):
        for game in lanes:
            legal = subset[member, game].nonzero().flatten().tolist()
            favourite = 2 if axis_of is max else 0
            if favourite in legal:
                expected, _ = trainer.rollouts.kernel.move(
                    seen.points[member, game],
                    subset[member, game],
                    torch.tensor(favourite),
                    True,
                )
                assert torch.equal(after[member, game], expected)


@ALGORITHMS
def test_a_snapshot_plays_as_the_network_did_at_its_step(trainer_of, algorithm):
    trainer = trainer_of(algorithm)
    then = {}
    for step in range(9):
        then[step] = {
            learner.name: (learner.net.weights.clone(), learner.net.statistics.clone())
            for learner in trainer.learners
        }
        for name, opponents in trainer.roles.snapshots.items():
            taken = opponents.taken.gather(1, opponents.met)
            for member in range(2):
                for seat in range(2):
                    weights, statistics = then[int(taken[member, seat])][name]
                    row = 2 * member + seat
                    assert torch.equal(opponents.net.weights[row], weights[member])
                    assert torch.equal(opponents.net.statistics[row], statistics[member])
        trainer.train(1)


@ALGORITHMS
def test_statistics_tell_the_staleness(trainer_of, algorithm):
    trainer = trainer_of(algorithm)
    ages = []
    for _ in range(7):
        trainer.train(1)
        statistics = trainer.statistics()
        for role in ("host", "agent"):
            opponents = trainer.roles.snapshots[role]
            expected = trainer.step[:, None] - opponents.taken.gather(1, opponents.met)
            assert torch.equal(statistics[f"{role}/staleness"], expected.float().mean(1))
            assert torch.equal(statistics[f"{role}/staleness_max"], expected.amax(1).float())
            assert expected.max() <= POOL["max_staleness"]
            ages.append(expected.max())
    assert max(ages) > 2


def test_counts_are_of_the_games_against_the_snapshots_and_of_a_roles_own(trainer_of):
    trainer = trainer_of(sync={"mode": "fixed", "interval": 3})
    finished = {"host": torch.zeros(2), "agent": torch.zeros(2)}
    against = {"host": torch.zeros(2, 2), "agent": torch.zeros(2, 2)}
    for _ in range(5):
        for learner, seen in zip(
            trainer.learners, next(trainer.rollouts.play(1, looks_ahead=True)), strict=True
        ):
            finished[learner.name] += seen.done.sum(1)
            other = "agent" if learner.name == "host" else "host"
            against[other] += seen.done.unflatten(1, (2, 4)).sum(2)
    for role in ("host", "agent"):
        state = trainer.roles.snapshots[role].state()
        assert torch.equal(state["own"][:, 1], finished[role])
        assert (state["own"][:, 0] == 5 * 8).all()
        assert torch.equal(state["finished"], against[role])
        assert (state["moves"] == 5 * 4).all()
    assert finished["host"].sum() > 0


@ALGORITHMS
@pytest.mark.parametrize("mode", ["fixed", "dynamic"])
def test_training_goes_on_the_same_after_saving_between_two_looks(
    trainer_of, tmp_path, algorithm, mode
):
    sync = {"mode": mode, "interval": 2} | ({"margin": 0.01} if mode == "dynamic" else {})
    trainer = trainer_of(algorithm, sync=sync)
    trainer.train(5)
    fresh = build_trainer(trainer.configs)
    for member in range(2):
        fresh.load(trainer.save(tmp_path / str(member), member), member)
    assert torch.equal(
        fresh.roles.snapshots["host"].net.weights, trainer.roles.snapshots["host"].net.weights
    )
    trainer.train(4)
    fresh.train(4)
    assert fresh.state().keys() == trainer.state().keys()
    for name, tensor in trainer.state().items():
        assert torch.equal(fresh.state()[name], tensor), name


def test_without_a_pool_each_meets_the_other_as_it_is(tiny_config):
    trainer = build_trainer([tiny_config({"agent": "learn"})])
    assert trainer.roles.snapshots == {}
    trainer.train(2)
    parts = trainer.host_net.parts(trainer.host_net.weights)
    parts["1.bias"][:, 0, 3] = 1e4
    agents_games = next(trainer.rollouts.play(1, looks_ahead=True))[1]
    assert (agents_games.subset == 3).all()

"""What ends members before their steps are made, against plain accounts of it; also after kills."""

import time
from itertools import count
from types import SimpleNamespace

import pytest
from working import Killed, die, on_nth_call, terminate, work

from hpsearch.cluster import job_training
from hpsearch.cluster.endings import Endings, evaluations_without_better, is_reached
from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.member import Member, Slots
from hpsearch.cluster.team import Team
from hpsearch.trainers import checkpoint
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import read_config
from hpsearch.trainers.config.ending import Plateau, Target
from hpsearch.trainers.trainer import Trainer

HOST, AGENT = "rho/host/choose_first", "rho/agent/zeillinger"
LONG = {"steps": 40, "evaluation.interval": 4, "checkpoint.interval": 6, "checkpoint.keep_last": 99}


def ending(**rules):
    return {"end": {"games": None, "seconds": None, "target": None, "plateau": None} | rules}


def result(study, number=0):
    """Return how the last attempt at a trial ended."""
    return study.trial(number).attempts[-1].read_result()


def curve(study, number=0):
    return {
        row["step"]: row["metrics"][HOST]["value"] for row in study.trial(number).read_metrics()
    }


def outcome(study, number=0):
    ended = result(study, number)
    said = (ended.status, ended.step, ended.ended_by, ended.message, ended.metrics)
    return said, curve(study, number)


@pytest.fixture
def run(tmp_path, new_job, plain_config):
    """Return a function (changes of each member, attempt, root) -> the study of its job."""

    def run(*members, algorithm="dqn", attempt=1, root=tmp_path / "study"):
        job = new_job(root, [plain_config(LONG | m, algorithm) for m in members], attempt)
        work(str(job.root))
        return job.study

    return run


# The rules.


@pytest.mark.parametrize(
    ("metric", "value", "reached"),
    [
        (HOST, 0.5, [0.5, 0.6]),
        (AGENT, 0.5, [0.5, 0.4]),
    ],
)
def test_a_target_is_reached_from_its_own_side(metric, value, reached):
    assert all(is_reached(Target(metric, value), at) for at in reached)
    missed = 2 * value - reached[1]
    assert not is_reached(Target(metric, value), missed)
    assert not is_reached(Target(metric, value), float("nan"))


def plainly(values, min_delta, sign):
    """Return how many of the last values are no better, by looking at every value before each."""
    last_better, best = 0, None
    for place, value in enumerate(values, start=1):
        if best is None or (sign * value > sign * best and abs(value - best) >= min_delta):
            last_better, best = place, value
    return len(values) - last_better


@pytest.mark.parametrize("min_delta", [0.0, 0.25, 0.5])
@pytest.mark.parametrize(("metric", "sign"), [(HOST, 1), (AGENT, -1)])
def test_evaluations_without_better_are_counted(metric, sign, min_delta):
    story = [0.25, 0.5, 0.5, 0.25, 0.625, 0.75, 0.75, 0.0, 1.0, 0.25, 0.125]
    for length in range(len(story) + 1):
        values = story[:length]
        got = evaluations_without_better(Plateau(metric, 3, min_delta), values)
        assert got == plainly(values, min_delta, sign), values
    assert evaluations_without_better(Plateau(HOST, 3, 0.0), [0.5, 0.5, float("nan"), 0.4]) == 3


# Games.


def games_by_step(config, steps):
    """Return how many games have ended by each step, as the moves of a trainer of its own tell."""
    trainer = build_trainer([config])
    ended, play = 0, trainer.rollouts.play

    def counted(num_moves, **how):
        nonlocal ended
        for seen in play(num_moves, **how):
            ended += sum(int((moves.done | moves.truncated).sum()) for moves in seen)
            yield seen

    trainer.rollouts.play = counted
    totals = []
    for _ in range(steps):
        trainer.train(1)
        totals.append(ended)
        assert trainer.games_ended() == [ended]
    return totals


@pytest.mark.parametrize(
    ("algorithm", "both"), [("dqn", False), ("ppo", False), ("dqn", True), ("ppo", True)]
)
def test_games_end_a_member_with_the_step_by_which_they_are_so_many(
    run, monkeypatch, plain_config, algorithm, both
):
    changes = LONG | ({"agent": "learn"} if both else {})
    config = read_config(plain_config(changes, algorithm), source="test")
    totals = games_by_step(config, 40)
    wanted = totals[22]
    step = 1 + next(place for place, total in enumerate(totals) if total >= wanted)
    made = on_nth_call(monkeypatch, Trainer, "train", 0, die)
    study = run(changes | ending(games=wanted), algorithm=algorithm)
    ended = result(study)
    assert (ended.status, ended.step, ended.ended_by) == ("finished", step, "games")
    assert ended.message == (
        f"ended at step {step} of 40: {wanted} games had ended, which reaches end.games={wanted}"
    )
    assert len(made) < 40
    assert set(ended.metrics) >= {HOST}
    assert next(checkpoint.valid_steps(study.trial(0).checkpoints)) == step
    newest = checkpoint.newest(study.trial(0).root)
    assert checkpoint.load(newest).kind == "final"


def test_members_end_each_by_their_own_games(run, plain_config):
    configs = [read_config(plain_config(LONG | {"seed": seed}), source="test") for seed in (1, 2)]
    totals = [games_by_step(config, 40) for config in configs]
    study = run(
        {"seed": 1} | ending(games=totals[0][9]),
        {"seed": 2} | ending(games=totals[1][30]),
        {"seed": 3},
    )
    expected = [
        1 + next(place for place, total in enumerate(of_one) if total >= of_one[at])
        for of_one, at in zip(totals, (9, 30), strict=True)
    ]
    assert [result(study, number).step for number in range(3)] == [*expected, 40]
    assert [result(study, number).ended_by for number in range(3)] == ["games", "games", None]


@pytest.mark.parametrize(("missing", "until"), [(0, 0), (1, 1), (16, 1), (17, 2), (33, 3)])
def test_games_are_judged_member_by_member_before_a_job_trains(
    tmp_path, new_job, plain_config, missing, until
):
    """Of 8 games, each step makes 2 moves, so 16 games may end in it."""
    config = read_config(plain_config(LONG | {"seed": 1}), source="test")
    (ended,) = games_by_step(config, 4)[3:]
    rules = [{"seed": 2}, {"seed": 1} | ending(games=ended + missing)]
    job = new_job(tmp_path, [plain_config(LONG | rule) for rule in rules])
    members = [Member.open(job.study, given) for given in job.plan.required().assignments]
    team = Team(StopFlag())
    team.build([member.config for member in members])
    team.train(4)
    slots = Slots(members, team)
    slots.read_steps()
    endings = Endings(slots)
    endings.judge()
    ended_by = {number: end.by for number, end in slots.ended.items()}
    assert ended_by == ({} if missing else {1: "games"})
    assert endings.steps_until_due() == until
    for others, expected in (([0], until), ([1], None)):
        slots.leave(others)
        endings.judge()
        assert endings.steps_until_due() == expected


# Target and plateau.


@pytest.fixture(scope="module")
def whole(tmp_path_factory, new_job, plain_config):
    """The learning curve of a member that nothing ends early."""
    job = new_job(tmp_path_factory.mktemp("whole"), [plain_config(LONG)])
    work(str(job.root))
    assert outcome(job.study)[0][:4] == ("finished", 40, None, "")
    return curve(job.study)


def first_reached(values, target):
    return next(step for step, value in values.items() if value >= target)


def first_stale(values, evaluations, min_delta):
    seen = []
    for step, value in values.items():
        seen.append(value)
        if plainly(seen, min_delta, 1) >= evaluations:
            return step
    raise AssertionError("this curve has no such plateau")


def rules_of(whole):
    """Return by name rules that end the member in the middle, and the step at which they do."""
    target = max(whole.values())
    stale = {"metric": HOST, "evaluations": 2, "min_delta": 0.0}
    return {
        "target": ({"metric": HOST, "value": target}, first_reached(whole, target)),
        "plateau": (stale, first_stale(whole, 2, 0.0)),
    }


@pytest.mark.parametrize("by", ["target", "plateau"])
def test_an_evaluation_ends_a_member(run, whole, by, capfd):
    rule, step = rules_of(whole)[by]
    assert step < 40
    study = run(ending(**{by: rule}))
    (status, at, ended_by, message, metrics), seen = outcome(study)
    assert (status, at, ended_by) == ("finished", step, by)
    assert message.startswith(f"ended at step {step} of 40: ")
    assert f"end.{by}" in message
    assert f"trial 0 {message}" in capfd.readouterr().out
    assert metrics[HOST]["games"] == 30  # the final evaluation
    assert seen == {s: value for s, value in whole.items() if s <= step}
    lines = list(study.trial(0).read_metrics())
    assert [line.get("last", False) for line in lines] == [False] * (len(lines) - 1) + [True]
    kinds = {
        s: checkpoint.load(checkpoint.path_of(study.trial(0).checkpoints, s)).kind
        for s in checkpoint.valid_steps(study.trial(0).checkpoints)
    }
    assert kinds[step] == "final"


def killed_at(run, monkeypatch, owner, name, n, changes, root):
    """Run attempts of which the first is killed before the n-th call; return the study."""
    on_nth_call(monkeypatch, owner, name, n, die)
    try:
        study, was_killed = run(changes, root=root), False
    except Killed:
        was_killed = True
    monkeypatch.undo()
    if was_killed:
        study = run(changes, attempt=2, root=root)
    return study, was_killed


@pytest.mark.parametrize("by", ["games", "target", "plateau"])
@pytest.mark.parametrize(
    ("owner", "name", "calls"),
    [
        (Trainer, "train", (3,)),
        (checkpoint, "write_part", (1, 2)),
        (checkpoint, "keep_last", (1, 2)),
        (Trainer, "evaluate", (2, 3)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_killed_anywhere_it_ends_the_same(
    run, monkeypatch, tmp_path, whole, plain_config, by, owner, name, calls
):
    if by == "games":
        config = read_config(plain_config(LONG), source="test")
        changes = ending(games=games_by_step(config, 20)[15])
    else:
        changes = ending(**{by: rules_of(whole)[by][0]})
    expected = outcome(run(changes, root=tmp_path / "undisturbed"))
    for n in calls:
        study, was_killed = killed_at(
            run, monkeypatch, owner, name, n, changes, tmp_path / f"{name}-{n}"
        )
        assert was_killed, (name, n)
        assert outcome(study) == expected, (name, n)


@pytest.mark.exhaustive
@pytest.mark.parametrize("by", ["games", "target", "plateau"])
def test_killed_at_every_save_and_stop_it_ends_the_same(
    run, monkeypatch, tmp_path, whole, plain_config, by
):
    if by == "games":
        config = read_config(plain_config(LONG), source="test")
        changes = ending(games=games_by_step(config, 20)[15])
    else:
        changes = ending(**{by: rules_of(whole)[by][0]})
    expected = outcome(run(changes, root=tmp_path / "undisturbed"))
    for owner, name in ((Trainer, "train"), (checkpoint, "flush"), (checkpoint, "keep_last")):
        for n in count(1):
            root = tmp_path / f"{name}-{n}"
            study, was_killed = killed_at(run, monkeypatch, owner, name, n, changes, root)
            assert outcome(study) == expected, (name, n)
            if not was_killed:
                break


def test_the_last_evaluation_of_a_run_that_is_begun_again_counts(run, whole):
    """A run whose checkpoint is that of its last step ends again as it had ended."""
    rule, step = rules_of(whole)["target"]
    study = run(ending(target=rule))
    before = outcome(study)
    assert outcome(run(ending(target=rule), attempt=2)) == before
    assert study.trial(0).attempt(2).start.read().step == step


def test_a_run_goes_on_beyond_its_end_with_other_rules(run, whole):
    rule, step = rules_of(whole)["target"]
    study = run(ending(target=rule))
    assert result(study).step == step
    run({}, attempt=2)
    assert outcome(study)[0][:4] == ("finished", 40, None, "")
    assert curve(study) == whole


# Seconds.


@pytest.fixture
def clock(monkeypatch):
    """A clock by which every training takes a second, and makes a step; saving takes none."""
    ticks = count()
    fake = SimpleNamespace(perf_counter=lambda: float(next(ticks)), monotonic=time.monotonic)
    monkeypatch.setattr(job_training, "time", fake)
    monkeypatch.setattr(job_training, "STRIDE_SECONDS", 0.5)


def test_seconds_of_all_attempts_end_a_member(run, monkeypatch, clock):
    changes = ending(seconds=9.5) | {"checkpoint.interval": 4}
    calls = on_nth_call(monkeypatch, Trainer, "train", 7, terminate)  # after six seconds
    study = run(changes)
    interrupted = result(study)
    assert (interrupted.status, interrupted.step) == ("interrupted", 7)
    saved = checkpoint.newest(study.trial(0).root)
    assert checkpoint.load(saved).seconds == 7.0
    run(changes, attempt=2)
    ended = result(study)
    assert (ended.status, ended.step, ended.ended_by) == ("finished", 10, "seconds")
    assert ended.message == (
        "ended at step 10 of 40: it had trained for 10.0 s, which reaches end.seconds=9.5"
    )
    assert len(calls) == 10


def test_seconds_that_were_lost_do_not_count(run, monkeypatch, clock):
    changes = ending(seconds=9.5) | {"checkpoint.interval": 4}
    calls = on_nth_call(monkeypatch, Trainer, "train", 7, die)
    with pytest.raises(Killed):
        run(changes)
    study = run(changes, attempt=2)
    assert study.trial(0).attempt(2).start.read().step == 4
    assert (result(study).step, len(calls)) == (10, 6 + 1 + 6)


def test_seconds_go_on_from_those_of_the_checkpoint_where_they_count(
    tmp_path, new_job, plain_config
):
    rules = [ending(seconds=3.0), ending(seconds=9.0), ending()]
    job = new_job(tmp_path, [plain_config(LONG | rule) for rule in rules])
    members = [Member.open(job.study, given) for given in job.plan.required().assignments]
    team = Team(StopFlag())
    team.build([member.config for member in members])
    for row in (0, 2):
        team.trainer.save(members[row].trial.checkpoints, row, seconds=1.5)
    slots = Slots(members, team)
    endings = Endings(slots)
    for row, saved in enumerate((0, None, 0)):
        endings.resume(row, saved)
    assert slots.seconds == {0: 1.5, 1: 0.0}
    endings.trained(1.0)
    assert (slots.seconds, slots.ended) == ({0: 2.5, 1: 1.0}, {})
    endings.trained(0.5)
    assert slots.seconds == {0: 3.0, 1: 1.5}
    assert {number: ended.by for number, ended in slots.ended.items()} == {0: "seconds"}


def test_seconds_are_saved_only_where_they_count(run):
    study = run({})
    assert checkpoint.load(checkpoint.newest(study.trial(0).root)).seconds == 0.0

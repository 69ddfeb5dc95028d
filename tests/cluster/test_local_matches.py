"""Members of an island take each other's places while their job trains them."""

import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from best import write_best
from birth_stories import PAIR, assert_same_state, give, job_of, saved
from working import RUN_JOB, work

from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.local_matches import LocalMatches
from hpsearch.cluster.member import Member, Slots
from hpsearch.cluster.records import Exchanges, Fresh, Island, Lineage, Parent
from hpsearch.cluster.schedule import CheckpointPolicy
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.cluster.team import Team
from hpsearch.errors import ConflictError
from hpsearch.game.random import derive_key
from hpsearch.parameters import FloatParameter
from hpsearch.population.crossplay import Players, play_everybody
from hpsearch.population.fitness import MatchStanding, Places, score
from hpsearch.population.operators.options import Clone
from hpsearch.population.options import Keep, Matches, Perturb, Truncation
from hpsearch.population.selection import by_truncation
from hpsearch.schema import value_at
from hpsearch.trainers import checkpoint
from hpsearch.trainers.checkpoint import BestRecord, read_best
from hpsearch.trainers.checkpoint_name import name_of
from hpsearch.trainers.opponents import load_player
from hpsearch.trainers.rollouts import game_config

LR, GAMMA = "host.optim.args.lr", "host.gamma"
MATCHES = Matches(num_games=64, max_steps=50, panel=("zeillinger", "choose_first"), num_samples=50)
ISLAND = Island(
    name="study 1 island 0 after match 0",
    steps=10,
    matches=MATCHES,
    selection=Truncation(share=0.5, confidence=0.5),
    explore=Perturb(),
    parameters={
        LR: FloatParameter(1e-4, 1e-1, log=True),
        GAMMA: FloatParameter(0.8, 0.99),
    },
)
STEPS = 30
SAVING = {"steps": STEPS, "checkpoint.interval": 5, "checkpoint.keep_last": 50}


@pytest.fixture(scope="module")
def island_job(plain_config):
    """Return a function (study folder, members, island, ...) -> the job of an island."""

    def make(root, num=4, island=ISLAND, roles=PAIR, attempt=1, saving=SAVING, ranks=1):
        study = StudyDir(root)
        assignments = []
        for number in range(num):
            config = plain_config({**roles, **SAVING, **saving, "seed": number})
            given = give(study, number, config, Lineage(Fresh(), number), attempt)
            trial = study.trial(number)
            trial.create(trial.config.read_text(), Lineage(Fresh(), number), island)
            assignments.append(given)
        return job_of(study, assignments, f"job-{attempt}", ranks=ranks)

    return make


def trials_of(job, num=4):
    return [job.study.trial(number) for number in range(num)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory, island_job):
    """The job of an island that nothing disturbed."""
    job = island_job(tmp_path_factory.mktemp("whole"))
    work(str(job.root))
    return job


def test_the_worst_become_copies_of_the_best_by_their_games(whole, tmp_path):
    """The oracle plays what checkpoints hold, as a match does."""
    trials, step = trials_of(whole), ISLAND.steps
    folders = [checkpoint.path_of(trial.checkpoints, step) for trial in trials]
    cpu, games = torch.device("cpu"), []
    for split in ("named", "fresh"):
        sides = [
            {str(n): load_player(folder, role, cpu) for n, folder in enumerate(folders)}
            for role in ("host", "agent")
        ]
        played = play_everybody(
            Players(sides[0], ("zeillinger",)),
            Players(sides[1], ("choose_first",)),
            game_config(sides[0]["0"].config),
            num_games=MATCHES.num_games,
            max_steps=MATCHES.max_steps,
            split=f"{ISLAND.name} at {step} {split}",
            sampled=False,
            device=cpu,
        )
        order = (
            [played.hosts.index(name) for name in ("0", "1", "2", "3", "zeillinger")],
            [played.agents.index(name) for name in ("0", "1", "2", "3", "choose_first")],
        )
        games.append(played.moves[np.ix_(*order)])
    rng = np.random.default_rng(derive_key(ISLAND.name, step, "places"))
    standing = MatchStanding([Places(k, k) for k in range(4)], (), Places(4, 4), np.zeros(4))
    scores = score(np.stack(games), standing, MATCHES, None, rng)
    expected = by_truncation(scores.naming, scores.confirming, ISLAND.selection, ["one"] * 4, rng)
    sources = {
        number: takeover.source
        for number, trial in enumerate(trials)
        for takeover in trial.read_exchanges().takeovers
        if takeover.step == step
    }
    assert sources == {
        n: replacement.source for n, replacement in enumerate(expected) if replacement.is_child
    }
    assert sources


@pytest.mark.slow
def test_ranks_decide_as_one(tmp_path, island_job):
    """They share the games out, so members take the same places."""
    jobs = [
        island_job(tmp_path / f"{ranks}", saving={"shards": 2}, ranks=ranks) for ranks in (1, 2)
    ]
    for job in jobs:
        subprocess.run([sys.executable, "-c", RUN_JOB, str(job.root)], timeout=120, check=True)
    alone, together = (
        [
            [
                (taken.step, taken.source, taken.changes)
                for taken in trial.read_exchanges().takeovers
            ]
            for trial in trials_of(job)
        ]
        for job in jobs
    )
    assert any(alone)
    assert together == alone


def test_a_copy_learns_by_steps_from_what_its_source_learned_by(whole):
    trials = trials_of(whole)
    takeovers = [(t, takeover) for t in trials for takeover in t.read_exchanges().takeovers]
    assert takeovers
    for trial, copied in takeovers:
        source = saved(trials[copied.source], copied.source_step)
        own = saved(trial, copied.step + 5)
        for path, parameter in ISLAND.parameters.items():
            before, after = value_at(source.config, path), value_at(own.config, path)
            assert copied.params[path] == after
            assert copied.changes.get(path, (after, after)) == (before, after)
            assert parameter.low <= after <= parameter.high
        assert own.config["seed"] == int(trial.root.name)
        assert own.parents == (copied.sha256,)
        assert copied.sha256 == checkpoint.identity(
            checkpoint.path_of(trials[copied.source].checkpoints, copied.source_step)
        )
        assert any(
            loan.sha256 == copied.sha256 for loan in trials[copied.source].read_exchanges().loans
        )


@pytest.mark.parametrize(
    ("steps", "until", "due"),
    [
        ((0, 0, 0), 10, []),  # nothing has been learned yet
        ((10, 10, 10), 10, [0, 1]),
        ((9, 9, 9), 1, []),
        ((20, 30, 20), 10, [0]),  # one has ended
        ((20, 25, 10), 5, [0]),
        ((10, 21, 30), 9, [0]),
    ],
)
def test_local_generations_end_after_so_many_steps_of_each_member(
    tmp_path, island_job, steps, until, due
):
    """The third member has no island; ages are from the step at which a member began."""
    job = island_job(tmp_path, num=3, roles={})
    members = [Member.open(job.study, given) for given in job.plan.required().assignments]
    parent = tmp_path / name_of(100)
    members[0] = replace(members[0], parents=(parent,))
    members[0] = replace(members[0], config=replace(members[0].config, steps=100 + STEPS))
    members[2] = replace(members[2], island=None)
    team = Team(StopFlag())
    slots = Slots(members, team)
    slots.steps = dict(enumerate((100 + steps[0], *steps[1:])))
    matches = LocalMatches(slots, CheckpointPolicy(members[0].config, team))
    assert matches.steps_until_due() == until
    assert matches._due() == due
    assert matches.are_due is (len(due) > 1)
    slots.members = {2: members[2]}
    assert matches.steps_until_due() is None


def test_rates_are_kept_without_exploration(tmp_path, island_job):
    job = island_job(tmp_path, island=replace(ISLAND, explore=Keep("keep")))
    work(str(job.root))
    takeovers = [takeover for t in trials_of(job) for takeover in t.read_exchanges().takeovers]
    assert takeovers
    assert all(takeover.changes == {} for takeover in takeovers)


def test_each_ends_with_a_result_and_a_whole_curve(whole):
    for trial in trials_of(whole):
        result = trial.attempt(1).read_result()
        assert result is not None
        assert (result.status, result.step) == ("finished", STEPS)
        steps = [row["step"] for row in trial.read_metrics()]
        assert steps == sorted(set(steps))


def forget_after(job, steps) -> None:
    """Leave what a kill left: of each member, the checkpoints up to a step."""
    for trial, last in zip(trials_of(job), steps, strict=True):
        for step in list(checkpoint.valid_steps(trial.checkpoints)):
            if step > last:
                shutil.rmtree(checkpoint.path_of(trial.checkpoints, step))
        shutil.rmtree(trial.root / "attempt-1")


@pytest.mark.parametrize(
    "left",
    [
        pytest.param((0, 0, 0, 0), id="before the first checkpoint"),
        pytest.param((5, 5, 5, 5), id="within the first generation"),
        pytest.param((5, 5, 0, 0), id="while the first was saved"),
        pytest.param((10, 10, 10, 10), id="where places change"),
        pytest.param((10, 10, 5, 5), id="while those were saved"),
        pytest.param((15, 15, 15, 15), id="as copies"),
        pytest.param((25, 20, 25, 20), id="as copies of copies"),
        pytest.param((30, 30, 25, 25), id="while the last was saved"),
    ],
)
def test_it_goes_on_to_the_same_members_whatever_was_lost(whole, island_job, tmp_path, left):
    shutil.copytree(whole.study.root, tmp_path / "study")
    job = island_job(tmp_path / "study", attempt=2)
    forget_after(job, left)
    work(str(job.root))
    for trial, undisturbed in zip(trials_of(job), trials_of(whole), strict=True):
        assert_same_state(saved(trial, STEPS), saved(undisturbed, STEPS))
        assert saved(trial, STEPS).config == saved(undisturbed, STEPS).config
        assert trial.read_exchanges() == undisturbed.read_exchanges()


def test_a_local_match_is_announced_as_long_work(tmp_path, island_job, monkeypatch):
    """It has never been measured, so it may take longer than a job may be silent."""
    rules = {"steps": 20, "evaluation.interval": 20, "checkpoint.interval": 20}
    job, said, play = island_job(tmp_path, num=2, saving=rules), [], LocalMatches.play

    def announced(self):
        said.append(job.heartbeat.required().is_busy)
        return play(self)

    monkeypatch.setattr(LocalMatches, "play", announced)
    work(str(job.root))
    assert said == [True]


def test_a_copy_has_all_that_its_source_has_learned(tmp_path, island_job, monkeypatch):
    island = replace(ISLAND, steps=1, explore=Keep("keep"))
    rules = {"steps": 2, "evaluation.num_games": 2, "evaluation.final_num_games": 2}
    job, seen = island_job(tmp_path, num=2, island=island, saving=rules), []
    play = LocalMatches.play

    def differing(trainer):
        return {name for name, rows in trainer.state().items() if not torch.equal(*rows)}

    def compare(self):
        seen.append(differing(self._slots.trainer))
        play(self)
        seen.append(differing(self._slots.trainer))

    monkeypatch.setattr(LocalMatches, "_copies", lambda *_: [(1, 0)])
    monkeypatch.setattr(LocalMatches, "play", compare)
    work(str(job.root))
    before, after = seen
    assert {"host.net.weights", "agent.net.weights"} <= before
    # But for the games that were under way, in whose place it begins new ones.
    of_games = {name for name in after if name.startswith("fused_game.")}
    assert after - of_games == {"host.replay_buffer.last", "agent.replay_buffer.last"}
    (taken,) = job.study.trial(1).read_exchanges().takeovers
    assert (taken.step, taken.source, taken.source_step, taken.changes) == (1, 0, 1, {})


def test_a_member_alone_or_without_an_island_replaces_none(tmp_path, island_job):
    alone = island_job(tmp_path / "alone", num=1)
    work(str(alone.root))
    free = island_job(tmp_path / "free", num=2, island=None)
    work(str(free.root))
    for job, num in ((alone, 1), (free, 2)):
        for trial in trials_of(job, num):
            assert trial.read_exchanges() == Exchanges()
    assert_same_state(saved(trials_of(alone, 1)[0], STEPS), saved(trials_of(free, 2)[0], STEPS))


def test_hosts_alone_breed_too(tmp_path, island_job):
    island = replace(ISLAND, parameters={GAMMA: ISLAND.parameters[GAMMA]})
    job = island_job(tmp_path, island=island, roles={})
    work(str(job.root))
    assert any(trial.read_exchanges().takeovers for trial in trials_of(job))


def test_a_member_that_fails_leaves_the_others_to_breed(tmp_path, island_job):
    job = island_job(tmp_path)
    broken = job.study.trial(3)
    text = broken.config.read_text().replace("lr: 0.001", "lr: 1.0e+30")
    assert text != broken.config.read_text()
    broken.config.write_text(text)
    work(str(job.root))
    status = [trial.attempt(1).read_result().status for trial in trials_of(job)]
    assert status.count("finished") >= 3


def test_the_step_that_all_have_outlives_those_that_some_have(tmp_path, island_job, capsys):
    """Who is copied is saved at each local generation, the others at every third one."""
    island, saving = (
        replace(ISLAND, steps=5),
        {"checkpoint.interval": 15, "checkpoint.keep_last": 2},
    )
    job = island_job(tmp_path, island=island, saving=saving)
    work(str(job.root))
    steps = [set(checkpoint.valid_steps(trial.checkpoints)) for trial in trials_of(job)]
    assert {20, 25} & set().union(*steps)  # else no member was saved more often
    ends = [saved(trial, STEPS) for trial in trials_of(job)]
    forget_after(job, (25,) * 4)
    capsys.readouterr()
    work(str(island_job(tmp_path, island=island, saving=saving, attempt=2).root))
    output = capsys.readouterr().out
    assert all(f"trial {number} goes on from step 15\n" in output for number in range(4))
    for trial, end in zip(trials_of(job), ends, strict=True):
        assert_same_state(saved(trial, STEPS), end)


def test_what_one_alone_had_saved_later_is_no_part_of_its_next_life(whole, island_job, tmp_path):
    """Beside others than before it may become another; here its later checkpoint is another's."""
    shutil.copytree(whole.study.root, tmp_path / "study")
    job = island_job(tmp_path / "study", attempt=2)
    forget_after(job, (20, 20, 20, 20))
    first, second = trials_of(whole)[:2]
    other = checkpoint.path_of(second.checkpoints, 25)
    late = checkpoint.path_of(trials_of(job)[0].checkpoints, 25)
    shutil.copytree(other, late)
    write_best(late.parent, BestRecord(25, "rho/host/choose_first", 1.0))
    work(str(job.root))
    assert_same_state(saved(trials_of(job)[0], 25), saved(first, 25))
    assert read_best(late.parent) is None


def test_one_that_could_not_begin_has_no_part_in_what_the_others_decide(tmp_path, island_job):
    """Its row is there, with networks that are not trained; an attempt after this one lacks it."""
    island = replace(ISLAND, steps=5, matches=replace(MATCHES, weighing="uniform"))
    job = island_job(tmp_path / "four", island=island)
    three = island_job(tmp_path / "three", num=3, island=island)
    orphan = job.study.trial(3)
    missing = Parent(None, str(tmp_path / "step-000000000"))
    orphan.create(orphan.config.read_text(), Lineage(Clone(), 3, (missing,)), island)
    work(str(job.root))
    work(str(three.root))
    result = orphan.attempt(1).read_result()
    assert result is not None
    assert result.status == "failed"
    records = [trial.read_exchanges() for trial in trials_of(job, 3)]
    assert any(record.takeovers for record in records)
    assert records == [trial.read_exchanges() for trial in trials_of(three, 3)]


def test_a_checkpoint_without_what_copies_change_is_told_of_each_member(
    whole, island_job, tmp_path
):
    shutil.copytree(whole.study.root, tmp_path / "study")
    lost = {"host.nothing": ISLAND.parameters[GAMMA]}
    job = island_job(tmp_path / "study", island=replace(ISLAND, parameters=lost), attempt=2)
    forget_after(job, (15, 15, 15, 15))
    with pytest.raises(ConflictError, match="written with another configuration"):  # of the last
        work(str(job.root))
    for trial in trials_of(job):
        assert trial.attempt(2).read_result().status == "failed"

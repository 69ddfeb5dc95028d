"""Matches as jobs play them: every cell is what its two players do by hand."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from unittest.mock import ANY

import numpy as np
import psutil
import pytest
import torch
from birth_stories import PAIR, parents_in
from working import RUN_JOB, work

from hpsearch.cluster import worker
from hpsearch.cluster.records import JobPlan, MatchPlan, MatchPlayer, Response
from hpsearch.cluster.study_dir import MatchDir, StudyDir
from hpsearch.errors import ConflictError, CorruptError
from hpsearch.game.kernels import BACKENDS
from hpsearch.game.players import agent_player
from hpsearch.game.random import derive_key
from hpsearch.game.rules import HostActionEncoder
from hpsearch.population import crossplay as crossplay_module
from hpsearch.population.best_response import measure_response, train_response
from hpsearch.population.crossplay import banks, crossplay, scripted_groups
from hpsearch.trainers.opponents import load_player
from hpsearch.trainers.policies import Position, Turn
from hpsearch.trainers.rollouts import game_config

CPU = torch.device("cpu")
SPLITS = ("match 1 a", "match 1 b")
NUM_GAMES, MAX_STEPS = 30, 10
ENDING_SECONDS = 30.0
"""in which all ranks leave once one was asked to, or is lost"""


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory, tiny_config):
    """Four pairs of one game, of two algorithms and three structures."""
    folder = tmp_path_factory.mktemp("pairs")
    kinds = [("dqn", {}), ("dqn", {"host.net_arch": [5, 5]}), ("ppo", {})]
    players = []
    for index, (algorithm, changes) in enumerate(kinds):
        config = tiny_config({**PAIR, **changes, "seed": index}, algorithm)
        players += parents_in(folder / str(index), [config])
    return players


@pytest.fixture
def study(tmp_path):
    return StudyDir(tmp_path / "study")


@pytest.fixture
def plan(checkpoints):
    """Learned and scripted players in no particular order."""
    _, two, three = map(str, checkpoints)
    return MatchPlan(
        hosts=(MatchPlayer("a", two), MatchPlayer("zeillinger", None), MatchPlayer("b", three)),
        agents=(
            MatchPlayer("random", None),
            MatchPlayer("b", three),
            MatchPlayer("choose_first", None),
        ),
        num_games=NUM_GAMES,
        max_steps=MAX_STEPS,
        splits=SPLITS,
        device="cpu",
    )


def job_for(study, plan, number=1, ranks=1):
    study.match(number).plan.write(plan)
    job = study.job(f"match-{number}")
    job.plan.write(JobPlan((), 1, pilot_seconds=0.0, refills=False, match=number, ranks=ranks))
    return job


def played(study, plan, number=1):
    work(str(job_for(study, plan, number).root))
    return study.match(number).read_games()


def test_a_match_is_the_cross_play_of_its_entrants(study, plan, checkpoints):
    games = played(study, plan)
    assert torch.get_num_threads() == 1
    assert games.moves.shape == games.finished.shape == (2, 3, 3, NUM_GAMES)
    a, b = (load_player(path, "host", CPU) for path in checkpoints[1:])
    agent = {"b": load_player(checkpoints[2], "agent", CPU)}
    for index, split in enumerate(SPLITS):
        expected = crossplay(
            (*banks({"a": a}), *scripted_groups(["zeillinger"]), *banks({"b": b})),
            (*scripted_groups(["random"]), *banks(agent), *scripted_groups(["choose_first"])),
            game_config(a.config),
            num_games=NUM_GAMES,
            max_steps=MAX_STEPS,
            split=split,
            device=CPU,
        )
        np.testing.assert_array_equal(games.moves[index], expected.moves)
        np.testing.assert_array_equal(games.finished[index], expected.finished)


def test_a_match_gives_signs_of_life(study, plan):
    before = time.time()
    work(str(job_for(study, plan).root))
    assert before <= study.match(1).last_sign() <= time.time()
    assert study.match(2).last_sign() == 0.0
    (study.match(1).root / "alive.json").write_text("{")
    assert study.match(1).last_sign() == 0.0


def test_a_match_says_how_many_pairs_have_played(study, plan, monkeypatch):
    monkeypatch.setattr(crossplay_module, "MAX_COORDINATES", 2 * NUM_GAMES * 4 * 3)
    match, told = study.match(1), []
    give_sign = MatchDir.give_sign

    def listen(self, pairs=0):
        give_sign(self, pairs)
        told.append(self.progress())

    monkeypatch.setattr(MatchDir, "give_sign", listen)
    assert match.progress() is None
    work(str(job_for(study, plan).root))
    pairs = len(plan.splits) * len(plan.hosts) * len(plan.agents)
    assert told[0] == (0, pairs)
    assert told[-1] == (pairs, pairs)
    played = [num for num, _ in told]
    assert max(later - earlier for earlier, later in pairwise(played)) == 2  # as many as fit
    assert told == sorted(told)
    (match.root / "alive.json").write_text('{"at": 1.0}')  # of a job of an older version
    assert match.progress() == (0, pairs)


def test_a_cell_is_what_two_players_do_by_hand(study, plan, checkpoints):
    """Game by game with the rules that are written to be read."""
    games = played(study, plan)
    host = load_player(checkpoints[1], "host", CPU)
    starts = BACKENDS["reference"].random_starts(
        torch.tensor([derive_key("evaluation", SPLITS[1])]),
        torch.zeros((1, NUM_GAMES), dtype=torch.int64),
        num_points=4,
        dimension=3,
        max_value=5,
    )
    for game in range(NUM_GAMES):
        by_oracle = by_hand(host.policy, starts[:, game : game + 1])
        assert (games.moves[1, 0, 2, game], games.finished[1, 0, 2, game]) == by_oracle


def by_hand(host, points):
    """Return after how many moves a game against choose_first ends, and whether it is decided."""
    zero = torch.zeros(1, 1)
    for number in range(1, MAX_STEPS + 1):
        action = host(Turn(Position.of(points), None, torch.zeros(1, 1, 2), zero))
        subset = HostActionEncoder(3).decode(action)
        axis = agent_player("choose_first")(points, subset, zero)
        points, _ = BACKENDS["reference"].move(points, subset, axis, True)
        if int((points[0, 0, :, 0] >= 0).sum()) <= 1:
            return number, True
    return MAX_STEPS, False


def test_sets_of_starts_are_independent(study, plan):
    """One alone has the same games, and the two have different ones."""
    games = played(study, plan)
    second = played(study, replace(plan, splits=SPLITS[1:]), number=2)
    np.testing.assert_array_equal(second.moves[0], games.moves[1])
    assert (games.moves[0] != games.moves[1]).any()


@pytest.mark.parametrize("pairs", [1, 2, 5])
def test_little_memory_changes_no_game(study, plan, monkeypatch, pairs):
    whole = played(study, plan)
    monkeypatch.setattr(crossplay_module, "MAX_COORDINATES", pairs * NUM_GAMES * 4 * 3)
    parts = played(study, plan, number=2)
    np.testing.assert_array_equal(parts.moves, whole.moves)
    np.testing.assert_array_equal(parts.finished, whole.finished)


def test_a_checkpoint_is_found_from_the_studys_folder(study, plan, tiny_config):
    [path] = parents_in(study.trial(0).root, [tiny_config(PAIR)])
    near = replace(plan, hosts=(MatchPlayer("0", str(path.relative_to(study.root))),))
    far = replace(plan, hosts=(MatchPlayer("0", str(path)),))
    assert (played(study, near).moves == played(study, far, number=2).moves).all()


# Once, whole, or not at all.


def count_plays(monkeypatch):
    calls, original = [], worker.play_everybody

    def play(*arguments, **options):
        calls.append(options["split"])
        return original(*arguments, **options)

    monkeypatch.setattr(worker, "play_everybody", play)
    return calls


def test_what_was_played_is_not_played_again(study, plan, monkeypatch):
    job = job_for(study, plan)
    work(str(job.root))
    calls = count_plays(monkeypatch)
    work(str(job.root))
    assert calls == []


@pytest.mark.parametrize("how", ["damaged", "of another plan"])
def test_games_that_are_no_use_are_played_again(study, plan, how):
    whole = played(study, plan)
    if how == "damaged":
        file = study.match(1).root / "games.npz"
        file.write_bytes(file.read_bytes()[:-20])
    else:
        study.match(1).write_games(replace(whole, moves=whole.moves[:1]))
    np.testing.assert_array_equal(played(study, plan).moves, whole.moves)


def test_a_job_that_is_asked_to_stop_leaves_nothing_half(study, plan, monkeypatch):
    original = worker.play_everybody

    def play(*arguments, **options):
        os.kill(os.getpid(), signal.SIGTERM)
        return original(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(worker, "play_everybody", play)
        assert played(study, plan) is None
    assert {path.name for path in study.match(1).root.iterdir()} == {"plan.json", "alive.json"}
    assert played(study, plan) is not None


# What is wrong with a match.


def test_entrants_of_different_games_do_not_meet(study, plan, tmp_path, tiny_config):
    [path] = parents_in(tmp_path / "other", [tiny_config({**PAIR, "max_num_points": 5})])
    wrong = replace(plan, hosts=(*plan.hosts, MatchPlayer("far", str(path))))
    with pytest.raises(ConflictError, match=r"they know 2 \(a, b: .*; far: .*max_num_points=5"):
        played(study, wrong)
    assert study.match(1).read_games() is None


@pytest.mark.parametrize(
    ("hosts", "error", "said"),
    [
        ((), CorruptError, "needs hosts"),
        (("zeillinger", "zeillinger"), CorruptError, "each name once"),
        (
            ("choose_first",),
            ConflictError,
            "unknown scripted host 'choose_first'; valid: ",
        ),
        (("random",), ConflictError, "needs a learned player"),
    ],
)
def test_a_match_that_cannot_be_played_is_told(study, plan, hosts, error, said):
    scripted = tuple(MatchPlayer(name, None) for name in hosts)
    agents = (MatchPlayer("choose_first", None),)
    with pytest.raises(error, match=said):
        played(study, replace(plan, hosts=scripted, agents=agents))


def test_a_missing_checkpoint_is_told(study, plan):
    with pytest.raises(ConflictError, match="there is no checkpoint at"):
        played(
            study, replace(plan, hosts=(MatchPlayer("a", "trials/9/checkpoints/step-000000004"),))
        )


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_match_for_a_gpu_is_refused_without_one(study, plan):
    with pytest.raises(ConflictError, match="torch finds no CUDA device"):
        played(study, replace(plan, device="cuda"))


@pytest.mark.gpu
def test_a_match_on_a_gpu_is_the_same(study, plan):
    on_cpu = played(study, plan)
    on_gpu = played(study, replace(plan, device="cuda"), number=2)
    assert (on_cpu.moves == on_gpu.moves).mean() > 0.99


def response(path, role, steps=4, trial=7):
    return Response(role, trial, str(path), steps, seed=3)


def test_responses_are_trained_saved_and_measured(study, plan, checkpoints):
    pair = checkpoints[0]
    plan = replace(plan, responses=(response(pair, "host"), response(pair, "agent")))
    work(str(job_for(study, plan).root))
    answers = {answer.role: answer for answer in study.match(1).answers.read().answers}
    assert {role: answer.trial for role, answer in answers.items()} == {"host": 7, "agent": 7}
    assert study.match(1).read_games() is not None
    for role, other in (("host", "agent"), ("agent", "host")):
        [saved] = study.match(1).response(role).iterdir()
        players = {role: load_player(pair, role, CPU), other: load_player(saved, other, CPU)}
        played = crossplay(
            banks({"x": players["host"]}),
            banks({"y": players["agent"]}),
            game_config(players[role].config),
            num_games=NUM_GAMES,
            max_steps=MAX_STEPS,
            split=SPLITS[-1],
            device=CPU,
        )
        assert answers[role].value == pytest.approx(1 / played.moves.mean())
        assert answers[role].low <= answers[role].value <= answers[role].high
        assert players[other].config.learning().keys() == {other}  # the champion stands still


def test_a_job_that_was_killed_keeps_the_response_that_it_trained(study, plan, checkpoints):
    plan = replace(plan, responses=(response(checkpoints[0], "host"),))
    work(str(job_for(study, plan).root))
    (study.match(1).root / "games.npz").unlink()
    [saved] = study.match(1).response("host").iterdir()
    before = (saved / "manifest.json").stat().st_mtime_ns
    first = study.match(1).answers.read()
    work(str(job_for(study, plan).root))
    assert (saved / "manifest.json").stat().st_mtime_ns == before
    assert study.match(1).answers.read() == first


# Several ranks.


@pytest.fixture
def shared(study, plan, tmp_path, tiny_config):
    """A plan with responses to a player of two shards."""
    [pair] = parents_in(tmp_path / "shards", [tiny_config({**PAIR, "shards": 2})])
    return replace(plan, responses=(response(pair, "host"), response(pair, "agent")))


@pytest.mark.parametrize(
    "num_games",
    [
        pytest.param(NUM_GAMES, marks=pytest.mark.exhaustive),
        pytest.param(NUM_GAMES - 1, marks=pytest.mark.slow),  # which two do not divide
    ],
)
def test_ranks_share_a_match_out(study, shared, num_games):
    """They play the same games, and what trains comes to the same but for rounding."""
    plan = replace(shared, num_games=num_games)
    alone = played(study, plan)
    together = job_for(study, plan, number=2, ranks=2)
    subprocess.run([sys.executable, "-c", RUN_JOB, str(together.root)], timeout=120, check=True)
    games = study.match(2).read_games()
    np.testing.assert_array_equal(games.moves, alone.moves)
    np.testing.assert_array_equal(games.finished, alone.finished)
    first, second = (study.match(number).answers.read().answers for number in (1, 2))
    for own, joint in zip(first, second, strict=True):
        assert joint == replace(own, value=pytest.approx(own.value, rel=0.02), low=ANY, high=ANY)
        [saved] = study.match(2).response(own.role).iterdir()
        assert (saved / "tensors-1.safetensors").exists()
    assert study.match(2).progress() == study.match(1).progress()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_another_rank_is_asked_to_stop_or_lost_in_a_match(study, shared, how):
    long = replace(shared.responses[0], steps=10**6)
    job = job_for(study, replace(shared, responses=(long,)), ranks=2)
    with subprocess.Popen([sys.executable, "-c", RUN_JOB, str(job.root)]) as first:
        while study.match(1).progress() != (18, 18):  # then the response trains
            assert first.poll() is None
            time.sleep(0.1)
        [other] = psutil.Process(first.pid).children()
        other.send_signal(how)
        try:
            assert first.wait(ENDING_SECONDS) == (0 if how == signal.SIGTERM else 1)
        finally:
            first.kill()
    assert study.match(1).read_games() is None
    assert not other.is_running()


def test_a_host_alone_is_answered_by_an_agent_that_learns_as_it_does(tmp_path, tiny_config):
    [champion] = parents_in(tmp_path / "host", [tiny_config({"max_steps": 12})], steps=40)
    how = {"num_games": 400, "max_steps": 30, "split": "held out", "device": CPU}
    values, signs = [], Counter()
    for steps in (1, 400):
        response = train_response(
            champion,
            "host",
            tmp_path / str(steps),
            steps=steps,
            seed=1,
            device="cpu",
            give_sign=lambda steps=steps: signs.update([steps]),
        )
        values.append(measure_response(champion, "host", response, **how).value)
    assert values[1] < values[0]  # it has learned to hold out
    assert signs == {1: 1, 400: 8}


def test_a_host_of_minimax_targets_is_answered_without_them(tmp_path, tiny_config):
    """They are targets for hosts, and its response learns as an agent."""
    [champion] = parents_in(tmp_path / "host", [tiny_config({"dqn.minimax": True})], steps=1)
    how = {"steps": 1, "seed": 1, "device": "cpu"}
    trained = train_response(champion, "host", tmp_path / "response", **how)
    assert load_player(trained, "agent", CPU).config.dqn.minimax is False

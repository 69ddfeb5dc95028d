"""hpsearch crossplay: learned players of several shapes and algorithms, and scripted ones."""

import builtins
import json

import numpy as np
import pytest
import torch
from cells import cell

from hpsearch.analysis import standings as module
from hpsearch.analysis.players import HowToPlay, find_players, play_round_robin
from hpsearch.analysis.standings import standings
from hpsearch.cli import main
from hpsearch.commands.measure import _device
from hpsearch.population import crossplay as crossplay_module
from hpsearch.population.crossplay import banks, crossplay, scripted_groups
from hpsearch.trainers import checkpoint
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.match import threads
from hpsearch.trainers.opponents import load_player
from hpsearch.trainers.rollouts import game_config

CPU = torch.device("cpu")
GAMES = 30
QUICK = ["--games", GAMES, "--device", "cpu"]
KEYS = {
    *("game", "games", "seed", "mode", "hosts", "agents", "rho", "low", "high", "capped"),
    *("equilibrium", "best", "cyclic_share", "cycles", "alpha_rank_left_out"),
}
PLAYER_KEYS = {
    *("name", "nash", "played", "strength", "alpha_rank", "exploitability", "best_answer"),
    *("checkpoint", "step"),
}


@pytest.fixture(scope="module", autouse=True)
def single_thread():
    """Nets and batches this small lose by sharing, above all on a busy machine."""
    with threads(1):
        yield


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    """Ratings of starts drawn again take most of the time, and are tested where they are made."""
    monkeypatch.setattr(module, "RATING_SAMPLES", 20)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, tiny_config):
    """Folders of runs: pairs of three structures, a host alone, and one of another game."""
    folder = tmp_path_factory.mktemp("runs")
    kinds = {
        "dqn": ({"agent": "learn"}, "dqn"),
        "deep": ({"agent": "learn", "host.net_arch": [5, 5], "evaluation.max_steps": 15}, "dqn"),
        "ppo": ({"agent": "learn", "evaluation.er": 1.0}, "ppo"),
        "alone": ({}, "dqn"),
        "large": ({"max_num_points": 6}, "dqn"),
    }
    for name, (changes, algorithm) in kinds.items():
        trainer = build_trainer([tiny_config(changes, algorithm)])
        for _ in range(2):
            trainer.train(1)
            trainer.save(folder / name / "checkpoints", 0)
    return folder


@pytest.fixture(scope="module")
def pairs(runs):
    return [str(runs / name) for name in ("dqn", "deep", "ppo")]


def printed(capsys, *arguments):
    code = main(["crossplay", *map(str, arguments)])
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out


def refused(capsys, *arguments, code=2):
    assert main(["crossplay", *map(str, arguments)]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("hpsearch: ")
    assert captured.err.count("\n") == 1
    return captured.err


def names(side) -> set[str]:
    return {player["name"] for player in side}


def test_each_cell_is_that_of_cross_play_itself(capsys, runs, pairs):
    plain = json.loads(printed(capsys, *pairs, "random_pair", *QUICK, "--seed", 4, "--json"))
    roles = {
        role: {name: load_player(runs / name, role, CPU) for name in ("dqn", "deep", "ppo")}
        for role in ("host", "agent")
    }
    played = crossplay(
        (
            *scripted_groups(["random", "all_coord", "zeillinger", "random_pair"]),
            *banks(roles["host"]),
        ),
        (
            *scripted_groups(["choose_first", "choose_last", "random"]),
            *banks(roles["agent"]),
        ),
        game_config(roles["host"]["dqn"].config),
        num_games=GAMES,
        max_steps=15,
        split="cross-play 4",
        device=CPU,
    )
    assert names(plain["hosts"]) == set(played.hosts)
    assert names(plain["agents"]) == set(played.agents)
    for p, host in enumerate(plain["hosts"]):
        for q, agent in enumerate(plain["agents"]):
            rho = cell(played, host["name"], agent["name"])
            assert (plain["rho"][p][q], plain["capped"][p][q]) == (rho.value, rho.capped)
            assert plain["low"][p][q] <= rho.value <= plain["high"][p][q]
    host_ratings = {host.name: host for host in standings(played, 4).hosts}
    for host in plain["hosts"]:
        assert host["strength"]["value"] == pytest.approx(host_ratings[host["name"]].strength.value)
        assert host["nash"]["value"] == pytest.approx(host_ratings[host["name"]].nash.value)


def test_json_has_its_keys(capsys, runs, pairs):
    plain = json.loads(printed(capsys, *pairs, *QUICK, "--json"))
    assert plain.keys() == KEYS
    assert plain["game"] == {
        "dimension": 3, "max_num_points": 4, "max_value": 5, "reposition": True, "max_steps": 15,
    }  # fmt: skip
    assert (plain["games"], plain["seed"], plain["mode"]) == (GAMES, 0, "greedy")
    for player in (*plain["hosts"], *plain["agents"]):
        assert player.keys() == PLAYER_KEYS
        assert player["nash"].keys() == player["strength"].keys() == {"value", "low", "high"}
        assert (player["step"] is None) == (player["checkpoint"] is None)
    learned = {host["name"]: host for host in plain["hosts"] if host["step"]}
    assert learned["dqn"]["checkpoint"] == str(checkpoint.newest(runs / "dqn"))
    assert plain["equilibrium"].keys() == {
        "value", "exploitability", "resampled_exploitability",
    }  # fmt: skip
    assert plain["best"]["host"] == plain["hosts"][0]["name"]
    assert sum(agent["played"] for agent in plain["agents"]) == pytest.approx(1.0)
    for cycle in plain["cycles"]:
        assert cycle.keys() == {"kind", "hosts", "agents", "strength"}
    shape = (len(plain["hosts"]), len(plain["agents"]))
    assert {np.shape(plain[key]) for key in ("rho", "low", "high", "capped")} == {shape}


@pytest.mark.slow
def test_text_and_files(capsys, pairs, tmp_path):
    path = tmp_path / "new" / "matrix.json"
    text = printed(capsys, *pairs, *QUICK, "-o", path)
    plain = json.loads(path.read_text())
    lines = [line.split() for line in text.splitlines()]
    assert ["host", *(agent["name"] for agent in plain["agents"])] in lines
    best = plain["hosts"][0]["name"]
    assert [best, *(f"{rho:.4f}" for rho in plain["rho"][0])] in lines
    assert f"best host: {best}; its best answer, " in text
    assert "\ncyclic: " in text
    assert "±" in text.partition("\n\n")[2]
    assert "±" not in text.partition("\n\n")[0]
    assert "±" in printed(capsys, *pairs, *QUICK, "--intervals").partition("\n\n")[0]
    for suffix, begins in ((".csv", b"host,agent,rho"), (".png", b"\x89PNG"), (".svg", b"<?xml")):
        file = tmp_path / f"matrix{suffix}"
        printed(capsys, *pairs, *QUICK, "-o", file)
        assert file.read_bytes().startswith(begins)
    assert {path.name for path in tmp_path.iterdir()} == {
        "new", "matrix.csv", "matrix.png", "matrix.svg",
    }  # fmt: skip


def test_batches_of_hosts_change_no_game(runs, pairs, monkeypatch):
    round_robin = find_players([*pairs, str(runs / "alone")], runs, top=1, panel=True, device=CPU)
    how = HowToPlay(GAMES, seed=0, sampled=True, device=CPU)
    whole = play_round_robin(round_robin, how)
    monkeypatch.setattr(crossplay_module, "MAX_COORDINATES", 2 * 6 * GAMES * 12)
    parts = play_round_robin(round_robin, how)
    assert parts.agents == whole.agents
    order = [whole.hosts.index(name) for name in parts.hosts]
    assert sorted(order) == list(range(7))
    assert (parts.moves == whole.moves[order]).all()
    assert (parts.finished == whole.finished[order]).all()


def test_sampled_players_draw_their_moves(capsys, pairs):
    def rho(*mode):
        plain = json.loads(printed(capsys, *pairs, *QUICK, *mode, "--json"))
        hosts, agents = ([player["name"] for player in plain[side]] for side in ("hosts", "agents"))
        matrix = np.array(plain["rho"])[np.argsort(hosts)][:, np.argsort(agents)]
        return plain["mode"], matrix, sorted(hosts), sorted(agents)

    mode, sampled, hosts, agents = rho("--sampled")
    assert mode == "sampled"
    greedy = rho("--greedy")[1]
    assert (greedy == rho()[1]).all()
    drawn = np.ix_(
        [hosts.index(player) for player in ("dqn", "ppo")],
        [agents.index(player) for player in ("dqn", "ppo")],
    )
    assert (sampled[drawn] != greedy[drawn]).any()
    scripted = (hosts.index("zeillinger"), agents.index("choose_first"))
    assert sampled[scripted] == greedy[scripted]


def test_who_is_named_twice_plays_once_and_who_shares_a_name_is_told_apart(capsys, runs):
    steps = [checkpoint.path_of(runs / "dqn" / "checkpoints", step) for step in (1, 2)]
    plain = json.loads(
        printed(capsys, *steps, runs / "dqn", "random", "random", *QUICK, "--no-panel", "--json")
    )
    assert names(plain["hosts"]) == names(plain["agents"]) == {"dqn@1", "dqn@2", "random"}


def test_the_help_has_an_example(capsys):
    with pytest.raises(SystemExit):
        main(["crossplay", "--help"])
    assert "\n  hpsearch crossplay quickstart " in capsys.readouterr().out


def test_players_after_options(capsys):
    text = printed(capsys, "zeillinger", "--no-panel", *QUICK, "choose_first")
    assert "best agent: choose_first; its best answer, zeillinger, takes 0.0000 of rho" in text
    assert "random" not in text


def test_a_missing_role_is_named(capsys, runs):
    error = refused(capsys, "zeillinger", "all_coord", "--no-panel", *QUICK)
    assert "no player plays as agent: zeillinger, all_coord can only play the other side" in error
    assert "leave out --no-panel" in error
    error = refused(capsys, "choose_last", "--no-panel", *QUICK)
    assert "no player plays as host" in error
    assert "such as zeillinger" in error
    assert "no player plays as agent" in refused(capsys, runs / "alone", "--no-panel", *QUICK)


def test_another_game_is_refused_by_name(capsys, pairs, runs):
    error = refused(capsys, *pairs, runs / "large", *QUICK, code=4)
    assert "all must play the same game, but they know 2 (dqn, deep, ppo: dimension=3, " in error
    assert "max_num_points=4, max_value=5; large: dimension=3, max_num_points=6, " in error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["zeilinger"], "unknown player 'zeilinger' (did you mean 'zeillinger'?); valid: all_co"),
        (["random", "--games", "1"], "games must be at least 2, got 1"),
        (["random", "-o", "matrix.gif"], "drawn as one of .pdf, .png, .svg or written as one of"),
    ],
)
def test_wrong_arguments(capsys, arguments, words):
    assert words in refused(capsys, *arguments)


def test_a_folder_without_checkpoints(capsys, runs, tmp_path):
    assert "holds no whole checkpoint; name a checkpoint" in refused(capsys, tmp_path)
    error = refused(capsys, "missing", "--runs", runs)
    assert "unknown player 'missing'; valid: all_coord, " in error
    assert "or the folder of a run, a trial, a checkpoint or a bundle" in error


def test_a_missing_gpu(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "torch finds no CUDA device" in refused(capsys, "random", "--device", "cuda")
    assert _device("auto") == CPU


def test_no_gpu_is_looked_for_where_none_is_wanted(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: pytest.fail("a GPU is looked for"))
    assert _device("cpu") == CPU


def test_without_matplotlib_nothing_is_played(capsys, monkeypatch, tmp_path):
    real = builtins.__import__

    def without(name, *arguments, **options):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    error = refused(capsys, "random", "-o", tmp_path / "matrix.png")
    assert "pip install matplotlib, or write the matrix as .csv or .json" in error


def test_a_damaged_checkpoint_is_refused_by_name(capsys, tmp_path, tiny_config):
    damaged = build_trainer([tiny_config({})]).save(tmp_path / "checkpoints", 0)
    (damaged / checkpoint.TENSORS).write_bytes(b"nothing")
    assert "is damaged" in refused(capsys, damaged, *QUICK, code=7)

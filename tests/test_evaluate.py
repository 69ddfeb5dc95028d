"""hpsearch evaluate on scripted players, whose figures are known, and on players just built."""

import json
import math

import pytest

from hpsearch.analysis.evaluation_text import yardstick_line, yardstick_rows
from hpsearch.cli import main
from hpsearch.trainers import checkpoint
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.match import threads
from hpsearch.trainers.yardstick import NamedDepths, RandomDepths, Yardstick

QUICK = ["--games", "60", "--match-steps", "0"]


@pytest.fixture(scope="module", autouse=True)
def single_thread():
    """Nets and batches this small lose by sharing, above all on a busy machine."""
    with threads(1):
        yield


@pytest.fixture(scope="module")
def trials(tmp_path_factory, tiny_config):
    """Folders of trials: both roles at 20 points, a host alone at 4, each with two checkpoints."""
    folder = tmp_path_factory.mktemp("trials")
    changes = {
        "pair": {"agent": "learn", "max_num_points": 20},
        "host": {"agent": {"player": "random"}},
    }
    for name, change in changes.items():
        trainer = build_trainer([tiny_config(change)])
        for _ in range(2):
            trainer.train(1)
            trainer.save(folder / name / "checkpoints", 0)
    return folder


def printed(capsys, *arguments):
    code = main(["evaluate", *map(str, arguments)])
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out


def refused(capsys, *arguments):
    code = main(["evaluate", *map(str, arguments)])
    captured = capsys.readouterr()
    assert captured.out == ""
    return code, captured.err


@pytest.mark.slow
def test_zeillinger_has_its_known_figures(capsys):
    plain = json.loads(
        printed(capsys, "zeillinger", "--games", 2000, "--match-steps", 2000, "--json")
    )
    role = plain["roles"]["host"]
    metrics = role["evaluation"]["metrics"]
    assert metrics["rho/host/choose_first"]["value"] == pytest.approx(0.079, rel=0.08)
    assert metrics["rho/host/random"]["value"] == pytest.approx(0.186, rel=0.05)
    assert plain["published_rho"] == {"published DQN": {"choose_first": 0.05, "random": 0.175}}
    assert role["references"]["zeillinger"]["metrics"] == metrics
    # A fifth of the published match, so a fifth of its games.
    assert role["matches"]["choose_first"]["mean"] == pytest.approx(719 / 5, rel=0.2)
    assert role["matches"]["random"]["mean"] == pytest.approx(1898 / 5, rel=0.05)
    depths = {row["name"]: row["player"] for row in role["yardstick"]["ade"]}
    assert (depths["A4"], depths["D4"], depths["E6"]) == (5, 8, 10)
    assert 0 < role["evaluation"]["entropies"]["entropy/host"] < math.log(4)


def test_zeillinger_as_text(capsys):
    text = printed(capsys, "zeillinger", "--games", 60, "--match-steps", 100, "--show-games", 2)
    lines = [line.split() for line in text.splitlines()]
    assert ["zeillinger", "2", "4", "3", "5", "8", "9", "10", "10", "13"] in lines
    assert ["best", "play", "1", "3", "2", "4", "4", "5", "6", "6", "7"] in lines
    assert ["zeillinger,", "published", "719", "|", "675", "1898", "|", "1901"] in lines
    assert sum(line[:2] == ["published", "DQN"] for line in lines) == 1
    assert text.count("over after") >= 3  # the title of rho, and the ends of two games
    assert max(map(len, text.splitlines())) <= 140


def test_an_agent_is_laid_beside_hosts(capsys):
    plain = json.loads(printed(capsys, "choose_first", *QUICK, "--json"))
    role = plain["roles"]["agent"]
    assert list(plain["roles"]) == ["agent"]
    assert set(role["references"]) == {"choose_first", "choose_last", "random"}
    assert "rho/agent/zeillinger" in role["evaluation"]["metrics"]
    assert role["matches"] == "none was asked for"
    assert [row["player"] for row in role["yardstick"]["ade"]] == [1] * 9


@pytest.mark.slow
def test_without_end_is_null_in_json_and_words_in_text(capsys):
    role = json.loads(printed(capsys, "all_coord", *QUICK, "--json"))["roles"]["host"]
    assert role["yardstick"]["ade"][1]["player"] is None
    depths = (NamedDepths("A1", 1, 2.0, 1.0), NamedDepths("A2", 3, 4.0, math.inf))
    nothing = RandomDepths(200, 5.3, math.nan, math.nan, 1.0)
    yardstick = Yardstick("host", depths, nothing)
    _, rows = yardstick_rows("all_coord", yardstick)
    assert [row[0] for row in rows] == [
        "all_coord",
        "best play",
        "zeillinger",
        "best published model",
    ]
    assert rows[0] == ("all_coord", "1", "no end")
    assert yardstick_line(yardstick).endswith("best play 5.30 moves; without end")


def test_a_player_that_draws_its_moves_has_no_worst_case(capsys):
    text = printed(capsys, "random", *QUICK)
    assert text.count("the player draws its moves, or may do so, which has no worst case") == 2
    assert "rho as host" in text
    assert "rho as agent" in text


@pytest.mark.slow
def test_two_learned_roles(capsys, trials):
    text = printed(capsys, trials / "pair", "--games", 60, "--match-steps", 50, "--show-games", 1)
    assert text.startswith("pair at step 2\n")
    assert "rho as host" in text
    assert "rho as agent" in text
    assert "its host against its agent:\n  greedy: rho" in text
    assert text.count("exact yardstick") == 2
    assert text.count("match: games begun in 50 moves") == 2
    plain = json.loads(printed(capsys, trials / "pair", *QUICK, "--json"))
    assert set(plain["host_against_agent"]["metrics"]) == {
        "rho/host/agent",
        "rho_sampled/host/agent",
    }
    assert set(plain["roles"]["agent"]["evaluation"]["entropies"]) == {
        "entropy/agent",
        "entropy_sampled/agent",
    }


def test_what_does_not_fit_is_said_with_its_reason(capsys, trials):
    text = printed(capsys, trials / "host", "--games", 60, "--match-steps", 50)
    assert "no match: it begins with 20 points, the player knows at most 4" in text
    assert "no exact yardstick: the yardstick has 5 points, the player knows at most 4" in text


def test_a_checkpoint_is_found_by_its_own_folder_or_the_newest_one_above(capsys, trials):
    folder = trials / "host" / "checkpoints"
    assert "at step 1" in printed(capsys, checkpoint.path_of(folder, 1), *QUICK)
    assert "at step 2" in printed(capsys, folder, *QUICK)
    code, error = refused(capsys, trials, *QUICK)
    assert code == 2
    assert "holds no whole checkpoint; name a checkpoint, or the folder of a run" in error


def test_a_damaged_checkpoint_is_left_out_and_refused_by_name(capsys, tmp_path, tiny_config):
    trainer = build_trainer([tiny_config({})])
    folder = tmp_path / "checkpoints"
    whole = trainer.save(folder, 0)
    trainer.train(1)
    damaged = trainer.save(folder, 0)
    (damaged / checkpoint.TENSORS).write_bytes(b"nothing")
    assert whole != damaged
    assert main(["evaluate", str(tmp_path), *QUICK]) == 0
    captured = capsys.readouterr()
    assert "at step 0" in captured.out
    assert captured.err == f"hpsearch: {damaged} is damaged and left out\n"
    code, error = refused(capsys, damaged, *QUICK)
    assert code == 7
    assert "is damaged" in error


def test_trees(capsys, tmp_path):
    picture, text = tmp_path / "new" / "tree.svg", tmp_path / "tree.txt"
    printed(capsys, "zeillinger", *QUICK, "--tree", picture)
    assert "10 moves in the worst case" in picture.read_text()
    printed(capsys, "zeillinger", *QUICK, "--tree", text, "--tree-start", "D4")
    assert text.read_text().splitlines()[0] == "D4, zeillinger"
    assert text.read_text().endswith("8 moves in the worst case, 15 choices shown\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["zeilinger"], "did you mean 'zeillinger'?"),
        (["choose_first", "--tree", "x.svg"], "leave out --tree"),
        (["random", "--tree", "x.svg"], "and random may draw them; leave out --tree"),
        (["zeillinger", "--tree", "x.gif"], ".pdf, .png, .svg or written as .txt"),
        (["zeillinger", "--tree", "x.svg", "--tree-start", "E9"], "valid: A1, A2"),
        (
            ["zeillinger", *QUICK, "--tree-start", "D4"],
            "give --tree FILE too, or leave out --tree-start",
        ),
    ],
)
def test_wrong_arguments(capsys, arguments, words):
    code, error = refused(capsys, *arguments)
    assert code == 2
    assert words in error


@pytest.mark.parametrize("arguments", [["--games", "0"], ["--match-steps", "-1"]])
def test_wrong_numbers_are_refused_by_the_parser(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        main(["evaluate", "zeillinger", *arguments])
    assert caught.value.code == 2
    assert "must be" in capsys.readouterr().err

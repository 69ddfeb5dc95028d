"""What the page says of players: measured as evaluate does, trees of best play, drawn whole."""

import math
from dataclasses import replace
from itertools import combinations

import pytest
import torch
from cli_tools import TRAINER, write_study
from pages import read_page
from views import Story

from hpsearch.game.solver import minimax_depth
from hpsearch.report.blowup_tree import Tree, tree_text
from hpsearch.report.contestants import find_contestant
from hpsearch.report.examination import CPU, Plan, examine
from hpsearch.report.host_tree import STARTS, best_tree, host_tree
from hpsearch.report.page.ade import AdeTrees, Pair, ade_trees
from hpsearch.report.page.comparison import comparisons
from hpsearch.report.page.material import gather
from hpsearch.report.page.measuring import measured
from hpsearch.report.page.page import page_text
from hpsearch.report.page.tree_svg import boxes_of, tree_svg
from hpsearch.report.page.trees import trees_html
from hpsearch.trainers.algorithms import build
from hpsearch.trainers.config import read_config
from hpsearch.trainers.match import one_thread
from hpsearch.trainers.published import ADE

PLAN = Plan(num_games=50, match_moves=None)


@pytest.fixture(scope="module", autouse=True)
def single_thread():
    """Nets this small lose by sharing, above all on a busy machine."""
    with one_thread():
        yield


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """A study of which one trial has finished and left a checkpoint."""
    story = Story(write_study(tmp_path_factory.mktemp("study")))
    story.ask(0)
    story.run(0, job="a")
    story.tell(0, "finished", 0.1)
    trainer = build([read_config(TRAINER, source="")])
    trainer.train(1)
    trainer.save(story.view.folder.trial(0).checkpoints, 0)
    return story


def test_players_are_measured_as_evaluate_does(story):
    material = gather(story.view, 0.0, "", lambda view, trial: measured(view, trial, PLAN))
    contestant = find_contestant(story.view.folder.trial(0).checkpoints, CPU)
    report = examine(contestant, PLAN)
    (found,) = comparisons(material)
    (role,) = report.roles
    shown = {row.player: row.values for row in found.rows}
    for opponent in ("choose_first", "choose_last", "random"):
        own = role.evaluation.metrics[f"rho/host/{opponent}"]
        value = shown["trial 0, greedy"][opponent]
        assert (value.value, value.low, value.high) == (own.value, own.low, own.high)
        other = role.references["zeillinger"].metrics[f"rho/host/{opponent}"]
        assert shown["zeillinger"][opponent].value == other.value
    page = read_page(page_text(material, ""))
    assert page.faults == []
    (worst,) = [one for one in page.tables if one[0][1:3] == ["A1", "A2"]]
    exact = next(row for row in worst if row[0] == "best play")
    assert exact[1:] == [str(minimax_depth(points)) for points in STARTS.values()]


def test_a_trial_without_a_checkpoint_says_so(story, tmp_path):
    other = Story(write_study(tmp_path))
    other.ask(0)
    other.run(0, job="a")
    other.tell(0, "finished", 0.1)
    found = measured(other.view, other.view.state.trials[0], PLAN)
    assert isinstance(found, str)
    assert "no folder" in found or "holds no whole checkpoint" in found


@pytest.mark.parametrize("case", ADE, ids=lambda case: case.name)
def test_best_play_needs_as_many_moves_as_the_exact_value(case):
    tree = best_tree(case.name)
    assert tree.is_whole
    assert tree.depth == minimax_depth(case.points)
    if case.minimax is not None:
        assert tree.depth == case.minimax


def test_best_play_of_the_smallest_start():
    assert tree_text(best_tree("A1")).splitlines() == [
        "200 020 002  {0,1,2}",
        "├─ 0: over",
        "├─ 1: over",
        "└─ 2: over",
        "1 moves in the worst case, 1 choices shown",
    ]


def test_trees_of_a_host_lie_beside_those_of_best_play():
    from pathlib import Path

    contestant = find_contestant(Path("zeillinger"), CPU)
    found = ade_trees(contestant)
    assert [pair.start for pair in found.pairs] == [case.name for case in ADE]
    for pair, case in zip(found.pairs, ADE, strict=True):
        assert pair.host.nodes == host_tree(contestant, case.name).nodes
        assert pair.host.depth >= pair.best.depth
        if case.zeillinger is not None:
            assert pair.host.depth == case.zeillinger


def test_a_worst_case_without_end_is_named_so_above_its_tree():
    cut = Tree(tuple(replace(one, state="cut") for one in best_tree("A1").nodes))
    pairs = AdeTrees(tuple(Pair(start, cut, best_tree(start)) for start in ("A1", "A2", "A3")))
    drawn = read_page(trees_html(pairs, {"A1": math.inf, "A2": 7.0}))
    assert "A1: no end, best play 1" in drawn.words
    assert "The host from A1: at least 1 moves in the worst case" in drawn.words
    assert "shown; in the worst case no end" in drawn.words
    assert "A2: at least 1 move, best play 3" in drawn.words
    assert "A3: at least 1 move, best play 2" in drawn.words


@pytest.mark.parametrize("start", ["A1", "D4", "E8"])
def test_every_node_is_drawn_and_none_covers_another(start):
    tree = best_tree(start)
    for one, other in combinations(boxes_of(tree), 2):
        apart = abs(one.x - other.x) - (one.width + other.width) / 2
        assert apart >= 0 or abs(one.y - other.y) >= (one.height + other.height) / 2
    drawn = tree_svg(tree, "a <tree>")
    page = read_page(drawn)
    assert page.faults == []
    assert drawn.count("<line") == len(tree.nodes) - 1
    assert drawn.count("<rect") == tree.num_decisions
    assert drawn.count("<circle cx") == sum(node.state == "over" for node in tree.nodes)
    assert "&lt;tree&gt;" in drawn


def test_an_agent_alone_has_no_trees():
    from pathlib import Path

    contestant = find_contestant(Path("choose_first"), torch.device("cpu"))
    assert ade_trees(contestant) == "only an agent learned here, and a tree is of a host"

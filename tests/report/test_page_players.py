"""What the page says of players: measured as evaluate does, trees of best play, drawn whole."""

import math
from dataclasses import replace
from itertools import combinations

import pytest
import torch
from cli_tools import TRAINER, write_study
from pages import read_page
from views import Story

from hpsearch.analysis.blowup_tree import (
    STARTS,
    Tree,
    best_tree,
    boxes_of,
    host_tree,
    tree_text,
)
from hpsearch.analysis.evaluation_text import exploitability_line
from hpsearch.analysis.examination import CPU, ExaminationPlan, examine, find_player
from hpsearch.game.solver import Solver
from hpsearch.report.page import players
from hpsearch.report.page.answer import comparisons
from hpsearch.report.page.material import gather
from hpsearch.report.page.page import page_text
from hpsearch.report.page.players import (
    AdeTrees,
    MeasuredPlayers,
    Pair,
    ade_trees,
    measured,
    tree_svg,
    trees_html,
)
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import read_config
from hpsearch.trainers.match import threads
from hpsearch.trainers.published import ADE

PLAN = ExaminationPlan(num_games=50, match_moves=None, response_steps=2)


@pytest.fixture(scope="module", autouse=True)
def single_thread():
    """Nets this small lose by sharing, above all on a busy machine."""
    with threads(1):
        yield


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """A study of which one trial has finished and left a checkpoint."""
    story = Story(write_study(tmp_path_factory.mktemp("study")))
    story.ask(0)
    story.run(0, job="a")
    story.tell(0, "finished", 0.1)
    trainer = build_trainer([read_config(TRAINER, source="")])
    trainer.train(1)
    trainer.save(story.view.folder.trial(0).checkpoints, 0)
    return story


@pytest.fixture(scope="module")
def report(story):
    """What its player is worth."""
    return examine(find_player(story.view.folder.trial(0).checkpoints, CPU), PLAN)


@pytest.fixture
def instant(monkeypatch, report):
    """Measure any player at once, and draw no trees: for tests of when it is measured again."""
    monkeypatch.setattr(
        players,
        "examine",
        lambda player, plan: replace(report, name=player.name, num_games=plan.num_games),
    )
    monkeypatch.setattr(players, "ade_trees", lambda _: "no trees are drawn here")


@pytest.mark.slow
def test_players_are_measured_as_evaluate_does(story, report):
    material = gather(story.view, 0.0, "", lambda view, trial: measured(view, trial, PLAN, print))
    (comparison,) = comparisons(material)
    (role,) = report.roles
    shown = dict(comparison.rows)
    for opponent in ("choose_first", "choose_last", "random"):
        own = role.evaluation.metrics[f"rho/host/{opponent}"]
        value = shown["trial 0, greedy"][opponent]
        assert (value["value"], value["low"], value["high"]) == (own.value, own.low, own.high)
        other = role.references["zeillinger"].metrics[f"rho/host/{opponent}"]
        assert shown["zeillinger"][opponent]["value"] == other.value
    html = page_text(material, "")
    assert exploitability_line("host", role.exploitability) in html
    page = read_page(html)
    assert page.faults == []
    (worst,) = [table for table in page.tables if table[0][1:3] == ["A1", "A2"]]
    exact = next(row for row in worst if row[0] == "best play")
    assert exact[1:] == [str(Solver(3).depth(points)) for points in STARTS.values()]


def test_a_trial_without_a_checkpoint_says_so(story, tmp_path):
    other = Story(write_study(tmp_path))
    other.ask(0)
    other.run(0, job="a")
    other.tell(0, "finished", 0.1)
    outcome = measured(other.view, other.view.state.trials[0], PLAN, print)
    assert isinstance(outcome, str)
    assert "no folder" in outcome or "holds no whole checkpoint" in outcome


@pytest.mark.parametrize("case", ADE, ids=lambda case: case.name)
def test_best_play_needs_as_many_moves_as_the_exact_value(case):
    tree = best_tree(case.name)
    assert tree.is_whole
    assert tree.depth == Solver(3).depth(case.points)
    if case.minimax is not None:
        assert tree.depth == case.minimax


def test_best_play_of_the_smallest_start():
    assert tree_text(best_tree("A1")).splitlines() == [
        "200 020 002  {0,1,2}",
        "├─ 0: over",
        "├─ 1: over",
        "└─ 2: over",
        "1 move in the worst case, 1 choice shown",
    ]


def test_trees_of_a_host_lie_beside_those_of_best_play():
    from pathlib import Path

    contestant = find_player(Path("zeillinger"), CPU)
    trees = ade_trees(contestant)
    assert [pair.start for pair in trees.pairs] == [case.name for case in ADE]
    for pair, case in zip(trees.pairs, ADE, strict=True):
        assert pair.host.nodes == host_tree(contestant, case.name).nodes
        assert pair.host.depth >= pair.best.depth
        if case.zeillinger is not None:
            assert pair.host.depth == case.zeillinger


def measure_again(story, plan: ExaminationPlan = PLAN) -> tuple[MeasuredPlayers, bool]:
    """Return what is measured for another page, and whether games were played for it."""
    said: list[str] = []
    players = measured(story.view, story.view.state.trials[0], plan, said.append)
    assert isinstance(players, MeasuredPlayers)
    return players, not any("not played again" in sentence for sentence in said)


def test_what_was_measured_is_not_played_again(story, monkeypatch):
    story.view.folder.measured.unlink(missing_ok=True)
    first, has_played = measure_again(story)
    assert has_played
    monkeypatch.setattr(players, "examine", lambda *_: pytest.fail("games were played again"))
    again, has_played = measure_again(story)
    assert not has_played
    assert repr(again) == repr(first)  # nan, which a worst case without end has, equals nothing


@pytest.mark.slow
@pytest.mark.usefixtures("instant")
def test_another_measurement_or_checkpoint_is_played(story):
    measure_again(story)
    more = replace(PLAN, num_games=60)
    assert measure_again(story, more)[0].report.num_games == 60
    assert measure_again(story)[1], "the last measurement had other games"
    trainer = build_trainer([read_config(TRAINER, source="")])
    trainer.train(2)
    trainer.save(story.view.folder.trial(0).checkpoints, 0)
    players, has_played = measure_again(story)
    assert has_played
    assert players.report.name.endswith("step 2")


@pytest.mark.slow
@pytest.mark.usefixtures("instant")
def test_a_damaged_measurement_is_ignored(story):
    whole, _ = measure_again(story)
    for damage in ("{", '{"format": 1}'):
        story.view.folder.measured.write_text(damage)
        again, has_played = measure_again(story)
        assert has_played
        assert again.report.name == whole.report.name
    assert not measure_again(story)[1]


@pytest.mark.slow
@pytest.mark.usefixtures("instant")
def test_a_study_that_may_only_be_read_is_measured_each_time(story):
    story.view.folder.measured.unlink(missing_ok=True)
    story.view.folder.measured.mkdir()  # nothing can be written in its place
    try:
        assert measure_again(story)[1]
        assert measure_again(story)[1]
    finally:
        story.view.folder.measured.rmdir()


def test_a_worst_case_without_end_is_named_so_above_its_tree():
    cut = Tree(tuple(replace(node, state="cut") for node in best_tree("A1").nodes))
    pairs = AdeTrees(tuple(Pair(start, cut, best_tree(start)) for start in ("A1", "A2", "A3")))
    drawn = read_page(trees_html(pairs, {"A1": math.inf, "A2": 7.0}))
    assert "A1: no end, best play 1" in drawn.words
    assert "The host from A1: at least 1 move in the worst case" in drawn.words
    assert "shown; in the worst case no end" in drawn.words
    assert "A2: at least 1 move, best play 3" in drawn.words
    assert "A3: at least 1 move, best play 2" in drawn.words


@pytest.mark.parametrize("start", ["A1", "D4", "E8"])
def test_every_node_is_drawn_and_none_covers_another(start):
    tree = best_tree(start)
    for box, other in combinations(boxes_of(tree), 2):
        apart = abs(box.x - other.x) - (box.width + other.width) / 2
        assert apart >= 0 or abs(box.y - other.y) >= (box.height + other.height) / 2
    drawn = tree_svg(tree, "a <tree>")
    page = read_page(drawn)
    assert page.faults == []
    assert drawn.count("<line") == len(tree.nodes) - 1
    assert drawn.count("<rect") == sum(node.state == "played" for node in tree.nodes)
    assert drawn.count("<circle cx") == sum(node.state == "over" for node in tree.nodes)
    assert "&lt;tree&gt;" in drawn


def test_an_agent_alone_has_no_trees():
    from pathlib import Path

    contestant = find_player(Path("choose_first"), torch.device("cpu"))
    assert ade_trees(contestant) == "only an agent learned here, and a tree is of a host"


def test_positions_and_names_of_starts_are_explained_where_they_stand(story):
    words = page_words(story, PLAN)
    assert "200 030 004 are (2, 0, 0), (0, 3, 0) and (0, 0, 4)" in words
    assert "A1 to E8 name the simple singularities of surfaces" in words


def page_words(story, plan: ExaminationPlan) -> str:
    material = gather(story.view, 0.0, "", lambda view, trial: measured(view, trial, plan, print))
    return read_page(page_text(material, "")).words

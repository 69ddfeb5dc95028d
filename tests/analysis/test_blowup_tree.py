"""Blow-up trees against the published sizes, the longest game, and whole texts and layouts."""

import math
import re
from itertools import pairwise

import pytest
import torch

from hpsearch.analysis.blowup_tree import (
    DOT,
    FILLS,
    GAP,
    LEVEL,
    MARKS,
    OVER,
    TOP,
    Tree,
    TreeNode,
    blowup_tree,
    boxes_of,
    extent,
    label,
    summary,
    tree_text,
    write_picture,
)
from hpsearch.game.kernels import BACKENDS
from hpsearch.game.players import HOSTS
from hpsearch.game.solver import SearchLimits, longest_game
from hpsearch.report.page.players import tree_svg
from hpsearch.trainers.published import ADE

# Published: depth, and the host's choices, of the tree under zeillinger.
SIZES = {"A1": (2, 3), "A2": (4, 7), "A3": (3, 5), "A4": (5, 9), "D4": (8, 15), "E6": (10, 27)}
START = {case.name: torch.tensor(case.points, dtype=torch.int32) for case in ADE}


def zeillinger(points):
    return HOSTS["zeillinger"](points, torch.zeros(()))


def all_coord(points):
    return HOSTS["all_coord"](points, torch.zeros(()))


def tree_of(start, host=zeillinger, max_depth=40, max_nodes=2000) -> Tree:
    return blowup_tree(host, start, reposition=True, max_depth=max_depth, max_nodes=max_nodes)


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_the_published_sizes(name):
    tree = tree_of(START[name])
    assert (tree.depth, sum(node.state == "played" for node in tree.nodes)) == SIZES[name]
    assert tree.is_whole


@pytest.mark.slow
def test_the_depth_is_the_longest_game():
    starts = BACKENDS["cpu"].random_starts(
        torch.tensor([5]),
        torch.zeros(1, 30, dtype=torch.int64),
        num_points=4,
        dimension=3,
        max_value=4,
    )[0]
    limits = SearchLimits(max_moves=40, max_positions=10_000, reposition=True)
    for start, length in zip(starts, longest_game(zeillinger, starts, limits), strict=True):
        tree = tree_of(start)
        assert tree.is_whole
        assert tree.depth == length


@pytest.mark.slow
def test_text_of_a_tree():
    assert (
        tree_text(tree_of(START["A1"]))
        == """\
200 020 002  {0,1}
├─ 0: 200 002  {0,2}
│  ├─ 0: over
│  └─ 2: over
└─ 1: 020 002  {1,2}
   ├─ 1: over
   └─ 2: over
2 moves in the worst case, 3 choices shown"""
    )


@pytest.mark.slow
def test_a_cut_is_visible():
    tree = tree_of(START["E6"], max_depth=2)
    assert not tree.is_whole
    assert (
        tree_text(tree)
        == """\
200 030 004  {0,1}
├─ 0: 200 004  {0,2}
│  ├─ 0: over
│  └─ 2: 200 002  ... cut here
└─ 1: 220 030 004  {0,1}
   ├─ 0: 420 330 004  ... cut here
   └─ 1: 030 004  ... cut here
at least 2 moves in the worst case, 3 choices shown"""
    )


@pytest.mark.parametrize("max_nodes", [1, 3, 54, 55])
def test_a_tree_keeps_to_its_number_of_nodes(max_nodes):
    tree = tree_of(START["E6"], max_nodes=max_nodes)
    assert len(tree.nodes) <= max_nodes
    assert tree.is_whole == (max_nodes == 55)  # 27 choices and 28 games that are over
    assert "at least" in summary(tree) or tree.is_whole


@pytest.mark.parametrize("name", ["A1", "A2", "A3", "A4"])
def test_a_position_that_repeats_is_drawn_once(name):
    tree = tree_of(START[name], all_coord)
    limits = SearchLimits(max_moves=40, max_positions=10_000, reposition=True)
    (longest,) = longest_game(all_coord, START[name][None], limits)
    assert tree.is_endless == math.isinf(longest)
    assert tree.is_whole
    assert len(tree.nodes) <= 16
    assert ("repeats" in tree_text(tree)) == tree.is_endless
    assert summary(tree).startswith("no end" if tree.is_endless else f"{longest:.0f} move")


def test_a_game_beyond_the_bound_is_marked():
    start = torch.tensor([[2**30, 0, 1], [3, 2**30, 1]], dtype=torch.int32)
    tree = tree_of(start, all_coord, max_depth=1)
    assert "beyond 2^30" in tree_text(tree)


def test_a_start_that_is_over_is_a_tree_of_one_node():
    tree = tree_of(torch.tensor([[1, 2, 3], [-1, -1, -1]], dtype=torch.int32))
    assert tree_text(tree) == "over\n0 moves in the worst case, 0 choices shown"
    (box,) = boxes_of(tree)
    assert (box.x, box.y) == (DOT + GAP / 2, TOP)


def test_the_layout_by_hand():
    """A1: four dots side by side, their parents above two of them, the root in the middle."""
    boxes = boxes_of(tree_of(START["A1"]))
    root, left, right, *dots = (box.x for box in boxes)
    assert left == pytest.approx((dots[0] + dots[1]) / 2)
    assert right == pytest.approx((dots[2] + dots[3]) / 2)
    assert root == pytest.approx((left + right) / 2)
    assert [box.y for box in boxes] == [TOP + LEVEL * level for level in (0, 1, 1, 2, 2, 2, 2)]
    assert {(box.width, box.height) for box in boxes[3:]} == {(2 * DOT, 2 * DOT)}


@pytest.mark.parametrize("name", ["D4", "E6", "E8"])
def test_no_two_nodes_of_a_level_overlap_and_children_keep_their_order(name):
    tree = tree_of(START[name])
    boxes, children = boxes_of(tree), tree.children()
    width, height = extent(boxes)
    for box, below in zip(boxes, children, strict=True):
        assert [boxes[child].y for child in below] == [box.y + LEVEL] * len(below)
        across = [boxes[child].x for child in below]
        assert across == sorted(across)
        if below:
            assert across[0] <= box.x <= across[-1]
        assert 0 <= box.x - box.width / 2 < box.x + box.width / 2 < width
        assert box.y + box.height / 2 < height
    for depth in range(tree.depth + 1):
        level = [box for box, node in zip(boxes, tree.nodes, strict=True) if node.depth == depth]
        for box, other in pairwise(level):  # in the order of their axes
            assert other.x - box.x >= (box.width + other.width) / 2 + GAP - 1e-9


def test_labels_wrap_and_end():
    tree = tree_of(torch.tensor([[9 - k, k, 50] for k in range(10)], dtype=torch.int32))
    lines = label(tree.nodes[0])
    assert len(lines) == 5
    assert lines[-1] == tree.nodes[0].subset
    assert lines[-2].endswith("...")


@pytest.mark.parametrize("kind", ["svg", "png", "pdf"])
def test_pictures(tmp_path, kind):
    path = tmp_path / "pictures" / f"tree.{kind}"
    path.parent.mkdir()
    path.write_text("old")
    write_picture(tree_of(START["A1"]), "A1", path)
    signature = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[kind]
    assert path.read_bytes().startswith(signature)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    if kind == "svg":
        first = path.read_bytes()
        write_picture(tree_of(START["A1"]), "A1", path)
        assert path.read_bytes() == first


EVERY_STATE = Tree(
    (
        TreeNode(None, None, 0, "200 020 002", "{0,1}", "played"),
        *(
            TreeNode(0, axis, 1, f"20{axis}", "", state)
            for axis, state in enumerate(("over", "capped", "repeated", "cut"))
        ),
    )
)


def test_a_picture_shows_each_state_as_such(tmp_path):
    write_picture(EVERY_STATE, "every state", tmp_path / "tree.svg")
    drawn = (tmp_path / "tree.svg").read_text().lower()
    for state, fill in FILLS.items():
        assert f"fill: {fill}" in drawn, state
    assert f"fill: {OVER}" in drawn
    words = {text.strip() for text in re.findall(r"<!--(.*?)-->", drawn, re.DOTALL)}
    for state in ("capped", "repeated", "cut"):
        assert any(MARKS[state] in text for text in words), state
    assert not any(text == MARKS["over"] for text in words), "a dot says so"


def test_a_drawing_of_the_page_shows_each_state_as_such():
    drawn = tree_svg(EVERY_STATE, "every state")
    for state in ("played", "capped", "repeated", "cut"):
        assert drawn.count(f'<rect class="{state}"') == 1
    for state in ("capped", "repeated", "cut"):
        assert drawn.count(f">{MARKS[state]}</text>") == 1
    assert drawn.count('<circle class="answer"') == 4
    assert drawn.count("<circle cx") == 1, "the game that is over is a dot"

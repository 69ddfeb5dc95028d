"""The best trial's players: measured for the page, and the blow-up trees of its host as SVG.

A checkpoint is known by its sha256, and the games are fixed by their seeds, so the same measurement
of it would give the same numbers again: what was measured is kept for the next page.
"""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hpsearch import files
from hpsearch.analysis import blowup_tree, examination
from hpsearch.analysis.blowup_tree import Box, Tree, TreeNode, summary
from hpsearch.analysis.examination import ExaminationPlan, ExaminedPlayer, PlayerReport, examine
from hpsearch.cluster.record_files import read_record
from hpsearch.errors import DiskError, HpsearchError, UsageError
from hpsearch.package import __version__
from hpsearch.report.page import html
from hpsearch.report.page.html import Html
from hpsearch.schema import to_plain
from hpsearch.study.records import Trial
from hpsearch.study.view import StudyView
from hpsearch.trainers import checkpoint


@dataclass(frozen=True)
class Pair:
    start: str  # name in the ADE table
    host: Tree  # of the trained host
    best: Tree  # of best play, whose depth is the exact value


@dataclass(frozen=True)
class AdeTrees:
    pairs: tuple[Pair, ...]


def ade_trees(player: ExaminedPlayer) -> AdeTrees | str:
    if player.host is None:
        return "only an agent learned here, and a tree is of a host"
    try:
        pairs = (
            Pair(start, blowup_tree.host_tree(player, start), blowup_tree.best_tree(start))
            for start in blowup_tree.STARTS
        )
        return AdeTrees(tuple(pairs))
    except UsageError:
        game = player.game
        return (
            "the ADE singularities have 3 points in 3 dimensions, the host plays "
            f"{game.max_num_points} in {game.dimension}"
        )


FORMAT: Final = 2  # to be raised where what is measured, or how, changes between releases


@dataclass(frozen=True)
class MeasuredPlayers:
    format: int
    version: str  # of hpsearch
    checkpoint: str  # sha256
    plan: ExaminationPlan
    report: PlayerReport
    trees: AdeTrees | str  # of its host; or why there are none


def measured(
    view: StudyView, trial: Trial, plan: ExaminationPlan, tell: Callable[[str], None]
) -> MeasuredPlayers | str:
    """Return what the players of a trial's newest checkpoint are worth, or why that is unknown."""
    try:
        path = examination.find_checkpoint(view.folder.trial(trial.number).checkpoints)
        identity = checkpoint.identity(path)
        kept = None
        with suppress(HpsearchError):
            kept = read_record(MeasuredPlayers, view.folder.measured)
        key = (FORMAT, __version__, identity, plan)
        if kept and (kept.format, kept.version, kept.checkpoint, kept.plan) == key:
            tell(f"trial {trial.number} was measured before; its games are not played again")
            return kept
        tell(f"measuring trial {trial.number} in {plan.num_games:,} games per opponent")
        player = examination.find_player(path, examination.CPU)
    except HpsearchError as error:
        return str(error)
    report = examine(player, plan)
    tell("drawing its blow-up trees")
    kept = MeasuredPlayers(FORMAT, __version__, identity, plan, report, ade_trees(player))
    with suppress(DiskError):  # a page of a study that may only be read is measured each time
        files.replace_json(view.folder.measured, to_plain(kept))
    return kept


def tree_svg(tree: Tree, title: str) -> Html:
    """Draw a tree; ``title`` says to those who cannot see it what it is."""
    boxes = blowup_tree.boxes_of(tree)
    width, height = blowup_tree.extent(boxes)
    placed = list(zip(tree.nodes, boxes, strict=True))
    edges = (
        _edge(node, boxes[node.parent], box) for node, box in placed if node.parent is not None
    )
    nodes = (_node(node, box) for node, box in placed)
    return Html(
        f'<div class="scroll" data-middle="{boxes[0].x:.0f}"><svg class="tree" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'role="img" aria-label="{html.text(title)}">\n'
        f"{html.join(edges)}\n{html.join(nodes)}\n</svg></div>"
    )


def _edge(node: TreeNode, above: Box, below: Box) -> Html:
    at = blowup_tree.answer_of(above, below)
    return Html(
        f'<line x1="{above.x:.0f}" y1="{above.y:.0f}" x2="{below.x:.0f}" y2="{below.y:.0f}"/>'
        f'<circle class="answer" cx="{at.x:.0f}" cy="{at.y:.0f}" r="6"/>'
        f'<text class="axis" x="{at.x:.0f}" y="{at.y + 3:.0f}">{html.text(node.axis)}</text>'
    )


def _node(node: TreeNode, box: Box) -> Html:
    if node.state == "over":
        return Html(f'<circle cx="{box.x:.0f}" cy="{box.y:.0f}" r="{blowup_tree.DOT}"/>')
    top, spacing = box.y - box.height / 2, blowup_tree.LINE
    first = top + blowup_tree.PADDING + 0.8 * spacing
    words = (
        f'<text x="{box.x:.0f}" y="{first + spacing * at:.0f}">{html.text(line)}</text>'
        for at, line in enumerate(blowup_tree.label(node))
    )
    return Html(
        f'<rect class="{node.state}" x="{box.x - box.width / 2:.0f}" y="{top:.0f}" '
        f'width="{box.width:.0f}" height="{box.height:.0f}" rx="4"/>{"".join(words)}'
    )


SHOWN: Final = "E6"  # the start whose trees are unfolded


def trees_html(trees: AdeTrees, worst: Mapping[str, float]) -> Html:
    """Return the pairs of trees, folded but for one; ``worst`` are the host's moves by start."""
    reading = html.paragraph(
        "A node is a position with the host's choice of coordinates, an edge an answer of the "
        "agent, a dot a game that is over. A position is written by its points, a point by its "
        "coordinates: 200 030 004 are (2, 0, 0), (0, 3, 0) and (0, 0, 4). The depth is the worst "
        "case; no host has one below that of best play. A box with the word repeats is a position "
        "that occurs above it on its branch: the host plays the same again, without end."
    )
    return html.join([reading, *(_pair(pair, worst.get(pair.start)) for pair in trees.pairs)])


def _pair(pair: Pair, worst: float | None) -> Html:
    is_endless = worst is not None and math.isinf(worst)
    end = "; in the worst case no end" if is_endless and not pair.host.is_endless else ""
    titles = {
        f"The host from {pair.start}: {summary(pair.host)}{end}": pair.host,
        f"Best play from {pair.start}: {summary(pair.best)}": pair.best,
    }
    drawn = [html.join([html.paragraph(t), tree_svg(tree, t)]) for t, tree in titles.items()]
    moves = "no end" if is_endless else blowup_tree.worst_case(pair.host)
    title = f"{pair.start}: {moves}, best play {pair.best.depth}"
    return html.folded(title, html.beside(drawn), is_open=pair.start == SHOWN)

"""Descent as a table for people, and as plain data for programs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from hpsearch.report.lineage import Descent, Relative
from hpsearch.report.parameter_names import short_names
from hpsearch.report.trial_list import setting_text
from hpsearch.report.whole_lines import print_whole


def plain_lineage(found: Descent, line: Sequence[Relative]) -> dict[str, Any]:
    """Return everybody, who came from whom, and the line to one; the keys are published."""
    return {
        "champion": found.champion,
        "line": [one.trial for one in line],
        "trials": [asdict(one) for one in found.relatives.values()],
        "edges": [
            {"parent": parent, "child": one.trial, "position": position}
            for one in found.relatives.values()
            for position, parent in enumerate(one.parents)
        ],
    }


def print_lineage(console: Console, relatives: Sequence[Relative], champion: int | None) -> None:
    """Print a row a trial, as wide as a terminal; in a file or pipe, rows are not broken."""
    table = lineage_table(relatives)
    if console.is_terminal:
        console.print(table)
    else:
        print_whole(console, table)
    for remark in lineage_remarks(relatives, champion):
        console.print(remark, highlight=False, soft_wrap=not console.is_terminal)


def lineage_table(relatives: Sequence[Relative]) -> Table:
    """Return a row a trial: what made it, how strong it was, what changed."""
    table = Table(box=None, header_style="bold")
    for column in ("match", "trial", "member", "parents", "operator", "strength", "changes"):
        is_text = column in ("parents", "operator", "changes")
        table.add_column(column, justify="left" if is_text else "right")
    names = changed_names(relatives)
    for one in relatives:
        strength = "" if one.strength is None else f"{one.strength:+.3f}"
        parents = ", ".join(map(str, one.parents))
        table.add_row(
            str(one.generation),
            str(one.trial),
            str(one.member),
            parents,
            operator_text(one),
            strength,
            changes_text(one.changes, names),
        )
    return table


def lineage_remarks(relatives: Sequence[Relative], champion: int | None) -> list[str]:
    """Return what the words of the table mean that need it, the champion's own first."""
    return [
        f"{_whose(one, champion)} not adopted: the child that {one.operator} made lost against a "
        "copy of its first parent, so that copy trained in its place, with the changes"
        for one in sorted(relatives, key=lambda one: one.trial != champion)
        if one.adopted is False
    ][:1]


def _whose(one: Relative, champion: int | None) -> str:
    return f"trial {one.trial}{', the champion,' if one.trial == champion else ''} was"


def operator_text(one: Relative) -> str:
    """Return how a trial was made: new, by an operator, or by going on as it was."""
    if one.founder is not None:
        is_known = one.founder.study is not None
        whose = f"{one.founder.study}/{one.founder.trial}" if is_known else one.founder.checkpoint
        return f"{one.operator} of {whose}"
    if one.operator == "fresh":
        return "new networks"
    if not one.is_child:
        return "goes on"
    how = one.operator if one.adopted is not False else f"{one.operator}, not adopted"
    return how if one.has_trained else f"{how}, untrained"


def changed_names(relatives: Iterable[Relative]) -> dict[str, str]:
    """Return short names of all that changed, by dotted path."""
    return short_names(path for one in relatives for path in one.changes)


def changes_text(changes: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Return what changed, by the ``names`` of the paths."""
    return ", ".join(
        f"{names[path]} {_text(before)} -> {_text(after)}"
        for path, (before, after) in changes.items()
    )


def _text(value: Any) -> str:
    return "none" if value is None else setting_text(value)

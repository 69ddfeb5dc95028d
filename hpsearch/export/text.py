"""A certificate as tables, and a trainer configuration as other programs read it.

A trainer configuration alone, as other programs read it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from rich.console import Console
from rich.table import Table

from hpsearch import yaml_file
from hpsearch.analysis.verdict import certified_verdict
from hpsearch.errors import UsageError
from hpsearch.printable import interval_text
from hpsearch.terminal import print_whole

MODES = {"rho": "", "rho_sampled": ", sampled"}
"""how a player plays, by the first part of a metric's name; greedily where nothing is said"""


def print_verdict(
    console: Console, rows: Sequence[Mapping[str, Any]], trial: int, config: Mapping[str, Any]
) -> None:
    """Print what the certificate of a trial with a configuration comes to, in sentences."""
    for sentence in certified_verdict(f"trial {trial}", rows, config):
        console.print(sentence, highlight=False, markup=False, soft_wrap=True)


def print_rows(console: Console, trained: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print a certificate, a table a role; ``trained`` names the player that learned."""
    games = next(iter(rows[0]["metrics"].values()))["games"]
    console.print(f"\nOn {games:,} games from starts that the search never used, 95 % intervals:")
    for role in ("host", "agent"):
        table = _table(role, trained, rows)
        if table.row_count:
            print_whole(console, table)


def _table(role: str, trained: str, rows: Sequence[dict[str, Any]]) -> Table:
    """Return a row a player and way to play, a column an opponent."""
    names = [name.split("/") for row in rows for name in row["metrics"]]
    against = dict.fromkeys(
        name[2] for name in names if name[0] in MODES and name[1] == role and len(name) == 3
    )
    table = Table(box=None, header_style="bold")
    table.add_column(f"rho as {role}, against")
    for opponent in against:
        table.add_column(opponent, justify="right")
    for row in rows:
        name = trained if row["player"] == "trained" else row["player"]
        for mode, how in MODES.items():
            cells = [row["metrics"].get(f"{mode}/{role}/{opponent}") for opponent in against]
            if any(cells):
                values = ("" if cell is None else interval_text(cell) for cell in cells)
                table.add_row(f"{name}{how}", *values)
    return table


Format = Literal["yaml", "json", "hydra"]
HYDRA_HEADER: Final = "# @package _global_"
"""by which Hydra puts the keys of a config group's file at the root"""
_INTERPOLATION: Final = "${"


def config_text(config: Mapping[str, Any], how: Format) -> str:
    """Return a complete trainer configuration as text.

    Args:
        config: plain data.
        how: ``yaml``, which `hpsearch train` runs; ``json``; or ``hydra``, a file of a config
            group, such as conf/trainer/best.yaml, whose keys end up at the root: ``+trainer=best``.

    Raises:
        UsageError: if Hydra would take one of the values for a reference to another one.
    """
    match how:
        case "yaml":
            return yaml_file.dump_portable(dict(config))
        case "json":
            return json.dumps(config, indent=2) + "\n"
        case "hydra":
            return _hydra(config)


def _hydra(config: Mapping[str, Any]) -> str:
    text = yaml_file.dump_portable(dict(config))
    if _INTERPOLATION in text:
        raise UsageError(
            f"Hydra takes {_INTERPOLATION}...}} for a reference to another key, but a value of the "
            "configuration holds one; export it as yaml or json"
        )
    # _self_ last: Hydra warns where the place of the file's own keys is left open.
    return f"{HYDRA_HEADER}\ndefaults:\n- _self_\n\n{text}"

"""Certificates as text, also what a study's last export certifies; configurations for others.

Nothing here loads torch.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from hpsearch import yaml_file
from hpsearch.analysis.verdict import certified_verdict
from hpsearch.errors import ConfigError, CorruptError, DiskError, UsageError
from hpsearch.export.folder import BundleDir
from hpsearch.files import read_json
from hpsearch.printable import interval_text
from hpsearch.schema import read_hint
from hpsearch.study.records import Trial
from hpsearch.study.view import StudyView
from hpsearch.terminal import print_line, print_whole, text_table
from hpsearch.trainers.rho import Rho

MODES = {"rho": "", "rho_sampled": ", sampled"}  # how a player plays, by a metric's beginning


@dataclass(frozen=True)
class CertifiedRow:
    player: str
    role: Literal["host", "agent"]
    metrics: dict[str, Rho]  # by metric name


def standing_verdict(view: StudyView, trial: Trial) -> list[str]:
    """Return how strong a trial is in sentences, as its bundle certifies; else none."""
    path = BundleDir(view.folder.best).certificate
    try:
        data = read_json(path)
        if not isinstance(data, Mapping) or data.get("trial") != trial.number:
            return []
        certified = read_hint(tuple[CertifiedRow, ...], data.get("rows"), source=str(path))
    except (ConfigError, CorruptError, DiskError):
        return []
    rows = [asdict(row) for row in certified]
    return certified_verdict(f"trial {trial.number}", rows, view.config(trial))


def print_verdict(
    console: Console, rows: Sequence[Mapping[str, Any]], trial: int, config: Mapping[str, Any]
) -> None:
    for sentence in certified_verdict(f"trial {trial}", rows, config):
        print_line(console, sentence)


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
    of_role = (name for name in names if name[0] in MODES and name[1] == role)
    against = dict.fromkeys(name[2] for name in of_role if len(name) == 3)
    rows_of_table = []
    for row in rows:
        name = trained if row["player"] == "trained" else row["player"]
        for mode, how in MODES.items():
            cells = [row["metrics"].get(f"{mode}/{role}/{opponent}") for opponent in against]
            if any(cells):
                values = ("" if cell is None else interval_text(cell) for cell in cells)
                rows_of_table.append((f"{name}{how}", *values))
    return text_table((f"rho as {role}, against", *against), rows_of_table)


Format = Literal["yaml", "json", "hydra"]


def config_text(config: Mapping[str, Any], how: Format) -> str:
    """Return a complete trainer configuration as text.

    ``hydra`` is a file of a config group, such as conf/trainer/best.yaml, whose keys end up at the
    root: ``+trainer=best``. Raises UsageError if Hydra would take one of the values for a reference
    to another one.
    """
    if how == "json":
        return json.dumps(config, indent=2) + "\n"
    text = yaml_file.dump_portable(dict(config))
    if how == "yaml":
        return text
    if "${" in text:
        raise UsageError(
            "Hydra takes ${...} for a reference to another key, but a value of the configuration "
            "holds one; export it as yaml or json"
        )
    # By its header, Hydra puts the file's keys at the root.
    # _self_ last: Hydra warns where the place of the file's own keys is left open.
    return f"# @package _global_\ndefaults:\n- _self_\n\n{text}"

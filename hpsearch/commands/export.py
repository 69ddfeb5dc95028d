"""hpsearch export: write trials as folders that stand alone, or their configuration."""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hpsearch import files
from hpsearch.commands.command import JSON, STUDY, command, flag, option, positive
from hpsearch.errors import UsageError
from hpsearch.names import check_places, runs_option

if TYPE_CHECKING:
    from rich.console import Console

    from hpsearch.export.text import Format
    from hpsearch.export.writing import How, Measures
    from hpsearch.study.records import Trial
    from hpsearch.study.view import StudyView

NUM_GAMES = 10_000  # of a certificate, an opponent and mode


@command(
    "write the best trial as a folder that stands alone",
    *STUDY,
    JSON,
    option(
        "-o --output DIR",
        "folder, or file for --format; default: RUNS/STUDY/best, top or front, and the screen",
        Path,
    ),
    (
        option("--trial N", "another trial than the best", int),
        option("--top K", "the K best, a folder each", positive),
        flag("--pareto", "every trial that no other one beats in all objectives, a folder each"),
    ),
    option(
        "--format",
        "the trainer configuration alone; hydra: a file of a config group",
        choices=("yaml", "json", "hydra"),
        to="form",
    ),
    option(
        "--games G", "games of the certificate, an opponent and mode", positive, default=NUM_GAMES
    ),
    option("--sign KEY", "sign bundles by this SSH key, with ssh-keygen", Path, to="key"),
    examples=["quickstart -o best/", "quickstart --top 3"],
)
def export(
    study: str,
    runs: Path,
    *,
    output: Path | None,
    trial: int | None,
    top: int | None,
    pareto: bool,
    form: "Format | None",
    games: int,
    key: Path | None,
    as_json: bool,
) -> int:
    from hpsearch.study.view import open_view
    from hpsearch.terminal import say

    view = open_view(study, runs)
    if output is not None:
        check_places(output)
    if form is not None and as_json:
        raise UsageError("--json describes bundles; for a configuration: --format json")
    if form is not None and key is not None:
        raise UsageError("--sign signs bundles; leave out --format, or --sign")
    is_one = top is None and not pareto
    if form is not None and not is_one:
        raise UsageError(
            "--format writes one configuration; choose it with --trial, or leave out --format"
        )
    confirm = f"hpsearch confirm {view.study.spec.name}{runs_option(runs)}"
    trials, remark = _trials(view, trial, top, confirm, pareto=pareto)
    default = view.folder.best if is_one else view.folder.front if pareto else view.folder.top
    if form is not None:
        _export_config(view, trials[0], output, form)
    else:
        folder = default if output is None else output.absolute()
        how = conditions(games, key)
        _export_bundles(view, trials, folder, how, is_one=is_one, as_json=as_json)
    if remark is not None:
        say(remark)
    return 0


def _trials(
    view: "StudyView", number: int | None, top: int | None, confirm: str, *, pareto: bool
) -> "tuple[list[Trial], str | None]":
    from hpsearch.export.choice import the_best, the_front, the_top, unconfirmed
    from hpsearch.terminal import say

    if pareto:
        return the_front(view), None
    if number is not None:
        if number not in view.state.trials:
            numbers = f"only 0 to {len(view.state.trials) - 1}" if view.state.trials else "none yet"
            raise UsageError(f"the study {view.study.spec.name} has no trial {number}, {numbers}")
        return [view.state.trials[number]], unconfirmed(view, confirm)
    best, remark = the_best(view, confirm)
    if top is None:
        return [best], remark
    trials = the_top(view, top, best)
    if len(trials) < top:
        say(f"{view.study.spec.name} has only {len(trials)} to export")
    return trials, remark


def _export_config(view: "StudyView", trial: "Trial", output: Path | None, form: "Format") -> None:
    from hpsearch.export.text import config_text

    text = config_text(view.config(trial), form)
    if output is None:
        print(text, end="")
    else:
        files.write_text(output.absolute(), text)
        print(f"the configuration of trial {trial.number} is in {output.absolute()}")


def _export_bundles(
    view: "StudyView",
    trials: "Sequence[Trial]",
    folder: Path,
    how: "How",
    *,
    is_one: bool,
    as_json: bool,
) -> None:
    from hpsearch.export.text import print_verdict
    from hpsearch.export.writing import bundle_names, export_bundle, export_bundles
    from hpsearch.terminal import Terminal

    if is_one:
        exported, places = [export_bundle(view, trials[0], folder, how)], [folder]
    else:
        exported = export_bundles(view, trials, folder, how)
        places = [folder / name for name in bundle_names(trials)]
    if as_json:
        plain = exported[0] if is_one else {"bundles": exported}
        print(json.dumps({**plain, "folder": str(folder)}, indent=1))
        return
    for trial, measures, place in zip(trials, exported, places, strict=True):
        print_verdict(Terminal(), measures["rows"], trial.number, view.config(trial))
        print_export(Terminal(), place, measures)


def conditions(num_games: int, key: Path | None) -> "How":
    from hpsearch.export.writing import How

    return How(num_games, " ".join(("hpsearch", *sys.argv[1:])), datetime.now(UTC), key)


def print_export(console: "Console", folder: Path, measures: "Measures") -> None:
    from hpsearch.export.text import print_rows
    from hpsearch.terminal import print_line

    print_rows(console, f"trial {measures['trial']}", measures["rows"])
    print_line(console, f"exported to {folder}")

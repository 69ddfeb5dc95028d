"""hpsearch lineage: the ancestry of a population, and how the champion came about."""

import json
from pathlib import Path

from hpsearch import files
from hpsearch.commands.command import JSON, STUDY, check_output, command, flag, option


@command(
    "the ancestry of a population",
    *STUDY,
    JSON,
    option("--trial N", "the line that leads to it; default: the champion", int),
    flag("--all", "list all trials, not one line", to="show_all"),
    option("-o --output FILE", "write it: .png, .svg or .pdf, or .json", Path),
    examples=["population_pairs --all -o lineage.svg"],
)
def lineage(
    study: str,
    runs: Path,
    *,
    trial: int | None,
    show_all: bool,
    output: Path | None,
    as_json: bool,
) -> int:
    from hpsearch.analysis.lineage import (
        plain_lineage,
        print_lineage,
        read_lineage,
        write_lineage,
    )
    from hpsearch.study.view import open_view
    from hpsearch.terminal import Terminal, say

    check_output(output, "descent", (".json",))
    ancestry = read_lineage(open_view(study, runs))
    whose = ancestry.champion if trial is None else trial
    line = [] if whose is None else ancestry.line(whose)
    plain = plain_lineage(ancestry, line)
    if as_json:
        print(json.dumps(plain, indent=1))
    elif not ancestry.relatives:
        print(f"no trial of {study} has finished yet; look at it with: hpsearch status {study}")
    else:
        listed = list(ancestry.relatives.values()) if show_all or not line else line
        print_lineage(Terminal(), listed, ancestry.champion)
    if output is not None and output.suffix == ".json":
        files.write_json(output, plain)
    elif output is not None:
        write_lineage(ancestry, output)
    if output is not None:
        say(f"the descent is in {output}")
    return 0

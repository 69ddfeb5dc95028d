"""hpsearch lineage: who descends from whom, and how the champion came about."""

import json
from pathlib import Path

from hpsearch import atomic
from hpsearch.errors import UsageError
from hpsearch.report.lineage import read_lineage
from hpsearch.report.lineage_picture import write_lineage
from hpsearch.report.lineage_text import plain_lineage, print_lineage
from hpsearch.report.picture_files import PICTURES, check_matplotlib
from hpsearch.report.terminal import Terminal, say
from hpsearch.report.view import open_view


def lineage(
    study: str,
    runs: Path,
    *,
    trial: int | None,
    everybody: bool,
    output: Path | None,
    as_json: bool,
) -> int:
    """Print the line that leads to a trial, or all descent.

    Args:
        study: study file, or name of a started study.
        runs: the folder of the studies.
        trial: whose line; None for the champion's.
        everybody: whether all trials are listed instead.
        output: where to write the descent: a picture or .json; None writes none.
        as_json: print plain data instead of a table.
    """
    _check_output(output)
    found = read_lineage(open_view(study, runs))
    whose = found.champion if trial is None else trial
    line = [] if whose is None else found.line(whose)
    plain = plain_lineage(found, line)
    if as_json:
        print(json.dumps(plain, indent=1))
    elif not found.relatives:
        print(f"no trial of {study} has finished yet; look at it with: hpsearch status {study}")
    else:
        listed = list(found.relatives.values()) if everybody or not line else line
        print_lineage(Terminal(), listed, found.champion)
    if output is not None and output.suffix == ".json":
        atomic.write_json(output, plain)
    elif output is not None:
        write_lineage(found, output)
    if output is not None:
        say(f"the descent is in {output}")
    return 0


def _check_output(path: Path | None) -> None:
    """Refuse what could not be written, before anything is read."""
    if path is None or path.suffix == ".json":
        return
    if path.suffix not in PICTURES:
        raise UsageError(
            f"descent is drawn as one of {', '.join(PICTURES)} or written as .json, "
            f"got {str(path)!r}; change the file's name"
        )
    check_matplotlib("write it as .json")

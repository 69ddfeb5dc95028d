"""hpsearch lineage: the ancestry of a population, and how the champion came about."""

import json
from pathlib import Path

from hpsearch import files
from hpsearch.analysis.lineage import plain_lineage, print_lineage, read_lineage, write_lineage
from hpsearch.analysis.pictures import PICTURES, check_matplotlib
from hpsearch.errors import UsageError
from hpsearch.study.view import open_view
from hpsearch.terminal import Terminal, say


def lineage(
    study: str,
    runs: Path,
    *,
    trial: int | None,
    show_all: bool,
    output: Path | None,
    as_json: bool,
) -> int:
    """Print the line that leads to a trial, or all descent.

    Args:
        study: study file, or name of a started study.
        runs: the folder of the studies.
        trial: whose line; None for the champion's.
        show_all: whether all trials are listed instead.
        output: where to write the descent: a picture or .json; None writes none.
        as_json: print plain data instead of a table.
    """
    _check_output(output)
    descent = read_lineage(open_view(study, runs))
    whose = descent.champion if trial is None else trial
    line = [] if whose is None else descent.line(whose)
    plain = plain_lineage(descent, line)
    if as_json:
        print(json.dumps(plain, indent=1))
    elif not descent.relatives:
        print(f"no trial of {study} has finished yet; look at it with: hpsearch status {study}")
    else:
        listed = list(descent.relatives.values()) if show_all or not line else line
        print_lineage(Terminal(), listed, descent.champion)
    if output is not None and output.suffix == ".json":
        files.write_json(output, plain)
    elif output is not None:
        write_lineage(descent, output)
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

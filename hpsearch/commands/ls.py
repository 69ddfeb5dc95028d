"""hpsearch ls: the studies below a folder."""

import json
from pathlib import Path

from hpsearch.commands.find import runs_option
from hpsearch.report.study_list import list_studies, plain_list, study_table
from hpsearch.report.terminal import Terminal
from hpsearch.report.whole_lines import print_whole


def ls(runs: Path, *, as_json: bool) -> int:
    """Print a line for each study that was started below a folder."""
    listed = list(list_studies(runs))
    if as_json:
        print(json.dumps(plain_list(listed), indent=1))
    elif listed:
        print_whole(Terminal(), study_table(listed))
    else:
        start = f"hpsearch run STUDY.yaml{runs_option(runs)}"
        print(f"no study was started below {runs}; start one with: {start}")
    return 0

"""The promises of executors, kept by PSI/J on one of its schedulers."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hpsearch.testing.executors import PROMISES

SCRIPT = """
import json, sys
from pathlib import Path
from hpsearch.study.options import JobNeeds, PsijOptions
from hpsearch.testing.executors import PROMISES

scheduler, folder = sys.argv[1:]
options = PsijOptions("psij", scheduler=scheduler, setup=("export TRIED=yes",))
executor = options.build(Path(), Path(), JobNeeds(0, pilot_seconds=0.0, withheld=frozenset()))
config = json.loads(sys.stdin.read())
for promise in PROMISES:
    promise(executor, Path(folder, promise.__name__), config)
    print("kept:", promise.__name__)
"""


def keep_promises(scheduler: str, folder: Path, config: dict[str, Any]) -> None:
    """Hold PSI/J to all promises, in a process of its own: it listens to the ends of children."""
    pytest.importorskip("psij", reason="PSI/J is not installed, see Makefile")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, scheduler, str(folder)],
        input=json.dumps(config),
        capture_output=True,
        text=True,
    )
    assert done.stdout.count("kept:") == len(PROMISES), done.stdout + done.stderr

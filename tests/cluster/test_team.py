"""What the first rank learns of the others."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hpsearch import yaml_file
from hpsearch.cluster.failures import CODE, DISK, OOM_HOST

ENDING_SECONDS = 30.0


def told(plain_config, case: str) -> dict:
    config = yaml_file.dump(plain_config({"shards": 2}))
    # Not by -m: what ranks tell each other is found by the name of its module.
    script = "import sys, ranked; ranked.main(*sys.argv[1:])"
    command = [sys.executable, "-c", script, case, config]
    done = subprocess.run(
        command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=120, check=True
    )
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(line)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "kind", "message"),
    [
        ("memory", OOM_HOST, "rank 1: MemoryError: too much"),
        ("code", CODE, "rank 1: ZeroDivisionError: division by zero"),
        ("disk", DISK, "rank 1: OSError: [Errno 28] No space left on device"),
    ],
)
def test_a_failure_of_another_rank_is_told_with_its_kind(plain_config, case, kind, message):
    seen = told(plain_config, case)
    assert (seen["kind"], seen["message"]) == (kind, message)
    assert seen["seconds"] < ENDING_SECONDS
    if case != "disk":  # of which there is no more to say
        assert "in fail" in seen["notes"][0]


@pytest.mark.slow
def test_what_one_rank_is_asked_all_are(plain_config):
    assert told(plain_config, "stop") == {"is_stopped": True, "rank": 0}


@pytest.mark.slow
def test_the_rank_for_which_others_wait_is_known(plain_config):
    seen = told(plain_config, "slow")
    assert (seen["straggler"], seen["steps"]) == (1, [10, 10])

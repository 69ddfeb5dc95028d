"""docs/protocol/hpsearch.tla, checked by TLC where Java and its jar are: as it is, and broken."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

FOLDER = Path(__file__).parents[2] / "docs" / "protocol"
SMALL = {"Budget": 1, "MaxExpiries": 2}
"""one trial, whose drivers are overtaken twice: a minute"""


def check(folder: Path, config: str, **constants: object) -> str:
    """Return what TLC says of the specification under a configuration with other constants."""
    jar = os.environ.get("TLA2TOOLS_JAR", "")
    if shutil.which("java") is None:
        pytest.skip("needs java: apt-get install default-jre-headless")
    if not Path(jar).is_file():
        pytest.skip("needs TLC: set TLA2TOOLS_JAR to a tla2tools.jar, see docs/protocol/README.md")
    shutil.copy(FOLDER / "hpsearch.tla", folder)
    text = (FOLDER / config).read_text()
    for name, value in constants.items():
        said = str(value).upper() if isinstance(value, bool) else str(value)
        text, replaced = re.subn(rf"{name} = \w+", f"{name} = {said}", text)
        assert replaced == 1, name
    (folder / "model.cfg").write_text(text)
    command = [
        "java",
        "-Xmx1g",
        "-XX:+UseParallelGC",
        "-cp",
        jar,
        "tlc2.TLC",
        "-config",
        "model.cfg",
    ]
    done = subprocess.run(
        [*command, "-workers", "auto", "-noGenerateSpecTE", "hpsearch.tla"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


def num_states(said: str) -> int:
    *_, last = re.findall(r"([\d,]+) distinct states found, 0 states left", said)
    return int(last.replace(",", ""))


def test_no_invariant_is_violated(tmp_path: Path) -> None:
    said = check(tmp_path, "hpsearch.cfg", **SMALL)
    assert "No error has been found" in said, said
    assert num_states(said) > 100_000


def test_everything_is_told_in_the_end(tmp_path: Path) -> None:
    said = check(tmp_path, "liveness.cfg")
    assert "No error has been found" in said, said
    assert num_states(said) > 20_000


@pytest.mark.parametrize(
    ("switch", "invariant"),
    [
        ("FencesEvents", "FencedDriversAreSilent"),
        ("ChecksFiles", "ControlNeverGoesBack"),
        ("ChecksAsks", "BudgetHolds"),
        ("FollowsOptuna", "LogAndOptunaAgree"),
    ],
)
def test_nothing_that_the_protocol_rests_on_can_be_left_out(
    tmp_path: Path, switch: str, invariant: str
) -> None:
    said = check(tmp_path, "hpsearch.cfg", **SMALL, **{switch: False})
    assert f"Invariant {invariant} is violated" in said, said

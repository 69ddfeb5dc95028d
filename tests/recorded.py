"""Studies as recordings that can be committed: small, readable, and at home in any folder.

tests/data/recorded/<version>/<study>/
    study.yaml, trainer.yaml     what the study was started from
    tiny.sql                     the database as text
    runs/tiny/                   its folder, without what can be made anew and what jobs printed
    moment.json                  what had happened when it was cut off, for the test
"""

import shutil
import socket
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

RECORDINGS = Path(__file__).parent / "data/recorded"
DATABASE = Path("runs/tiny.db")
FOLDER, HOST = "@FOLDER@", "recorder"
"""stand for the folder that the study lay in, and for the machine that it ran on"""
DROPPED = (
    *("*.db", "*.db-*", "*.pkl", "*.prom", "*.lock", ".*", "*_log.out", "*_log.err"),
    *(
        "driver.out",
        "driver.json",
        "tensorboard",
        "*.pt2",
        "*.onnx",
        "*.png",
        "*.svg",
    ),
)
BINARY = (".safetensors", ".npz")


def pack(folder: Path, recording: Path) -> None:
    """Write the study that lies in ``folder`` as a recording, in place of the one before."""
    shutil.rmtree(recording, ignore_errors=True)
    shutil.copytree(folder, recording, ignore=shutil.ignore_patterns(*DROPPED))
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        (recording / "tiny.sql").write_text("\n".join(database.iterdump()) + "\n")
    for path in _texts(recording):
        text, host = path.read_text().replace(str(folder), FOLDER), socket.gethostname()
        text = text.replace(f'"host": "{host}"', f'"host": "{HOST}"')
        path.write_text(text.replace(f"'{host}/", f"'{HOST}/"))


def unpack(recording: Path, folder: Path) -> None:
    """Put a recording into an empty folder, as if it had been made there."""
    shutil.copytree(recording, folder, dirs_exist_ok=True)
    for path in _texts(folder):
        path.write_text(path.read_text().replace(FOLDER, str(folder)))
    script = folder / "tiny.sql"
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        database.executescript(script.read_text())
    script.unlink()


def _texts(folder: Path) -> Iterable[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and path.suffix not in BINARY)

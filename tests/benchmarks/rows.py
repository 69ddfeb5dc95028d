"""Rows of the tables in reports/benchmarks: what was measured, when, and on what."""

import csv
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "reports/benchmarks"
CONTEXT = ("date", "commit", "machine", "versions", "device", "threads", "load")
"""columns that say when and on what something was measured"""
PACKAGES = ("torch", "triton", "numpy", "numba")
WIDE = {"avx512f": "AVX-512", "avx2": "AVX2"}  # instructions by their flag, the widest first


def append(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Append rows, below a header if the file is new.

    Raises:
        ValueError: if the file has other columns.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = list(rows[0])
    is_new = not path.exists()
    if not is_new and (present := _columns(path)) != columns:
        raise ValueError(f"{path} has the columns {present}, the new rows {columns}")
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(rows)


def _columns(path: Path) -> list[str]:
    with path.open(newline="") as file:
        return next(csv.reader(file))


def read(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def context(device: str, num_threads: int) -> dict[str, object]:
    """Return the columns `CONTEXT`."""
    return {
        "date": datetime.now().date().isoformat(),
        "commit": commit(),
        "machine": f"{machine(device)}, Python {platform.python_version()}",
        "versions": versions(),
        "device": device,
        "threads": num_threads,
        "load": f"{os.getloadavg()[0]:.1f}",
    }


@cache
def commit() -> str:
    """Return the commit, with a + if files differ from it; BENCH_COMMIT where there is no git."""
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        return os.environ.get("BENCH_COMMIT", "unknown")
    return done.stdout.strip() or os.environ.get("BENCH_COMMIT", "unknown")


def machine(device: str) -> str:
    """Return what computes."""
    if device == "cpu":
        return processor()
    import torch

    return f"{torch.cuda.get_device_name()}, {processor()}"


def processor() -> str:
    """Return the model of the processor, and its widest instructions where the model hides them."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    if not names:
        return platform.machine()
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    widest = [name for flag, name in WIDE.items() if flag in flags]
    return ", ".join([f"{names[0]} x{len(names)}", *widest[:1]])


def versions() -> str:
    """Return the packages that compute, and their versions."""
    packages = []
    for name in PACKAGES:
        try:
            packages.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue  # no triton without a GPU
    return ", ".join(packages)

"""The page's section on the programs for a GPU, which are compiled without one."""

from collections.abc import Mapping, Sequence
from pathlib import Path

Row = Mapping[str, str]

HEAD = """## programs for a GPU

    python tests/compile_programs.py --rows

What Triton and NVIDIA's assembler make of each program, on a machine without a GPU: registers of a
thread, of which there are at most 255, and bytes of shared memory of a block. No program spills
registers into memory; tests/contract/test_kernels.py fails if one does. A
multiprocessor has 65,536 registers, so that it holds as many warps as these allow, at most 64. A
job compiles what it uses at its first step, once for each machine; the seconds are of one CPU core.
"""
REGISTERS, MOST_WARPS = 65_536, 64  # of a multiprocessor of an A100 and of an H200
STEP = 8  # registers of a thread are given out by so many


def sections(tables: Mapping[str, Sequence[Row]], folder: Path) -> list[str]:
    """Return what the newest rows of the table `gpu_programs` say."""
    newest: dict[tuple[str, str], dict[str, Row]] = {}
    for row in tables.get("gpu_programs", ()):
        newest.setdefault((row["case"], row["program"]), {})[row["gpu"]] = row
    if not newest:
        return []
    gpus = list(next(iter(newest.values())))
    lines = [
        "| size | program | " + " | ".join(f"{gpu}: registers | warps | bytes | s" for gpu in gpus),
        "|---" * (2 + 4 * len(gpus)) + "|",
    ]
    for (case, program), by_gpu in newest.items():
        cells = [cell for gpu in gpus for cell in _cells(by_gpu[gpu])]
        lines.append(f"| {case} | {program} | {' | '.join(cells)} |")
    lines[0] += " |"
    last = next(reversed(newest.values()))[gpus[0]]
    where = f"Compiled on {last['machine']}, {last['versions']}, {last['commit']}, {last['date']}."
    return [HEAD, where + "\n\n" + "\n".join(lines) + "\n"]


def _cells(row: Row) -> list[str]:
    return [
        row["registers"],
        str(warps(int(row["registers"]))),
        row["shared_bytes"],
        row["seconds"],
    ]


def warps(registers: int) -> int:
    """Return how many warps a multiprocessor holds whose threads have so many registers each.

    NVIDIA, CUDA C++ Programming Guide, "Compute Capabilities": a warp's are given out together.
    """
    given = -(-registers // STEP) * STEP
    return min(MOST_WARPS, REGISTERS // (32 * given))

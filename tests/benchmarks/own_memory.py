"""The memory that this process has held; without torch, whose import takes seconds."""

from pathlib import Path


def peak_megabytes() -> float:
    """Return the most resident memory of this process since it began.

    Not ru_maxrss, which begins with that of the process that started it.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(kilobytes) * 1024 / 1e6

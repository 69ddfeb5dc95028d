"""A real browser without a window: what it shows of a page, and what the page complains of."""

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_SECONDS = 240
PAGE_SECONDS = 30
"""of the page's own time, which runs ahead while it waits for nothing"""


@dataclass(frozen=True)
class Page:
    """A page that was opened."""

    dom: str
    console: list[str]
    """warnings and errors, also of what the browser refused to load"""


def opened(url: str, *, dark: bool = False) -> Page:
    """Open a page, wait until it has come to rest; skip the test where there is no browser."""
    program = next((path for name in NAMES if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"needs one of {', '.join(NAMES)}: apt-get install chromium")
    # It may still write when it has answered, so what is left is not looked at.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        done = subprocess.run(
            [
                program,
                "--headless",
                "--no-sandbox",  # CI is root
                "--disable-gpu",
                "--no-proxy-server",
                "--window-size=1400,3000",
                f"--virtual-time-budget={1000 * PAGE_SECONDS}",
                f"--user-data-dir={Path(profile)}",
                "--hide-scrollbars",  # a phone draws them over the page
                "--enable-logging=stderr",
                f"--blink-settings=preferredColorScheme={0 if dark else 1}",
                "--dump-dom",
                url,
            ],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
    return Page(done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line])


def brightness(colour: str) -> float:
    """Return the relative luminance of rgb(...), as WCAG defines it."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(colour: str, other: str) -> float:
    low, high = sorted((brightness(colour), brightness(other)))
    return (high + 0.05) / (low + 0.05)


def laid(colour: str, under: str, opacity: float = 1.0) -> str:
    """Return as rgb(...) what is seen of rgb(...) or rgba(...) that lies over another colour."""
    *parts, alpha = ([float(part) for part in re.findall(r"[\d.]+", colour)] + [1.0])[:4]
    lower = map(int, re.findall(r"\d+", under))
    share = alpha * opacity
    seen = [share * part + (1 - share) * low for part, low in zip(parts, lower, strict=True)]
    return f"rgb({', '.join(f'{part:.0f}' for part in seen)})"

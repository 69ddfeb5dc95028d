"""A real browser without a window: what it shows of a page, and what the page complains of."""

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


def opened(url: str) -> Page:
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
                "--enable-logging=stderr",
                "--dump-dom",
                url,
            ],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
    return Page(done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line])

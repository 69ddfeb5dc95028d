"""A real browser without a window: what a page shows and complains of, and what its buttons do."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_SECONDS = 240
PAGE_SECONDS = 30
"""of the page's own time, which runs ahead while it waits for nothing"""
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-proxy-server")
"""without a sandbox, because CI is root"""


@dataclass(frozen=True)
class Page:
    """A page that was opened."""

    dom: str
    console: list[str]
    """warnings and errors, also of what the browser refused to load"""


def opened(url: str, *, dark: bool = False) -> Page:
    """Open a page, wait until it has come to rest; skip the test where there is no browser."""
    # It may still write when it has answered, so what is left is not looked at.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        done = subprocess.run(
            [
                _program(),
                *OPTIONS,
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


def _program() -> str:
    program = next((path for name in NAMES if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"needs one of {', '.join(NAMES)}: apt-get install chromium")
    return program


class Tab:
    """A page that stays open, asked by Chrome's DevTools protocol, a message up to each NUL."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = os.fdopen(to_browser, "wb"), os.fdopen(from_browser, "rb")
        self._numbers = count(1)
        self._session: dict[str, str] = {}

    def open(self, url: str) -> None:
        target = self._ask("Target.createTarget", url=url)
        wanted = self._ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = {"sessionId": wanted["sessionId"]}

    def close(self) -> None:
        self._to.close()
        self._from.close()

    def evaluate(self, expression: str) -> Any:
        """Return what a JavaScript expression gives."""
        return self._ask("Runtime.evaluate", expression=expression)["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Return what an expression gives, as soon as that is something."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < end, f"{expression} stays {value!r}"
            time.sleep(0.05)
        return value

    def _ask(self, method: str, **params: object) -> dict[str, Any]:
        number = next(self._numbers)
        wanted = {"id": number, "method": method, "params": params, **self._session}
        self._to.write(json.dumps(wanted).encode() + b"\0")
        self._to.flush()
        while (answer := json.loads(self._message())).get("id") != number:
            pass  # it also tells of events
        assert "error" not in answer, answer
        return answer["result"]

    def _message(self) -> bytes:
        message = bytearray()
        while (byte := self._from.read(1)) != b"\0":
            assert byte, "the browser has ended"
            message += byte
        return bytes(message)


@contextmanager
def tab(url: str) -> Iterator[Tab]:
    """Keep a page open while the block runs; skip the test where there is no browser."""
    program, (read, to_browser), (from_browser, write) = _program(), os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = [*OPTIONS, "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        pipes = f'exec "$@" 3<&{read} 4>&{write}'  # where the browser looks for them
        browser = subprocess.Popen(
            ["bash", "-c", pipes, "bash", program, *options],
            pass_fds=(read, write),
            stderr=subprocess.DEVNULL,
        )
        os.close(read)
        os.close(write)
        try:
            with closing(Tab(to_browser, from_browser)) as page:
                page.open(url)
                yield page
        finally:
            browser.kill()
            browser.wait()


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

"""`hpsearch dashboard` or `tensorboard` as a process, and a browser's requests to it."""

import http.cookiejar
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

PATIENCE_SECONDS = 120


class Dashboard:
    """A dashboard that runs until it is closed."""

    def __init__(self, folder: Path, study: str, *options: str, command: str = "dashboard") -> None:
        self._out = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._err = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._ended: tuple[int, str, str] | None = None
        began = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hpsearch.cli", command, study, "--port", "0", *options],
            cwd=folder,
            stdout=self._out,
            stderr=self._err,
        )
        self.said = self._wait()
        self.seconds_to_start = time.perf_counter() - began
        address = re.search(r"http://\S+", self.said)
        assert address is not None, self.said
        self.url = address[0]
        self.base = self.url[: self.url.index("/", len("http://"))]
        self.api = f"/api/studies/{self.url.rpartition('/')[2].partition('?')[0]}"
        jar = http.cookiejar.CookieJar()
        self._browser = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(jar)
        )
        self._browser.open(self.url, timeout=PATIENCE_SECONDS).close()

    def ask(
        self, method: str, path: str, data: Any = None, *, packed: bool = False
    ) -> tuple[int, bytes]:
        """Return status and body of an answer to a browser that has opened the printed address."""
        return _ask(self._browser, method, self.base + path, data, packed=packed)

    def ask_as_stranger(self, method: str, path: str) -> tuple[int, bytes]:
        """Return the same for a user who has not."""
        return _ask(
            urllib.request.build_opener(urllib.request.ProxyHandler({})),
            method,
            self.base + path,
            None,
        )

    def study(self) -> dict[str, Any]:
        """Return all that the dashboard tells the browser of the study."""
        status, body = self.ask("GET", self.api)
        assert status == 200, body
        return json.loads(body)

    def close(self) -> tuple[int, str, str]:
        """End it by Ctrl-C, if it runs; return exit code, stdout and stderr."""
        if self._ended is None:
            self.process.send_signal(signal.SIGINT)
            code = self.process.wait(timeout=PATIENCE_SECONDS)
            with self._out, self._err:
                self._ended = code, _read(self._out), _read(self._err)
        return self._ended

    def _wait(self) -> str:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "http://" not in (said := _read(self._out)) or not said.endswith("\n"):
            ended = self.process.poll()
            assert ended is None, (ended, said, _read(self._err))
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(0.1)
        return said


def _ask(
    browser: Any, method: str, url: str, data: Any, *, packed: bool = False
) -> tuple[int, bytes]:
    body = None if data is None else json.dumps(data).encode()
    headers = {"Content-Type": "application/json"}
    headers |= {"Accept-Encoding": "gzip"} if packed else {}
    request = urllib.request.Request(url, body, headers, method=method)
    try:
        with browser.open(request, timeout=PATIENCE_SECONDS) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def _read(file: Any) -> str:
    file.seek(0)
    return file.read()

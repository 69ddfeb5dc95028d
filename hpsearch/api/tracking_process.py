"""The process beside a driver that sends trials to trackers, which may be slow or away."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from hpsearch.cluster.child_processes import same_code
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.study.view import StudyView

AGAIN_SECONDS: Final = 300.0  # after which a process that ended is started again


class TrackingProcess:
    """Lets a process of its own send a study's trials to its trackers, while it is driven."""

    def __init__(self, folder: StudyDir, runs: Path, tell: Callable[[str], None]) -> None:
        self._folder, self._runs, self._tell = folder, runs, tell
        self._process: subprocess.Popen[bytes] | None = None
        self._next = 0.0

    def see(self, view: StudyView) -> None:
        """Start it where it is wanted and not there; it ends with the study by itself."""
        if not view.study.spec.track or time.monotonic() < self._next:
            return
        if self._process is not None:
            code = self._process.poll()
            if code is None:
                return
            if code:
                self._tell(f"trials are not sent to trackers; {self._folder.tracking_log} says why")
        self._next = time.monotonic() + AGAIN_SECONDS
        words = ["track", self._folder.root.name, "--runs", str(self._runs), "--watch"]
        try:
            with self._folder.tracking_log.open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "hpsearch.cli", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C is for the driver
                    env=os.environ | same_code(),
                )
        except OSError as error:
            self._tell(f"trials are not sent to trackers: {error.strerror}")

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.returncode = 0  # it goes on by itself; Python would warn of it

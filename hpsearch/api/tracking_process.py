"""The process beside a driver that sends trials to trackers, which may be slow or away."""

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from hpsearch.cluster.child_processes import blocked, start_command
from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.names import runs_option
from hpsearch.study.view import StudyView

WAIT_SECONDS: Final = 25.0  # for which a driver waits at its end; its supervisor has 30
GLANCE_SECONDS: Final = 0.1
AGAIN_SECONDS: Final = 300.0  # after which a process that ended is started again


class TrackingProcess:
    """Lets a process of its own send a study's trials to its trackers, while it is driven."""

    def __init__(
        self, folder: StudyDir, runs: Path, flag: StopFlag, tell: Callable[[str], None]
    ) -> None:
        """Take where the study lies; ``tell`` is called with why trials were not sent.

        Once the ``flag`` is set, `close` waits for nothing.
        """
        self._folder, self._runs, self._flag, self._tell = folder, runs, flag, tell
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
        self._start()

    def _start(self) -> None:
        self._next = time.monotonic() + AGAIN_SECONDS
        words = ["track", self._folder.root.name, "--runs", str(self._runs), "--watch"]
        try:
            # Until it listens: it would end before it has sent anything.
            with blocked((signal.SIGTERM,)):
                self._process = start_command(words, self._folder.tracking_log)
        except OSError as error:
            self._tell(f"trials are not sent to trackers: {error.strerror}")

    def close(self) -> None:
        """Let it send the last, and wait for it for a while."""
        if self._process is None:
            return
        if self._process.poll() and not self._flag.is_set:  # such as while the database was away
            self._start()
        if self._process.poll() is None and not self._flag.is_set:
            self._tell("trials are being sent to trackers ...")
            self._process.terminate()  # which lets it look once more, and end
        deadline = time.monotonic() + WAIT_SECONDS
        while not self._flag.is_set and time.monotonic() < deadline:
            code = self._process.poll()
            if code:
                again = f"hpsearch track {self._folder.root.name}{runs_option(self._runs)}"
                self._tell(
                    f"trackers may lack trials; {self._folder.tracking_log} says why; send them "
                    f"with: {again}"
                )
            if code is not None:
                return
            time.sleep(GLANCE_SECONDS)
        self._process.returncode = 0  # it goes on by itself; Python would warn of it

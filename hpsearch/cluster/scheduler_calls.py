"""Calls of the scheduler's programs: few enough for the site, each with a deadline.

sbatch through submitit takes its turn here too, and has no deadline but its own.
"""

import subprocess
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence

from hpsearch.cluster.executor import SchedulerSilentError, SchedulerUnreachableError

CALL_SECONDS = 60.0
"""after which a program of the scheduler is given up"""
MINUTE = 60.0
IDS_PER_CALL = 500
"""on one command line"""


class SchedulerCalls:
    """Runs programs, at most so many a minute.

    Attributes:
        num_calls: how many were run.
    """

    def __init__(
        self,
        max_per_minute: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Run at most ``max_per_minute`` programs in any minute; more of them wait."""
        self._max_per_minute = max_per_minute
        self._clock = clock
        self._sleep = sleep
        self._recent: deque[float] = deque()
        self.num_calls = 0

    def take_turn(self) -> None:
        """Wait until one more call is allowed, and count it."""
        while len(self._recent) == self._max_per_minute:
            wait = self._recent[0] + MINUTE - self._clock()
            if wait <= 0:
                self._recent.popleft()
            else:
                self._sleep(wait)
        self._recent.append(self._clock())
        self.num_calls += 1

    def run(self, command: Sequence[str], script: str | None = None) -> str:
        """Return what a program prints; ``script`` is what it reads.

        Raises:
            SchedulerSilentError: if it fails.
            SchedulerUnreachableError: if it is not there or takes too long.
        """
        self.take_turn()
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=True,
                timeout=CALL_SECONDS,
                input=script,
            )
        except subprocess.CalledProcessError as error:
            said = (error.stderr or "").strip()
            raise SchedulerSilentError(
                f"{command[0]} failed: {said or error.returncode}"
            ) from error
        except (subprocess.TimeoutExpired, OSError) as error:
            raise SchedulerUnreachableError(f"{command[0]} gave no answer ({error})") from error
        return done.stdout

    def run_for(self, command: Sequence[str], ids: Collection[str], option: str = "") -> str:
        """Return what a program prints of some jobs, of as many at once as a command line takes.

        The ids follow the command, or stand behind ``option`` with commas between them.

        Raises:
            SchedulerSilentError: if it failed for some; it was run for all.
        """
        every, printed, silent = sorted(ids), "", None
        for start in range(0, len(every), IDS_PER_CALL):
            some = every[start : start + IDS_PER_CALL]
            try:
                printed += self.run([*command, *([option + ",".join(some)] if option else some)])
            except SchedulerSilentError as error:
                silent = error
        if silent is not None:
            raise silent
        return printed

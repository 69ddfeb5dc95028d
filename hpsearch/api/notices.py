"""Notices of a study: sent to addresses and commands, by a process of their own for a driver.

A message may take as long as its receiver likes, so no driver waits for one before it ends.
"""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from hpsearch.cluster.child_processes import start_command
from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import HpsearchError, UsageError
from hpsearch.study.notices import NoticeWatch
from hpsearch.study.options import AddressNotice, CommandNotice, Notice, Occasion
from hpsearch.study.spec import secret_variables
from hpsearch.study.url import FROM_ENVIRONMENT
from hpsearch.study.view import StudyView

WAIT_SECONDS: Final = 25.0  # for which a driver waits at its end; its supervisor has 30
COMMAND_SECONDS: Final = 20.0  # that a notice's command may take
GLANCE_SECONDS: Final = 0.1


class NoticeSender:
    """Watches a study for its driver, and starts a process for each notice that is due."""

    def __init__(
        self, folder: StudyDir, runs: Path, flag: StopFlag, tell: Callable[[str], None]
    ) -> None:
        """Take where the study lies; ``tell`` is called with why a notice was not sent.

        Once the ``flag`` is set, `close` waits for nothing.
        """
        self._folder, self._runs, self._flag, self._tell = folder, runs, flag, tell
        self._watches: dict[int, NoticeWatch] = {}  # by the notice's place in the study file
        self._senders: list[subprocess.Popen[bytes]] = []

    def go_on(self, view: StudyView) -> None:
        """Begin to watch, or go on after an outage, in which nothing could happen."""
        now = time.time()
        for place, notice in enumerate(view.study.spec.notify):
            if place in self._watches:
                self._watches[place].go_on(now)
            else:
                self._watches[place] = NoticeWatch(notice, view, now)

    def see(self, view: StudyView) -> None:
        """Look at the study after a round of its driver."""
        now = time.time()
        for place, watch in self._watches.items():
            for occasion in watch.see(view, now):
                self._start(place, occasion)
        self._collect()

    def close(self) -> None:
        """Wait for what is being sent, for a while."""
        deadline = time.monotonic() + WAIT_SECONDS
        if self._senders and not self._flag.is_set:
            self._tell("notices are being sent ...")
        while self._senders and not self._flag.is_set and time.monotonic() < deadline:
            self._collect()
            time.sleep(GLANCE_SECONDS)
        for process in self._senders:  # it goes on by itself, and notes how it ends
            process.returncode = 0  # no process waits for it; Python would warn of it
        self._senders = []

    def _start(self, place: int, occasion: Occasion) -> None:
        words = ["notify", self._folder.root.name, "--runs", str(self._runs)]
        words += ["--of", occasion, "--notice", str(place)]
        try:
            process = start_command(words, self._folder.notices)
        except OSError as error:
            self._tell(f"no notice was sent: {error.strerror}")
            return
        self._senders.append(process)

    def _collect(self) -> None:
        for process in [process for process in self._senders if process.poll() is not None]:
            self._senders.remove(process)
            if process.returncode:
                self._tell(f"a notice was not sent; {self._folder.notices} tells why")


def due_notices(view: StudyView, occasion: Occasion | None, place: int | None) -> list[Notice]:
    """Return the notices of an occasion, or all; with ``place``, the one there in the file's list.

    Raises UsageError if there is none.
    """
    notices = [
        notice
        for number, notice in enumerate(view.study.spec.notify)
        if (occasion is None or occasion in notice.on) and place in (None, number)
    ]
    if not notices:
        which = "" if place is None else f" {place}"
        when = "" if occasion is None else f" of {occasion}"
        raise UsageError(f"{view.study.path} asks for no notice{which}{when}; see its key notify")
    return notices


def send_notice(notice: Notice, view: StudyView, text: str, occasion: Occasion | None) -> str:
    """Send ``text`` to the receiver of a notice, whose name is returned; raises HpsearchError."""
    title = title_text(view, occasion)
    match notice:
        case AddressNotice(to=to):
            variable = to.removeprefix(FROM_ENVIRONMENT)
            _to_address(variable, title, text)
            return f"the address in {variable}"
        case CommandNotice(command=command):
            about = {"HPSEARCH_STUDY": view.name, "HPSEARCH_OCCASION": occasion or "try"}
            secrets = secret_variables(view.study.spec)
            given = {name: own for name, own in os.environ.items() if name not in secrets}
            folder = view.study.path.absolute().parent
            _to_command(command, folder, f"{title}\n\n{text}", given | about)
            return command[0]


def title_text(view: StudyView, occasion: Occasion | None) -> str:
    """Return a message's first line; of no occasion it is one to try the notices."""
    match occasion:
        case "best":
            best = view.best()
            return f"{view.name}: {view.best_word} is trial {best.number if best else '?'} now"
        case "stalled":
            return f"{view.name} has stalled"
        case "ended" | "failed":
            return f"{view.name}: {view.status}"
    return f"{view.name}: {view.status} (a message to try notify)"


def _to_address(variable: str, title: str, text: str) -> None:
    try:
        from apprise import Apprise
    except ImportError as error:
        raise UsageError(
            "notices to addresses need Apprise: pip install 'hpsearch[notify]'"
        ) from error
    address = os.environ.get(variable)
    if not address:
        raise UsageError(f"the environment variable {variable}, a notice's address, is not set")
    sender = Apprise()
    if not sender.add(address):
        raise UsageError(
            f"Apprise knows no address like that in {variable}; https://appriseit.com lists them"
        )
    if not sender.notify(body=text, title=title):
        raise HpsearchError(f"the address in {variable} did not take the message")


def _to_command(
    command: tuple[str, ...], folder: Path, message: str, environment: dict[str, str]
) -> None:
    """Run a program in ``folder`` that reads the message."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            input=message.encode(),
            env=environment,
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except OSError as error:
        raise UsageError(f"the notice's command {command[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise HpsearchError(
            f"the notice's command {command[0]} took longer than {COMMAND_SECONDS:.0f} s"
        ) from error
    if done.returncode:
        raise HpsearchError(f"the notice's command {command[0]} ended with {done.returncode}")

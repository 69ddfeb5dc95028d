"""hpsearch tensorboard: a study in TensorBoard, whether or not its jobs wrote for it."""

import secrets
import signal
from contextlib import closing
from pathlib import Path

from hpsearch.cluster.failures import StopFlag, stop_flag
from hpsearch.commands.serving import tell_address
from hpsearch.dashboard.server import Guard, Names, Server, bind, serving
from hpsearch.errors import DiskError, StorageUnavailableError
from hpsearch.monitor.tensorboard import check_tensorboard
from hpsearch.report.tensorboard import Board
from hpsearch.study.view import Followed
from hpsearch.terminal import say

REFRESH_SECONDS = 10.0


def tensorboard(study: str, runs: Path, *, host: str, port: int, output: Path | None) -> int:
    """Serve TensorBoard on a study until Ctrl-C, or write what it reads.

    Args:
        study: study file, or name of a started study.
        runs: the folder of the studies.
        host: the address that is served.
        port: the first one that is tried, 0 for any.
        output: a folder to write into, without serving anything.

    Raises:
        UsageError: if TensorBoard is not installed, or there is no such study or port.
        DiskError: if a file cannot be written.
    """
    check_tensorboard()
    with closing(Followed(study, runs)) as followed:
        if output is not None:
            number = Board(output).write(followed.view)
            print(f"{number} trials written; look at them with: tensorboard --logdir {output}")
            return 0
        server = bind(host, port)
        with stop_flag((signal.SIGINT, signal.SIGTERM)) as flag:
            _serve(followed, server, flag, host)
    return 0


def _serve(followed: Followed, server: Server, flag: StopFlag, host: str) -> None:
    from hpsearch.report.tensorboard import application

    folder = followed.view.folder.tensorboard
    board = Board(folder)
    board.write(followed.view)
    # On a machine with other users every port is open to all, as in `hpsearch dashboard`.
    token, cookie = secrets.token_urlsafe(16), f"hpsearch-{server.server_port}"
    names = Names(host, server.server_name)
    guard = Guard(application(folder), token=token, cookie=cookie, names=names)
    with serving(server, guard):
        tell_address(server, f"TensorBoard on {folder}", f"/?token={token}")
        while not flag.is_set:
            flag.rest(REFRESH_SECONDS)
            if not flag.is_set:
                _refresh(followed, board)


def _refresh(followed: Followed, board: Board) -> None:
    """Write what is new, if that is possible now."""
    try:
        followed.look()
        board.write(followed.view)
    except (StorageUnavailableError, DiskError) as error:
        say(f"{error}; showing what was known before")

"""hpsearch dashboard, tensorboard: a study in a browser.

The dashboard is Optuna's, and changes nothing of a study but notes; TensorBoard shows a study
whether or not its jobs wrote for it.
"""

import getpass
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from hpsearch.cluster.failures import StopFlag, stop_flag
from hpsearch.commands.command import STUDY, Argument, command, count, flag, option
from hpsearch.errors import DiskError, StorageUnavailableError, UsageError
from hpsearch.printable import say

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

    from hpsearch.api.study_handle import StudyHandle
    from hpsearch.dashboard.app import OfferedFiles, StudyConclusions
    from hpsearch.dashboard.server import Server
    from hpsearch.dashboard.storage import ReadOnlyStorage, TrialSource

REFRESH_SECONDS = 10.0  # between two looks at the study
FIGURE_SECONDS = 30.0  # between two drawings of our figures
HOST = option(
    "--host ADDRESS", "address to listen on; default: only this machine", default="127.0.0.1"
)


def _port(port: int) -> Argument:
    return option("--port N", "port, or the next free one; 0 for any", count, default=port)


@command(
    "Optuna's dashboard of a study, in a browser",
    *STUDY,
    HOST,
    _port(8080),
    flag("--write", "let notes be written, and show buttons that steer the study", to="writes"),
    examples=["quickstart", "quickstart --port 0 --write"],
)
def dashboard(study: str, runs: Path, *, host: str, port: int, writes: bool) -> None:
    if find_spec("optuna_dashboard") is None:
        raise UsageError(
            "the dashboard needs Optuna's: pip install 'hpsearch[dashboard]', or pip install "
            "optuna-dashboard"
        )
    from hpsearch.api.study_handle import StudyHandle
    from hpsearch.dashboard.server import bind
    from hpsearch.dashboard.storage import TrialSource

    server = bind(host, port)
    with (
        closing(TrialSource(study, runs)) as source,
        stop_flag((signal.SIGINT, signal.SIGTERM)) as stop,
    ):
        steered = StudyHandle(study, runs) if writes else None
        _serve_dashboard(source, server, stop, host, steered)


def _serve_dashboard(
    source: "TrialSource",
    server: "Server",
    stop: StopFlag,
    host: str,
    steered: "StudyHandle | None",
) -> None:
    """Serve it, read-only unless there is a study that users may steer and write notes of."""
    from optuna_dashboard import wsgi

    from hpsearch.api.steering import steer
    from hpsearch.dashboard.app import OfferedFiles, ReadOnly, ResponseCache, StudyConclusions
    from hpsearch.dashboard.steering import Steering, steering_html
    from hpsearch.dashboard.storage import ReadOnlyStorage
    from hpsearch.study.spec_checks import example_setting

    writes = steered is not None
    storage = ReadOnlyStorage(source.head, source.write_note if writes else None)
    files = OfferedFiles()

    def refresh() -> None:
        storage.take(source.changed())
        storage.keep(source.system_attrs())

    refresh()
    conclusions = StudyConclusions(wsgi(storage, artifact_store=files))
    example = example_setting(source.view.study.spec.space)
    conclusions.buttons = steering_html(example) if writes else ""
    _add(source, storage, files, conclusions)
    cache = ResponseCache(conclusions, lambda: storage.changed_at)
    application: WSGIApplication = ReadOnly(cache, writes=writes)
    if steered is not None:
        application = Steering(application, partial(steer, steered))
    writable = "which can be steered" if writes else "read-only"
    what = f"the dashboard of {source.head.name}, {writable}"
    page = f"/dashboard/studies/{source.head.study_id}"
    with _guarded(server, application, host, what, page):
        first = f"/api/studies/{source.head.study_id}"
        threading.Thread(target=cache.prepare, args=(first,), daemon=True).start()
        drawn, event = time.monotonic(), source.view.state.last_event
        for _ in _refreshed(refresh, stop):
            if source.view.state.last_event != event and time.monotonic() - drawn > FIGURE_SECONDS:
                _add(source, storage, files, conclusions)
                drawn, event = time.monotonic(), source.view.state.last_event


def _refreshed(refresh: Callable[[], None], stop: StopFlag) -> Iterator[None]:
    """Show what is new again and again; yield each time that it could be read and written."""
    while not stop.is_set:
        stop.rest(REFRESH_SECONDS)
        if stop.is_set:
            return
        try:
            refresh()
        except (StorageUnavailableError, DiskError) as error:
            say(f"{error}; showing what was known before")
        else:
            yield


def _add(
    source: "TrialSource",
    storage: "ReadOnlyStorage",
    files: "OfferedFiles",
    conclusions: "StudyConclusions",
) -> None:
    from hpsearch.analysis.importances import known_importances
    from hpsearch.dashboard import figures
    from hpsearch.dashboard.app import study_files, trial_files
    from hpsearch.export.text import standing_verdict
    from hpsearch.study.work import known_until

    view = source.view
    importances, best = known_importances(view), view.best()
    texts = {
        "verdict": "" if best is None else " ".join(standing_verdict(view, best)),
        "champion": figures.champion_text(view),
        "importances": figures.importance_text(importances),
    }
    texts = {name: text for name, text in texts.items() if text}
    about = {
        "status": view.status,
        "folder": str(view.folder.root),
        "study file": str(view.study.path.absolute()),
        **texts,
        **{name: str(number) for name, number in view.state.counts().items()},
    }
    drawn = figures.figure_attrs(view, known_until(view), importances)
    conclusions.verdict = " ".join(texts[name] for name in ("verdict", "champion") if name in texts)
    conclusions.importances = figures.drawn_importances(view, importances)
    storage.add(
        "\n\n".join(texts.values()),
        system_attrs=drawn | files.offer(study_files(view)),
        user_attrs=about,
        of_trials={number: files.offer(paths) for number, paths in trial_files(view).items()},
    )


@command(
    "a study in TensorBoard, in a browser",
    *STUDY,
    HOST,
    _port(6006),
    option("-o --output DIR", "write what it reads there, serve nothing", Path),
    examples=["quickstart", "quickstart -o board/"],
)
def tensorboard(study: str, runs: Path, *, host: str, port: int, output: Path | None) -> None:
    from hpsearch.dashboard.server import bind
    from hpsearch.monitor.tensorboard import check_tensorboard
    from hpsearch.report.tensorboard import Board, application
    from hpsearch.study.view import Followed

    check_tensorboard()
    with closing(Followed(study, runs)) as followed:
        if output is not None:
            number = Board(output).write(followed.view)
            print(f"{number} trials written; look at them with: tensorboard --logdir {output}")
            return
        server, folder = bind(host, port), followed.view.folder.tensorboard
        board = Board(folder)

        def refresh() -> None:
            followed.look()
            board.write(followed.view)

        with stop_flag((signal.SIGINT, signal.SIGTERM)) as stop:
            board.write(followed.view)
            with _guarded(server, application(folder), host, f"TensorBoard on {folder}", "/"):
                for _ in _refreshed(refresh, stop):
                    pass


@contextmanager
def _guarded(
    server: "Server", application: "WSGIApplication", host: str, what: str, page: str
) -> Iterator[None]:
    """Serve, while the block runs, those who have the printed address: ports are open to all."""
    from hpsearch.dashboard.server import EVERY_ADDRESS, LOOPBACK, Guard, Names, serving

    token, port = secrets.token_urlsafe(16), server.server_port
    names = Names(host, server.server_name)
    with serving(server, Guard(application, token=token, cookie=f"hpsearch-{port}", names=names)):
        name = f"[{server.server_name}]" if ":" in server.server_name else server.server_name
        at = socket.gethostname() if server.server_name in EVERY_ADDRESS else name
        print(f"{what}, until Ctrl-C:")
        print(f"  http://{at}:{port}{page}?token={token}", flush=True)
        if server.server_name in LOOPBACK:
            print("from another machine, first run there, then open the same address there:")
            machine = f"{getpass.getuser()}@{socket.gethostname()}"
            print(f"  ssh -L {port}:{name}:{port} {machine}", flush=True)
        else:
            say(f"{name} is reached from other machines too; everyone with the address can use it")
        yield

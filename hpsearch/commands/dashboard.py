"""hpsearch dashboard: Optuna's dashboard of a study, which changes nothing of it but notes."""

import secrets
import signal
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hpsearch.analysis.importances import known_importances
from hpsearch.cluster.failures import StopFlag, stop_flag
from hpsearch.commands.serving import tell_address
from hpsearch.dashboard.app import (
    Judged,
    OfferedFiles,
    ReadOnly,
    ResponseCache,
    study_files,
    trial_files,
)
from hpsearch.dashboard.figures import (
    champion_text,
    drawn_importances,
    figure_attrs,
    importance_text,
)
from hpsearch.dashboard.server import Guard, Names, Server, bind, serving
from hpsearch.dashboard.storage import ReadOnlyStorage, TrialSource
from hpsearch.errors import StorageUnavailableError, UsageError
from hpsearch.export.certified import standing_verdict
from hpsearch.study.work import known_until
from hpsearch.terminal import say

REFRESH_SECONDS = 10.0
"""between two looks at the study"""
FIGURE_SECONDS = 30.0
"""between two drawings of our figures"""


def dashboard(study: str, runs: Path, *, host: str, port: int, writes: bool) -> int:
    """Serve the dashboard of a study until Ctrl-C.

    Args:
        study: study file, or name of a started study.
        runs: the folder of the studies.
        host: the address that is served.
        port: the first one that is tried, 0 for any.
        writes: whether notes may be written.

    Raises:
        UsageError: if Optuna's dashboard is not installed, or there is no such study or port.
    """
    if find_spec("optuna_dashboard") is None:
        raise UsageError(
            "the dashboard needs Optuna's: pip install 'hpsearch[dashboard]', or pip install "
            "optuna-dashboard"
        )
    server = bind(host, port)
    source = TrialSource(study, runs)
    try:
        with stop_flag((signal.SIGINT, signal.SIGTERM)) as flag:
            _serve(source, server, flag, host, writes=writes)
    finally:
        source.close()
    return 0


def _serve(source: TrialSource, server: Server, flag: StopFlag, host: str, *, writes: bool) -> None:
    from optuna_dashboard import wsgi

    shown = ReadOnlyStorage(source.head, source.write_note if writes else None)
    files = OfferedFiles()
    shown.take(source.changed())
    shown.keep(source.system_attrs())
    judged = Judged(wsgi(shown, artifact_store=files))
    _add(source, shown, files, judged)
    token = secrets.token_urlsafe(16)
    remembering = ResponseCache(judged, lambda: shown.changed_at)
    cookie = f"hpsearch-{server.server_port}"
    names = Names(host, server.server_name)
    inner = ReadOnly(remembering, writes=writes)
    guard = Guard(inner, token=token, cookie=cookie, names=names)
    first = f"/api/studies/{source.head.study_id}"
    with serving(server, guard):
        threading.Thread(target=remembering.prepare, args=(first,), daemon=True).start()
        may = "notes can be written" if writes else "read-only"
        what = f"the dashboard of {source.head.name}, {may}"
        tell_address(server, what, f"/dashboard/studies/{source.head.study_id}?token={token}")
        drawn, event = time.monotonic(), source.view.state.last_event
        while not flag.is_set:
            flag.rest(REFRESH_SECONDS)
            if flag.is_set or not _refresh(source, shown):
                continue
            if source.view.state.last_event != event and time.monotonic() - drawn > FIGURE_SECONDS:
                _add(source, shown, files, judged)
                drawn, event = time.monotonic(), source.view.state.last_event


def _refresh(source: TrialSource, shown: ReadOnlyStorage) -> bool:
    """Show what is new; return whether that was possible."""
    try:
        shown.take(source.changed())
        shown.keep(source.system_attrs())
    except StorageUnavailableError as error:
        say(f"{error}; showing what was known before")
        return False
    return True


def _add(source: TrialSource, shown: ReadOnlyStorage, files: OfferedFiles, judged: Judged) -> None:
    """Show our figures and files beside what Optuna knows."""
    view = source.view
    of_trials = {number: files.offer(paths) for number, paths in trial_files(view).items()}
    measured = known_importances(view)
    of_study: dict[str, Any] = figure_attrs(view, known_until(view), measured)
    told = {
        "status": view.status,
        "folder": str(view.folder.root),
        "study file": str(view.study.path.absolute()),
    }
    champion = champion_text(view)
    told |= {"champion": champion} if champion else {}
    mattered = importance_text(measured)
    told |= {"importances": mattered} if mattered else {}
    best = view.best()
    verdict = "" if best is None else " ".join(standing_verdict(view, best))
    told |= {"verdict": verdict} if verdict else {}
    judged.verdict = " ".join(text for text in (verdict, champion) if text)
    judged.importances = drawn_importances(view, measured)
    shown.remark("\n\n".join(text for text in (verdict, champion, mattered) if text))
    shown.add(
        system_attrs=of_study | files.offer(study_files(view)),
        user_attrs=told | {name: str(number) for name, number in view.state.counts().items()},
        of_trials=of_trials,
    )

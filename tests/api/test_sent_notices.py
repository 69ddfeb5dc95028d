"""Notices that are sent: by a command, and to an address that a server of this machine has."""

import json
import stat
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from cli_tools import hpsearch, refused, write_study
from fakes import FakeExecutor

from hpsearch.api import driving
from hpsearch.cluster.study_dir import StudyDir

TELL = """#!/bin/sh
{ echo "$HPSEARCH_STUDY $HPSEARCH_OCCASION $1"; cat; } >> told.txt
"""


@pytest.fixture
def folder(tmp_path):
    script = tmp_path / "tell.sh"
    script.write_text(TELL)
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return tmp_path


@pytest.fixture
def without_jobs(monkeypatch):
    """Studies of which nothing trains: their trials end at once."""
    monkeypatch.setattr(driving, "build_executor", lambda study, folder: FakeExecutor())
    monkeypatch.setattr(driving, "poll_seconds", lambda study: 0.0)


@pytest.fixture
def server():
    """A server that keeps what it is sent, as JSON."""
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"json://127.0.0.1:{server.server_port}", received
        server.shutdown()


@pytest.mark.slow
def test_a_study_tells_of_its_best_and_its_end(folder, server, monkeypatch):
    address, received = server
    monkeypatch.setenv("TO_CHAT", address)
    asked = [
        {"name": "command", "command": ["./tell.sh", "me"], "on": ["ended", "best"]},
        {"name": "address", "to": "env:TO_CHAT"},
    ]
    write_study(folder, {"notify": asked, "budget/trials": 3})
    hpsearch(folder, "run", "study.yaml", "--no-export")
    told = (folder / "told.txt").read_text()
    assert "tiny best me\ntiny: best is trial" in told
    assert "tiny ended me\ntiny: finished\n" in told
    assert "trials: 3 of 3 (3 finished)" in told
    (message,) = received
    assert message["title"] == "tiny: finished"
    assert "trials: 3 of 3 (3 finished)" in message["message"]
    assert "told the address in TO_CHAT" in StudyDir(folder / "runs/tiny").notices.read_text()
    # No secret is left in what the study wrote.
    written = [path for path in (folder / "runs").rglob("*") if path.is_file()]
    assert not any(address.encode() in path.read_bytes() for path in written)
    # To try them: all at once, or those of one occasion.
    done = hpsearch(folder, "notify", "tiny")
    assert done.stdout == "tiny: told ./tell.sh\ntiny: told the address in TO_CHAT\n"
    assert received[-1]["title"] == "tiny: finished (a message to try notify)"
    done = hpsearch(folder, "notify", "tiny", "--of", "stalled")
    assert "no notice of stalled" not in done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("without_jobs")
def test_what_cannot_be_sent_ends_no_study(folder, monkeypatch):
    """A command that fails, one that does not exist, an address that nothing answers at."""
    asked = [
        {"name": "command", "command": ["./tell.sh", "me"]},
        {"name": "command", "command": ["./nothing.sh"]},
        {"name": "command", "command": ["false"]},
        {"name": "address", "to": "env:TO_CHAT"},
    ]
    write_study(folder, {"notify": asked, "budget/trials": 2})
    monkeypatch.setenv("TO_CHAT", "json://127.0.0.1:9")
    done = hpsearch(folder, "run", "study.yaml", "--no-export")
    assert "a notice was not sent" in done.stderr
    assert "tiny ended me" in (folder / "told.txt").read_text()
    done = hpsearch(folder, "notify", "tiny", code=1)
    assert done.stdout == "tiny: told ./tell.sh\n"
    assert done.stderr.splitlines() == [
        "hpsearch: the notice's command ./nothing.sh: No such file or directory",
        "hpsearch: the notice's command false ended with 1",
        "hpsearch: the address in TO_CHAT did not take the message",
    ]
    monkeypatch.setenv("TO_CHAT", "nonsense")
    done = hpsearch(folder, "notify", "tiny", "--notice", "3", code=1)
    assert "Apprise knows no address like that in TO_CHAT" in done.stderr
    monkeypatch.setenv("TO_CHAT", "")
    done = hpsearch(folder, "notify", "tiny", "--notice", "3", code=1)
    assert "is not set" in done.stderr


def test_notices_are_tried_before_the_study_is_started(folder):
    write_study(folder, {"notify": [{"name": "command", "command": ["./tell.sh", "me"]}]})
    assert hpsearch(folder, "notify", "study.yaml").stdout == "tiny: told ./tell.sh\n"
    told = (folder / "told.txt").read_text().splitlines()
    assert told[:2] == ["tiny try me", "tiny: not started (a message to try notify)"]
    assert told[3:5] == ["tiny: not started", "trials: 0 of 6 (none yet)"]
    assert not (folder / "runs").exists()


def test_faults_of_notices_are_those_of_the_file(folder):
    asked = [
        {"name": "address", "to": "hooks.example.org/token"},
        {"name": "command", "command": []},
        {"name": "address", "to": "env:TO_CHAT", "on": ["never"], "stalled_hours": 0},
    ]
    write_study(folder, {"notify": asked})
    text = refused(folder, "validate", "study.yaml", code=3)
    assert "hooks.example.org/token" not in text
    for fault in (
        "to must be env: and the name of the environment variable",
        "command must name a program",
        "stalled_hours",
        "never",
    ):
        assert fault in text
    write_study(folder, {"notify": [{"name": "address", "to": "env:NOT_SET_HERE"}]})
    text = refused(folder, "validate", "study.yaml", code=3)
    assert "notify[0].to: the environment variable NOT_SET_HERE is not set" in text


@pytest.mark.usefixtures("without_jobs")
def test_a_study_without_notices_says_so(folder):
    write_study(folder, {"budget/trials": 1})
    hpsearch(folder, "run", "study.yaml", "--no-export")
    assert "asks for no notice; see its key notify" in refused(folder, "notify", "tiny", code=2)

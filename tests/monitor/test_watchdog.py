"""Hangs: real ones in a process of their own, and what is none."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch

from hpsearch.monitor.timing import NamedSections, Watchdog

HANG = """
import os, sys, time
from pathlib import Path
import torch
from hpsearch.monitor.config import MonitorConfig
from hpsearch.monitor.monitor import JobMonitor
from hpsearch.monitor.snapshot import JobPlace, MemberPlace

def on_hang(sentence, stacks):
    print(sentence, stacks, flush=True)
    os._exit(7)

def never_returns():
    time.sleep(600)

nowhere = Path("/nowhere")
config = MonitorConfig(1, False, False, False, False, False, None, None, None, 0.3)
job, member = JobPlace("s", "j", nowhere, nowhere), MemberPlace("0", 0, nowhere, nowhere)
monitor = JobMonitor(config, job, [member], torch.device("cpu"), on_hang)
with monitor.sections("update"), monitor.sections("backward"):
    never_returns()
"""


def test_a_hanging_process_ends_and_says_where():
    done = subprocess.run([sys.executable, "-c", HANG], capture_output=True, text=True, timeout=60)
    assert done.returncode == 7, done.stderr
    assert "no sign of progress for 0.3 seconds, in update/backward" in done.stdout
    assert "thread MainThread" in done.stdout
    assert "never_returns" in done.stdout


def sections():
    return NamedSections(torch.device("cpu"), timed=False)


def watch(seconds, sections):
    reports = []
    called = threading.Event()

    def on_hang(sentence, stacks):
        reports.append((sentence, stacks))
        called.set()

    return Watchdog(sections, seconds, on_hang), reports, called


def test_it_calls_once_and_in_time():
    began = time.monotonic()
    watchdog, reports, called = watch(0.2, sections())
    assert called.wait(10)
    assert 0.2 <= time.monotonic() - began < 2.0
    time.sleep(0.5)
    watchdog.close()
    assert len(reports) == 1
    assert "test_it_calls_once_and_in_time" in reports[0][1]
    assert "outside all named sections" in reports[0][0]


def test_signs_of_progress_keep_it_quiet():
    named = sections()
    watchdog, reports, _ = watch(0.5, named)
    for _ in range(60):
        time.sleep(0.02)
        named.beat()
    watchdog.close()
    assert not reports


def test_closing_ends_the_thread():
    before = threading.active_count()
    watchdog, reports, _ = watch(0.2, sections())
    watchdog.close()
    watchdog.close()
    assert threading.active_count() == before
    time.sleep(0.4)
    assert not reports


@pytest.mark.slow
def test_a_process_that_was_stopped_does_not_hang():
    script = """
import sys, time
import torch
from hpsearch.monitor.timing import NamedSections, Watchdog
sections = NamedSections(torch.device("cpu"), timed=False)
Watchdog(sections, 1.0, lambda *report: print("hung", flush=True))
print("ready", flush=True)
began = time.monotonic()
while time.monotonic() - began < 3.5:
    time.sleep(0.02)
    sections.beat()
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(2.0)
    os.kill(process.pid, signal.SIGCONT)
    assert process.communicate(timeout=30)[0] == ""

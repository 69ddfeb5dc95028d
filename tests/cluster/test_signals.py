"""A polite stop, and the kinds of failure."""

import os
import signal
import threading
import time

import pytest
import torch

from hpsearch.cluster.failures import RankLostError, StopFlag, kind_of, message_of, stop_flag
from hpsearch.errors import ConflictError, CorruptError, DiskError


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2])
def test_a_signal_sets_the_flag(number):
    before = signal.getsignal(number)
    with stop_flag() as flag:
        assert not flag.is_set
        os.kill(os.getpid(), number)
        assert flag.is_set
    assert signal.getsignal(number) is before


def test_a_hang_up_that_is_ignored_sets_none():
    """As after nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_flag((signal.SIGHUP, signal.SIGTERM)) as flag:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not flag.is_set
            os.kill(os.getpid(), signal.SIGTERM)
            assert flag.is_set
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_come_back_after_an_error():
    before = signal.getsignal(signal.SIGTERM)

    def fail():
        with stop_flag():
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_last_signal_is_known_and_a_second_interrupt_waits_no_more():
    with stop_flag((signal.SIGTERM, signal.SIGINT)) as flag:
        assert flag.signal is None
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), number)
            assert flag.signal == number
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_request_to_save_is_none_to_stop():
    with stop_flag() as flag:
        assert not flag.is_save_asked
        os.kill(os.getpid(), signal.SIGUSR1)
        assert (flag.is_save_asked, flag.is_set) == (True, False)


def test_a_rest_lasts_as_long_as_asked_for_unless_a_signal_ends_it():
    began, flag = time.monotonic(), StopFlag()
    flag.rest(0.05)
    assert time.monotonic() - began >= 0.05
    threading.Timer(0.05, lambda: setattr(flag, "is_set", True)).start()
    flag.rest(60.0)
    assert time.monotonic() - began < 10.0


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (RankLostError("rank 1: too much", "oom_host"), "oom_host", "rank 1: too much"),
        (RankLostError("rank 1 is gone"), "lost", "rank 1 is gone"),
        (MemoryError("too much\nof it"), "oom_host", "MemoryError: too much"),
        (torch.OutOfMemoryError(" CUDA \n..."), "oom_gpu", "OutOfMemoryError: CUDA "),
        (DiskError("x is full"), "disk", "x is full"),
        (PermissionError(1, "no"), "disk", "PermissionError: [Errno 1] no"),
        (CorruptError("x is damaged"), "code", "x is damaged"),
        (ConflictError("two\nlines"), "code", "two\nlines"),
        (ZeroDivisionError(), "code", "ZeroDivisionError"),
    ],
)
def test_what_kind_of_failure_an_error_is_and_what_a_user_reads_of_it(error, kind, message):
    assert (kind_of(error), message_of(error)) == (kind, message)

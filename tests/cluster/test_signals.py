"""A polite stop."""

import os
import signal

import pytest

from hpsearch.cluster.failures import stop_flag


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2])
def test_a_signal_sets_the_flag(number):
    before = signal.getsignal(number)
    with stop_flag() as flag:
        assert not flag.is_set
        os.kill(os.getpid(), number)
        assert flag.is_set
    assert signal.getsignal(number) is before


def test_handlers_come_back_after_an_error():
    before = signal.getsignal(signal.SIGTERM)

    def fail():
        with stop_flag():
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert signal.getsignal(signal.SIGTERM) is before

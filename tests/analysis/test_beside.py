"""A function called in another process: what it returns, a process that dies, one that is ended."""

import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from hpsearch.analysis import examination
from hpsearch.analysis.beside import called_beside
from hpsearch.analysis.examination import ExaminationPlan
from hpsearch.errors import UsageError


def square(number):
    return number**2, os.getpid()


def note_the_process_and_sleep(path):
    path.write_text(str(os.getpid()))
    time.sleep(600)


def is_interrupted_by_ctrl_c():
    return signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


def refuse(sentence):
    raise UsageError(sentence)


def test_what_is_returned_comes_from_another_process():
    with called_beside(square, 7, otherwise=os.getpid) as returned:
        number, pid = returned()
        assert returned() == (number, pid), "it may be asked twice"
    assert number == 49
    assert pid != os.getpid()
    assert not psutil.pid_exists(pid)


def test_where_the_process_dies_the_other_way_is_taken():
    with called_beside(os._exit, 3, otherwise=lambda: "called here") as returned:
        assert returned() == "called here"


def test_what_the_function_raises_is_raised_here():
    with (
        called_beside(refuse, "no such player", otherwise=os.getpid) as returned,
        pytest.raises(UsageError, match="no such player"),
    ):
        returned()


def interrupt_when_it_has_begun(path):
    with called_beside(note_the_process_and_sleep, path, otherwise=os.getpid):
        while not path.exists() or not path.read_text():
            time.sleep(0.01)
        raise KeyboardInterrupt


def test_an_interruption_ends_the_process(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        interrupt_when_it_has_begun(tmp_path / "pid")
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_ctrl_c_is_for_this_process_alone():
    before = signal.getsignal(signal.SIGINT)
    with called_beside(is_interrupted_by_ctrl_c, otherwise=os.getpid) as returned:
        assert signal.getsignal(signal.SIGINT) is before
        assert not returned()


@pytest.mark.parametrize("num_cores", [1, 2])
def test_long_matches_are_those_of_one_process(num_cores, monkeypatch):
    plan = ExaminationPlan(num_games=20, match_moves=50, response_steps=None)
    player = examination.find_player(Path("zeillinger"), examination.CPU)
    played = examination.examine(player, plan)
    monkeypatch.setattr(examination, "LONG_MATCH", 1)
    monkeypatch.setattr(examination, "num_cores", lambda: num_cores)
    assert examination.examine(player, plan) == played


def test_matches_are_played_once_for_all_roles(monkeypatch):
    plays = []
    real = examination._all_matches
    monkeypatch.setattr(examination, "_all_matches", lambda *a: plays.append(1) or real(*a))
    plan = ExaminationPlan(num_games=20, match_moves=20, response_steps=None)
    player = examination.find_player(Path("random"), examination.CPU)  # a host and an agent
    assert len(examination.examine(player, plan).roles) == 2
    assert len(plays) == 1

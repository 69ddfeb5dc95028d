"""Calls of the scheduler: never too many a minute, and no answer is said to be none."""

import pytest

from hpsearch.cluster.executor import SchedulerSilentError
from hpsearch.cluster.slurm_calls import SchedulerCalls, overruling


class Time:
    """A clock that goes on when a caller sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


def test_no_minute_has_more_calls_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time()
    monkeypatch.setattr("hpsearch.cluster.slurm_calls.time", time)
    calls = SchedulerCalls(3)
    moments = []
    for pause in (0, 0, 0, 0, 70, 1, 1, 1, 1, 200, 0, 0):
        time.now += pause
        calls.take_turn()
        moments.append(time.now)
    assert calls.num_calls == len(moments)
    for moment in moments:
        assert sum(moment - 60 < other <= moment for other in moments) <= 3
    assert moments[3] == 1060.0  # the fourth waited for the first to be a minute old
    assert moments[-3:] == [moments[-3]] * 3  # after a rest, three at once


def test_what_a_program_prints() -> None:
    calls = SchedulerCalls(60)
    assert calls.run(["printf", "a|b\\n"]) == "a|b\n"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["sh", "-c", "echo 'Socket timed out' >&2; exit 1"], "sh failed: Socket timed out"),
        (["sh", "-c", "exit 3"], "sh failed: 3"),
        (["no-such-program"], "no-such-program gave no answer"),
    ],
)
def test_a_program_that_fails_gave_no_answer(command: list[str], said: str) -> None:
    with pytest.raises(SchedulerSilentError, match=said):
        SchedulerCalls(60).run(command)


def test_a_program_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpsearch.cluster.slurm_calls.CALL_SECONDS", 0.1)
    with pytest.raises(SchedulerSilentError, match="sleep gave no answer"):
        SchedulerCalls(60).run(["sleep", "5"])


def test_a_program_reads_its_script() -> None:
    assert SchedulerCalls(60).run(["sh"], "echo $((6 * 7))") == "42\n"


def test_all_jobs_are_told_even_if_some_cannot_be(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setattr("hpsearch.cluster.slurm_calls.IDS_PER_CALL", 2)
    program = tmp_path / "scancel"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/told\ncase "$*" in *1*) exit 1;; esac\n'
    )
    program.chmod(0o700)
    with pytest.raises(SchedulerSilentError):
        SchedulerCalls(60).run_for([str(program)], ["1", "2", "3", "4", "5"])
    assert (tmp_path / "told").read_text() == "1 2\n3 4\n5\n"


def test_variables_of_the_user_overrule_nothing_that_is_said(monkeypatch) -> None:
    """sbatch takes them instead of a script's options, and squeue leaves jobs out."""
    mine = {
        "SBATCH_ACCOUNT": "mine",
        "SBATCH_WAIT": "1",
        "SBATCH_JOB_NAME": "mine",
        "SQUEUE_PARTITION": "mine",
        "SLURM_TIME_FORMAT": "relative",
    }
    for name, value in mine.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SLURM_CONF", "theirs")
    seen = SchedulerCalls(60).run(["env"]).splitlines()
    assert "SLURM_CONF=theirs" in seen
    assert [line for line in seen if line.partition("=")[0] in mine] == ["SBATCH_ACCOUNT=mine"]
    assert {*overruling({"account"})} == mine.keys()
    assert {*overruling({"partition"})} == mine.keys() - {"SBATCH_ACCOUNT"}

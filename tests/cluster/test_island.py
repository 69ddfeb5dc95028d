"""What a trial took and gave on its island."""

from hpsearch.cluster.records import DonatedCheckpoint, Exchanges, Exploit


def takeover(step):
    return Exploit(step, 1, step, f"source at {step}", {}, {"host.gamma": 0.9})


def loan(step):
    return DonatedCheckpoint(step, f"own at {step}")


def exchanges(*steps):
    return Exchanges(tuple(map(takeover, steps)), tuple(map(loan, steps)))


def test_those_before_a_step_are_without_those_at_it():
    assert exchanges(10, 20, 30).before(20) == exchanges(10)
    assert exchanges(10, 20, 30).before(21) == exchanges(10, 20)


def test_what_a_replaced_attempt_says_once_more_is_there_once():
    """SQL takes each checkpoint once, and the last takeover says by what a trial learns."""
    record = Exchanges()
    for step in (10, 20, 30, 20):
        record = record.with_exploit(takeover(step)).with_donation(loan(step))
    assert record == exchanges(10, 20, 30)

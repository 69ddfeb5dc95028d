"""Who is waited for before a synchronous generation is judged: a quorum, and the others for a time.

Only training counts as training time. A member whose job waits in the scheduler's queue, or that
waits for a free job, is no slower than others; but a job that never begins must not hold up a
generation either, so that wait has a limit of its own.
"""

from collections.abc import Collection
from math import ceil

from hpsearch.population.options import Synchronous
from hpsearch.study.breeding.records import Ended
from hpsearch.study.records import Trial

ROUNDING = 1e-9
"""0.28 * 25 is 7.000000000000001"""


def is_due(
    rules: Synchronous, ended: Collection[Ended], waited_for: Collection[Trial], now: float
) -> bool:
    """Return whether those who have ended their interval should be judged without the others.

    The others are given up when all of them are late. One that trains is late if it has trained for
    so many minutes more than the quorum took. One that does not is late when so many minutes have
    passed since the quorum was there, and it was asked for.

    Args:
        rules: quorum and minutes.
        ended: how each of those who have ended did.
        waited_for: the newest trials of the others, without those late for the match before.
        now: seconds since the epoch.
    """
    if not waited_for:
        return True
    quorum = ceil(rules.quorum * (len(waited_for) + len(ended)) - ROUNDING)
    if len(ended) < quorum:
        return False
    more = rules.minutes * 60
    took = sorted(one.seconds for one in ended)[quorum - 1]
    there_at = sorted(one.at for one in ended)[quorum - 1]
    return all(
        now - max(there_at, trial.asked_at) >= more
        if trial.began_at is None
        else trial.seconds_trained(now) >= took + more
        for trial in waited_for
    )

"""What becomes of a trial: a table of how its attempt ended."""

import pytest

from hpsearch.cluster.failures import (
    CANCELLED,
    CODE,
    DISK,
    DIVERGED,
    HUNG,
    NAN,
    NODE_FAIL,
    OOM_GPU,
    OOM_HOST,
    PREEMPTED,
    SILENT,
    TIMEOUT,
)
from hpsearch.cluster.records import AttemptResult
from hpsearch.study.records import Trial
from hpsearch.study.results import Verdict, verdict

TELL, REQUEUE, FAIL = Verdict.TELL, Verdict.REQUEUE, Verdict.FAIL


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        ("finished", None, TELL),
        ("interrupted", None, REQUEUE),
        ("lost", "lost", REQUEUE),
        ("failed", DISK, REQUEUE),
        ("failed", HUNG, REQUEUE),
        ("failed", NAN, FAIL),
        ("failed", DIVERGED, FAIL),
        ("failed", CODE, FAIL),
        ("failed", OOM_GPU, FAIL),
        ("failed", OOM_HOST, REQUEUE),
        ("lost", TIMEOUT, REQUEUE),
        ("lost", SILENT, REQUEUE),
        ("lost", PREEMPTED, REQUEUE),
        ("lost", NODE_FAIL, REQUEUE),
        ("lost", CANCELLED, REQUEUE),
    ],
)
def test_the_first_attempt(status: str, kind: str | None, expected: Verdict) -> None:
    result = AttemptResult("t", status, 0, kind, "", {})
    assert verdict(Trial(0, {}), result, is_shared=False) is expected
    assert verdict(Trial(0, {}, told="pruned"), result, is_shared=False) is Verdict.NOTHING


@pytest.mark.parametrize(("status", "kind"), [("lost", "lost"), ("failed", DISK), ("failed", HUNG)])
@pytest.mark.parametrize(
    ("lost", "reached", "expected"),
    [
        (0, 50, REQUEUE),
        (1, 50, REQUEUE),
        (2, 50, FAIL),  # the third in a row that got no further
        (2, 49, FAIL),
        (2, 51, REQUEUE),
        (1, 0, REQUEUE),
    ],
)
def test_attempts_that_vanish_in_a_row(
    status: str, kind: str, lost: int, reached: int, expected: Verdict
) -> None:
    trial = Trial(0, {}, attempts=lost + 1, lost=lost, step=50)
    result = AttemptResult("t", status, reached, kind, "", {})
    assert verdict(trial, result, is_shared=False) is expected


@pytest.mark.parametrize(
    ("status", "kind"), [("interrupted", None), ("lost", PREEMPTED), ("lost", NODE_FAIL)]
)
def test_what_the_cluster_does_is_never_too_often(status: str, kind: str | None) -> None:
    trial = Trial(0, {}, attempts=99, lost=2)
    result = AttemptResult("t", status, 0, kind, "", {})
    assert verdict(trial, result, is_shared=False) is REQUEUE


def test_who_shared_a_gpu_that_was_too_small_goes_on_alone() -> None:
    result = AttemptResult("t", "failed", 0, OOM_GPU, "", {})
    assert verdict(Trial(0, {}), result, is_shared=True) is REQUEUE
    assert verdict(Trial(0, {}, lost=2), result, is_shared=False) is FAIL

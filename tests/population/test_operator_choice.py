"""Operators by their acceptance: formulas by hand, intervals by their defining equation."""

import math

import numpy as np
import pytest

from hpsearch.population.breeding import operator_chances
from hpsearch.population.operator_record import OperatorRecord
from hpsearch.population.statistics import num_errors


def acceptance_interval(record, confidence):
    """Return the ends of Wilson's interval (1927) of the acceptance rate; (0, 1) for none."""
    if not record.tried:
        return 0.0, 1.0
    z = num_errors(confidence)
    rate, weight = record.accepted / record.tried, z**2 / record.tried
    centre = (rate + weight / 2) / (1 + weight)
    reach = math.sqrt(weight * (rate * (1 - rate) + weight / 4)) / (1 + weight)
    return max(centre - reach, 0.0), min(centre + reach, 1.0)


def test_chances_by_hand():
    records = [OperatorRecord(8, 5), OperatorRecord(0, 0), OperatorRecord(8, 0)]
    # Qualities 6/10, 1/2, 1/10; three floors of .1 leave .7 to share in 12ths.
    assert operator_chances(records, 0.1) == pytest.approx(
        [0.1 + 0.7 * 6 / 12, 0.1 + 0.7 * 5 / 12, 0.1 + 0.7 * 1 / 12]
    )
    assert operator_chances(records, 1 / 3) == pytest.approx([1 / 3] * 3)


def test_none_dies_out_and_the_accepted_one_leads():
    """Operators whose children are accepted with chances .6, .3 and never, for 600 children."""
    rng = np.random.default_rng(0)
    records = [OperatorRecord(0, 0)] * 3
    for _ in range(600):
        pick = rng.choice(3, p=operator_chances(records, 0.05))
        records[pick] = records[pick].with_child(accepted=rng.random() < (0.6, 0.3, 0.0)[pick])
    chances = operator_chances(records, 0.05)
    assert chances.min() >= 0.05
    assert chances == pytest.approx([0.05 + 0.85 * share for share in (2 / 3, 1 / 3, 0)], abs=0.06)
    assert records[2].tried > 10
    for record, rate in zip(records, (0.6, 0.3, 0.0), strict=True):
        low, high = acceptance_interval(record, 0.99)
        assert low <= rate <= high


def test_the_interval_solves_its_equation():
    for tried, accepted in ((1, 0), (5, 5), (40, 7)):
        low, high = acceptance_interval(OperatorRecord(tried, accepted), 0.95)
        for end in {low, high} - {0.0, 1.0}:
            distance = (accepted / tried - end) / np.sqrt(end * (1 - end) / tried)
            assert abs(distance) == pytest.approx(1.959964, abs=1e-4)
    assert acceptance_interval(OperatorRecord(0, 0), 0.95) == (0, 1)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="accepted <= tried"):
        OperatorRecord(1, 2)

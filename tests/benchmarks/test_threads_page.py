"""How far a job's choice of threads is from the best one, by hand-made repetitions."""

import pytest
from threads_page import Row, share_of_best


def runs(**speeds: list[float]) -> dict[str, list[Row]]:
    return {
        name: [{"chosen": "job", "alone": str(speed)} for speed in of_name]
        for name, of_name in speeds.items()
    }


def test_the_best_other_choice_is_that_of_the_other_repetitions() -> None:
    # In the first repetition "lucky" is the fastest, but in the others "steady" is.
    repetitions = runs(job=[9.0, 8.0, 10.0], steady=[10.0, 10.0, 10.0], lucky=[20.0, 5.0, 5.0])
    # Without the second or third repetition, the median of "lucky" is 12.5.
    assert share_of_best(repetitions, "alone") == pytest.approx(8 / 5)
    repetitions["lucky"][0] = repetitions["lucky"][1]
    assert share_of_best(repetitions, "alone") == pytest.approx(0.9)


def test_a_job_is_not_compared_with_itself() -> None:
    assert share_of_best(runs(job=[12.0] * 3, slow=[10.0] * 3), "alone") == pytest.approx(1.2)


def test_of_one_repetition_the_share_is_of_the_fastest() -> None:
    assert share_of_best(runs(job=[9.0], slow=[5.0]), "alone") == 1.0
    assert share_of_best(runs(job=[9.0], quick=[10.0]), "alone") == pytest.approx(0.9)

"""What `status` says of a population."""

from hpsearch.report.text import population_lines


def lines(*, champion, answered):
    answer = {"role": "host", "trial": answered, "value": 0.21, "low": 0.2, "high": 0.22}
    return population_lines(
        {
            "members": 2,
            "matches": 3,
            "match": None,
            "champion": champion,
            "standings": [],
            "game": None,
            "answers": [answer],
            "operators": {},
        }
    )


def test_it_says_whose_answer_is_known():
    """Of the champion that goes out into the world, or of one that has been surpassed since."""
    (_, said) = lines(champion=5, answered=5)
    assert said.startswith("the host of trial 5, the champion, against an opponent trained for it")
    (_, said) = lines(champion=6, answered=5)
    assert said.startswith("the host of trial 5, a champion before, against an opponent trained")

import pytest
import torch
from point_sets import as_tensor

from hpsearch.game.rules import REWARDS, reward_function

POINTS = torch.stack([as_tensor([(3, 0), (2, 1), (0, 4)], 4)] * 2)
NEXT_POINTS = torch.stack([as_tensor([(0, 4)], 4), as_tensor([(3, 0), (0, 4)], 4)])
DONE = torch.tensor([True, False])


@pytest.mark.parametrize(
    ("name", "expected"),
    [("terminal", [1, 0]), ("step_penalty", [-1, -1]), ("points_removed", [0.5, 0.25])],
)
def test_the_hosts_reward(name, expected):
    reward = reward_function(name)(POINTS, NEXT_POINTS, DONE)
    assert reward.dtype == torch.float32
    assert reward.tolist() == expected


def test_an_unknown_name_lists_the_valid_ones():
    with pytest.raises(ValueError, match=r"points_removed.*step_penalty.*terminal.*got 'x'"):
        reward_function("x")
    assert set(REWARDS) == {"points_removed", "step_penalty", "terminal"}

from dataclasses import replace

import pytest
import torch
from point_sets import as_points, moved_points

from hpsearch.game import FusedGame, GameConfig, HostActionEncoder, rules
from hpsearch.game.kernels import BACKENDS
from hpsearch.game.players import HOSTS, agent_player, host_player
from hpsearch.game.random import derive_key
from hpsearch.game.stream import Stream

SMALL = GameConfig(
    dimension=3, max_num_points=8, max_value=9, max_steps=6, reposition=True, reward="terminal"
)


def keys(num_members: int) -> torch.Tensor:
    return torch.tensor([derive_key("fused game", member) for member in range(num_members)])


def copied(state):
    return {name: tensor.clone() for name, tensor in state.items()}


def play(game: FusedGame, num_moves: int, host: str = "random", agent: str = "random"):
    """Yield the actions and the outcome of each move of scripted players."""
    host_noise = Stream(game.keys + 1, torch.zeros_like(game.keys))
    agent_noise = Stream(game.keys + 2, torch.zeros_like(game.keys))
    encoder = HostActionEncoder(game.config.dimension)
    for _ in range(num_moves):
        action = host_player(host)(game.points, host_noise.uniform(game.num_games))
        subset = encoder.decode(action)
        axis = agent_player(agent)(game.points, subset, agent_noise.uniform(game.num_games))
        before = copied(game.state())
        yield before, action, axis, game.step(action, axis)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("reposition", [False, True])
def test_a_step_is_a_move_of_each_game_by_itself(backend, reposition):
    config = GameConfig(
        dimension=3,
        max_num_points=8,
        max_value=9,
        max_steps=6,
        reposition=reposition,
        reward="terminal",
    )
    game = FusedGame(config, keys(2), 10, "cpu", backend, observes=True)
    encoder = HostActionEncoder(3)
    num_done = num_truncated = 0
    for before, action, axis, step in play(game, 20):
        for p, b in torch.cartesian_prod(torch.arange(2), torch.arange(10)).tolist():
            subset = encoder.decode(action[p, b])
            expected = rules.move(before["points"][p, b], subset, axis[p, b])
            if reposition:
                expected = rules.reposition(expected)
            assert torch.equal(step.next_points[p, b], expected)
            assert step.done[p, b] == rules.is_over(expected)
            length = before["lengths"][p, b] + 1
            assert step.last[p, b] == (length == 6)
            assert step.truncated[p, b] == (length == 6 and not step.done[p, b])
            if step.done[p, b] or step.truncated[p, b]:
                assert game.lengths[p, b] == 0
                assert game.starts[p, b] == before["starts"][p, b] + 1
            else:
                assert torch.equal(game.points[p, b], expected)
                assert game.lengths[p, b] == length
                assert game.starts[p, b] == before["starts"][p, b]
        num_done += int(step.done.sum())
        num_truncated += int(step.truncated.sum())
        assert torch.equal(step.reward, step.done.float())
        assert torch.equal(step.next_observation, rules.observe(step.next_points))
        assert torch.equal(game.observation, rules.observe(game.points))
    assert num_done > 10
    assert num_truncated > 10


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_a_new_game_is_the_start_of_its_number(backend):
    game = FusedGame(SMALL, keys(2), 10, "cpu", backend, observes=True)
    for _before, _action, _axis, step in play(game, 12):
        ended = step.done | step.truncated
        starts = BACKENDS["reference"].random_starts(
            game.keys, game.starts, num_points=8, dimension=3, max_value=9
        )
        assert torch.equal(game.points[ended], starts[ended])
        assert not rules.is_over(game.points).any()


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("host", HOSTS)
def test_members_are_independent(backend, host):
    together = FusedGame(SMALL, keys(3), 10, "cpu", backend, observes=True)
    alone = FusedGame(SMALL, keys(3)[1:2], 10, "cpu", backend, observes=True)
    for (*_, step), (*_, own) in zip(play(together, 15, host), play(alone, 15, host), strict=True):
        for all_members, member in zip(step, own, strict=True):
            assert torch.equal(all_members[1:2], member)
    for name, tensor in together.state().items():
        assert torch.equal(tensor[1:2], alone.state()[name])


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_the_games_of_some_lanes_are_those_of_all(backend):
    """However the lanes of a member are shared out."""
    chosen = torch.tensor([7, 2, 4])
    every = FusedGame(SMALL, keys(2), 10, "cpu", backend, observes=True)
    some = FusedGame(SMALL, keys(2), 3, "cpu", backend, observes=True, lanes=chosen)
    for _before, action, axis, step in play(every, 15):
        own = some.step(action[:, chosen].contiguous(), axis[:, chosen].contiguous())
        for all_games, games in zip(step, own, strict=True):
            assert torch.equal(all_games[:, chosen], games)
    assert every.starts[:, chosen].min() > 0
    for name, tensor in every.state().items():
        assert torch.equal(tensor[:, chosen], some.state()[name])


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_growth_beyond_the_limit_ends_a_game_as_capped(backend):
    config = GameConfig(
        dimension=2,
        max_num_points=2,
        max_value=9,
        max_steps=1000,
        reposition=False,
        reward="terminal",
    )
    game = FusedGame(config, keys(1), 1, "cpu", backend, observes=True)
    limit = rules.MAX_COORDINATE
    game.points.copy_(torch.tensor([[limit, 0], [0, limit]], dtype=torch.int32))
    action, axis = torch.tensor([[0]]), torch.tensor([[0]])
    step = game.step(action, axis)  # (limit, 0) lies below (limit, limit): done, and exact
    assert (step.done, step.truncated, step.last) == (True, False, False)

    game.points.copy_(torch.tensor([[limit, 1], [1, limit]], dtype=torch.int32))
    before = game.starts.clone()
    step = game.step(action, axis)  # both sums exceed the limit, so which is smaller is unknown
    assert (step.done, step.truncated, step.last) == (False, True, True)
    assert torch.equal(game.starts, before + 1)
    assert not rules.is_capped(game.points)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize(("action", "axis"), [(0, 2), (0, -1), (3, 3), (4, 0), (-1, 0)])
def test_an_illegal_move_is_an_error_and_changes_nothing(backend, action, axis):
    game = FusedGame(SMALL, keys(2), 3, "cpu", backend, observes=True)
    before = copied(game.state())
    told = {
        "reference": "got",
        "cpu": rf"action in 0\.\.3 and .*, got host_action={action}, agent_axis={axis} in game 5",
    }
    with pytest.raises(ValueError, match=told[backend]):
        game.step(
            torch.tensor([[0, 0, 0], [0, 0, action]]), torch.tensor([[0, 1, 0], [0, 1, axis]])
        )
    for name, tensor in game.state().items():
        assert torch.equal(tensor, before[name])


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_the_observation_is_that_of_the_points(backend):
    game = FusedGame(SMALL, keys(2), 10, "cpu", backend, observes=True)
    observation = game.observation
    assert observation.shape == (2, 10, 24)

    def follows():
        assert game.observation is observation  # in place
        return torch.equal(observation, rules.observe(game.points))

    assert follows()
    before = game.points.clone()
    list(play(game, 7))
    assert follows()
    game.points[1].copy_(before[1])
    assert not follows()
    game.refresh()
    assert follows()


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_a_game_that_does_not_observe_is_the_same_game(backend):
    seeing, blind = (
        FusedGame(SMALL, keys(2), 10, "cpu", backend, observes=observes)
        for observes in (True, False)
    )
    for (*_, step), (*_, other) in zip(play(seeing, 12), play(blind, 12), strict=True):
        assert other.next_observation.shape == blind.observation.shape == (2, 10, 0)
        assert all(map(torch.equal, step[:-1], other[:-1]))
    blind.refresh()


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_another_reward_from_now_on(backend):
    game = FusedGame(SMALL, keys(2), 10, "cpu", backend, observes=False)
    assert all((step.reward >= 0).all() for *_, step in play(game, 5))
    game.replace_reward("step_penalty")
    assert all((step.reward == -1).all() for *_, step in play(game, 5))
    game.replace_reward("points_removed")
    assert game.config.reward == "points_removed"
    for before, *_, step in play(game, 5):
        removed = rules.is_live(before["points"]).sum(-1) - rules.is_live(step.next_points).sum(-1)
        assert torch.equal(step.reward, removed / 8)
    with pytest.raises(ValueError, match=r"got 'points'"):
        game.replace_reward("points")
    assert game.config.reward == "points_removed"


def test_positions_before_the_reset_are_not_overwritten():
    game = FusedGame(SMALL, keys(1), 4, "cpu", "cpu", observes=True)
    steps = [step.next_points for *_, step in play(game, 3)]
    copies = [points.clone() for points in steps]
    list(play(game, 3))
    assert all(map(torch.equal, steps, copies))


def test_a_game_ends_as_on_python_integers():
    game = FusedGame(SMALL, keys(1), 1, "cpu", "cpu", observes=True)
    encoder = HostActionEncoder(3)
    for before, action, axis, step in play(game, 30, "zeillinger", "choose_first"):
        subset = encoder.decode(action[0, 0]).nonzero().flatten().tolist()
        points = moved_points(as_points(before["points"][0, 0]), subset, int(axis))
        assert step.done == (len(points) == 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [("dimension", 1), ("dimension", 17), ("max_num_points", 0), ("max_value", 0),
     ("max_value", 2**30 + 1), ("max_steps", 0)],
)  # fmt: skip
def test_an_impossible_config_is_an_error(name, value):
    values = {"dimension": 3, "max_num_points": 5, "max_value": 9, "max_steps": 6}
    with pytest.raises(ValueError, match=f"{name} must be at least .* got {name}={value}"):
        GameConfig(**(values | {name: value}), reposition=True, reward="terminal")


def test_impossible_arguments_are_errors():
    one_point = GameConfig(
        dimension=3, max_num_points=1, max_value=9, max_steps=6, reposition=True, reward="terminal"
    )
    with pytest.raises(ValueError, match="max_num_points=1"):
        FusedGame(one_point, keys(1), 1, "cpu", "cpu", observes=True)
    with pytest.raises(ValueError, match=r"keys must be int64 \(P,\), got torch.float32"):
        FusedGame(SMALL, torch.zeros(1), 1, "cpu", "cpu", observes=True)
    with pytest.raises(ValueError, match="num_games=0"):
        FusedGame(SMALL, keys(1), 0, "cpu", "cpu", observes=True)
    with pytest.raises(ValueError, match=r"\['cpu', 'cuda', 'reference'\], got backend='gpu'"):
        FusedGame(SMALL, keys(1), 1, "cpu", "gpu", observes=True)
    with pytest.raises(ValueError, match=r"one of \['points_removed', .* got 'points'"):
        replace(SMALL, reward="points")
    with pytest.raises(ValueError, match="backend 'cpu' needs a device of type 'cpu', got 'meta'"):
        FusedGame(SMALL, keys(1), 1, "meta", "cpu", observes=True)

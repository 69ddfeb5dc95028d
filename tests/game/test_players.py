import pytest
import torch
from point_sets import Point, as_points, as_tensor, minimal_points, moved_points, zeillinger_subset

from hpsearch.game import HostActionEncoder, rules
from hpsearch.game.kernels import BACKENDS
from hpsearch.game.players import AGENTS, HOSTS, agent_player, host_player
from hpsearch.game.rules import zeillinger

GRID = torch.linspace(0, 1, 12_001)[:-1].float()  # an exact stand-in for uniform noise


def empty_games(num_games: int, dimension: int) -> torch.Tensor:
    return torch.zeros(num_games, 1, dimension, dtype=torch.int32)


@pytest.mark.parametrize("dimension", [2, 3, 5])
def test_random_hosts_are_uniform(dimension):
    encoder = HostActionEncoder(dimension)
    points = empty_games(len(GRID), dimension)
    counts = host_player("random")(points, GRID).bincount(minlength=encoder.num_actions)
    assert (counts - len(GRID) / encoder.num_actions).abs().max() <= 1

    pairs = host_player("random_pair")(points, GRID)
    assert (encoder.decode(pairs).sum(-1) == 2).all()
    counts = pairs.unique(return_counts=True)[1]
    assert len(counts) == dimension * (dimension - 1) // 2
    assert (counts - len(GRID) / len(counts)).abs().max() <= 1


def test_all_coord():
    actions = host_player("all_coord")(empty_games(7, 4), GRID[:7])
    assert HostActionEncoder(4).decode(actions).all()


def test_agents_on_every_subset():
    encoder = HostActionEncoder(5)
    for subset in encoder.decode(torch.arange(encoder.num_actions)):
        members = subset.nonzero().flatten()
        batch = subset.expand(len(GRID), 5)
        points = empty_games(len(GRID), 5)
        assert (agent_player("choose_first")(points, batch, GRID) == members[0]).all()
        assert (agent_player("choose_last")(points, batch, GRID) == members[-1]).all()
        axes, counts = agent_player("random")(points, batch, GRID).unique(return_counts=True)
        assert torch.equal(axes, members)
        assert (counts - len(GRID) / len(members)).abs().max() <= 1


@pytest.mark.parametrize("name", AGENTS)
def test_the_greatest_noise_is_legal(name):
    noise = torch.full((1,), 1 - 2.0**-24)
    for dimension in (2, 3, 7, 10):
        encoder = HostActionEncoder(dimension)
        for host in HOSTS.values():
            action = host(empty_games(1, dimension), noise)
            subset = encoder.decode(action)
            axis = agent_player(name)(empty_games(1, dimension), subset, noise)
            rules.check_move(subset, axis)


def test_zeillinger_on_the_seed_systems_example():
    points = as_tensor(minimal_points([(0, 0, 4), (5, 0, 1), (1, 5, 1), (0, 25, 0)]), 4)
    subset = HostActionEncoder(3).decode(zeillinger(points))
    assert subset.tolist() == [True, False, True]


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize(
    ("num_points", "dimension", "largest"), [(2, 2, 3), (8, 3, 4), (20, 3, 20), (15, 5, 2**30)]
)
def test_zeillinger_equals_its_definition(backend, num_points, dimension, largest):
    generator = torch.Generator().manual_seed(num_points)
    points = torch.randint(
        0, largest + 1, (200, num_points, dimension), generator=generator, dtype=torch.int32
    )
    points = rules.newton_polytope(points)
    actions = BACKENDS[backend].zeillinger(points)
    assert actions.dtype == torch.int64
    subsets = HostActionEncoder(dimension).decode(actions)
    for rows, subset in zip(points, subsets, strict=True):
        game = as_points(rows)
        expected = zeillinger_subset(game) if len(game) > 1 else {0, 1}
        assert set(subset.nonzero().flatten().tolist()) == expected


def zeillinger_depth(points: list[Point], *, descending: bool = True) -> int:
    """Return the worst case of moves against Zeillinger's host, who reads points in an order."""
    if len(points) <= 1:
        return 0
    points = sorted(points, reverse=descending)
    action = host_player("zeillinger")(as_tensor(points, len(points)), torch.tensor(0.0))
    subset = HostActionEncoder(len(points[0])).decode(action).nonzero().flatten().tolist()
    return 1 + max(
        zeillinger_depth(moved_points(points, subset, axis), descending=descending)
        for axis in subset
    )


@pytest.mark.parametrize(("descending", "depth"), [(False, 6), (True, 4)])
def test_zeillingers_depth_on_six_points(descending, depth):
    """The seed system reads these ascending and needs 6; with so many ties the order matters."""
    points = [(0, 1, 0, 1), (0, 2, 0, 0), (1, 0, 0, 1), (1, 0, 1, 0), (1, 1, 0, 0), (2, 0, 0, 0)]
    assert zeillinger_depth(points, descending=descending) == depth


@pytest.mark.parametrize(
    ("points", "depth"),
    [
        pytest.param([(2, 0, 0), (0, 2, 0), (0, 0, 2)], 2, id="A1"),
        pytest.param([(2, 0, 0), (0, 2, 0), (0, 0, 3)], 4, id="A2"),
        pytest.param([(2, 0, 0), (0, 2, 0), (0, 0, 4)], 3, id="A3"),
        pytest.param([(2, 0, 0), (0, 2, 0), (0, 0, 5)], 5, id="A4"),
        pytest.param([(2, 0, 0), (0, 2, 1), (0, 0, 3)], 8, id="D4"),
        pytest.param([(2, 0, 0), (0, 3, 0), (0, 0, 4)], 10, id="E6"),
    ],
)
def test_zeillingers_depth_on_singularities(points, depth):
    assert zeillinger_depth(points) == depth


def test_unknown_names_list_the_valid_ones():
    with pytest.raises(ValueError, match=r"\['all_coord', 'random', 'random_pair', 'zeillinger'\]"):
        host_player("zeilinger")
    with pytest.raises(ValueError, match=r"\['choose_first', 'choose_last', 'random'\], got 'x'"):
        agent_player("x")

"""The size of a policy by its configuration, against the networks themselves."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_configs import CONFIGS

from hpsearch.trainers.config import read_config
from hpsearch.trainers.config.ppo import PPORole
from hpsearch.trainers.policies import build_net

WIDTHS = st.integers(1, 9)
LAYERS = st.one_of(
    WIDTHS, st.sampled_from(["b", "l"]), WIDTHS.map("r{}".format), WIDTHS.map("rl{}".format)
)
ENCODERS = st.one_of(
    st.integers(2, 4).map(lambda num: {"name": "flatten", "num_points": num}),
    st.lists(WIDTHS, max_size=3).map(
        lambda widths: {"name": "deep_sets", "widths": widths, "pool": "max"}
    ),
    st.tuples(st.integers(1, 4), st.integers(0, 3)).map(
        lambda two: {"name": "attention", "width": 2 * two[0], "heads": 2, "blocks": two[1] or 1}
    ),
)


def configuration(algorithm, encoder, net_arch, *, dimension=3, dueling=False):
    """Return a configuration in which both roles learn."""
    plain = copy.deepcopy(CONFIGS[algorithm])
    plain["host"] |= {"encoder": encoder, "net_arch": net_arch}
    plain |= {"agent": plain["host"], "dimension": dimension}
    plain["evaluation"]["opponents"] = ["choose_first", "zeillinger"]
    if algorithm == "dqn":
        plain["dqn"]["dueling"] = dueling
    return read_config(plain, source="")


def counted(name, config):
    """Return the weights of a fresh network, of an actor-critic those of its first tower."""
    role = config.learning()[name]
    net = build_net(name, config, [1], torch.device("cpu"))
    parts = net.parts(net.weights)
    own = {
        key: part for key, part in parts.items() if not isinstance(role, PPORole) or key[0] == "0"
    }
    return sum(part.numel() for part in own.values())


@settings(deadline=None, max_examples=60)
@given(
    algorithm=st.sampled_from(sorted(CONFIGS)),
    encoder=ENCODERS,
    net_arch=st.lists(LAYERS, max_size=4),
    dimension=st.integers(2, 5),
    dueling=st.booleans(),
)
def test_the_size_is_what_the_network_has(algorithm, encoder, net_arch, dimension, dueling):
    config = configuration(algorithm, encoder, net_arch, dimension=dimension, dueling=dueling)
    for name in ("host", "agent"):
        assert config.policy_size(name) == counted(name, config)


@pytest.mark.parametrize(
    ("net_arch", "expected"),
    [
        ([], 7 * 4),  # two points of three coordinates in, four subsets out
        ([8], 7 * 8 + 9 * 4),
        ([8, "l"], 7 * 8 + 16 + 9 * 4),
        ([{"repeat": 2, "net_arch": [4]}], 7 * 4 + 5 * 4 + 5 * 4),
    ],
)
def test_sizes_by_hand(net_arch, expected):
    config = configuration("dqn", {"name": "flatten", "num_points": 2}, net_arch)
    assert config.policy_size("host") == expected


def test_who_does_not_learn_has_no_size():
    config = read_config(copy.deepcopy(CONFIGS["dqn"]), source="")
    with pytest.raises(KeyError):
        config.policy_size("agent")

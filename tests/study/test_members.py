"""What children may change, and how large members are, against the networks themselves."""

from math import prod

import pytest
from drives import new_study
from hypothesis import given
from hypothesis import strategies as st

from hpsearch.study.breeding.members import explorable, num_weights, size
from hpsearch.trainers.config import read_config, shape_key
from hpsearch.trainers.net_arch import parse
from hpsearch.trainers.networks.layers import plan_layer
from hpsearch.trainers.networks.plan import Plan

LR = {"type": "float", "low": 1e-4, "high": 1e-1, "log": True}
GAMMA = {"type": "float", "low": 0.5, "high": 0.99}
WIDTHS = st.integers(1, 9)
LAYERS = st.one_of(
    WIDTHS, st.sampled_from(["b", "l"]), WIDTHS.map("r{}".format), WIDTHS.map("rl{}".format)
)


def names(folder, **space):
    """Return what is explorable of a space; two underscores stand for a dot."""
    space = {path.replace("__", "."): parameter for path, parameter in space.items()}
    return list(explorable(new_study(folder, space=space)))


def choice(*choices, **when):
    return {"type": "categorical", "choices": list(choices)} | when


def test_rates_are_explored_and_shapes_are_inherited(tmp_path):
    found = names(
        tmp_path,
        host__optim__args__lr=LR,
        host__gamma=GAMMA,
        host__net_arch=choice([8], [16]),
        host__batch_size={"type": "int", "low": 64, "high": 128},
        host__activation=choice("relu", "tanh"),
        dqn__double=choice(True, False),
    )
    assert found == ["host.gamma", "host.optim.args.lr"]


def test_a_mapping_is_explored_only_if_all_in_it_may_differ(tmp_path):
    args = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
    assert names(tmp_path, host__optim__args=choice(args, args | {"lr": 1e-2})) == [
        "host.optim.args"
    ]
    optim = {"name": "adam", "args": args, "lr_schedule": {"mode": "constant"}}
    assert names(tmp_path, host__optim=choice(optim)) == []


def test_parameters_stand_after_those_that_they_depend_on(tmp_path):
    found = names(
        tmp_path,
        host__er=GAMMA | {"when": {"host.gamma": 0.9}},
        host__gamma=choice(0.9, 0.8),
        host__optim__args__lr=LR | {"when": {"host.net_arch": [[16]]}},
        host__net_arch=choice([8], [16]),
    )
    assert found == ["host.gamma", "host.er", "host.optim.args.lr"]


def test_what_decides_over_a_shape_is_inherited_with_it(tmp_path):
    """Else a child with another gamma would have to draw a shape that no parent's weights fit."""
    found = names(
        tmp_path,
        host__net_arch=choice([8], [16], when={"host.gamma": 0.9}),
        host__gamma=choice(0.9, 0.8, when={"host.tau": 1.0}),
        host__tau=choice(1.0, 0.5),
        host__optim__args__lr=LR | {"when": {"host.gamma": 0.8}},
    )
    assert found == ["host.optim.args.lr"]


def test_all_that_is_explored_leaves_the_shape_as_it_is(tmp_path):
    space = {
        path: GAMMA
        for path in ("host.gamma", "host.tau", "host.er", "host.optim.args.lr", "host.huber_delta")
    }
    study = new_study(tmp_path, space=space)
    shapes = {
        shape_key(
            read_config(
                study.trial_config(number, dict.fromkeys(explorable(study), value)), source=""
            )
        )
        for number, value in enumerate((0.5, 0.7, 0.99))
    }
    assert len(shapes) == 1
    assert len(explorable(study)) == 5


def sized(folder, net_arch, **changes):
    study = new_study(folder, trainer={"host.net_arch": net_arch} | changes)
    return size(read_config(study.bases["dqn"], source=""))


@given(net_arch=st.lists(LAYERS, max_size=5), num_inputs=st.sampled_from([1, 7, 8]))
def test_size_counts_the_weights_of_the_networks_hidden_layers(net_arch, num_inputs):
    plan, width = Plan(), num_inputs
    for layer in parse(net_arch):
        width = plan_layer(plan, layer, width, "uniform")
    weights = [
        prod(part.shape)
        for part, kind in zip(plan.parts[::2], plan.kinds, strict=True)
        if kind == "linear"
    ]
    assert num_weights(net_arch, num_inputs) == sum(weights)


@pytest.mark.parametrize(
    ("net_arch", "expected"),
    [
        ([8], 8),
        ([8, 4], 40),
        ([{"repeat": 3, "net_arch": [4]}], 36),
        ([4, "r4"], 36),
        ([4, "r2"], 24),
    ],
)
def test_sizes_by_hand(tmp_path, net_arch, expected):
    assert sized(tmp_path, net_arch) == expected

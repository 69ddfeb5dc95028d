"""What children may change, and how large members are."""

from drives import new_study

from hpsearch.study.breeding.checks import explorable_of, size
from hpsearch.trainers.config import read_config, shape_key

LR = {"type": "float", "low": 1e-4, "high": 1e-1, "log": True}
GAMMA = {"type": "float", "low": 0.5, "high": 0.99}


def explorable(study):
    (base,) = study.bases.values()
    return explorable_of(base, study.space)


def names(folder, **space):
    """Return what is explorable of a space; two underscores stand for a dot."""
    space = {path.replace("__", "."): parameter for path, parameter in space.items()}
    return list(explorable(new_study(folder, space=space)))


def choice(*choices, **when):
    return {"type": "categorical", "choices": list(choices)} | when


def test_rates_are_explored_and_shapes_are_inherited(tmp_path):
    explored = names(
        tmp_path,
        host__optim__args__lr=LR,
        host__gamma=GAMMA,
        host__net_arch=choice([8], [16]),
        host__batch_size={"type": "int", "low": 64, "high": 128},
        host__activation=choice("relu", "tanh"),
        dqn__double=choice(True, False),
    )
    assert explored == ["host.gamma", "host.optim.args.lr"]


def test_a_mapping_is_explored_only_if_all_in_it_may_differ(tmp_path):
    args = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
    assert names(tmp_path, host__optim__args=choice(args, args | {"lr": 1e-2})) == [
        "host.optim.args"
    ]
    optim = {"name": "adam", "args": args, "lr_schedule": {"mode": "constant"}}
    assert names(tmp_path, host__optim=choice(optim)) == []


def test_parameters_stand_after_those_that_they_depend_on(tmp_path):
    explored = names(
        tmp_path,
        host__er=GAMMA | {"when": {"host.gamma": 0.9}},
        host__gamma=choice(0.9, 0.8),
        host__optim__args__lr=LR | {"when": {"host.net_arch": [[16]]}},
        host__net_arch=choice([8], [16]),
    )
    assert explored == ["host.gamma", "host.er", "host.optim.args.lr"]


def test_what_decides_over_a_shape_is_inherited_with_it(tmp_path):
    """Else a child with another gamma would have to draw a shape that no parent's weights fit."""
    explored = names(
        tmp_path,
        host__net_arch=choice([8], [16], when={"host.gamma": 0.9}),
        host__gamma=choice(0.9, 0.8, when={"host.tau": 1.0}),
        host__tau=choice(1.0, 0.5),
        host__optim__args__lr=LR | {"when": {"host.gamma": 0.8}},
    )
    assert explored == ["host.optim.args.lr"]


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


def test_a_members_size_is_that_of_the_networks_that_play(tmp_path):
    """A host of two points of three coordinates: 6 in, 4 subsets out."""
    encoder = {"name": "flatten", "num_points": 2}
    base = {"host.net_arch": [8], "host.encoder": encoder, "agent": {"player": "random"}}
    config = read_config(new_study(tmp_path, trainer=base).bases["dqn"], source="")
    assert config.dimension == 3
    assert size(config) == (6 + 1) * 8 + (8 + 1) * 4

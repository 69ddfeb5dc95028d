"""Members that grow inside their space: what is planned, and that configurations follow from it."""

import json
from random import Random

import pytest
from drives import SPACE, check_books, deaths_at_all_events, drive, schedule, stored_trials
from fakes import FakeExecutor, smooth_curve
from study_files import BASE
from test_population_ends import check_judged
from test_population_study import origins, population_study, teaching
from test_random_kills import CALLS, MACHINES, Chaos, Watched, seconds_of
from test_random_kills import drive as drive_through
from virtual_cluster import SimulatedCluster
from virtual_job import Course

from hpsearch import yaml_file
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.parameters import CategoricalParameter, FloatParameter
from hpsearch.schema import apply
from hpsearch.study.breeding.checks import growths_of
from hpsearch.study.space import SearchSpace
from hpsearch.study.state import FINISHED
from hpsearch.trainers.config import read_config, shape_differences

LARGER = {"[4]": "[8]", "[8]": "[8, 8]"}
"""what grows, and into what; the other choices are the largest, and of other layers"""
ARCHES = {"type": "categorical", "choices": [[8, 8], [4], ["rl6"], [8]]}
OPERATORS = [{"name": "grow", "noise": 0.01}, {"name": "gaussian_mutation", "strength": 0.1}]


def growing_study(folder, trials=28, members=8, **changes):
    return population_study(
        folder,
        trials=trials,
        study={"space": SPACE | {"host.net_arch": ARCHES}},
        members=members,
        selection={"name": "tournament", "size": 4, "elites": 1, "confidence": 0.5},
        operators=OPERATORS,
        **changes,
    )


def check_growth(study):
    """Assert that shapes change by growth alone, by one choice; return how many grew."""
    folder = StudyDir(study.path.parent / "runs" / "quick")
    params, grew = [trial.params for trial in stored_trials(study)], 0
    for number, origin in origins(study).items():
        if not origin["parents"]:
            continue
        (parent,) = origin["parents"]
        before, after = (
            read_config(yaml_file.load(folder.trial(either).config), source="")
            for either in (parent, number)
        )
        assert json.dumps(after.host.net_arch) == params[number]["host.net_arch"]
        old, new = params[parent]["host.net_arch"], params[number]["host.net_arch"]
        lineage = folder.trial(number).lineage.required()
        if lineage.operator.name == "grow":
            assert origin["is_child"]
            assert new == LARGER[old]
            assert shape_differences(before, after) == ["host.net_arch"]
            assert lineage.trying is None
            grew += 1
        else:
            assert new == old
            is_mutation = lineage.operator.name == "gaussian_mutation"
            assert is_mutation == (lineage.trying is not None)
            if origin["is_child"]:
                assert is_mutation or old not in LARGER
    return grew


@pytest.mark.slow
def test_networks_grow_inside_the_space(tmp_path):
    study = growing_study(tmp_path)
    executor = FakeExecutor(teaching=teaching)
    assert drive(study, executor).status == FINISHED
    check_judged(study)
    check_books(study, executor)
    assert check_growth(study) > 2
    children = [origin for origin in origins(study).values() if origin["is_child"]]
    assert {"clone", "grow", "gaussian_mutation"} == {
        child["operator"]["name"] for child in children
    }


@pytest.mark.slow
def test_a_driver_that_dies_anywhere_lets_the_same_grow(tmp_path):
    whole, broken = (growing_study(tmp_path / name, 12, members=4) for name in ("whole", "broken"))
    drive(whole, FakeExecutor(teaching=teaching))
    with deaths_at_all_events():
        drive(broken, FakeExecutor(teaching=teaching), max_lives=500)
    assert schedule(broken) == schedule(whole)
    assert origins(broken) == origins(whole)
    assert check_growth(broken) > 0


@pytest.mark.slow
def test_growing_members_survive_a_cluster(tmp_path):
    study = growing_study(
        tmp_path, trials=32, executor={"name": "local", "jobs": 4, "members_per_job": 2}
    )
    cluster = SimulatedCluster(2, 2, seed=3, faults=MACHINES)
    executor = Watched(cluster, seed=3, faults=CALLS, max_batch=3)
    executor.course = executor._course = Course(seconds_of, smooth_curve, teaching)
    chaos = Chaos(Random("growth"), share=0.005)
    with chaos.at_large(executor):
        state = drive_through(study, executor, lambda: chaos.random.uniform(0.0, 60.0))
    assert state.status == FINISHED
    check_books(study, executor)
    check_judged(study)
    assert check_growth(study) > 0


# What can grow.

PAIR = {
    "evaluation.opponents": ["choose_first", "zeillinger"],
    "agent": yaml_file.load(BASE)["host"],
}


def choice(*choices, **when):
    return CategoricalParameter(tuple(choices), when)


def growths(values, parameters, changes=None):
    """Return how a pair with these values of the space can grow."""
    space = SearchSpace(parameters)
    decoded = space.decode(values)
    config = read_config(apply(yaml_file.load(BASE), PAIR | (changes or {}) | decoded), source="")
    return list(growths_of(values, config, space))


def test_the_next_larger_choice_is_that_of_the_fewest_weights():
    space = {"host.net_arch": choice([64], [8, 8], [4], [8, 8, 8], [6, "l"])}
    steps = ["[4]"]
    while larger := growths({"host.net_arch": steps[-1]}, space):
        steps.append(larger[0]["host.net_arch"])
    # From two dozen inputs or more; [64] is larger, and cannot grow into more layers of 8.
    assert steps == ["[4]", "[8, 8]", "[8, 8, 8]"]
    assert growths({"host.net_arch": "[64]"}, space) == []
    assert growths({"host.net_arch": '[6, "l"]'}, space) == []


def test_each_role_grows_by_itself():
    space = {f"{role}.net_arch": choice([4], [8]) for role in ("host", "agent")}
    small, large = "[4]", "[8]"
    both = {"host.net_arch": small, "agent.net_arch": small}
    assert growths(both, space) == [{"host.net_arch": large}, {"agent.net_arch": large}]
    assert growths(both | {"host.net_arch": large}, space) == [{"agent.net_arch": large}]
    assert growths(dict.fromkeys(both, large), space) == []


def test_the_activation_that_a_member_has_decides():
    space = {"host.net_arch": choice([4], [4, 4])}
    assert growths({"host.net_arch": "[4]"}, space) == [{"host.net_arch": "[4, 4]"}]
    assert growths({"host.net_arch": "[4]"}, space, {"host.activation": "tanh"}) == []


def test_what_depends_on_the_net_arch_stays_as_it_is():
    gamma = FloatParameter(0.5, 0.9, when={"host.net_arch": [[8], [9]]})
    space = {"host.net_arch": choice([4], [8], [9], [16]), "host.gamma": gamma}
    assert growths({"host.net_arch": "[4]"}, space) == [{"host.net_arch": "[16]"}]
    of_eight = {"host.net_arch": "[8]", "host.gamma": 0.7}
    assert growths(of_eight, space) == [{"host.net_arch": "[9]"}]
    assert growths(of_eight | {"host.net_arch": "[9]"}, space) == []


def test_a_net_arch_that_does_not_exist_for_a_member_does_not_grow():
    space = {
        "host.gamma": choice(0.8, 0.9),
        "host.net_arch": choice([64, 64], [128, 128], **{"host.gamma": 0.9}),
    }
    assert growths({"host.gamma": 0.8}, space) == []
    assert growths({"host.gamma": 0.9, "host.net_arch": "[64, 64]"}, space)


@pytest.mark.parametrize("choices", [([8], [8]), ([8], [{"repeat": 1, "net_arch": [8]}])])
def test_the_same_layers_written_otherwise_are_not_larger(choices):
    assert growths({"host.net_arch": "[8]"}, {"host.net_arch": choice(*choices)}) == []

"""Populations over conditional spaces, shapes, pairs, and agents alone."""

import json

import pytest
from drives import drive, stored_events, stored_trials
from fakes import FakeExecutor
from study_files import BASE
from test_population_ends import check_judged
from test_population_study import origins, population_study, teaching

from hpsearch import yaml_file
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.study.state import FINISHED
from hpsearch.trainers.config import read_config, shape_key

LR = {"type": "float", "low": 1e-4, "high": 1e-1, "log": True}
ARCHES = [[8, 8], [{"repeat": 2, "net_arch": [4]}, "b"], ["rl8"]]
ALWAYS = {"name": "tournament", "size": 4, "elites": 1, "confidence": 0.5}
MANY = [
    {"name": "clone"},
    {"name": "aligned_average", "share": 0.5},
    {"name": "gaussian_mutation", "strength": 0.1},
]


def choice(*choices, **when):
    return {"type": "categorical", "choices": list(choices)} | when


def given(space, trainer=None, **changes):
    return {"space": space, "trainer": trainer or {}} | changes


def config_of(study, trial):
    """Return a trial's configuration as its folder holds it."""
    folder = StudyDir(study.path.parent / "runs" / "quick").trial(trial)
    return read_config(yaml_file.load(folder.config), source="")


def checked(study, executor=None):
    """Drive a study to its end; return its trials' origins and parameters."""
    assert drive(study, executor or FakeExecutor(teaching=teaching)).status == FINISHED
    check_judged(study)
    return origins(study), [trial.params for trial in stored_trials(study)]


def check_islands(study, born):
    """Assert that a child has its parents' shape, that of its own place."""
    by_place = {}
    for trial, origin in born.items():
        shape = shape_key(config_of(study, trial))
        assert all(shape_key(config_of(study, parent)) == shape for parent in origin["parents"])
        assert by_place.setdefault(origin["member"], shape) == shape
    return set(by_place.values())


@pytest.mark.parametrize("explore", ["perturb", "model"])
def test_children_stay_on_their_island(tmp_path, explore):
    study = population_study(
        tmp_path,
        trials=20,
        study=given({"host.optim.args.lr": LR, "host.net_arch": choice(*ARCHES)}),
        members=8,
        selection=ALWAYS,
        explore={"name": explore},
        operators=MANY,
    )
    born, params = checked(study)
    assert len(check_islands(study, born)) > 1
    children = [trial for trial, origin in born.items() if origin["is_child"]]
    assert any(born[trial]["parents"][0] != trial - 8 for trial in children)
    for trial in children:
        parent = born[trial]["parents"][0]
        assert params[trial]["host.net_arch"] == params[parent]["host.net_arch"]
        assert json.loads(params[trial]["host.net_arch"]) in ARCHES
        assert params[trial]["host.optim.args.lr"] != params[parent]["host.optim.args.lr"]


def test_choices_that_are_mappings_and_what_depends_on_them(tmp_path):
    args = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
    slow = args | {"beta1": 0.99}
    study = population_study(
        tmp_path,
        trials=20,
        study=given(
            {
                "host.optim.args": choice(args, slow),
                "host.optim.args.lr": LR | {"when": {"host.optim.args": [slow]}},
                "host.net_arch": choice([8], ["rl4"]),
                "host.gamma": {"type": "float", "low": 0.5, "high": 0.99}
                | {"when": {"host.net_arch": [[8]]}},
            }
        ),
        selection=ALWAYS,
        explore={"name": "perturb", "switch": 0.5},
    )
    born, params = checked(study)
    check_islands(study, born)
    switched = 0
    for trial, origin in born.items():
        chosen = json.loads(params[trial]["host.optim.args"])
        assert ("host.optim.args.lr" in params[trial]) == (chosen == slow)
        assert ("host.gamma" in params[trial]) == (params[trial]["host.net_arch"] == "[8]")
        made = config_of(study, trial).host.optim.args
        assert made.beta1 == chosen["beta1"]
        assert made.lr == params[trial].get("host.optim.args.lr", 1e-3)
        switched += any(
            params[parent]["host.optim.args"] != params[trial]["host.optim.args"]
            for parent in origin["parents"]
        )
    assert switched > 1


def test_a_rate_on_which_a_shape_depends_is_inherited(tmp_path):
    study = population_study(
        tmp_path,
        trials=20,
        study=given(
            {
                "host.gamma": choice(0.9, 0.8),
                "host.net_arch": choice([8], [4]) | {"when": {"host.gamma": 0.9}},
                "host.optim.args.lr": LR,
            }
        ),
        selection=ALWAYS,
        explore={"name": "perturb", "switch": 1.0},
    )
    born, params = checked(study)
    check_islands(study, born)
    for trial, origin in born.items():
        for parent in origin["parents"][:1]:
            assert params[trial]["host.gamma"] == params[parent]["host.gamma"]


PAIR = {
    "evaluation.opponents": ["choose_first", "zeillinger"],
    "agent": yaml_file.load(BASE)["host"],
}


def test_pairs_breed_hosts_and_agents(tmp_path):
    study = population_study(
        tmp_path,
        trials=20,
        study=given({"host.optim.args.lr": LR, "agent.optim.args.lr": LR}, PAIR),
        selection=ALWAYS,
        operators=[{"name": "clone"}, {"name": "host_and_agent"}],
    )
    born, _ = checked(study)
    both = [origin for origin in born.values() if origin["operator"]["name"] == "host_and_agent"]
    assert both
    assert all(len(set(origin["parents"])) == 2 for origin in both)
    folder = StudyDir(study.path.parent / "runs" / "quick")
    plan = folder.match(2).plan.required()
    assert [host.name for host in plan.hosts[:4]] == [agent.name for agent in plan.agents[:4]]
    assert [host.name for host in plan.hosts if host.checkpoint is None] == ["random", "zeillinger"]


def test_agents_alone(tmp_path):
    agents = PAIR | {"host": {"player": "zeillinger"}}

    def taught(config, first):
        return -abs(config.agent.optim.args.lr - 0.01)

    study = population_study(
        tmp_path,
        trials=12,
        study=given(
            {"agent.optim.args.lr": LR},
            agents,
            objectives=[{"metric": "rho/agent/zeillinger", "goal": "minimize"}],
        ),
    )
    executor = FakeExecutor(lambda config, step: 0.5, teaching=taught)
    born, params = checked(study, executor)
    plan = StudyDir(study.path.parent / "runs" / "quick").match(1).plan.required()
    assert [host.name for host in plan.hosts] == ["random", "zeillinger"]
    assert [agent.name for agent in plan.agents[:4]] == ["0", "1", "2", "3"]
    first = stored_events(study, "bred")[1][3]
    far = {trial: abs(params[trial]["agent.optim.args.lr"] - 0.01) for trial in range(4)}
    # Games are shorter against hosts who have learned nothing the worse an agent is.
    assert first["champion"] == min(far, key=far.get)
    assert all(born[trial]["parents"] for trial in range(4, 12))

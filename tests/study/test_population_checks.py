"""Every fault that a population's study file can have, told by its own sentence."""

import re

import pytest
from study_files import BASE, load

from hpsearch import yaml_file
from hpsearch.errors import ConfigError
from hpsearch.schema import apply

POPULATION = {"members": 4, "interval": 500}
LR = {"host.optim.args.lr": {"type": "float", "low": 1e-5, "high": 1e-2, "log": True}}


def problems(folder, population=None, **changes):
    """Return what is wrong with a study file, [] if nothing is."""
    given = {"population": POPULATION | (population or {}), "space": LR, **changes}
    try:
        load(folder, **given)
    except ConfigError as error:
        return list(error.problems)
    return []


def check(messages, *expected):
    assert len(messages) == len(expected), messages
    for problem, pattern in zip(messages, expected, strict=True):
        assert re.search(pattern, problem), problem


def test_a_right_file_has_none(tmp_path):
    assert problems(tmp_path) == []
    names = ["clone", "layer_crossover", "safe_mutation"]
    numbers = [{}, {"share": 0.5}, {"bound": 0.1}]
    everything = {
        "generations": {"name": "steady"},
        "matches": {"panel": ["random"], "archive": 0, "weighing": "uniform"},
        "selection": {"name": "tournament", "size": 4, "elites": 4},
        "explore": {"name": "model", "perturb": {"name": "perturb", "factor": 1.5}},
        "operators": [{"name": n} | more for n, more in zip(names, numbers, strict=True)],
        "floor": 0.2,
        "adoption": None,
    }
    assert problems(tmp_path, everything) == []


@pytest.mark.parametrize(
    ("population", "expected"),
    [
        ({"operators": []}, r"population.operators must be named, each once, but is \[\]"),
        ({"closing": {}}, "population.closing.operators is missing"),
        ({"closing": {"operators": []}}, r"closing.operators must be named, each once, but is \["),
        ({"closing": {"operators": [{"name": "clone"}]}}, "'clone'; valid: aligned_average"),
        ({"closing": {"operators": [{"name": "gaussian_mutation", "strength": 0.1}]},
          "selection": {"name": "none"}}, "closing must be null if selection is none"),
        ({"closing": {"operators": [{"name": "host_and_agent"}]}},
         r"population.closing.operators\[0\] is host_and_agent, which needs members with both"),
        ({"operators": [{"name": "clone"}] * 2}, r"operators must be named, each once, but is \["),
        ({"floor": 1.0, "operators": [{"name": "clone"}, {"name": "host_and_agent"}]},
         r"floor must be at most one over the 2 operators, but is 1.0"),
        ({"selection": {"name": "tournament", "size": 5}},
         r"selection.size must be at most the 4 members, but is 5"),
        ({"selection": {"name": "tournament", "elites": 5}},
         r"selection.elites must be at most the 4 members, but is 5"),
        ({"selection": {"name": "pareto", "objectives": []}},
         r"objectives must be named, each once, but is \[\]"),
        ({"selection": {"name": "pareto", "objectives": ["size", "size"]}},
         r"objectives must be named, each once, but is \['size', 'size'\]"),
        ({"selection": {"name": "truncation", "share": 0.6}}, r"share must"),
        ({"selection": {"name": "truncation", "confidence": 0.4}}, r"confidence must"),
        ({"generations": {"name": "synchronous", "quorum": 0.0}}, r"quorum must"),
        ({"generations": {"name": "sometimes"}}, r"sometimes"),
        ({"matches": {"panel": ["unknown"]}}, r"unknown"),
        (
            {"matches": {"panel": ["random", "random"]}},
            r"matches.panel must name each player once, but is \['random', 'random'\]",
        ),
        ({"members": 1}, r"members must"),
        ({"interval": 0}, r"interval must"),
    ],
)  # fmt: skip
def test_faults_of_the_block_alone(tmp_path, population, expected):
    messages = problems(tmp_path, population)
    assert any(re.search(expected, message) for message in messages), messages


@pytest.mark.parametrize("path", ["steps", "seed", "evaluation.interval"])
def test_what_a_population_decides_is_not_searched(tmp_path, path):
    space = LR | {path: {"type": "int", "low": 500, "high": 1000, "step": 500}}
    check(problems(tmp_path, space=space), rf"space.{path} must not be searched by a population")


def test_members_train_for_whole_intervals(tmp_path):
    rule = "must be null in a population, whose members all train for population.interval steps"
    base = yaml_file.load(BASE)
    ending = base["end"] | {
        "games": 1000,
        "target": {"metric": "rho/host/choose_first", "value": 0.1},
    }
    (tmp_path / "ending.yaml").write_text(yaml_file.dump(base | {"end": ending}))
    messages = problems(tmp_path, base="ending.yaml")
    check(messages, f"base's end.games {rule}", f"base's end.target {rule}")
    space = LR | {"end.games": {"type": "int", "low": 500, "high": 1000}}
    check(problems(tmp_path, space=space), f"space.end.games {rule}")
    (tmp_path / "older.yaml").write_text(
        yaml_file.dump({key: value for key, value in base.items() if key != "end"})
    )
    assert problems(tmp_path, base="older.yaml") == []


@pytest.mark.parametrize("path", ["dimension", "max_num_points", "max_value", "reposition"])
def test_members_meet_in_one_game(tmp_path, path):
    value = yaml_file.load(BASE)[path]
    space = LR | {path: {"type": "categorical", "choices": [value]}}
    check(problems(tmp_path, space=space), rf"space.{path} must not be searched by a population")


def test_members_learn_the_same_roles(tmp_path):
    learned = yaml_file.load(BASE)["host"]
    base = tmp_path / "base.yaml"
    opponents = {"evaluation.opponents": ["choose_first", "zeillinger"]}
    base.write_text(yaml_file.dump(apply(yaml_file.load(BASE), opponents)))
    agents = [{"player": "choose_first"}, {"player": "random"}]
    space = LR | {"agent": {"type": "categorical", "choices": agents}}
    assert problems(tmp_path, space=space, base=str(base)) == []
    agents.append(learned)
    messages = problems(tmp_path, space=space, base=str(base))
    check(messages, r"space.agent must not decide who learns .* the host, ")


ISLANDS = {"interval": 1000, "islands": {"members": 2, "generations": 2}}
PAIRS = {"name": "local", "members_per_job": 2}


def test_islands_are_the_members_of_jobs(tmp_path):
    assert problems(tmp_path, ISLANDS, executor=PAIRS) == []
    messages = problems(tmp_path, ISLANDS | {"interval": 500}, executor=PAIRS)
    check(
        messages, r"interval / population.islands.generations must be a multiple .*=500, but is 250"
    )
    check(problems(tmp_path, ISLANDS), r"executor.members_per_job must be .*=2, .* but is 1")


@pytest.mark.parametrize(
    ("population", "expected"),
    [
        ({"members": 5}, r"members must be a multiple of islands.members=2, but is 5"),
        ({"interval": 1501}, r"interval must be a multiple of islands.generations=2, but is 1501"),
        ({"selection": {"name": "none"},
          "explore": {"name": "schedule", "intervals": [{"host.optim.args.lr": 1e-3}]}},
         r"islands must be null if explore is a schedule"),
    ],
)  # fmt: skip
def test_faults_of_islands(tmp_path, population, expected):
    messages = problems(tmp_path, ISLANDS | population, executor=PAIRS, budget={"trials": 10})
    assert any(re.search(expected, message) for message in messages), messages


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        ({"type": "categorical", "choices": [64, 128]}, r"batch_size must be a number in a pop"),
        ({"type": "int", "low": 64, "high": 128}, r"batch_size must be what members of one job"),
    ],
)
def test_members_of_an_island_can_take_each_others_places(tmp_path, parameter, expected):
    space = LR | {"host.batch_size": parameter}
    check(problems(tmp_path, ISLANDS, space=space, executor=PAIRS), r"space.host." + expected)


def test_every_choice_is_told_where_members_take_each_others_places(tmp_path):
    choice = {"type": "categorical", "choices": [0.5, 0.9]}
    space = LR | {"host.gamma": choice, "host.tau": choice}
    messages = problems(tmp_path, ISLANDS, space=space, executor=PAIRS)
    check(messages, r"space.host.gamma must be a number", r"space.host.tau must be a number")


@pytest.mark.parametrize("when", [{"nothing": [1]}, {"host.gamma": [0.5]}])
def test_a_wrong_condition_is_told_in_a_population_of_islands_too(tmp_path, when):
    gamma = {"type": "float", "low": 0.1, "high": 0.9, "when": when}
    messages = problems(tmp_path, ISLANDS, space=LR | {"host.gamma": gamma}, executor=PAIRS)
    assert any("host.gamma" in message for message in messages), messages


def test_no_member_is_pruned(tmp_path):
    check(problems(tmp_path, pruner={"name": "median"}), r"pruner must be none for a population")


def test_a_budget_holds_the_first_generation(tmp_path):
    assert problems(tmp_path, budget={"trials": 4}) == []
    messages = problems(tmp_path, budget={"trials": 3})
    check(messages, r"budget.trials must be at least population.members=4, but is 3")


def test_intervals_end_with_an_evaluation(tmp_path):
    messages = problems(tmp_path, {"interval": 750})
    check(messages, r"population.interval must be a multiple .*evaluation.interval=500, but is 750")


def test_a_population_has_one_base(tmp_path):
    ppo = BASE.with_name("ppo_20x3.yaml")
    space = LR | {"algorithm": {"type": "categorical", "choices": ["dqn", "ppo"]}}
    messages = problems(
        tmp_path,
        base={"dqn": str(BASE), "ppo": str(ppo)},
        space=space,
        objectives=[{"metric": "rho/host/choose_first", "goal": "maximize"}],
    )
    assert any(
        "base must name one file for a population, but names dqn, ppo" in f for f in messages
    )
    assert any("space.algorithm must not be searched" in message for message in messages)


def test_the_panel_has_an_opponent_that_can_be_met(tmp_path):
    messages = problems(tmp_path, {"matches": {"panel": ["zeillinger"]}})
    check(messages, r"population.matches.panel names no player that the host can meet")
    assert problems(tmp_path, {"matches": {"panel": ["choose_last"]}}) == []


def test_a_panel_is_met_by_both_roles_of_a_pair(tmp_path):
    base = tmp_path / "pair.yaml"
    pair = yaml_file.load(BASE.with_name("dqn_20x3_pair.yaml"))
    base.write_text(yaml_file.dump(apply(pair, {"evaluation.interval": 500, "steps": 5000})))
    given = {"base": str(base), "objectives": [{"metric": METRIC_OF_PAIRS, "goal": "maximize"}]}
    assert problems(tmp_path, {"operators": [{"name": "host_and_agent"}]}, **given) == []
    messages = problems(tmp_path, {"matches": {"panel": ["choose_last"]}}, **given)
    check(messages, r"panel names no player that the agent can meet")


METRIC_OF_PAIRS = "rho/host/choose_first"


def test_an_exchange_of_players_needs_both_roles(tmp_path):
    operators = [{"name": "clone"}, {"name": "host_and_agent"}]
    messages = problems(tmp_path, {"operators": operators})
    check(messages, r"population.operators\[1\] is host_and_agent, which needs .* the host alone")


def test_all_faults_are_told_at_once(tmp_path):
    messages = problems(
        tmp_path,
        {"interval": 750, "matches": {"panel": ["zeillinger"]}},
        pruner={"name": "median"},
        budget={"trials": 1},
    )
    assert len(messages) == 4


GROW = [{"name": "clone"}, {"name": "grow", "noise": 0.01}]


def arches(*choices, role="host"):
    return {f"{role}.net_arch": {"type": "categorical", "choices": list(choices)}}


@pytest.mark.parametrize(
    "choices",
    [
        ([8], [16]),
        ([8], [8, 8]),
        ([16, 16], [8]),
        ([8, "l"], [5], [24, "l"]),
        (["r8", 4], ["r8"] * 2 + [4]),
    ],
)
def test_networks_that_can_grow(tmp_path, choices):
    assert problems(tmp_path, {"operators": GROW}, space=LR | arches(*choices)) == []


@pytest.mark.parametrize(
    "space",
    [
        {},
        arches([8]),
        arches([8, 4], [4, 8]),
        arches([8, "l"], [12, "l"]),
        arches([8], [8, "b"]),
        arches([16], role="host") | {"host.gamma": {"type": "float", "low": 0.5, "high": 0.9}},
    ],
)
def test_a_space_in_which_nothing_can_grow(tmp_path, space):
    messages = problems(tmp_path, {"operators": GROW}, space=LR | space)
    check(messages, r"^population.operators\[1\] is grow, .*host.net_arch.*leave grow out$")


def test_tanh_networks_only_grow_wider(tmp_path):
    deeper = LR | arches([8], [8, 8])
    assert problems(tmp_path, {"operators": GROW}, space=deeper) == []
    base = tmp_path / "tanh.yaml"
    base.write_text(yaml_file.dump(apply(yaml_file.load(BASE), {"host.activation": "tanh"})))
    messages = problems(tmp_path, {"operators": GROW}, space=deeper, base=str(base))
    check(messages, r"population.operators\[1\] is grow")
    either = {"host.activation": {"type": "categorical", "choices": ["tanh", "relu"]}}
    assert problems(tmp_path, {"operators": GROW}, space=deeper | either, base=str(base)) == []


def test_what_is_no_net_arch_is_told_once(tmp_path):
    messages = problems(tmp_path, {"operators": GROW}, space=LR | arches([8], [16], [0]))
    assert not any("is grow" in message for message in messages)
    assert any("net_arch" in message for message in messages)


def test_growth_needs_its_noise(tmp_path):
    messages = problems(tmp_path, {"operators": [{"name": "grow"}]}, space=LR | arches([8], [16]))
    check(messages, r"population.operators\[0\].*noise")


@pytest.mark.parametrize("noise", [0.0, 0.5, 2.0, -0.01])
def test_growth_takes_any_noise_that_is_not_negative(tmp_path, noise):
    grow = [{"name": "clone"}, {"name": "grow", "noise": noise}]
    messages = problems(tmp_path, {"operators": grow}, space=LR | arches([8], [16]))
    check(messages, *([r"operators\[1\].noise must lie in .*, but is -0.01"] if noise < 0 else []))

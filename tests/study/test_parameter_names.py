"""Short names of parameters."""

from hpsearch.study.view import short_names


def test_the_last_part_is_enough_where_it_is_the_only_one():
    paths = ["host.optim.args.lr", "host.gamma", "seed"]
    assert list(short_names(paths).values()) == ["lr", "gamma", "seed"]


def test_roles_are_told_apart():
    paths = ["host.optim.args.lr", "agent.optim.args.lr", "host.er"]
    assert list(short_names(paths).values()) == ["host lr", "agent lr", "er"]


def test_what_is_still_alike_is_named_whole():
    paths = ["host.first.steps", "host.second.steps", "agent.first.steps", "steps"]
    assert short_names(paths) == {
        "host.first.steps": "host.first.steps",
        "host.second.steps": "host.second.steps",
        "agent.first.steps": "agent steps",
        "steps": "steps",
    }


def test_a_key_of_a_schedule_is_named_with_it():
    paths = ["host.optim.lr_schedule.initial", "host.er_schedule.steps", "agent.er_schedule.steps"]
    names = ["lr_schedule.initial", "host er_schedule.steps", "agent er_schedule.steps"]
    assert list(short_names(paths).values()) == names

"""What is called around the parts of training, in which order; also where steps are replayed."""

import inspect

import pytest
import torch
from test_graphs import on_tape

from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.callbacks import NO_CALLBACKS, Callbacks, look_into_updates

__all__ = ["on_tape"]


class Told(Callbacks):
    """Keeps what is called, with the steps that the trainer has made by then."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []

    def tell(self, name, trainer, *rest):
        self.calls.append((name, int(trainer.step[0]), *rest))

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]


NAMES = [name for name, _ in inspect.getmembers(Callbacks, inspect.isfunction)]
WITHIN = ("before_epoch", "after_epoch")


def telling(*names: str) -> Told:
    """Return callbacks that define these methods."""

    def defined(name):
        return lambda self, trainer, *rest: self.tell(name, trainer, *rest)

    return type("Telling", (Told,), {name: defined(name) for name in names})()


def state(trainer):
    return {name: tensor.clone() for name, tensor in trainer.state().items()}


def assert_equal(first, other):
    assert first.keys() == other.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, other[name]), name


def around_a_step(step, roles, epochs):
    passes = [
        (name, step, role, epoch)
        for role in roles
        for epoch in range(epochs)
        for name in ("before_epoch", "after_epoch")
    ]
    return [
        ("before_step", step),
        ("before_rollout", step),
        ("after_rollout", step),
        ("before_update", step),
        *passes,
        ("after_update", step),
        ("after_step", step + 1),
    ]


@pytest.mark.parametrize(("algorithm", "epochs"), [("dqn", 0), ("ppo", 2)])
@pytest.mark.parametrize("both", [False, True])
def test_all_are_called_in_order(tiny_config, tmp_path, algorithm, epochs, both):
    trainer = build_trainer([tiny_config({"agent": "learn"} if both else {}, algorithm)])
    told = trainer.callbacks = telling(*NAMES)
    trainer.train(2)
    path = trainer.save(tmp_path, 0)
    roles = ["host", "agent"] if both else ["host"]
    assert told.calls == [
        ("before_training", 0),
        *around_a_step(0, roles, epochs),
        *around_a_step(1, roles, epochs),
        ("after_training", 2),
        ("before_checkpoint", 2, 0),
        ("after_checkpoint", 2, 0, path),
    ]
    assert set(told.names()) == {*NAMES} - (set() if epochs else {*WITHIN})


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_they_change_nothing_by_themselves(tiny_config, algorithm):
    with_them, without = (
        build_trainer([tiny_config({}, algorithm)]),
        build_trainer([tiny_config({}, algorithm)]),
    )
    assert without.callbacks is NO_CALLBACKS
    with_them.callbacks = telling(*NAMES)
    for trainer in (with_them, without):
        trainer.train(5)
    assert_equal(state(with_them), state(without))
    assert with_them.select([0]).callbacks is NO_CALLBACKS


def test_an_error_after_a_step_leaves_the_state_whole(tiny_config, tmp_path):
    class Ends(Callbacks):
        def after_step(self, trainer):
            if int(trainer.step[0]) == 3:
                raise ZeroDivisionError

    broken, plain = build_trainer([tiny_config({})]), build_trainer([tiny_config({})])
    broken.callbacks = Ends()
    with pytest.raises(ZeroDivisionError):
        broken.train(9)
    plain.train(3)
    assert_equal(state(broken), state(plain))
    broken.callbacks = NO_CALLBACKS
    broken.train(2)
    plain.train(2)
    assert_equal(state(broken), state(plain))


# Replayed steps.


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_what_is_around_recordings_is_called_at_each_step(tiny_config, on_tape, algorithm):
    trainer = build_trainer([tiny_config({}, algorithm)])
    told = trainer.callbacks = telling(*(set(NAMES) - {*WITHIN}))
    assert not look_into_updates(told)
    trainer.train(6)
    assert on_tape() == 2  # a rollout and an update
    for name in ("before_step", "after_rollout", "before_update", "after_step"):
        assert told.names().count(name) == 6


@pytest.mark.parametrize("name", WITHIN)
def test_what_is_within_updates_keeps_them_from_being_replayed(
    tiny_config, on_tape, monkeypatch, name
):
    recorded = build_trainer([tiny_config({}, "ppo")])
    told = recorded.callbacks = telling(name)
    recorded.train(6)
    assert on_tape() == 1  # the rollout
    assert [call[2:] for call in told.calls] == [("host", 0), ("host", 1)] * 6
    monkeypatch.undo()
    plain = build_trainer([tiny_config({}, "ppo")])
    plain.train(6)
    for key, tensor in recorded.state().items():
        torch.testing.assert_close(tensor, plain.state()[key], msg=key)

"""The whole monitor, as a worker calls it."""

import json
import sys

import pytest
import torch

from hpsearch.monitor.monitor import divergence
from hpsearch.monitor.resources import LayerTensors
from hpsearch.monitor.sinks import switching_off
from hpsearch.monitor.snapshot import MemberTexts


def scalars(*losses):
    return lambda: {"host/loss": torch.tensor(losses), "host/lr": torch.full((len(losses),), 0.5)}


def layers():
    weights = {"host/0.weight": torch.tensor([[1.0, 3.0], [5.0, 5.0]])}
    return LayerTensors(weights, {"host/0.weight": torch.tensor([[0.0, 2.0], [1.0, 1.0]])})


def rows(place):
    return [json.loads(line) for line in place.training_log.read_text().splitlines()]


def must_not_be_called():
    raise AssertionError


def test_everything_of_a_look_in_one_line(make_monitor, make_places):
    monitor = make_monitor(training_log=True, layer_statistics=True, timings=True, resources=True)
    assert monitor.steps_until_due(0) == 2
    monitor.before_steps(0)
    for _ in range(2):
        with monitor.sections("rollout"):
            pass
    assert monitor.after_steps(2, [2, 7], scalars(1.0, 2.0), layers) == {}
    first, second = (rows(place)[0] for place in make_places(0, 0))
    assert (first["step"], second["step"]) == (2, 7)
    assert first["scalars"] == {"host/loss": 1.0, "host/lr": 0.5}
    assert first["layers"] == {
        "host/0.weight/weight_mean": 2.0,
        "host/0.weight/weight_std": 1.0,
        "host/0.weight/gradient_mean": 1.0,
        "host/0.weight/gradient_std": 1.0,
    }
    assert second["layers"]["host/0.weight/weight_mean"] == 5.0
    assert first["timings"]["rollout"]["count"] == 2
    assert set(first["job"]) == {"steps_per_second", "cpu_percent", "memory_bytes"}
    assert first["job"]["steps_per_second"] > 0


def test_between_looks_nothing_is_asked_for(make_monitor):
    monitor = make_monitor(training_log=True, layer_statistics=True)
    assert monitor.after_steps(1, [1, 1], must_not_be_called, must_not_be_called) == {}


def test_nothing_is_asked_for_without_a_viewer(make_monitor):
    monitor = make_monitor(timings=True)
    assert monitor.after_steps(2, [2, 2], must_not_be_called, must_not_be_called) == {}


def test_layers_are_asked_for_only_by_their_switch(make_monitor, make_places):
    make_monitor(training_log=True).after_steps(2, [2, 2], scalars(1.0, 2.0), must_not_be_called)
    assert "layers" not in rows(make_places(0, 0)[0])[0]


def test_numbers_that_are_not_known_yet(make_monitor, make_places):
    make_monitor(training_log=True).after_steps(2, [2, 2], dict, must_not_be_called)
    assert rows(make_places(0, 0)[0])[0]["scalars"] == {}


def test_one_transfer_a_look(make_monitor, monkeypatch):
    transfers = []
    original = torch.Tensor.tolist
    monkeypatch.setattr(
        torch.Tensor, "tolist", lambda tensor: transfers.append(tensor) or original(tensor)
    )
    for name in ("item", "cpu", "numpy", "__float__", "__bool__"):
        monkeypatch.setattr(torch.Tensor, name, lambda *_: must_not_be_called())
    monitor = make_monitor(training_log=True, tensorboard=True, layer_statistics=True, max_loss=9.0)
    monitor.after_steps(2, [2, 2], scalars(1.0, 2.0), layers)
    assert len(transfers) == 1


def test_members_that_leave(make_monitor, make_places):
    monitor = make_monitor(steps=(0, 0, 0), training_log=True)
    monitor.after_steps(2, [2, 2, 2], scalars(1.0, 2.0, 3.0), must_not_be_called)
    first, _, third = make_places(0, 0, 0)
    monitor.watch([first, third])
    monitor.after_steps(4, [4, 4], scalars(4.0, 5.0), must_not_be_called)
    losses = [
        [row["scalars"]["host/loss"] for row in rows(place)] for place in make_places(0, 0, 0)
    ]
    assert losses == [[1.0, 4.0], [2.0], [3.0, 5.0]]


def test_texts_are_asked_for_where_they_are_shown(make_monitor, make_places, capsys):
    make_monitor(training_log=True).write_texts(must_not_be_called)
    (place,) = make_places(0)
    assert not place.tensorboard.exists()
    monitor = make_monitor(training_log=True, tensorboard=True)
    place.tensorboard.parent.mkdir(parents=True, exist_ok=True)
    place.tensorboard.write_text("no folder")
    monitor.write_texts(lambda: [MemberTexts(place, 2, {"games/host": "a game"})])
    assert capsys.readouterr().out.startswith("TensorBoard is switched off and training goes on")
    monitor.write_texts(must_not_be_called)


def test_diverged_members_are_named(make_monitor):
    monitor = make_monitor(steps=(0,) * 5, max_loss=100.0)
    losses = scalars(100.0, 101.0, float("nan"), float("inf"), -5.0)
    diverged = monitor.after_steps(2, [2] * 5, losses, must_not_be_called)
    assert set(diverged) == {1, 2, 3}
    assert "the loss host/loss is 101, above max_loss 100" in diverged[1]


@pytest.mark.parametrize("name", ["loss", "agent/loss"])
def test_only_losses_tell_of_divergence(name):
    assert divergence({name: 2.0, "host/gradient_norm": 1e9}, 10.0) is None
    assert divergence({name: 20.0, "host/gradient_norm": 0.0}, 10.0) is not None


class TestFailures:
    """What fails is named once and left out; the rest goes on."""

    def test_a_disk_that_is_full(self, make_monitor, make_places, monkeypatch, capsys):
        class Full:
            def write(self, text):
                raise OSError(28, "No space left on device")

            def close(self):
                raise OSError(28, "No space left on device")

        monkeypatch.setattr("hpsearch.monitor.sinks.TrainingLog.begin", lambda self, place: Full())
        monitor = make_monitor(training_log=True, tensorboard=True)
        for step in (2, 4):
            monitor.after_steps(step, [step, step], scalars(1.0, 2.0), must_not_be_called)
        out = capsys.readouterr().out
        assert out.count("switched off") == 1
        assert out.startswith(
            "the training log is switched off and training goes on without it: "
            "[Errno 28] No space left on device"
        )
        assert list(make_places(0)[0].tensorboard.iterdir())

    def test_a_full_disk_that_holds_the_jobs_output_too(self, monkeypatch):
        class Full:
            def write(self, text):
                raise OSError(28, "No space left on device")

        monkeypatch.setattr(sys, "stdout", Full())
        with switching_off("the training log"):
            raise OSError(28, "No space left on device")

    def test_layers_for_which_memory_is_short(self, make_monitor, make_places, capsys):
        asked = []

        def too_large():
            asked.append(1)
            raise torch.OutOfMemoryError("CUDA out of memory")

        monitor = make_monitor(training_log=True, layer_statistics=True)
        for step in (2, 4):
            monitor.after_steps(step, [step, step], scalars(1.0, 2.0), too_large)
        assert [row["scalars"]["host/loss"] for row in rows(make_places(0, 0)[1])] == [2.0, 2.0]
        assert asked == [1]
        assert capsys.readouterr().out == (
            "observing the layers is switched off and training goes on without it: CUDA out "
            "of memory\n"
        )

    def test_a_package_that_is_missing(self, make_monitor, monkeypatch, capsys):
        missing = "tensorboard.compat.proto.event_pb2", "prometheus_client", "psutil"
        for name in missing:
            monkeypatch.setitem(sys.modules, name, None)
        prometheus = {"textfile": True, "port": None}
        monitor = make_monitor(tensorboard=True, prometheus=prometheus, resources=True)
        monitor.after_steps(2, [2, 2], scalars(1.0, 2.0), must_not_be_called)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 3
        assert all("pip install 'hpsearch[monitor]'" in line for line in lines)

    def test_an_observer_that_breaks_while_it_closes(self, make_monitor, monkeypatch):
        monitor = make_monitor(training_log=True)
        monkeypatch.setattr(
            "hpsearch.monitor.sinks.TrainingLog.close", lambda self: must_not_be_called()
        )
        monitor.close()

"""What observing costs: at most 3 % of a loop of 5 ms steps with a look every 100 steps.

    pytest tests/monitor/test_monitor_cost.py -s

prints a table. Every variant trains blocks of 100 steps, one look each, in turns with blocks of the
loop that has no monitor at all; given are the ratios of the medians and of the fastest blocks, and
the median of the look itself. On a shared machine the first is uncertain by some per cent, so the
test asserts the other two.
"""

import socket
import statistics
import time

import pytest
import torch

from hpsearch.monitor.layer_statistics import LayerTensors
from hpsearch.monitor.sections import NO_SECTIONS

MEMBERS, LAYERS, WIDTH, BATCH = 8, 6, 64, 128
INTERVAL, ROUNDS = 100, 11
LIMIT = 1.03
PARTS = ("rollout", "sample", "forward", "backward", "clip", "optimizer")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


VARIANTS = {
    "all off": {},
    "training log": {"training_log": True},
    "tensorboard": {"tensorboard": True},
    "layers": {"training_log": True, "layer_statistics": True},
    "timings": {"training_log": True, "timings": True},
    "resources": {"training_log": True, "resources": True},
    "textfile": {"prometheus": {"textfile": True, "port": None}},
    "http": {"prometheus": {"textfile": False, "port": 0}},
    "max_loss": {"max_loss": 1e9},
    "watchdog": {"hang_timeout": 60.0},
    "profiler waits": {"profiler": {"first_step": 10**9, "steps": 1}},
    "all on": {
        "training_log": True,
        "tensorboard": True,
        "layer_statistics": True,
        "timings": True,
        "resources": True,
        "prometheus": {"textfile": True, "port": 0},
        "max_loss": 1e9,
        "hang_timeout": 60.0,
    },
}


class Population:
    """Multilayer perceptrons of 8 members and an update of about 5 ms."""

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.weights = {
            f"host/{index}.weight": torch.randn(MEMBERS, WIDTH, WIDTH, generator=generator) / 8
            for index in range(LAYERS)
        }
        self.biases = {
            f"host/{index}.bias": torch.zeros(MEMBERS, 1, WIDTH) for index in range(LAYERS)
        }
        self.gradients = {}
        self.losses = torch.zeros(MEMBERS)
        self.inputs = torch.randn(MEMBERS, BATCH, WIDTH, generator=generator)

    def train(self, sections):
        with sections("rollout"):
            x = self._forward(self.inputs)
        with sections("sample"):
            x = x.detach() + self.inputs
        leaves = [w.requires_grad_() for w in (*self.weights.values(), *self.biases.values())]
        with sections("forward"):
            losses = self._forward(x).square().mean(dim=(1, 2))
        with sections("backward"):
            parts = torch.autograd.grad(losses.sum(), leaves)
        with sections("clip"):
            self.gradients = dict(zip((*self.weights, *self.biases), parts, strict=True))
        with sections("optimizer"), torch.no_grad():
            for leaf, part in zip(leaves, parts, strict=True):
                leaf.add_(part, alpha=-1e-4)
        self.losses = losses

    def _forward(self, x):
        for weight, bias in zip(self.weights.values(), self.biases.values(), strict=True):
            x = torch.tanh(torch.baddbmm(bias, x, weight))
        return x

    def scalars(self):
        names = ("loss", "lr", "er", "gradient_norm", "q_mean", "q_max")
        return {f"host/{name}": self.losses.detach() for name in names}

    def layers(self):
        return LayerTensors({**self.weights, **self.biases}, self.gradients)


def block(population, monitor, step):
    """Return the seconds of one interval, and those of the look at its end."""
    began = looked = time.perf_counter()
    if monitor is None:
        for _ in range(INTERVAL):
            population.train(NO_SECTIONS)
    else:
        monitor.before_steps(step)
        for _ in range(monitor.steps_until_due(step)):
            population.train(monitor.sections)
        looked = time.perf_counter()
        steps = [step + INTERVAL] * MEMBERS
        assert not monitor.after_steps(steps, population.scalars, population.layers)
    ended = time.perf_counter()
    return ended - began, ended - looked


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def with_free_port(changes):
    prometheus = changes.get("prometheus")
    if prometheus is None or prometheus["port"] is None:
        return changes
    return {**changes, "prometheus": {**prometheus, "port": free_port()}}


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_no_switch_costs_more_than_three_percent(make_monitor, capsys):
    population = Population()
    block(population, None, 0)
    results = {}
    for name, changes in VARIANTS.items():
        monitor = make_monitor(steps=(0,) * MEMBERS, interval=INTERVAL, **with_free_port(changes))
        results[name] = measure(population, monitor)
        monitor.close()
    with capsys.disabled():
        print(f"\n{'switched on':15} without     medians  fastest  the look itself")
        for name, (without, with_, looks) in results.items():
            print(
                f"{name:15} {1e3 * statistics.median(without):6.1f} ms "
                f"{100 * (statistics.median(with_) / statistics.median(without) - 1):+6.1f} % "
                f"{100 * (min(with_) / min(without) - 1):+6.1f} % "
                f"{1e3 * statistics.median(looks):8.2f} ms"
            )
    for name, (without, with_, looks) in results.items():
        assert min(with_) <= LIMIT * min(without), name
        assert statistics.median(looks) <= (LIMIT - 1) * min(without), name


def measure(population, monitor):
    """Return seconds: of each block without a monitor, of those with it, and of their looks."""
    without, with_, looks = [], [], []
    block(population, monitor, 0)  # opens files
    for round_ in range(1, ROUNDS + 1):
        without.append(block(population, None, 0)[0])
        seconds, look = block(population, monitor, INTERVAL * round_)
        with_.append(seconds)
        looks.append(look)
    return without, with_, looks

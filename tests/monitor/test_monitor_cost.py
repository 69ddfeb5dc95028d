"""What observing costs: at most 3 % of a loop of 5 ms steps with a look every 100 steps.

    pytest tests/monitor/test_monitor_cost.py -s

prints a table. The cost has three parts, each measured where other programs disturb it least, in
seconds of the processor and by medians:

- sections: what naming the sections of a step takes, told by steps that do nothing else;
- look: what is done at the end of the interval, beside the time of the interval's steps;
- threads: what the observers' own threads used meanwhile, beside the time of the steps.
"""

import socket
import statistics
import time
from dataclasses import dataclass

import pytest
import torch

from hpsearch.monitor.resources import LayerTensors

MEMBERS, LAYERS, WIDTH, BATCH = 8, 6, 64, 128
INTERVAL, ROUNDS = 100, 3
LIMIT = 0.03
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


@dataclass(frozen=True)
class Cost:
    """Seconds of a step, and what observing adds to it, as shares of it."""

    step: float
    sections: float
    look: float
    threads: float

    @property
    def total(self) -> float:
        return self.sections + self.look + self.threads


def measure(population, monitor):
    """Return the `Cost` of ``monitor`` by the medians over `ROUNDS` intervals."""
    steps, looks, threads = [], [], []
    for round_ in range(ROUNDS):
        step = round_ * INTERVAL
        of_all, of_this = time.process_time(), time.thread_time()
        monitor.before_steps(step)
        for _ in range(monitor.steps_until_due(step)):
            began = time.thread_time()
            population.train(monitor.sections)
            steps.append(time.thread_time() - began)
        began = time.thread_time()
        reached = [step + INTERVAL] * MEMBERS
        assert not monitor.after_steps(reached[0], reached, population.scalars, population.layers)
        ended = time.thread_time()
        looks.append(ended - began)
        threads.append(time.process_time() - of_all - (ended - of_this))
    step = statistics.median(steps)
    return Cost(
        step,
        sections=seconds_of_sections(monitor.sections) / step,
        look=statistics.median(looks) / (INTERVAL * step),
        threads=statistics.median(threads) / (INTERVAL * step),
    )


def seconds_of_sections(sections):
    """Return the median of what it takes to name the sections of one step."""
    seconds = []
    for _ in range(1000):
        began = time.thread_time()
        for part in PARTS:
            with sections(part):
                pass
        seconds.append(time.thread_time() - began)
    return statistics.median(seconds)


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
@pytest.mark.alone
@pytest.mark.usefixtures("one_thread")
def test_no_switch_costs_more_than_three_percent(make_monitor, capsys):
    population = Population()
    costs = {}
    for name, changes in VARIANTS.items():
        monitor = make_monitor(steps=(0,) * MEMBERS, interval=INTERVAL, **with_free_port(changes))
        costs[name] = measure(population, monitor)
        monitor.close()
    with capsys.disabled():
        print(f"\n{'switched on':15} a step  sections   look  threads     all")
        for name, cost in costs.items():
            print(
                f"{name:15} {1e3 * cost.step:.1f} ms {100 * cost.sections:6.2f} % "
                f"{100 * cost.look:5.2f} % {100 * cost.threads:5.2f} % {100 * cost.total:5.2f} %"
            )
    assert {name: cost for name, cost in costs.items() if cost.total > LIMIT} == {}

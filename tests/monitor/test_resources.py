"""Use of resources, against the operating system's own numbers."""

import resource
import time

import pytest
import torch

from hpsearch.monitor.resources import Resources


def test_cpu_and_memory_are_those_of_this_process():
    resources = Resources(torch.device("cpu"))
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    while time.perf_counter() - began < 0.3:
        sum(range(1000))
    after = resource.getrusage(resource.RUSAGE_SELF)
    usage = resources.read()
    used = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    assert usage["cpu_percent"] == pytest.approx(100 * used / 0.3, rel=0.3)
    assert 1e7 < usage["memory_bytes"] < 1.1 * 1024 * after.ru_maxrss
    assert set(usage) == {"cpu_percent", "memory_bytes"}


@pytest.mark.gpu
def test_the_gpu_that_is_trained_on():
    device = torch.device("cuda")
    resources = Resources(device)
    before = resources.read()
    held = torch.zeros(2**28, dtype=torch.uint8, device=device)
    after = resources.read()
    assert after["gpu_memory_bytes"] - before["gpu_memory_bytes"] >= held.numel()
    assert 0 <= after["gpu_percent"] <= 100
    assert 0 < after["gpu_temperature_celsius"] < 120

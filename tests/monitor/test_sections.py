"""Named sections: who is told, what is measured."""

import time

import pytest
import torch

from hpsearch.monitor.timing import MAX_PENDING, NO_SECTIONS, NamedSections

CPU = torch.device("cpu")


def test_time_and_count_of_each_section():
    sections = NamedSections(CPU, timed=True)
    for _ in range(3):
        with sections("sleep"):
            time.sleep(0.01)
        with sections("nothing"):
            pass
    timings = sections.read()
    assert {name: timing.count for name, timing in timings.items()} == {"sleep": 3, "nothing": 3}
    assert 30 <= timings["sleep"].milliseconds < 300
    assert timings["sleep"].mean == timings["sleep"].milliseconds / 3
    assert timings["nothing"].milliseconds < 5
    assert sections.read() == {}


def test_a_section_may_lie_inside_itself():
    sections = NamedSections(CPU, timed=True)
    with sections("a"), sections("b"), sections("a"):
        time.sleep(0.01)
    timings = sections.read()
    assert timings["a"].count == 2
    assert timings["a"].milliseconds >= 20


def test_the_open_sections_are_known():
    sections = NamedSections(CPU, timed=False)
    assert sections.section is None
    with sections("update"), sections("backward"):
        assert sections.section == "update/backward"
    assert sections.section is None
    assert sections.signs == 4
    assert sections.read() == {}


def test_a_section_is_known_while_a_device_lets_its_ends_wait(monkeypatch):
    sections, seen = NamedSections(CPU, timed=True), []
    monkeypatch.setattr(sections._timer, "start", lambda: seen.append(sections.section))
    monkeypatch.setattr(sections._timer, "stop", lambda *_: seen.append(sections.section))
    with sections("update"):
        pass
    assert seen == ["update", "update"]
    assert sections.section is None


def test_an_error_ends_its_sections():
    sections = NamedSections(CPU, timed=True)
    with pytest.raises(ZeroDivisionError), sections("a"), sections("b"):
        _ = 1 / 0
    assert sections.section is None
    assert set(sections.read()) == {"a", "b"}


def test_without_a_question():
    assert NO_SECTIONS("a") is NO_SECTIONS("b")
    with NO_SECTIONS("a"), NO_SECTIONS("a"):
        pass


@pytest.mark.gpu
def test_events_on_a_gpu():
    device = torch.device("cuda")
    sections = NamedSections(device, timed=True)
    x = torch.randn(4096, 4096, device=device)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(MAX_PENDING + 10):
        with sections("product"):
            x = torch.mm(x, x).clamp_(-1, 1)
    torch.cuda.synchronize()
    elapsed = 1e3 * (time.perf_counter() - began)
    timing = sections.read()["product"]
    assert timing.count == MAX_PENDING + 10
    assert timing.milliseconds == pytest.approx(elapsed, rel=0.2)


@pytest.mark.gpu
def test_a_captured_graph_holds_no_events():
    device = torch.device("cuda")
    sections = NamedSections(device, timed=True)
    x = torch.zeros(8, device=device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), sections("captured"):
        x += 1
    graph.replay()
    torch.cuda.synchronize()
    assert sections.read() == {}

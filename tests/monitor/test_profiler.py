"""Chrome traces, read as JSON."""

import json

import pytest
import torch

STEPS = {"first_step": 3, "steps": 2}


def train(monitor, first, last):
    """Make the steps first..last, one at a time, as a worker does."""
    for step in range(first - 1, last):
        monitor.before_steps(step)
        with monitor.sections("update"), monitor.sections(f"step-{step + 1}"):
            torch.randn(8, 8).mm(torch.randn(8, 8))
        monitor.after_steps(step + 1, [step + 1] * 2, dict, None)


def names(path):
    return {event.get("name") for event in json.loads(path.read_text())["traceEvents"]}


def test_the_chosen_steps_are_traced_by_section(make_monitor, job):
    monitor = make_monitor(profiler=STEPS)
    train(monitor, 1, 6)
    assert [path.name for path in job.traces.iterdir()] == ["trace-3-4.json"]
    events = names(job.traces / "trace-3-4.json")
    assert {"update", "step-3", "step-4", "aten::mm"} <= events
    assert not {"step-2", "step-5"} & events


def test_a_run_that_goes_on_amid_the_steps_traces_the_rest(make_monitor, job):
    train(make_monitor(steps=(3, 3), profiler=STEPS), 4, 6)
    assert [path.name for path in job.traces.iterdir()] == ["trace-4-4.json"]


def test_a_run_that_ends_amid_the_steps_keeps_what_there_is(make_monitor, job):
    monitor = make_monitor(profiler=STEPS)
    train(monitor, 1, 3)
    monitor.close()
    assert [path.name for path in job.traces.iterdir()] == ["trace-3-3.json"]


def test_chunks_of_steps_end_where_the_profiler_starts_and_stops(make_monitor):
    monitor = make_monitor(interval=100, profiler={"first_step": 11, "steps": 5})
    assert [monitor.steps_until_due(step) for step in (0, 9, 10, 14, 15)] == [10, 1, 5, 1, 85]


def test_a_folder_that_cannot_be_written_does_not_stop_training(make_monitor, job, capsys):
    job.traces.parent.mkdir(parents=True)
    job.traces.write_text("a file")
    monitor = make_monitor(profiler=STEPS)
    train(monitor, 1, 6)
    assert capsys.readouterr().out.count("the profiler is switched off") == 1


@pytest.mark.gpu
def test_kernels_of_a_gpu_are_traced(make_config, job, make_places):
    from hpsearch.monitor.monitor import JobMonitor

    config = make_config(profiler={"first_step": 1, "steps": 1})
    monitor = JobMonitor(config, job, make_places(0), torch.device("cuda"), print)
    monitor.before_steps(0)
    torch.randn(512, 512, device="cuda").mm(torch.randn(512, 512, device="cuda"))
    torch.cuda.synchronize()
    monitor.after_steps(1, [1], dict, None)
    monitor.close()
    events = json.loads((job.traces / "trace-1-1.json").read_text())["traceEvents"]
    assert "kernel" in {event.get("cat") for event in events}

"""The GPUs of this machine: which there are, and that no two processes hold the same."""

import os
import re
import signal
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import psutil
import pytest
import torch
from gpu_tools import install_nvidia_smi, new_probe, new_uuid
from working import work

from hpsearch.cluster import job_entry, worker
from hpsearch.cluster import machine as machine_module
from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.machine import VISIBLE, Gpu, GpuShare, find_gpus, hold_gpus
from hpsearch.cluster.study_dir import StudyDir

UUIDS = [f"GPU-{digit * 8}-1111-2222-3333-444444444444" for digit in "abc"]
HOLD = """
import sys, time
from hpsearch.cluster import machine
from hpsearch.cluster.machine import Gpu, hold_gpus
from hpsearch.cluster.failures import stop_flag
machine.SETTLING_SECONDS = 1.0
with stop_flag() as flag:
    print("asks", flush=True)
    counts = [int(count) for count in sys.argv[1].split(",")]
    held = hold_gpus([Gpu(key[-1], key) for key in sys.argv[2:]], counts, flag)
print(*[gpu.name for gpu in held] if held else ["left"], flush=True)
time.sleep(0 if held is None else 60)
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a function: a machine with these UUIDs and this CUDA_VISIBLE_DEVICES."""

    def make(uuids, visible=None):
        programs = install_nvidia_smi(tmp_path / "bin", uuids)
        monkeypatch.setenv("PATH", f"{programs}:/bin:/usr/bin")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        return find_gpus()

    return make


@pytest.mark.parametrize(
    ("visible", "seen"),
    [
        (None, {"0": 0, "1": 1, "2": 2}),
        ("", {}),
        ("-1", {}),
        ("NoDevFiles", {}),
        ("2", {"2": 2}),
        (" 2, 0", {"2": 2, "0": 0}),
        (f"{UUIDS[1]},0", {UUIDS[1]: 1, "0": 0}),
        ("GPU-bbbb", {"GPU-bbbb": 1}),
        ("GPU-", {}),  # of all three
        (f"1,{UUIDS[1]}", {"1": 1}),  # the same twice
        ("0,7,1", {"0": 0}),  # CUDA hides what follows a name that is none
        ("0,-1,1", {"0": 0}),
        ("0,,1", {"0": 0}),
        (f"0,{UUIDS[0][:-1]}5,1", {"0": 0}),
    ],
)
def test_the_gpus_that_a_process_may_use(machine, visible, seen):
    """The same GPU has the same key, named by its index or by its UUID."""
    gpus = machine(UUIDS, visible)
    assert [(gpu.name, gpu.key) for gpu in gpus] == [(n, UUIDS[i]) for n, i in seen.items()]


def test_parts_of_gpus_are_gpus_of_their_own(machine):
    parts = ["MIG-5c89852c-d268-c3f3-1b07-005d5ae1dc3f", "MIG-GPU-a/1/0"]
    assert [gpu.key for gpu in machine(UUIDS, ",".join(parts))] == parts


def test_a_machine_whose_driver_does_not_answer_has_none(machine):
    assert machine(None) == machine(None, "0") == machine([]) == ()


def test_without_nvidia_smi_the_environment_is_believed(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "03,GPU-abc")
    assert [(gpu.name, gpu.key) for gpu in find_gpus()] == [("03", "3"), ("GPU-abc", "GPU-abc")]


def test_how_many_jobs_train_at_once_and_why_none_does(machine, monkeypatch):
    three = GpuShare(machine(UUIDS), 1)
    assert (three.max_jobs, three.shortage) == (3, None)
    assert three.jobs_text(2) == "2 jobs train at once, each on 1 of 3 GPUs (0,1,2)"
    pairs = GpuShare(three.gpus, 2)
    assert (pairs.max_jobs, pairs.shortage) == (1, None)
    assert pairs.jobs_text(4) == (
        "1 job trains at once, each on 2 of 3 GPUs (0,1,2); executor.jobs is 4"
    )
    assert GpuShare(three.gpus, 4).shortage == (
        "each job is to have 4 GPUs, but this machine has 3 GPUs (0,1,2); "
        "lower executor.gpus_per_job, or the gpus of a program"
    )
    assert GpuShare(machine([]), 1).shortage == (
        "each job is to have 1 GPU, but there is none here (nvidia-smi shows none); set device: "
        "cpu in the trainer configuration, or gpus: 0 for a program, or run the study on a machine "
        "with a GPU"
    )
    assert "CUDA_VISIBLE_DEVICES is ''" in GpuShare(machine(UUIDS, ""), 1).shortage
    assert (GpuShare((), 0).max_jobs, GpuShare((), 0).shortage) == (None, None)


@contextmanager
def holder(count, keys):
    """Give a process that holds so many GPUs until it is killed; it has begun to ask.

    Where fewer are enough, ``count`` lists all numbers, with commas between them.
    """
    command = [sys.executable, "-c", HOLD, str(count), *keys]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "asks\n"
            yield process
        finally:
            process.kill()


def told(process):
    return process.stdout.readline().split()


def test_two_processes_hold_different_gpus_and_a_third_waits_for_a_death():
    keys = [new_uuid() + digit for digit in "01"]
    with holder(1, keys) as first:
        assert told(first) == ["0"]
        with holder(1, keys) as second:
            assert told(second) == ["1"]
            with holder(1, keys) as third:
                first.send_signal(signal.SIGKILL)
                assert told(third) == ["0"]


def test_who_needs_two_takes_none_while_there_is_one():
    keys = [new_uuid() + digit for digit in "01"]
    with holder(1, keys[:1]) as first:
        assert told(first) == ["0"]
        with holder(2, keys) as greedy:
            time.sleep(0.2)
            with holder(1, keys[1:]) as second:
                assert told(second) == ["1"]
                second.kill()
                first.kill()
                assert told(greedy) == ["0", "1"]


def test_who_would_take_four_takes_two_where_there_are_three():
    keys = [new_uuid() + digit for digit in "012"]
    with holder("4,2,1", keys) as process:
        assert told(process) == ["0", "1"]  # of three there can never be more


def is_free(gpu):
    """Return whether nothing holds a GPU, by asking for it and letting it go."""
    lock = machine_module._locked(gpu)
    if lock is not None:
        lock.close()
    return lock is not None


def test_no_more_is_held_than_was_taken():
    """What this process holds it holds to its end, of GPUs that only this test knows."""
    gpus = [Gpu(str(index), new_uuid()) for index in range(5)]
    assert hold_gpus(gpus, [2, 1], StopFlag()) == tuple(gpus[:2])
    assert [is_free(gpu) for gpu in gpus] == [False, False, True, True, True]
    assert hold_gpus(gpus, [2, 1], StopFlag()) == tuple(gpus[2:4])
    assert [is_free(gpu) for gpu in gpus] == [False] * 4 + [True]
    assert machine_module._try_to_hold(gpus, [2]) is None
    assert is_free(gpus[4])
    assert machine_module._try_to_hold(gpus, [4, 2, 1]) == (gpus[4],)
    flag = StopFlag()
    flag.is_set = True
    assert hold_gpus(gpus, [1], flag) is None


@pytest.mark.parametrize(
    ("free_at", "held_at", "held"),
    [(9.5, 9.5, [0, 1]), (10.0, 10.0, [0, 1]), (30.0, 10.0, [1])],
)
def test_a_job_takes_fewer_gpus_only_after_a_while(monkeypatch, free_at, held_at, held):
    """The first of two GPUs is another process's until second `free_at`."""
    gpus, clock = [Gpu(str(index), new_uuid()) for index in range(2)], SimpleNamespace(now=100.0)
    lock, flag = machine_module._locked(gpus[0]), StopFlag()

    def rest(seconds):
        clock.now += seconds
        if clock.now >= 100.0 + free_at:
            lock.close()

    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(machine_module, "time", clock)
    monkeypatch.setattr(flag, "rest", rest)
    assert hold_gpus(gpus, [4, 2, 1], flag) == tuple(gpus[index] for index in held)
    assert clock.now == 100.0 + held_at
    lock.close()


def test_who_waits_can_be_asked_to_leave():
    key = new_uuid()
    with holder(1, [key]) as first:
        assert told(first) == [key[-1]]
        with holder(1, [key]) as second:
            second.send_signal(signal.SIGTERM)
            assert told(second) == ["left"]


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """The jobs that were to train, each with the GPUs that it saw; they do not train."""
    seen = []

    def note(job, flag, team):
        seen.append((job.name, os.environ.get(VISIBLE)))

    def note_ranks(job, flag, ranks):
        seen.append((job.name, os.environ.get(VISIBLE), ranks))

    monkeypatch.setattr(job_entry, "_train", note_ranks)
    monkeypatch.setattr(worker, "run_job", note)
    for name in (VISIBLE, "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    return seen


def test_a_job_trains_on_the_gpus_that_it_holds(tmp_path, monkeypatch, trained):
    job = new_probe(StudyDir(tmp_path), "00001")
    gpus = [Gpu(name, f"GPU-{name}") for name in "012"]
    job.waits.touch()
    monkeypatch.setattr(job_entry, "hold_gpus", lambda gpus, counts, flag: (gpus[0], gpus[2]))
    job_entry.train_on_gpus(str(job.root), gpus, [2])
    assert trained == [("00001", "0,2", 1)]
    assert not job.waits.exists()


@pytest.mark.parametrize(("held", "ranks"), [(4, 4), (2, 2), (1, 1)])
def test_a_job_on_fewer_gpus_has_fewer_ranks(tmp_path, monkeypatch, trained, held, ranks):
    job = new_probe(StudyDir(tmp_path), "00001")
    job.plan.write(replace(job.plan.required(), ranks=4))
    gpus = [Gpu(name, f"GPU-{name}") for name in "0123"]
    monkeypatch.setattr(job_entry, "hold_gpus", lambda gpus, counts, flag: gpus[:held])
    job_entry.train_on_gpus(str(job.root), gpus, [4, 2, 1])
    assert trained == [("00001", ",".join("0123"[:held]), ranks)]


def test_a_job_that_is_asked_to_leave_before_it_holds_gpus_does_not_train(
    tmp_path, monkeypatch, trained
):
    job, gpus = new_probe(StudyDir(tmp_path), "00001"), [Gpu("0", "GPU-0")]
    job.waits.touch()
    monkeypatch.setattr(job_entry, "hold_gpus", lambda gpus, counts, flag: None)
    job_entry.train_on_gpus(str(job.root), gpus, [1])
    assert trained == []
    assert job.waits.exists()


@pytest.mark.parametrize(
    ("num_tasks", "num_nodes", "devices", "expected"),
    [
        (1, 1, "0,1", ["0,1"]),
        (2, 1, "0,1", ["0", "1"]),
        (2, 1, "4,5,6,7", ["4,5", "6,7"]),
        (4, 2, "0,1", ["0", "1", "0", "1"]),  # each node has GPUs of its own
        (2, 2, "0,1", ["0,1", "0,1"]),
        (2, 1, None, [None, None]),
    ],
)
def test_tasks_of_one_slurm_job_share_its_gpus_out(
    tmp_path, monkeypatch, trained, num_tasks, num_nodes, devices, expected
):
    jobs = [new_probe(StudyDir(tmp_path), f"{number:05d}") for number in range(num_tasks)]
    monkeypatch.setenv("SLURM_NTASKS", str(num_tasks))
    monkeypatch.setenv("SLURM_NNODES", str(num_nodes))
    for task in range(num_tasks):
        monkeypatch.setenv("SLURM_PROCID", str(task))
        monkeypatch.setenv("SLURM_LOCALID", str(task % (num_tasks // num_nodes)))
        monkeypatch.delenv(VISIBLE, raising=False)
        if devices is not None:
            monkeypatch.setenv(VISIBLE, devices)
        job_entry.train_as_task([str(job.root) for job in jobs])
    assert trained == [(job.name, seen) for job, seen in zip(jobs, expected, strict=True)]


@pytest.mark.parametrize(
    ("device", "built_for", "is_found", "fault"),
    [
        ("cpu", None, False, None),
        ("cpu", "12.4", False, None),
        ("cuda", None, False, "it was built without CUDA"),
        ("cuda", "12.4", False, "it finds no GPU"),
    ],
)
def test_a_probe_says_why_a_device_cannot_be_used(
    tmp_path, monkeypatch, device, built_for, is_found, fault
):
    job = new_probe(StudyDir(tmp_path), "00001", device)
    monkeypatch.setattr(torch.version, "cuda", built_for)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: is_found)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"GPU number {index}")
    monkeypatch.setenv(VISIBLE, "4,5")
    work(str(job.root))
    report = job.report.required()
    gpus = ("GPU number 0", "GPU number 1") if fault is None else ()
    assert (report.fault, report.gpus, report.torch) == (fault, gpus, torch.__version__)
    assert (report.visible, report.hosts) == ("4,5", ())


def test_a_probe_tells_what_a_driver_warns_of_and_which_interfaces_are_chosen(
    tmp_path, monkeypatch
):
    job = new_probe(StudyDir(tmp_path), "00001", "cuda")

    def is_available():
        warnings.warn("the driver is too old", stacklevel=1)
        return False

    monkeypatch.setattr(torch.version, "cuda", "12.4")
    monkeypatch.setattr(torch.cuda, "is_available", is_available)
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "ib0")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth0")
    work(str(job.root))
    report = job.report.required()
    assert report.fault == "it finds no GPU; the driver is too old"
    assert report.network == ("GLOO_SOCKET_IFNAME=eth0", "NCCL_SOCKET_IFNAME=ib0")


def test_a_probe_tells_what_a_device_that_is_found_cannot_do(tmp_path, monkeypatch):
    job = new_probe(StudyDir(tmp_path), "00001", "cuda")

    def ones(size, device):
        raise RuntimeError(f"no kernel image is available on {device}")

    monkeypatch.setattr(torch.version, "cuda", "12.4")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "ones", ones)
    work(str(job.root))
    fault = "RuntimeError: no kernel image is available on cuda"
    assert (job.report.required().fault, job.report.required().gpus) == (fault, ())


@pytest.mark.parametrize(("hosts", "told"), [(["a"], ()), (["a", "b"], ("a", "b"))])
def test_a_probe_tells_the_machines_of_ranks_that_met(hosts, told):
    report = worker._device_report("cpu", hosts)
    assert report.hosts == told
    named = [part for part in report.network if part.startswith("interfaces: ")]
    assert [set(psutil.net_if_addrs()) <= set(re.findall(r"[^ ,]+", part)) for part in named] == (
        [True] if told else []
    )


@pytest.mark.gpu
def test_a_job_trains_on_a_real_gpu(tmp_path):
    pytest.importorskip("submitit")  # which a bare node lacks
    from hpsearch.cluster.local import LocalExecutor

    job = new_probe(StudyDir(tmp_path), "00001", "cuda")
    executor = LocalExecutor(num_threads=1, gpus=GpuShare(find_gpus(), 1))
    job_id = executor.submit([job])[job.name]
    while executor.look([(job, job_id)])[job.name].phase != "ended":
        time.sleep(0.1)
    report = job.report.read()
    assert (report.fault, len(report.gpus)) == (None, 1)

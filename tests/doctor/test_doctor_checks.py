"""The checks of hpsearch doctor one by one: what each calls well, and what not."""

import errno
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from hpsearch.cluster.executor import SchedulerSilentError
from hpsearch.cluster.slurm_calls import read_config
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.doctor import machine
from hpsearch.doctor.finding import Finding, examine, has_error
from hpsearch.doctor.machine import FileSystem, file_system_of
from hpsearch.doctor.slurm import (
    Partition,
    check_config,
    check_partitions,
    minutes,
    read_partitions,
)
from hpsearch.doctor.study import check_files, check_lease, check_requests, check_schema
from hpsearch.study import requests
from hpsearch.study.events import Lease
from hpsearch.study.requests import Request, own_name

ROOT = Path(__file__).parents[2]
LOCAL = FileSystem(Path("/"), "ext4")
HEALTHY = """\
Configuration data as of 2026-01-01T00:00:00
ClusterName             = tiny
JobRequeue              = 1
KillWait                = 30 sec
MaxArraySize            = 1001
MaxJobCount             = 10000
MinJobAge               = 300 sec
PreemptMode             = REQUEUE
SlurmctldParameters     = enable_configless,preempt_send_user_signal
SLURM_VERSION           = 22.05.8
"""


def printing(text):
    """Return calls of a program that prints a text."""
    return SimpleNamespace(run=lambda command: text)


def config(text):
    return read_config(printing(text))


def test_a_check_that_fails_is_a_finding():
    def silent():
        yield Finding("a", "ok", "well")
        raise SchedulerSilentError("squeue failed:\n  no route")

    assert examine({"b": silent}) == [
        Finding("a", "ok", "well"),
        Finding("b", "error", "squeue failed: no route"),
    ]
    [finding] = examine({"c": lambda: 1 / 0})
    assert has_error([finding])
    assert finding.sentence.startswith(
        "the check itself failed (ZeroDivisionError: division by zero)"
    )


def test_tested_versions_are_those_of_the_constraints():
    pinned = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    )
    for package, tested in machine.TESTED.items():
        assert pinned[package].split(".")[:2] == tested.split(".")


def test_other_versions_are_named():
    tested = {"optuna": "3.1", "no-such-package": "1.0"}
    versions = {version.name: version for version in machine.check_versions(tested)}
    assert versions["Python"].level in ("ok", "warning")
    assert versions["optuna"].level == "warning"
    assert versions["no-such-package"].level == "error"
    assert "pip install -c constraints.txt" in versions["no-such-package"].sentence


@pytest.mark.parametrize(
    ("path", "kind", "is_network"),
    [
        ("/home/ann/runs", "ext4", False),
        ("/scratch/ann", "lustre", True),
        ("/scratchy", "ext4", False),
        ("/data/my disk/runs", "fuse.sshfs", True),
        ("/data", "tmpfs", False),
        ("/twice/x", "nfs4", True),
    ],
)
def test_file_systems_are_told_by_the_mounts(path, kind, is_network):
    mounts = {"/scratch": "lustre", "/data": "tmpfs", "/data/my disk": "fuse.sshfs"}
    others = [FileSystem(Path(folder), kind) for folder, kind in mounts.items()]
    twice = [FileSystem(Path("/twice"), kind) for kind in ("ext4", "nfs4")]
    file_system = file_system_of(Path(path), [LOCAL, *others, *twice])
    assert (file_system.type, file_system.is_network) == (kind, is_network)


def test_mounts_are_those_of_the_system(monkeypatch):
    def partitions(all):
        assert all, "network file systems are no physical ones"
        return [SimpleNamespace(mountpoint="/my disk", fstype="nfs4")]

    monkeypatch.setattr(machine.psutil, "disk_partitions", partitions)
    assert machine.read_mounts() == [FileSystem(Path("/my disk"), "nfs4")]


def test_a_system_may_not_tell_its_mounts(monkeypatch):
    def unreadable(all):
        raise OSError("no table of mounts")

    monkeypatch.setattr(machine.psutil, "disk_partitions", unreadable)
    assert machine.read_mounts() == []


def test_without_mounts_the_file_system_is_not_known(tmp_path):
    assert machine.check_file_system(Path("runs"), []).level == "skipped"


@pytest.mark.parametrize(
    ("mode", "level", "words"),
    [
        (0o700, "ok", "for this user alone"),
        (0o755, "warning", "look into it"),
        (0o770, "warning", "change what jobs run"),
        (0o777, "error", "every user"),
    ],
)
def test_the_mode_of_the_folder(tmp_path, mode, level, words):
    tmp_path.chmod(mode)
    finding = machine.check_mode(tmp_path)
    assert finding.level == level
    assert words in finding.sentence


@pytest.mark.parametrize(
    ("free", "level"), [(200 << 30, "ok"), (2 << 30, "warning"), (1 << 20, "error")]
)
def test_free_space(tmp_path, monkeypatch, free, level):
    class Usage:
        pass

    Usage.free = free
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda path: Usage)
    assert next(iter(machine.check_space(tmp_path))).level == level


@pytest.mark.parametrize(("ahead", "word"), [(60.0, "ahead of"), (-60.0, "behind"), (0.0, None)])
def test_clocks_are_compared(tmp_path, ahead, word):
    finding = machine.check_clock(tmp_path, now=lambda: time.time() - ahead)
    assert finding.level == ("ok" if word is None else "error")
    assert word is None or f"60 s {word}" in finding.sentence


def test_a_lock_that_locks_nothing_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("fcntl.lockf", lambda file, how: None)
    probes = {probe.name: probe for probe in machine.check_probes(tmp_path)}
    assert probes["locking"].level == "error"
    assert "two processes hold the same lock" in probes["locking"].sentence
    assert probes["renaming"].level == "ok"


def test_a_file_system_without_locks_is_an_error(tmp_path, monkeypatch):
    def refuse(file, how):
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.lockf", refuse)
    probes = {probe.name: probe for probe in machine.check_probes(tmp_path)}
    assert "No locks available" in probes["locking"].sentence


@pytest.mark.parametrize(
    ("version", "level"), [(None, "ok"), ("0001", "warning"), ("0002", "ok"), ("0003", "error")]
)
def test_versions_of_the_tables(version, level):
    assert check_schema(version, "0002").level == level


def test_the_driver_is_named():
    own = own_name()
    host, _, start = own.split("/")
    said = {
        "drives": check_lease(Lease(1, own, 1, 130.0), 100.0).sentence,
        "dead": check_lease(Lease(1, f"{host}/999999999/{start}", 1, 130.0), 100.0).sentence,
        "expired": check_lease(Lease(1, own, 1, 90.0), 100.0).sentence,
    }
    assert said["drives"] == f"{own} drives the study, its lease ends in 30 s"
    assert "is dead; the next run takes over" in said["dead"]
    assert said["expired"] == "no driver has the study now"


def test_below_a_folder_that_may_not_be_searched_that_folder_is_looked_at(tmp_path, monkeypatch):
    stat = os.stat

    def stat_above(path, *arguments, **options):
        if tmp_path in Path(path).parents:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return stat(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", stat_above)
    assert machine.nearest(tmp_path / "mine/runs") == tmp_path
    assert machine.check_mode(tmp_path / "mine/runs").level == "skipped"


def test_requests_that_no_driver_takes(tmp_path):
    study = StudyDir(tmp_path / "tiny")
    assert [request.level for request in check_requests(study)] == ["ok"]
    requests.leave(study, Request("pause"))
    assert [request.level for request in check_requests(study)] == ["ok"]
    (study.requests / ".0a.json-1b").write_text("{")  # is being written
    assert [request.level for request in check_requests(study)] == ["ok"]
    (study.requests / "other.json").write_text("{")
    late = list(check_requests(study, time.time() + 3600))
    assert [finding.level for finding in late] == ["warning", "warning"]
    assert "1 files" in late[0].sentence
    assert late[1].sentence.startswith("pause wait for a driver")


def test_requests_that_come_and_go_meanwhile_are_heard(tmp_path, monkeypatch):
    folder, taken = StudyDir(tmp_path / "tiny"), Request("pause")

    def waiting_between(study):
        requests.forget(study, taken)
        waiting = requests.waiting(study)
        requests.leave(study, Request("resume"))
        return waiting

    requests.leave(folder, taken)
    monkeypatch.setattr("hpsearch.doctor.study.waiting", waiting_between)
    assert [finding.level for finding in check_requests(folder)] == ["ok"]


@pytest.mark.parametrize("cut_off_by", [KeyboardInterrupt, SchedulerSilentError])
def test_a_job_that_is_waited_for_no_longer_is_taken_back(tmp_path, cut_off_by):
    cancelled = []

    def look(jobs):
        raise cut_off_by

    executor = SimpleNamespace(
        num_threads=1,
        ranks=1,
        submit=lambda jobs: {job.name: "17" for job in jobs},
        look=look,
        cancel=lambda jobs: cancelled.extend(job_id for _, job_id in jobs),
    )
    study = SimpleNamespace(spec=SimpleNamespace(name="tiny"), uses_gpus=False)
    with pytest.raises(cut_off_by):
        machine.check_inside(study, tmp_path, lambda study, folder: executor)
    assert cancelled == ["17"]


def test_damaged_files_are_named(tmp_path):
    study = StudyDir(tmp_path / "tiny")
    beat = study.trial(3).attempt(2).root / "heartbeat.json"
    beat.parent.mkdir(parents=True)
    beat.write_text('{"at": 1')
    [finding] = check_files(study)
    assert finding.level == "warning"
    assert str(beat) in finding.sentence


@pytest.mark.parametrize(
    ("before", "now", "name", "words"),
    [
        ("= 1001", "= 0", "array size", "no job arrays"),
        ("= 10000", "= 3", "job count", "the site holds 3 jobs"),
        (",preempt_send_user_signal", "", "preemption", "SIGTERM alone"),
        ("= REQUEUE", "= GANG,SUSPEND", "preemption", "no heartbeat"),
        ("= 30 sec", "= 5 sec", "KillWait", "has 5 s"),
        ("= 300 sec", "= 2 sec", "MinJobAge", "listed for 2 s"),
    ],
)
def test_settings_that_hurt_are_warnings(before, now, name, words):
    assert all(finding.level == "ok" for finding in check_config(config(HEALTHY), 4))
    changed = check_config(config(HEALTHY.replace(before, now)), 4)
    [warned] = [finding for finding in changed if finding.level != "ok"]
    assert (warned.name, warned.level) == (name, "warning")
    assert words in warned.sentence


def test_a_site_without_preemption_needs_no_signal():
    unwarned = config(HEALTHY.replace("= REQUEUE", "= OFF").replace("preempt_send", ""))
    assert all(finding.level == "ok" for finding in check_config(unwarned, None))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("infinite", None),
        ("30:00", 30),
        ("1:30:00", 90),
        ("2-00:00:00", 2880),
        ("1-12", 2160),
        ("45", 45),
        ("0:30", 0.5),
    ],
)
def test_limits_are_read(text, wanted):
    assert minutes(text) == wanted


def test_partitions():
    known = read_partitions(printing("gpu|up|1-00:00:00\ngpu|up|1-00:00:00\nold|drain|infinite\n"))
    assert known == [Partition("gpu", True, 1440), Partition("old", False, None)]
    wanted = SimpleNamespace(partition="gpu,old,gpo", walltime_minutes=2000)
    findings = list(check_partitions("jobs", wanted, known))
    assert [finding.level for finding in findings] == ["error", "warning", "error"]
    assert "set it to 1440 or less" in findings[0].sentence
    assert "did you mean 'gpu'" in findings[2].sentence
    [default] = check_partitions(
        "jobs", SimpleNamespace(partition=None, walltime_minutes=2000), known
    )
    assert default.level == "ok"

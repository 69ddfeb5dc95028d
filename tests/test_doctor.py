"""hpsearch doctor: every check finds what is wrong, and says so in one sentence."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from cli_tools import hpsearch, write_study, write_trainer
from fakes import FakeExecutor
from gpu_tools import install_nvidia_smi, new_uuid

from hpsearch import yaml_file
from hpsearch.cluster.executor import JobStatus, SubmissionRefusedError
from hpsearch.cluster.records import DeviceReport
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.commands.housekeeping import doctor, findings_text
from hpsearch.doctor import machine
from hpsearch.doctor.finding import Finding, has_error
from hpsearch.doctor.machine import FileSystem
from hpsearch.doctor.preflight import examine_all
from hpsearch.doctor.study import newest_version

ROOT = Path(__file__).parents[1]
PROFILE = ROOT / "slurm" / "dev-cluster.yaml"
LOCAL = [FileSystem(Path("/"), "ext4")]
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
PROGRAMS = {
    "scontrol": f"cat <<'END'\n{HEALTHY}END",
    "sacct": "true",
    "sinfo": "printf 'normal|up|1-00:00:00\\nshort|up|10:00\\n'",
    "sbatch": 'echo "$@" >> "$0.calls"; echo "Job 5 to start" >&2',
    "squeue": "true",
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a study file, in which commands run."""
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path)
    return tmp_path


@pytest.fixture
def install(place, monkeypatch):
    """Return a function that puts programs of SLURM in the path, as lines of shell by name."""
    programs = place / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    def put(**changes):
        for name, text in (PROGRAMS | changes).items():
            path = programs / name
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)
        return programs

    return put


def nfs(path):
    return [*LOCAL, FileSystem(path, "nfs4")]


class Looking(FakeExecutor):
    """Jobs that look around at once, and say that all is well unless something else is given."""

    WELL = DeviceReport(visible="", torch="2.13", gpus=(), fault=None)

    def __init__(self, report=WELL, phase="ended", log="", refusal=None):
        super().__init__()
        self._report, self._phase, self._log, self._refusal = report, phase, log, refusal
        self.devices, self.cancelled = [], []

    def submit(self, jobs):
        if self._refusal is not None:
            raise SubmissionRefusedError(self._refusal)
        [job] = jobs
        self.devices.append(job.plan.required().probes)
        if self._report is not None:
            job.report.write(self._report)
        self.log(job, "7").write_text(self._log)
        return {job.name: "7"}

    def look(self, jobs):
        return {job.name: JobStatus("7", self._phase) for job, _ in jobs}

    def cancel(self, jobs):
        self.cancelled += [job_id for _, job_id in jobs]

    def log(self, job, job_id):
        return job.root / f"{job_id}.out"


def look(study=None, mounts=LOCAL, executor=None):
    """Return the findings by name; those of one name in a list."""
    findings_by_name = {}
    made = executor or Looking()
    for finding in examine_all(study, Path("runs"), mounts, lambda study, folder: made):
        findings_by_name.setdefault(finding.name, []).append(finding)
    return findings_by_name


def levels(findings):
    return {name: [finding.level for finding in some] for name, some in findings.items()}


def only(findings, name):
    [finding] = findings[name]
    return finding


def slurm_study(place, profile=PROFILE, **changes):
    executor = {"name": "slurm", "profile": str(profile), "jobs": 4}
    write_study(place, {"executor": executor} | changes)


def write_profile(place, **changes):
    path = place / "site.yaml"
    path.write_text(yaml.safe_dump(yaml_file.load(PROFILE) | changes))
    return path


# The command.


def test_a_healthy_machine_is_well(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))  # no squeue
    assert doctor.function(None, Path("runs"), as_json=True) == 0
    findings = json.loads(capsys.readouterr().out)
    assert all(finding.keys() == {"name", "level", "sentence"} for finding in findings)
    assert {finding["level"] for finding in findings} <= {"ok", "skipped", "warning"}
    names = {finding["name"] for finding in findings}
    assert {"Python", "torch", "renaming", "locking", "flushing", "clocks", "SLURM"} <= names
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"


def test_people_read_a_line_a_check_and_a_summary(place, capsys):
    write_study(place, {"storage": "env:NO_SUCH_VARIABLE"})
    assert doctor.function("study.yaml", Path("runs"), as_json=False) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("✓ Python")
    assert [line for line in lines if line.startswith("✗ database")]
    assert lines[-1].startswith("1 error and ")
    assert lines[-1].endswith("put the errors right before a study is run")


def test_a_command_that_is_not_there_is_named(place):
    write_study(place, {"notify": [{"name": "command", "command": ["no-such"]}]})
    right, missing = look("study.yaml")["study"]
    assert (right.level, missing.level) == ("ok", "warning")
    assert "a command of notify names no-such, which is not there" in missing.sentence


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["ok"], "no error and no warning in 1 checks: a study can run"),
        (["warning"] * 2, "no error and 2 warnings: a study can run, read the warnings first"),
        (["error", "ok"], "1 error and no warning: put the errors right before a study is run"),
    ],
)
def test_the_summary_counts(given, text):
    assert findings_text([Finding("x", level, "y") for level in given]) == text


@pytest.mark.slow
def test_a_job_is_tried_while_nothing_heavy_is_imported_here(place):
    """A real job, as the study's own would be: it sees no GPU, since it asks for none."""
    before = sorted(place.iterdir())
    script = """
import sys
from pathlib import Path
from hpsearch.commands.housekeeping import doctor
doctor.function("study.yaml", Path("runs"), as_json=False)
print(sorted({"torch", "numba"} & set(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr == "[]\n"
    assert "can train on cpu: CUDA_VISIBLE_DEVICES is ''" in done.stdout
    assert sorted(place.iterdir()) == before


# The runs folder.


def test_a_file_in_place_of_the_folder_is_an_error(place):
    (place / "runs").write_text("")
    findings = look()
    assert only(findings, "runs folder").level == "error"
    assert only(findings, "writing").level == "error"


# The study and its database.


def test_a_new_study_is_well(place):
    findings = look("study.yaml")
    assert only(findings, "study").level == "ok"
    assert only(findings, "SQLite").level == "ok"
    assert "the first run makes it" in only(findings, "database").sentence
    assert only(findings, "GPUs").level == "skipped"
    assert not (place / "runs").exists()


@pytest.mark.slow
def test_a_finished_study_is_well_by_name_and_by_file(place):
    write_study(place, {"budget": {"trials": 1}})
    hpsearch(place, "run", "study.yaml", "--no-export")
    for name in ("tiny", "study.yaml"):
        findings = look(name)
        assert "answers in" in only(findings, "database").sentence
        assert only(findings, "tables").sentence == f"version {newest_version()}, the newest"
        assert only(findings, "driver").sentence == "no driver has the study now"
        assert only(findings, "files").level == "ok"
    write_study(place, {"budget": {"trials": 1}, "seed": 4})
    assert "searches something else" in only(look("study.yaml"), "search").sentence
    # By its name it is found without its file too, but not without its database.
    (place / "study.yaml").unlink()
    assert only(look("tiny"), "study").level == "ok"
    (place / "runs/tiny.db").unlink()
    assert only(look("tiny"), "study").level == "error"


def test_a_lost_database_is_an_error(place):
    write_study(place)
    note = {"name": "tiny", "file": str(place / "study.yaml"), "storage": "sqlite:///runs/tiny.db"}
    StudyDir(place / "runs/tiny").spec.parent.mkdir(parents=True)
    StudyDir(place / "runs/tiny").spec.write_text(json.dumps(note))
    assert "is gone" in only(look("tiny"), "database").sentence


def test_a_file_that_is_no_database_is_an_error(place):
    (place / "runs").mkdir()
    (place / "runs/tiny.db").write_text("no database" * 100)
    finding = only(look("study.yaml"), "database")
    assert finding.level == "error"
    assert "is no intact SQLite database" in finding.sentence


def test_every_fault_of_the_file_is_a_finding(place):
    write_study(place, {"storage": "postgresql://ann:secret@host/db", "seed": -1})
    findings = look("study.yaml")
    assert [finding.level for finding in findings["study"]] == ["error", "error"]
    text = str(findings)
    assert "password" in text
    assert "secret" not in text
    assert "database" not in findings, "there is no study to look at"


def test_an_unknown_study_is_a_finding(place):
    assert "no study 'other'" in only(look("other"), "study").sentence


def test_a_server_that_is_away_is_an_error(place, monkeypatch):
    monkeypatch.setenv("TINY_URL", "postgresql+psycopg://ann:secret@127.0.0.1:9/db")
    monkeypatch.setattr("hpsearch.study.database.FIRST_PATIENCE", 0.1)
    write_study(place, {"storage": "env:TINY_URL"})
    finding = only(look("study.yaml"), "database")
    assert finding.level == "error"
    assert "cannot be used now" in finding.sentence
    assert "secret" not in finding.sentence


@pytest.mark.parametrize("server", ["postgresql_url", "mysql_url"])
def test_a_server_is_asked(place, monkeypatch, request, server):
    monkeypatch.setenv("TINY_URL", request.getfixturevalue(server))
    write_study(place, {"storage": "env:TINY_URL"})
    findings = look("study.yaml")
    assert "answers in" in only(findings, "database").sentence
    assert only(findings, "tables").level == "ok"
    assert "SQLite" not in findings


def test_sqlite_on_a_network_file_system(place, install):
    install()
    warned = only(look("study.yaml", nfs(place)), "SQLite")
    assert warned.level == "warning"
    assert "nfs4" in warned.sentence
    slurm_study(place)
    refused = only(look("study.yaml", nfs(place)), "SQLite")
    assert refused.level == "error"
    assert "several hosts" in refused.sentence
    assert only(look("study.yaml", LOCAL), "SQLite").level == "ok"


# What a job sees.


@pytest.mark.slow
def test_a_job_names_the_fault_of_a_gpu_that_it_was_given(place, monkeypatch):
    """What nvidia-smi knows, torch may not: the GPU of this test is nowhere."""
    uuid = new_uuid()
    monkeypatch.setenv("PATH", f"{install_nvidia_smi(place / 'bin', [uuid])}:{os.environ['PATH']}")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", uuid)
    write_trainer(place, {"device": "cuda"})
    done = hpsearch(place, "doctor", "study.yaml", "--json", code=1)
    names = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert names["GPUs"]["level"] == "ok", names["GPUs"]
    assert names["GPUs"]["sentence"].startswith("1 job trains at once, each on 1 of 1 GPU (GPU")
    assert names["job"]["level"] == "error"
    said = names["job"]["sentence"]
    assert "cannot train on cuda, since torch says: it " in said
    assert f"CUDA_VISIBLE_DEVICES is '{uuid}'" in said


@pytest.mark.parametrize(
    ("uuids", "visible", "said"),
    [([], None, "nvidia-smi shows none"), (["GPU-1"], "", "CUDA_VISIBLE_DEVICES is ''")],
)
def test_a_machine_without_the_gpus_that_are_wanted(place, monkeypatch, uuids, visible, said):
    monkeypatch.setenv("PATH", f"{install_nvidia_smi(place / 'bin', uuids)}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    write_trainer(place, {"device": "cuda"})
    findings = look("study.yaml")
    assert only(findings, "GPUs").level == "error"
    assert said in only(findings, "GPUs").sentence
    assert only(findings, "job").level == "skipped"


def test_a_job_tries_the_device_of_the_study(place, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("PATH", f"{install_nvidia_smi(place / 'bin', ['GPU-1'])}:/bin")
    executor = Looking(DeviceReport("0", "2.13", ("H200",), None))
    assert only(look("study.yaml", executor=executor), "job").level == "ok"
    write_trainer(place, {"device": "cuda"})
    finding = only(look("study.yaml", executor=executor), "job")
    assert finding.sentence.endswith("CUDA_VISIBLE_DEVICES is '0', torch is 2.13, GPUs: H200")
    assert executor.devices == ["cpu", "cuda"]


def test_the_ranks_of_a_job_are_to_meet(place):
    network = ("NCCL_SOCKET_IFNAME=ib0",)
    executor = Looking(DeviceReport("0", "2.13", (), None, ("n1", "n2"), network))
    finding = only(look("study.yaml", executor=executor), "job")
    assert finding.sentence.endswith("its 2 ranks met, on n1, n2 (NCCL_SOCKET_IFNAME=ib0)")


@pytest.mark.parametrize(
    ("executor", "level", "said"),
    [
        (Looking(refusal="no more of yours"), "error", "no job is taken: no more of yours"),
        (Looking(report=None, log="a\nNo module named x\n\n"), "error", "(No module named x)"),
        (Looking(report=None), "error", "(it printed nothing)"),
        (Looking(report=None, phase="queued"), "warning", "still waited for its turn after"),
        (Looking(report=None, phase="running"), "warning", "had not ended after"),
    ],
)
def test_a_job_that_says_nothing(place, monkeypatch, executor, level, said):
    monkeypatch.setattr(machine, "JOB_SECONDS", 0.2)
    finding = only(look("study.yaml", executor=executor), "job")
    assert finding.level == level
    assert said in finding.sentence
    assert executor.cancelled == (["7"] if level == "warning" else [])


# SLURM.


def test_a_study_on_a_healthy_cluster_is_well(place, install):
    programs = install()
    slurm_study(place)
    write_trainer(place, {"device": "cuda"})
    findings = look("study.yaml", [*nfs(place), FileSystem(place / "db", "ext4")])
    del findings["SQLite"]
    assert not has_error([finding for some in findings.values() for finding in some]), findings
    assert only(findings, "SLURM").sentence == "22.05.8 answers, the cluster is tiny"
    assert only(findings, "partition of jobs").sentence == "normal takes jobs of 10 minutes"
    assert only(findings, "GPUs").sentence.startswith("a task asks for 1 GPUs (a100), 1 CPUs")
    jobs, driver = (programs / "sbatch.calls").read_text().splitlines()
    for option in ("--test-only", "--partition=normal", "--gres=gpu:a100:1", "--time=10"):
        assert option in jobs.split()
    assert "--signal=USR2@60" in jobs.split()
    assert "--time=30" in driver.split()
    assert "gres" not in driver


def two_profiles(place):
    """Write a study of two profiles: one.yaml, and two.yaml, which has other times."""
    write_trainer(place, {"device": "cuda"})
    driver = yaml_file.load(PROFILE)["driver"] | {"walltime_minutes": 20}
    short = {"partition": "short", "walltime_minutes": 5, "driver": driver}
    executors = []
    for name, changes in (("one", {}), ("two", short)):
        profile = write_profile(place, **changes)
        profile.rename(place / f"{name}.yaml")
        executors.append({"name": "slurm", "profile": f"{name}.yaml", "jobs": 1})
    write_study(place, {"executors": executors, "executor": ..., "storage": "sqlite:///db/x.db"})


def test_each_profile_of_a_study_is_looked_at(place, install):
    programs = install()
    two_profiles(place)
    findings = look("study.yaml", [*nfs(place), FileSystem(place / "db", "ext4")])
    first = only(findings, "partition of jobs by one.yaml")
    assert first.sentence == "normal takes jobs of 10 minutes"
    other = only(findings, "partition of jobs by two.yaml")
    assert other.sentence == "short takes jobs of 5 minutes"
    times = [
        next(word for word in line.split() if word.startswith("--time"))
        for line in (programs / "sbatch.calls").read_text().splitlines()
    ]
    assert times == ["--time=10", "--time=30", "--time=5"], "the driver's job is asked for once"
    assert [name for name in findings if name.startswith("job by")] == [
        "job by one.yaml",
        "job by two.yaml",
    ]


@pytest.mark.parametrize(
    ("refused", "jobs", "driver", "tried"),
    [
        ("--time=5", ["ok", "warning"], ["ok"], ["one"]),
        ("--time=10 --time=30", ["warning", "ok"], ["warning", "ok"], ["two"]),
        ("--time=5 --time=10", ["error", "error"], ["ok"], []),
        ("--time=20 --time=30", ["ok", "ok"], ["error", "error"], []),
    ],
)
def test_a_profile_that_is_refused_is_a_warning_where_another_one_is_taken(
    place, install, refused, jobs, driver, tried
):
    """By one.yaml jobs have a time of 10, and the driver one of 30; by two.yaml of 5 and 20."""
    options = "|".join(f'*" {option} "*' for option in refused.split())
    install(sbatch=f"case \" $* \" in {options}) echo 'Invalid account' >&2; exit 1;; esac")
    two_profiles(place)
    findings = look("study.yaml", [*nfs(place), FileSystem(place / "db", "ext4")])
    name = "submission of jobs by"
    said = [only(findings, f"{name} one.yaml"), only(findings, f"{name} two.yaml")]
    assert [finding.level for finding in said] == jobs
    for finding in said:
        assert finding.level == "ok" or "Invalid account; change the" in finding.sentence
    name = "submission of the driver"
    asked = [findings.get(name, []), findings.get(f"{name} by two.yaml", [])]
    assert [finding.level for some in asked for finding in some] == driver
    assert [name for name in findings if name.startswith("job by")] == [
        f"job by {name}.yaml" for name in tried
    ]


def test_without_a_study_slurm_is_looked_at_if_it_is_there(place, install):
    install()
    assert levels(look())["accounting"] == ["ok"]
    install(scontrol="echo no route >&2; exit 1")
    finding = only(look(), "SLURM")
    assert finding.level == "warning"
    assert "scontrol failed: no route" in finding.sentence


def test_a_study_on_this_machine_does_not_ask_slurm(place, install):
    install(scontrol="exit 1")
    assert "SLURM" not in look("study.yaml")


def test_a_cluster_that_does_not_answer_is_one_error(place, install):
    install(scontrol="echo no route >&2; exit 1")
    slurm_study(place)
    findings = look("study.yaml")
    assert only(findings, "SLURM").level == "error"
    assert "run this on a login node" in only(findings, "SLURM").sentence
    assert "submission of jobs" not in findings


def test_what_sbatch_refuses_is_an_error_in_its_words(place, install):
    install(sbatch="echo 'sbatch: error: Invalid qos specification' >&2; exit 1", sacct="exit 1")
    slurm_study(place)
    findings = look("study.yaml")
    assert only(findings, "submission of jobs").level == "error"
    assert "Invalid qos specification" in only(findings, "submission of the driver").sentence
    assert only(findings, "accounting").level == "warning"


def test_a_wrong_profile_is_a_finding(place, install):
    install()
    slurm_study(place, write_profile(place, signal_delay_seconds=600))
    assert "signal_delay_seconds must be less" in only(look("study.yaml"), "study").sentence


def test_gpus_and_devices_agree(place, install):
    install()
    write_trainer(place, {"device": "cuda"})
    slurm_study(place, write_profile(place, gpus_per_task=0, gpu_type=None))
    assert only(look("study.yaml"), "GPUs").level == "error"
    write_trainer(place)
    slurm_study(place)
    assert only(look("study.yaml"), "GPUs").level == "warning"


def test_a_folder_of_this_machine_alone_is_seen_by_no_node(place, install):
    install()
    slurm_study(place)
    assert only(look("study.yaml"), "shared folder").level == "warning"
    assert only(look("study.yaml", nfs(place)), "shared folder").level == "ok"


def test_the_calls_of_one_look_fit_into_a_minute(place, install, monkeypatch):
    """A site's profile may allow six calls a minute; more would have to wait."""
    install()
    slurm_study(place, write_profile(place, max_calls_per_minute=6))
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=_never)
    monkeypatch.setattr("hpsearch.cluster.slurm_calls.time", clock)
    assert only(look("study.yaml"), "submission of the driver").level == "ok"


def _never(seconds):
    raise AssertionError("it waits")

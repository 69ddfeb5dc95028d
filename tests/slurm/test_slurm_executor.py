"""The SLURM executor on a real cluster: arrays, names by which jobs are found, and their ends."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from by_psij import keep_promises
from gpu_tools import new_probe
from slurm_tools import SlurmCluster, ask, end_all_jobs, wait_until

from hpsearch import yaml_file
from hpsearch.cluster.executor import SubmissionRefusedError
from hpsearch.cluster.failures import CANCELLED, NODE_FAIL, PREEMPTED
from hpsearch.cluster.records import Assignment, Control, Fresh, JobPlan, Lineage
from hpsearch.cluster.slurm import Allowance, SlurmExecutor
from hpsearch.cluster.slurm_profile import load_profile
from hpsearch.cluster.study_dir import JobDir, StudyDir

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(180)]

PROFILE = Path(__file__).parents[2] / "slurm" / "dev-cluster.yaml"
SHORT = {"steps": 12, "evaluation.interval": 4, "checkpoint.interval": 4}
ENDLESS = {"steps": 10**9, "evaluation.interval": 50, "checkpoint.interval": 500}


def profile_file(folder: Path, **changes: object) -> Path:
    path = folder / "profile.yaml"
    profile = {**yaml_file.load(PROFILE), "max_calls_per_minute": 600, **changes}
    path.write_text(yaml_file.dump(profile))
    return path


@pytest.fixture
def study(tmp_path: Path) -> StudyDir:
    return StudyDir(tmp_path / "runs" / "tiny")


@pytest.fixture
def executor(
    slurm_cluster: SlurmCluster, study: StudyDir, tmp_path: Path
) -> Callable[..., SlurmExecutor]:
    def make(**changes: object) -> SlurmExecutor:
        return SlurmExecutor([Allowance(load_profile(profile_file(tmp_path, **changes)))], study)

    yield make
    end_all_jobs()


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("executor")
def test_psij_keeps_the_promises_here_too(
    slurm_cluster: SlurmCluster, tmp_path: Path, plain_config
) -> None:
    # PSI/J reads no state of any job while the queue still lists one that was preempted.
    options = ("--gres=gpu:a100:8", "--nodelist=n1", "--no-requeue")
    preempted = slurm_cluster.submit("sleep 60", *options)
    slurm_cluster.wait_for_state(preempted, ["RUNNING"])
    slurm_cluster.submit("true", *options, "--partition=urgent")
    slurm_cluster.wait_for_state(preempted, ["PREEMPTED"])
    keep_promises("slurm", tmp_path, plain_config({"evaluation.opponents": ["choose_first"]}))


def write_jobs(
    study: StudyDir, first: int, plain_config, *changes: dict, ranks: int = 1
) -> list[JobDir]:
    """Write a job of one trial for each of the changes, as the driver does."""
    jobs = []
    for number, change in enumerate(changes, first):
        trial, token = study.trial(number), f"token-{number}"
        trial.create(yaml_file.dump(plain_config(change)), Lineage(Fresh(), 0))
        trial.control.write(Control(token, None))
        job = study.job(f"{number:05d}")
        job.plan.write(
            JobPlan(
                (Assignment(number, 1, token),),
                num_threads=1,
                pilot_seconds=0.0,
                refills=False,
                ranks=ranks,
            )
        )
        jobs.append(job)
    return jobs


def wait_for(executor: SlurmExecutor, jobs, ids, **phases: str) -> None:
    """Wait until jobs, by the last digits of their names, are in some phases."""
    asked = [(job, ids.get(job.name)) for job in jobs]

    def phases_now() -> dict[str, str]:
        return {name: status.phase for name, status in executor.look(asked).items()}

    expected = {name.removeprefix("j"): phase for name, phase in phases.items()}
    wait_until(
        lambda: expected.items() <= {k[-1]: v for k, v in phases_now().items()}.items(),
        300,  # jobs of other tests run beside it
        lambda: str(phases_now()),
    )


def test_an_array_of_jobs(executor, study, plain_config) -> None:
    slurm = executor(array_parallelism=2, sbatch={"comment": "it's a sweep", "nice": 100})
    jobs = write_jobs(study, 1, plain_config, SHORT, SHORT, {**SHORT, "host.gamma": "wrong"})
    assert slurm.look([(job, None) for job in jobs]) == {}
    ids = slurm.submit(jobs)
    assert "it's a sweep 100" in ask("squeue", "--noheader", "--format=%k %y")
    assert set(ids) == {"00001", "00002", "00003"}
    # Another process knows them by their names alone, and under the same ids.
    statuses = executor().look([(job, None) for job in jobs])
    assert {name: status.id for name, status in statuses.items()} == ids
    wait_for(slurm, jobs, ids, j1="ended", j2="ended", j3="ended")
    results = [study.trial(number).attempt(1).read_result() for number in (1, 2, 3)]
    assert [result and (result.status, result.kind) for result in results] == [
        ("finished", None), ("finished", None), ("failed", "code"),
    ]  # fmt: skip
    assert "trial 1 begins at step 0" in slurm.log(jobs[0], ids["00001"]).read_text()
    assert "host.gamma" in slurm.log(jobs[2], ids["00003"]).read_text()
    # The code that ran is a copy, and says where it comes from.
    (code,) = study.code.iterdir()
    about = json.loads((code / "code.json").read_text())
    assert about["hash"] == code.name
    assert (code / "hpsearch" / "cluster" / "worker.py").exists()


def test_interrupted_jobs_save_and_waiting_ones_leave_the_queue(
    executor, study, plain_config
) -> None:
    slurm = executor(array_parallelism=1)
    jobs = write_jobs(study, 1, plain_config, ENDLESS, ENDLESS)
    ids = slurm.submit(jobs)
    wait_until(lambda: list(study.trial(1).read_metrics()) != [], 60, lambda: "no curve")
    assert slurm.look([(jobs[1], ids["00002"])])["00002"].phase == "queued"
    slurm.interrupt([(job, ids[job.name]) for job in jobs])
    wait_for(slurm, jobs[:1], ids, j1="ended")
    result = study.trial(1).attempt(1).read_result()
    assert result is not None
    assert (result.status, result.kind) == ("interrupted", None)
    assert result.step >= 50
    gone = slurm.look([(jobs[1], ids["00002"])]).get("00002")
    assert gone is None or gone.phase == "ended"


def test_ends_that_slurm_knows_the_reason_of(executor, study, plain_config, slurm_cluster) -> None:
    slurm = executor(array_parallelism=3)
    jobs = write_jobs(study, 1, plain_config, ENDLESS, ENDLESS)
    ids = slurm.submit(jobs)
    asked = [(job, ids[job.name]) for job in jobs]
    wait_for(slurm, jobs, ids, j1="running", j2="running")
    slurm.cancel(asked[:1])
    wait_for(slurm, jobs, ids, j1="ended")
    assert slurm.look(asked)["00001"].failure == CANCELLED
    node = ask("squeue", "--noheader", "--format=%N", "--jobs", ids["00002"]).strip()
    try:
        slurm_cluster.dev("fail", node)
        wait_for(slurm, jobs, ids, j2="ended")
        assert slurm.look(asked)["00002"].failure == NODE_FAIL
    finally:
        slurm_cluster.dev("restore", node)
    assert study.trial(1).attempt(1).read_result() is None


def test_preempted_without_a_word(executor, study, plain_config, slurm_cluster) -> None:
    """A worker that is still importing when it is preempted has nothing to say."""
    slurm = executor()
    jobs = write_jobs(study, 1, plain_config, ENDLESS)
    # What does not leave by itself is killed.
    stubborn = executor(setup=["trap '' TERM USR2", "sleep 300"])
    ids = stubborn.submit(jobs)
    wait_for(slurm, jobs, ids, j1="running")
    urgent = slurm_cluster.submit("sleep 2", "--partition=urgent", "--nodes=4", "--exclusive")
    wait_for(slurm, jobs, ids, j1="ended")
    assert slurm.look([(jobs[0], ids["00001"])])["00001"].failure == PREEMPTED
    slurm_cluster.wait_for_state(urgent, {"COMPLETED"})


def test_what_slurm_does_not_take(executor, study, plain_config) -> None:
    jobs = write_jobs(study, 1, plain_config, SHORT)
    with pytest.raises(SubmissionRefusedError, match=r"(?i)invalid partition"):
        executor(partition="no-such-partition").submit(jobs)
    assert executor().look([(job, None) for job in jobs]) == {}


def test_variables_of_the_user_neither_overrule_the_profile_nor_hide_jobs(
    executor, study, plain_config, monkeypatch
) -> None:
    for name in ("SBATCH_PARTITION", "SQUEUE_PARTITION"):
        monkeypatch.setenv(name, "urgent")
    monkeypatch.setenv("SBATCH_WAIT", "1")
    slurm = executor()
    jobs = write_jobs(study, 1, plain_config, ENDLESS)
    ids = slurm.submit(jobs)
    wait_for(slurm, jobs, ids, j1="running")
    monkeypatch.delenv("SQUEUE_PARTITION")
    listed = ask("squeue", "--noheader", "--format=%P", "--jobs", ids["00001"])
    assert listed.strip() == "normal"


def test_tasks_of_other_jobs_end_none_whatever_the_site_says(
    executor, study, plain_config, monkeypatch
) -> None:
    """The array's last job has a task without work, which ends at once; another one fails."""
    monkeypatch.setenv("SLURM_WAIT", "1")  # as WaitTime and KillOnBadExit of slurm.conf
    monkeypatch.setenv("SLURM_KILL_BAD_EXIT", "1")
    slurm = executor(tasks_per_job=3)
    jobs = write_jobs(study, 1, plain_config, SHORT, SHORT)
    jobs[1].plan.path.write_text("{}")
    ids = slurm.submit(jobs)
    wait_for(slurm, jobs, ids, j1="ended", j2="ended")
    result = study.trial(1).attempt(1).read_result()
    assert result is not None
    assert result.status == "finished"


def test_a_job_whose_submission_died_before_it_was_whole_is_cancelled(
    executor, study, plain_config
) -> None:
    """It would hold its GPUs for a minute, and then fail."""
    slurm = executor()
    jobs = write_jobs(study, 1, plain_config, ENDLESS, ENDLESS)
    ids = slurm.submit(jobs)
    asked = [(job, None) for job in jobs]
    assert slurm.look(asked).keys() == ids.keys(), "found by their names"
    (jobs[0].root / f"{ids['00002']}_submitted.pkl").unlink()
    assert slurm.look(asked).keys() == {"00001"}
    slurm.cancel_strays()
    wait_until(
        lambda: ids["00002"] not in ask("squeue", "--noheader", "--array", "--format=%F_%K"),
        60,
        lambda: ask("squeue"),
    )
    assert slurm.look(asked)["00001"].phase in ("queued", "running")


def test_jobs_by_two_profiles(executor, study, plain_config, tmp_path: Path) -> None:
    few, many = (load_profile(profile_file(tmp_path, cpus_per_task=cpus)) for cpus in (2, 1))
    slurm = SlurmExecutor([Allowance(few, 1), Allowance(many, 2)], study)
    jobs = write_jobs(study, 1, plain_config, SHORT, SHORT, ENDLESS)
    assert (slurm.max_batch, slurm.num_threads) == (1, 2)
    ids = {**slurm.submit(jobs[:1]), **slurm.submit(jobs[1:])}
    cpus = ask("squeue", "--noheader", "--array", "--format=%C").split()
    assert sorted(cpus) == ["1", "1", "2"]
    wait_for(slurm, jobs, ids, j1="ended", j2="ended", j3="running")
    assert (slurm.max_batch, slurm.num_threads) == (1, 2)
    slurm.cancel_strays()
    results = [study.trial(number).attempt(1).read_result() for number in (1, 2)]
    assert [result and result.status for result in results] == ["finished", "finished"]
    assert "trial 2 begins at step 0" in slurm.log(jobs[1], ids["00002"]).read_text()
    last = [(jobs[2], ids["00003"])]
    assert slurm.look(last)["00003"].phase == "running", "it is no stray"
    slurm.cancel(last)
    wait_for(slurm, jobs, ids, j3="ended")


def test_a_job_not_asked_about_is_cancelled(executor, study, plain_config) -> None:
    """An array whose submission got no answer, was given up, and appeared all the same."""
    slurm = executor()
    jobs = write_jobs(study, 1, plain_config, ENDLESS, ENDLESS)
    ids = slurm.submit(jobs[:1])
    slurm.submit(jobs[1:])
    slurm.look([(jobs[1], None)])
    slurm.cancel_strays()
    slurm_id = ids["00001"]
    wait_until(
        lambda: "RUNNING" not in ask("squeue", "--noheader", "--format=%T", "--jobs", slurm_id),
        60,
        lambda: ask("squeue"),
    )
    assert slurm.look([(jobs[1], None)])["00002"].phase in ("queued", "running")


def test_several_tasks_a_job(executor, study, plain_config) -> None:
    """Each with GPUs of its own; the last job of an array may have tasks without work."""
    slurm = executor(tasks_per_job=2, gpus_per_task=2, array_parallelism=2)
    jobs = write_jobs(study, 1, plain_config, SHORT, SHORT, SHORT, SHORT)
    ids = dict(slurm.submit(jobs[:3])) | slurm.submit(jobs[3:])
    # The fourth is in an array of its own, and none of the first one's idle task.
    assert ids["00004"] not in (ids["00003"], f"{ids['00003']}:1")
    assert ids["00002"] == f"{ids['00001']}:1"
    statuses = executor(tasks_per_job=2).look([(job, None) for job in jobs])
    assert {name: status.id for name, status in statuses.items()} == ids
    wait_for(slurm, jobs, ids, j1="ended", j2="ended", j3="ended", j4="ended")
    for number in (1, 2, 3, 4):
        result = study.trial(number).attempt(1).read_result()
        assert result is not None
        assert result.status == "finished"
    logs = [slurm.log(job, ids[job.name]).read_text() for job in jobs]
    assert [f"trial {n} begins" in log for n, log in enumerate(logs, 1)] == [True] * 4


def test_a_job_sees_the_gpus_that_it_was_given(executor, study) -> None:
    """As tests/contract holds the executor of this machine to it."""
    with_gpus = executor(tasks_per_job=2, gpus_per_task=2)
    without = executor(gpus_per_task=0, gpu_type=None)
    jobs = [new_probe(study, f"{number:05d}") for number in (1, 2, 3)]
    ids = dict(with_gpus.submit(jobs[:2])) | without.submit(jobs[2:])
    wait_for(with_gpus, jobs, ids, j1="ended", j2="ended", j3="ended")
    reports = [job.report.read() for job in jobs]
    assert [report and report.fault for report in reports] == [None] * 3
    seen = [report and report.visible for report in reports]
    assert seen[:2] == ["0,1", "2,3"]
    assert seen[2] in (None, "", "NoDevFiles")

"""The GPUs that a study would train on."""

from hpsearch.cluster.gpus import GpuShare, find_gpus
from hpsearch.cluster.slurm_profile import SlurmProfile
from hpsearch.report.doctor.finding import Finding
from hpsearch.study.spec import Study


def check_local_gpus(study: Study) -> Finding:
    """Look for the GPUs that jobs on this machine want; whether they work, a job finds out."""
    if study.gpus_per_job == 0:
        return Finding("GPUs", "skipped", "no base configuration has a device of cuda")
    gpus = GpuShare(find_gpus(), study.gpus_per_job)
    if gpus.shortage is not None:
        return Finding("GPUs", "error", gpus.shortage)
    return Finding("GPUs", "ok", gpus.jobs_text(study.spec.executor.jobs))


def check_asked_gpus(study: Study, profile: SlurmProfile) -> Finding:
    """Say what a job asks for; what its node has, is seen there alone."""
    kind = profile.gpu_type or "any type"
    said = f"a task asks for {profile.gpus_per_task} GPUs ({kind}), {profile.cpus_per_task} CPUs"
    uses = any(str(base["device"]).startswith("cuda") for base in study.bases.values())
    if uses and profile.gpus_per_task == 0:
        remedy = "set gpus_per_task to 1, or device: cpu"
        return Finding("GPUs", "error", f"a base wants device cuda, but {said}; {remedy}")
    if not uses and profile.gpus_per_task > 0:
        remedy = "set device: cuda, or gpus_per_task to 0"
        return Finding("GPUs", "warning", f"{said}, but no base has a device of cuda; {remedy}")
    return Finding("GPUs", "ok", said)

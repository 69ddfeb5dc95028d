"""GPUs that this machine does not have, named by an nvidia-smi; jobs that look around."""

from pathlib import Path
from uuid import uuid4

from hpsearch.cluster.machine import Gpu, GpuShare
from hpsearch.cluster.records import JobPlan
from hpsearch.cluster.study_dir import JobDir, StudyDir


def new_uuid() -> str:
    """Return a GPU's UUID that no other test has, since locks on GPUs are the machine's."""
    return f"GPU-{uuid4()}"


def new_share(num_gpus: int, per_job: int = 1) -> GpuShare:
    """Return GPUs that nothing else on this machine knows."""
    return GpuShare(tuple(Gpu(str(i), new_uuid()) for i in range(num_gpus)), per_job)


def install_nvidia_smi(folder: Path, uuids: list[str] | None) -> Path:
    """Return a folder for PATH with an nvidia-smi that knows these GPUs; None: that fails."""
    folder.mkdir(exist_ok=True)
    program = folder / "nvidia-smi"
    printed = "\n".join(uuids) if uuids is not None else "NVIDIA-SMI has failed"
    code = 0 if uuids is not None else 9
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{printed}\nEND\nexit {code}\n")
    program.chmod(0o755)
    return folder


def new_probe(study: StudyDir, name: str, device: str = "cpu") -> JobDir:
    """Return a job that says what it sees."""
    job = study.job(name)
    job.plan.write(JobPlan((), num_threads=1, pilot_seconds=0.0, refills=False, probes=device))
    return job

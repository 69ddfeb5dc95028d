"""The GPUs that a study would train on."""

from collections import Counter

from hpsearch.cluster.slurm_profile import SlurmProfile
from hpsearch.report.doctor.finding import Finding
from hpsearch.study.spec import Study


def check_local_gpus(study: Study) -> Finding:
    """Look for CUDA where a base configuration wants it; torch is imported only then."""
    wanted = [name for name, base in study.bases.items() if str(base["device"]).startswith("cuda")]
    if not wanted:
        return Finding("GPUs", "skipped", "no base configuration has a device of cuda")
    import torch

    if not torch.cuda.is_available():
        return Finding(
            "GPUs",
            "error",
            f"the {' and the '.join(wanted)} base wants device cuda, but torch {torch.__version__} "
            "finds no GPU here; look at nvidia-smi, install a torch with CUDA, or set device: cpu",
        )
    names = Counter(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
    return Finding("GPUs", "ok", ", ".join(f"{count} {name}" for name, count in names.items()))


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

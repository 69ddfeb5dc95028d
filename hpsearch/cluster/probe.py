"""What a job does that only looks around: it says which devices it sees, and tries one of them."""

import os
import warnings

import torch

from hpsearch.cluster.machine import VISIBLE
from hpsearch.cluster.records import DeviceReport
from hpsearch.cluster.study_dir import JobDir


def look_around(job: JobDir, device: str) -> None:
    """Write what this process sees into the folder of its job, and whether ``device`` works."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")  # in a warning torch says what is wrong with a GPU's driver
        fault = _fault(device)
    gpus: tuple[str, ...] = ()
    if fault is None:
        gpus = tuple(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
    else:
        fault = "; ".join([fault, *dict.fromkeys(str(warning.message) for warning in said)])
    job.report.write(DeviceReport(os.environ.get(VISIBLE), torch.__version__, gpus, fault))


def _fault(device: str) -> str | None:
    if device == "cuda" and torch.version.cuda is None:
        return "it was built without CUDA"
    if device == "cuda" and not torch.cuda.is_available():
        return "it finds no GPU"
    try:
        torch.ones(2, device=device).sum().item()
    except Exception as error:
        # Whatever a driver or a GPU raises is what has to be told.
        return f"{type(error).__name__}: {error}"
    return None

"""Use of CPU, memory and GPU by a training process; taken at a look, in less than a millisecond."""

from collections.abc import Callable
from typing import Any

import torch

from hpsearch.monitor.packages import needed


class Resources:
    """Reads the use of resources since the last reading."""

    def __init__(self, device: torch.device) -> None:
        """Open the process and, for a CUDA ``device``, its GPU.

        Raises:
            UsageError: if psutil, or nvidia-ml-py on a GPU, is not installed.
        """
        with needed("psutil"):
            import psutil
        self._process: Any = psutil.Process()
        self._process.cpu_percent()  # the first call only begins to count
        self._gpu = _gpu(device) if device.type == "cuda" else dict

    def read(self) -> dict[str, float]:
        """Return the use by name, with its unit in the name.

        cpu_percent is that of one core: 200 are two busy ones. The GPU's numbers are those of the
        whole GPU, other processes included.
        """
        return {
            "cpu_percent": self._process.cpu_percent(),
            "memory_bytes": float(self._process.memory_info().rss),
            **self._gpu(),
        }


def _gpu(device: torch.device) -> Callable[[], dict[str, float]]:
    with needed("nvidia-ml-py"):
        import pynvml
    pynvml.nvmlInit()
    # By its UUID: NVML counts GPUs without regard to CUDA_VISIBLE_DEVICES.
    uuid = torch.cuda.get_device_properties(device).uuid
    handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")

    def read() -> dict[str, float]:
        temperature = pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)
        return {
            "gpu_percent": float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu),
            "gpu_memory_bytes": float(pynvml.nvmlDeviceGetMemoryInfo(handle).used),
            "gpu_temperature_celsius": float(temperature),
        }

    return read

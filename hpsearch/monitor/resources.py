"""Use of CPU, memory and GPU, and statistics of layers. Axes: P members, L statistics."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hpsearch.monitor.config import needed


class Resources:
    def __init__(self, device: torch.device) -> None:
        """UsageError if psutil, or on a GPU nvidia-ml-py, is not installed."""
        with needed("psutil"):
            import psutil
        self._process: Any = psutil.Process()
        self._process.cpu_percent()  # the first call only begins to count
        self._gpu = _gpu(device) if device.type == "cuda" else dict

    def read(self) -> dict[str, float]:
        """Return the use since the last reading by name, with its unit in the name.

        The GPU's numbers are those of the whole GPU, other processes included.
        """
        return {
            "cpu_percent": self._process.cpu_percent(),  # of one core: 200 are two busy ones
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


@dataclass(frozen=True)
class LayerTensors:
    """The tensors of a population's layers by name, each with the member as its first axis."""

    weights: Mapping[str, Tensor]
    gradients: Mapping[str, Tensor | None]  # None where a layer has no gradient (yet)


@torch.no_grad()
def layer_statistics(layers: LayerTensors) -> tuple[list[str], Tensor]:
    """Return the names of the statistics and their values, float64 (P, L), on the layers' device.

    ``host/0.weight`` gives ``host/0.weight/weight_mean``, ``weight_std``, ``gradient_mean`` and
    ``gradient_std``, over all its numbers. Layers without a gradient or a number are left out.
    """
    names: list[str] = []
    columns: list[Tensor] = []
    tensors: dict[str, Tensor | None] = {}
    for name, weight in layers.weights.items():
        tensors |= {f"{name}/weight": weight, f"{name}/gradient": layers.gradients.get(name)}
    for name, tensor in tensors.items():
        if tensor is None or not tensor.numel():
            continue
        rows = tensor.reshape(len(tensor), -1)
        mean = rows.mean(dim=1)
        # Two passes are an order of magnitude faster on a CPU than std_mean.
        variance = (rows - mean[:, None]).square_().mean(dim=1)
        names += (f"{name}_mean", f"{name}_std")
        columns += (mean, variance.sqrt_())
    return names, torch.stack(columns, dim=1).double() if columns else torch.zeros(0, 0)

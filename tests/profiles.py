"""A cluster profile that says something under every key."""

from typing import Any


def plain_profile(**changes: Any) -> dict[str, Any]:
    """Return it as plain data, with top keys changed."""
    return {
        "partition": "gpu",
        "account": "geometry",
        "qos": None,
        "constraint": "a100&(nvlink|ib)",
        "gpu_type": "a100",
        "gpus_per_task": 2,
        "cpus_per_task": 16,
        "memory_gib": 120,
        "walltime_minutes": 60,
        "signal_delay_seconds": 300,
        "setup": ["module load cuda", "export A='b c'"],
        "array_parallelism": 4,
        "tasks_per_job": 1,
        "max_calls_per_minute": 6,
        "driver": {
            "partition": "cpu",
            "account": None,
            "qos": None,
            "memory_gib": 8,
            "walltime_minutes": 10080,
        },
        **changes,
    }

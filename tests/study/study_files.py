"""Study files for the tests of this folder."""

from pathlib import Path
from typing import Any

from hpsearch import yaml_file
from hpsearch.study.spec import Study, load_spec

BASE = Path(__file__).parents[2] / "studies/trainers/choose_first.yaml"

LR = {"type": "float", "low": 1e-5, "high": 1e-2, "log": True}
BATCH_SIZE = {"type": "int", "low": 64, "high": 512, "step": 64}
NET_ARCH = {"type": "categorical", "choices": [[64, 64], [128, 128]]}


def plain_study(**changes: Any) -> dict[str, Any]:
    """Return a right study file as plain data, with some keys replaced."""
    return {
        "name": "quick",
        "seed": 1,
        "storage": "sqlite:///quick.db",
        "base": str(BASE),
        "objectives": [{"metric": "rho/host/choose_first", "goal": "maximize"}],
        "space": {"host.optim.args.lr": LR, "host.net_arch": NET_ARCH},
        "budget": {"trials": 16},
    } | changes


def load(folder: Path, **changes: Any) -> Study:
    """Return the study that such a file gives."""
    path = folder / "study.yaml"
    path.write_text(yaml_file.dump(plain_study(**changes)))
    return load_spec(path)

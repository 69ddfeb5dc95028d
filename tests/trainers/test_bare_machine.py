"""Training and operators need torch, numpy and numba alone: a GPU node often has nothing else.

And of torch not its compiler, which every job would load for two seconds.
"""

import json
import subprocess
import sys

MISSING = [
    *("alembic", "cmaes", "matplotlib", "optuna", "prometheus_client", "psutil", "pynvml"),
    *("rich", "safetensors", "scipy", "sqlalchemy", "submitit", "tensorboard", "yaml"),
]

SCRIPT = f"""
import json, sys
for name in {MISSING!r}:
    sys.modules[name] = None  # importing it fails

from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import read_config

for given in json.load(sys.stdin):
    trainer = build_trainer([read_config(given, source="stdin")])
    trainer.train(2)
    print(trainer.evaluate_rho(num_games=8, split="bare")[0]["rho/host/choose_first"].value)
print(*(name for name in sys.modules if name in ("torch._dynamo", "torch._inductor")))

import pkgutil
from importlib import import_module
from hpsearch.population import operators
for module in pkgutil.iter_modules(operators.__path__):
    import_module(f"hpsearch.population.operators.{{module.name}}")
"""


def test_trainers_and_operators_need_torch_numpy_and_numba_alone(plain_config):
    given = json.dumps([plain_config({"agent": "learn"}, name) for name in ("dqn", "ppo")])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=given, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    *rhos, compilers = done.stdout.splitlines()
    assert [0 < float(rho) <= 1 for rho in rhos] == [True, True]
    assert compilers == ""

"""What torch compiles against what it does not."""

import shutil

import pytest
import torch
from tried import tried

from hpsearch.trainers.algorithms import build_trainer

pytestmark = [
    pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs g++ on a CPU"),
    # Raised inside torch while it imports its own compiler.
    pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning"),
]
PRIORITIES = {"alpha": 0.6, "beta": 0.4, "beta_steps": 8, "eps": 1e-3}
CASES = {
    "dqn": {"dqn.n_step": 3, "replay_buffer.prioritised": PRIORITIES, "agent": "learn"},
    "ppo": {"ppo.value_clip_range": 0.2},
    "ppo of a pair": {"ppo.value_clip_range": 0.2, "agent": "learn"},
}


@pytest.mark.parametrize("case", tried(CASES, slow=["dqn", "ppo"]))
def test_a_compiled_trainer_learns_the_same(tiny_config, case):
    torch._dynamo.reset()  # a limit on compilations counts those of all networks
    algorithm, changes = case.split()[0], CASES[case]
    plain, compiled = (
        build_trainer(
            [tiny_config({**changes, "compile": how, "seed": s}, algorithm) for s in (1, 2)]
        )
        for how in ("off", "default")
    )
    for trainer in (plain, compiled):
        trainer.train(4)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0
    for learner, other in zip(plain.learners, compiled.learners, strict=True):
        torch.testing.assert_close(learner.net.weights, other.net.weights, rtol=1e-3, atol=1e-4)

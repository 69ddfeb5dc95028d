"""The trainers that are measured: shipped configurations, written out so that no YAML is needed.

test_plain_trainers.py holds them to studies/trainers.
"""

from typing import Any

from hpsearch.trainers.config import DQNConfig, PPOConfig, TrainerConfig, read_config

Plain = dict[str, Any]

_COMMON: Plain = {
    "seed": 1,
    "device": "cpu",
    "precision": "fp32",
    "compile": "off",
    "deterministic": False,
    "detect_anomaly": False,
    "dimension": 3,
    "max_num_points": 20,
    "max_value": 20,
    "max_steps": 100,
    "reposition": True,
    "reward": "terminal",
    "agent": {"player": "choose_first"},
    "opponents": None,
    "evaluation": {
        "interval": 1,
        "num_games": 1,
        "final_num_games": 1,
        "max_steps": 1,
        "er": 0.0,
        "opponents": ["choose_first", "zeillinger"],
    },
    "checkpoint": {
        "interval": 1,
        "seconds": None,
        "keep_last": 2,
        "best": None,
        "resume": "never",
        "warm_start": None,
    },
    "monitor": {
        "interval": 1,
        "training_log": False,
        "tensorboard": False,
        "layer_statistics": False,
        "timings": False,
        "resources": False,
        "prometheus": None,
        "profiler": None,
        "max_loss": None,
        "hang_timeout": None,
    },
}

# studies/trainers/choose_first.yaml.
_DQN: Plain = {
    **_COMMON,
    "algorithm": "dqn",
    "steps": 2400,
    "rollout_length": 1,
    "updates_per_step": 2,
    "learning_starts": 8,
    "host": {
        "encoder": {"name": "flatten", "num_points": 8},
        "net_arch": [64, 64],
        "activation": "relu",
        "optim": {
            "name": "adam",
            "args": {"lr": 5.0e-4, "beta1": 0.9, "beta2": 0.999, "eps": 1.0e-8},
            "lr_schedule": {"mode": "constant"},
        },
        "max_grad_norm": 10.0,
        "gamma": 0.9,
        "batch_size": 256,
        "rollout_size": 256,
        "er": 0.05,
        "er_schedule": {"mode": "linear", "initial": 1.0, "steps": 1000},
        "tau": 1.0,
        "steps_before_update_target": 50,
        "huber_delta": 1.0,
    },
    "replay_buffer": {"buffer_size": 50000, "save": True, "prioritised": None},
    "dqn": {"double": True, "dueling": False, "n_step": 1, "minimax": False},
}

# studies/trainers/ppo_20x3.yaml, with a constant learning rate.
_PPO: Plain = {
    **_COMMON,
    "algorithm": "ppo",
    "steps": 400,
    "rollout_length": 32,
    "host": {
        "encoder": {"name": "flatten", "num_points": 8},
        "net_arch": [128, 128],
        "activation": "relu",
        "optim": {
            "name": "adam",
            "args": {"lr": 5.0e-5, "beta1": 0.9, "beta2": 0.999, "eps": 1.0e-7},
            "lr_schedule": {"mode": "constant"},
        },
        "max_grad_norm": 0.5,
        "gamma": 0.95,
        "rollout_size": 512,
        "value_net_arch": [64, 64],
        "init": "orthogonal",
        "last_policy_scale": 0.01,
    },
    "ppo": {
        "train_epochs": 3,
        "minibatch_size": 2048,
        "gae_lambda": 0.95,
        "recompute_advantages": True,
        "normalize_advantages": True,
        "clip_range": 0.2,
        "value_clip_range": None,
        "vf_coef": 0.5,
        "ent_coef": 0.01,
        "target_kl": None,
    },
}


def dqn_config(changes: Plain, host: Plain) -> DQNConfig:
    """Return the configuration of the quickstart, with keys changed at the root and of the host."""
    config = _read(_DQN, changes, host)
    assert isinstance(config, DQNConfig)
    return config


def ppo_config(changes: Plain, host: Plain) -> PPOConfig:
    """Return the configuration of ppo_20x3, with keys changed at the root and of the host."""
    config = _read(_PPO, changes, host)
    assert isinstance(config, PPOConfig)
    return config


def _read(given: Plain, changes: Plain, host: Plain) -> TrainerConfig:
    plain = given | changes | {"host": given["host"] | host}
    return read_config(plain, source="a benchmark")

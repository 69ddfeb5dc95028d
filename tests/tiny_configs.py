"""Complete trainer configurations of a game that trains in milliseconds a step, as plain data."""

_ROLE = {
    "encoder": {"name": "flatten", "num_points": 3},
    "net_arch": [8],
    "activation": "relu",
    "optim": {
        "name": "adam",
        "args": {"lr": 1.0e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1.0e-8},
        "lr_schedule": {"mode": "linear", "initial": 1.0e-2, "steps": 6},
    },
    "max_grad_norm": 1.0,
    "gamma": 0.9,
    "rollout_size": 8,
}
_DQN_ROLE = {
    **_ROLE,
    "batch_size": 16,
    "er": 0.2,
    "er_schedule": {"mode": "linear", "initial": 1.0, "steps": 8},
    "tau": 0.5,
    "steps_before_update_target": 3,
    "huber_delta": 0.5,
}

_PPO_ROLE = {
    **_ROLE,
    "value_net_arch": [6],
    "init": "orthogonal",
    "last_policy_scale": 0.01,
}

_COMMON = {
    "seed": 1,
    "device": "cpu",
    "precision": "fp32",
    "compile": "off",
    "deterministic": False,
    "detect_anomaly": False,
    "steps": 12,
    "end": {"games": None, "seconds": None, "target": None, "plateau": None},
    "dimension": 3,
    "max_num_points": 4,
    "max_value": 5,
    "max_steps": 6,
    "reposition": True,
    "reward": "terminal",
    "rollout_length": 2,
    "shards": 1,
    "rollouts": {"mode": "inline"},
    "opponents": None,
    "agent": {"player": "random"},
    "evaluation": {
        "interval": 4,
        "num_games": 20,
        "final_num_games": 30,
        "max_steps": 10,
        "er": 0.1,
        "opponents": ["choose_first", "zeillinger"],
    },
    "checkpoint": {
        "interval": 4,
        "seconds": None,
        "keep_last": 2,
        "best": None,
        "resume": "auto",
        "warm_start": None,
    },
    "monitor": {
        "interval": 2,
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

# By algorithm: a complete configuration of a game that trains in milliseconds a step.
CONFIGS = {
    "dqn": {
        **_COMMON,
        "algorithm": "dqn",
        "host": _DQN_ROLE,
        "updates_per_step": 2,
        "learning_starts": 1,
        "replay_buffer": {"buffer_size": 40, "save": True, "prioritised": None},
        "dqn": {"double": True, "dueling": False, "n_step": 1, "minimax": False},
    },
    "ppo": {
        **_COMMON,
        "algorithm": "ppo",
        "host": _PPO_ROLE,
        "ppo": {
            "train_epochs": 2,
            "minibatch_size": 6,
            "gae_lambda": 0.95,
            "recompute_advantages": True,
            "normalize_advantages": True,
            "clip_range": 0.2,
            "value_clip_range": 0.3,
            "vf_coef": 0.5,
            "ent_coef": 0.01,
            "target_kl": None,
        },
    },
}

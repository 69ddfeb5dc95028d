"""A study's trials as runs of a tracker: Weights & Biases, or MLflow."""

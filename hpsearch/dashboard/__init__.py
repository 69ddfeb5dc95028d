"""Optuna's dashboard of one study, on a copy of its trials, with our figures and files in it."""

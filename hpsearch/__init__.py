"""hpsearch: hyperparameter and population-based search for players of the polyhedral game."""

__version__ = "0.2.0"

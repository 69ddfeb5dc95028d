"""The audit: whether events, Optuna's tables and files of a study tell the same; never writes."""

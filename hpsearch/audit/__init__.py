"""The audit: whether events, Optuna's tables and files of a study agree; never writes."""

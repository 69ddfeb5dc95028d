"""Optuna's dashboard of one study, on a copy of its trials, with our own figures and files in it.

`source.py` keeps the copy up to date where no driver does, `shown.py` is the copy in memory as
Optuna's dashboard asks for it, `figures.py` and `files.py` are what we add, `read_only.py`
refuses what would change something, `remembering.py` answers twice what was asked twice.
"""

"""Versions of the tables of hpsearch, in their own version table beside Optuna's.

A new version is a new file in versions/ whose ``down_revision`` is the one before it.
"""

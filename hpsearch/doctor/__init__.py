"""Preflight: whether a study can run here, a small check for each thing that may be wrong."""

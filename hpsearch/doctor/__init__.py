"""Preflight: whether a study can run here, one small check a thing that goes wrong at times."""

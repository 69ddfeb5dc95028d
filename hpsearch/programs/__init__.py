"""Trials that are any program: their configuration, and the folder that is a program's own."""

"""Populations of players: who is stronger than whom."""

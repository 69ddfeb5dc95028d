"""Populations of players: how strong they are, and which come next."""

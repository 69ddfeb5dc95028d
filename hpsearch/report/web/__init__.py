"""What all served pages have in common: `guard.py` says who may look, `server.py` listens."""

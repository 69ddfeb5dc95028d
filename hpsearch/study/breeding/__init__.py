"""Populations in the driver: members, the matches that judge them, and who comes next."""

"""What users do with studies and players, from Python and by commands."""

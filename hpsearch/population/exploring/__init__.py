"""Which hyperparameters a child tries; numpy alone."""

"""Which of several candidates is the best, from a few seeds of each; numpy alone."""

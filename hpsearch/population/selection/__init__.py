"""Which members live on, and who their parents are; numpy alone."""

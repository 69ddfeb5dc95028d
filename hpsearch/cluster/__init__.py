"""Jobs: where they are submitted, what they do, the files by which they speak with the driver."""

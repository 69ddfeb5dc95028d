"""Learning: trainers of host and agent players, each for a whole population at once.

Nothing is imported here, so that ``trainers.config`` can be read without torch.
"""

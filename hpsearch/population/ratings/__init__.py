"""How strong every host and agent is, by what cross-play measured; numpy and scipy, no torch."""

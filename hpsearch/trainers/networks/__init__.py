"""Networks of a whole population."""

from hpsearch.trainers.networks.layers import Inputs
from hpsearch.trainers.networks.network import Arithmetic, Network, Tower, num_weights

__all__ = ["Arithmetic", "Inputs", "Network", "Tower", "num_weights"]

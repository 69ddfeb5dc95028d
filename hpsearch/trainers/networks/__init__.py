"""Networks of a whole population."""

from hpsearch.trainers.networks.encoders import Inputs
from hpsearch.trainers.networks.network import Arithmetic, Network, num_weights
from hpsearch.trainers.networks.tower import Tower

__all__ = ["Arithmetic", "Inputs", "Network", "Tower", "num_weights"]

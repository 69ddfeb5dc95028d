"""Networks of a whole population."""

from hpsearch.trainers.networks.encoders import Inputs
from hpsearch.trainers.networks.network import Arithmetic, Network, Tower

__all__ = ["Arithmetic", "Inputs", "Network", "Tower"]

"""Networks of a whole population."""

from hpsearch.trainers.config.weight_layout import Inputs, Tower
from hpsearch.trainers.networks.network import Arithmetic, Network

__all__ = ["Arithmetic", "Inputs", "Network", "Tower"]

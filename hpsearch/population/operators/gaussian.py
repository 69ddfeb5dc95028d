"""Gaussian mutation: noise on every weight, as large as its layer's weights say.

Axes: P members, W weights of one member.
"""

from torch import Tensor

from hpsearch.game.stream import Stream
from hpsearch.population.operators.checks import check_members, check_numbers
from hpsearch.population.operators.children import child
from hpsearch.population.operators.noise import normal
from hpsearch.population.operators.units import layer_sizes
from hpsearch.trainers.networks import Network


def gaussian_mutation(net: Network, *, strength: Tensor, stream: Stream) -> Network:
    """Return children whose weights differ from their parents' by normal noise.

    Its standard deviation is ``strength`` times the root mean square of the layer's own weights,
    for the bias too, which may be 0; a norm's is that of its scale. So ``strength`` means the same
    in wide and narrow layers, whose weights differ in size. Running statistics stay those of the
    parent.

    Args:
        net: P parents.
        strength: float32 (P,), 0 for no change.
        stream: one row a member.

    Raises:
        ValueError: if ``strength`` or ``stream`` is not of P members.
    """
    check_numbers(net, strength=strength)
    check_members(net, stream=stream)
    size = layer_sizes(net)
    noise = normal(stream, net.weights.shape[1])
    return child(net, net.weights + strength[:, None] * size * noise, net.statistics)

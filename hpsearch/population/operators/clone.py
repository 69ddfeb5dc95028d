"""Copies: children that are what their parents are.

The exploit step of population based training (Jaderberg et al., arXiv 1711.09846).
"""

from collections.abc import Mapping

from torch import Tensor

from hpsearch.population.operators.children import child, every_member
from hpsearch.trainers.networks import Network


def clone(net: Network) -> Network:
    """Return a copy of all members, which shares no memory with ``net``."""
    return clone_members(net, every_member(net))


def clone_members(net: Network, members: Tensor) -> Network:
    """Return copies of the members int64 (Q,), each as often as it stands there.

    Raises:
        ValueError: if there is no such member.
    """
    num_members = net.weights.shape[0]
    if ((members < 0) | (members >= num_members)).any():
        raise ValueError(f"members must be in 0..{num_members - 1}, got {members.tolist()}")
    return child(net, net.weights[members], net.statistics[members])


def host_and_agent(
    host_of: Mapping[str, Network], agent_of: Mapping[str, Network]
) -> dict[str, Network]:
    """Return copies of the host of one parent and of the agent of the other.

    Either parent may lack the role that is not taken from it; a child of two parents needs no
    common structure.

    Raises:
        ValueError: if a parent lacks the role that is to be taken from it.
    """
    found = {}
    for role, parent in (("host", host_of), ("agent", agent_of)):
        if role not in parent:
            raise ValueError(f"the {role}'s parent must have learned the {role}, got {[*parent]}")
        found[role] = clone(parent[role])
    return found

"""What members have in common and what their children may change, told from configurations."""

from collections.abc import Mapping
from itertools import pairwise

from hpsearch.plain import leaves
from hpsearch.study.parameters import Parameter
from hpsearch.study.spec import Study
from hpsearch.trainers.config import CommonConfig, read_config
from hpsearch.trainers.net_arch import Linear, Residual, parse


def explorable(study: Study) -> dict[str, Parameter]:
    """Return the parameters that members of one shape may differ in, in the space's order.

    Children inherit the others with their parents' weights, which would not fit elsewhere.
    """
    (base,) = study.bases.values()
    found = {leaf.path: leaf.per_member for leaf in leaves(read_config(base, source="base"))}
    return {
        name: study.space.parameters[name]
        for name in study.space.order
        if _is_per_member(name, found)
    }


def _is_per_member(name: str, found: Mapping[str, bool]) -> bool:
    """Return whether all values at or below a path may differ between members."""
    inside = [
        marked
        for path, marked in found.items()
        if path == name or path.startswith(f"{name}.") or name.startswith(f"{path}.")
    ]
    return bool(inside) and all(inside)


def size(config: CommonConfig) -> float:
    """Return the number of weights between the hidden layers of all learning roles."""
    return float(sum(_size(role.net_arch) for role in config.learning().values()))


def _size(net_arch: tuple[object, ...]) -> int:
    layers = [layer for layer in parse(net_arch) if isinstance(layer, Linear | Residual)]
    inner = sum(layer.width**2 for layer in layers if isinstance(layer, Residual))
    widths = [layer.width for layer in layers]
    return sum(widths[:1]) + inner + sum(a * b for a, b in pairwise(widths))

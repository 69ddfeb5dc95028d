"""What members have in common and what their children may change, told from configurations."""

from collections.abc import Mapping

from hpsearch.plain import leaves
from hpsearch.study.parameters import Parameter
from hpsearch.study.spec import Study
from hpsearch.trainers.config import CommonConfig, read_config
from hpsearch.trainers.net_arch import Linear, Residual, parse


def explorable(study: Study) -> dict[str, Parameter]:
    """Return the parameters that members of one shape may differ in, in the space's order.

    Children inherit the others with their parents' weights, which would not fit elsewhere, and with
    them those that decide whether the others exist.
    """
    (base,) = study.bases.values()
    found = {leaf.path: leaf.per_member for leaf in leaves(read_config(base, source="base"))}
    parameters, inherited = study.space.parameters, set[str]()
    for name in reversed(study.space.order):
        if name in inherited or not _is_per_member(name, found):
            inherited |= {name, *parameters[name].when}
    return {name: parameters[name] for name in study.space.order if name not in inherited}


def _is_per_member(name: str, found: Mapping[str, bool]) -> bool:
    """Return whether all values at or below a path may differ between members."""
    inside = [
        marked
        for path, marked in found.items()
        if path == name or path.startswith(f"{name}.") or name.startswith(f"{path}.")
    ]
    return bool(inside) and all(inside)


def size(config: CommonConfig) -> float:
    """Return the number of weights between the hidden layers of all learning roles.

    As if each had one input: how many there are is the same for all members.
    """
    return float(sum(_size(role.net_arch) for role in config.learning().values()))


def _size(net_arch: tuple[object, ...]) -> int:
    total, num_inputs = 0, 1
    for layer in parse(net_arch):
        match layer:
            case Linear(width):
                total += num_inputs * width
                num_inputs = width
            case Residual(width):
                ways = 1 if width == num_inputs else 2  # around the block, another is projected
                total += ways * num_inputs * width + width * width
                num_inputs = width
    return total

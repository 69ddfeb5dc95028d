"""What members have in common and what their children may change, told from configurations."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hpsearch.plain import leaves
from hpsearch.study.parameters import Parameter
from hpsearch.study.space import Config, SearchSpace
from hpsearch.trainers.config import CommonConfig, read_config
from hpsearch.trainers.net_arch import Linear, Residual, parse

if TYPE_CHECKING:  # which checks its file by what stands here
    from hpsearch.study.spec import Study


def explorable(study: "Study") -> dict[str, Parameter]:
    """Return the parameters of a population that members of one shape may differ in."""
    (base,) = study.bases.values()
    return explorable_of(base, study.space)


def explorable_of(base: Config, space: SearchSpace) -> dict[str, Parameter]:
    """Return the parameters that members of one shape may differ in, in the space's order.

    Children inherit the others with their parents' weights, which would not fit elsewhere, and with
    them those that decide whether the others exist.
    """
    found = {leaf.path: leaf.per_member for leaf in leaves(read_config(base, source="base"))}
    parameters, inherited = space.parameters, set[str]()
    for name in reversed(space.order):
        if name in inherited or not _is_per_member(name, found):
            inherited |= {name, *parameters[name].when}
    return {name: parameters[name] for name in space.order if name not in inherited}


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
    return float(sum(num_weights(role.net_arch, 1) for role in config.learning().values()))


def num_weights(net_arch: Sequence[Any], num_inputs: int) -> int:
    """Return the number of weights of hidden layers, without biases and norms."""
    total = 0
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

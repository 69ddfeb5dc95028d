"""What members have in common and what their children may change, told from configurations."""

from collections.abc import Mapping

from hpsearch.config_paths import Config
from hpsearch.parameters import Parameter
from hpsearch.plain import leaves
from hpsearch.study.space import SearchSpace
from hpsearch.trainers.config import CommonConfig, read_config
from hpsearch.trainers.policy_size import policy_size


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
    """Return the number of weights of the networks by which the learning roles play."""
    return float(sum(policy_size(name, config) for name in config.learning()))

"""How members' networks can grow inside a search space, for the operator `grow`."""

from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import Any

from hpsearch.config_paths import Config, apply
from hpsearch.parameters import CategoricalParameter, Parameter, label_of
from hpsearch.plain import to_plain
from hpsearch.population.operators.growth import Ground, ground_of, widened
from hpsearch.study.space import SearchSpace
from hpsearch.trainers.config import CommonConfig, read_config
from hpsearch.trainers.config.players import net_arch_faults
from hpsearch.trainers.net_arch import parse
from hpsearch.trainers.policy_size import policy_size


def growths_of(
    params: Mapping[str, Any], config: CommonConfig, space: SearchSpace
) -> Iterator[dict[str, Any]]:
    """Yield what changes where a role grows into the next larger net_arch that there is.

    Once for each role that can: the value of its net_arch, as Optuna stores it. Under it the same
    parameters exist as before, so that nothing but the net_arch differs.

    Args:
        params: of the trial that is to grow, as Optuna stores them.
        config: which these make.
        space: of the study.
    """
    for role, learned in config.learning().items():
        path = f"{role}.net_arch"
        choices = _choices(space.parameters.get(path)) if path in params else []
        on = ground_of(config, role)
        larger = [
            choice
            for choice in choices
            if _can_grow(learned.net_arch, choice, on)
            and _keeps_others(params, {path: label_of(choice)}, space)
        ]
        if larger:
            smallest = min(larger, key=lambda choice: _size(config, role, choice))
            yield {path: label_of(smallest)}


def _size(config: CommonConfig, role: str, net_arch: Any) -> int:
    """Return the number of weights by which a role would play with another net_arch."""
    grown = apply(to_plain(config), {f"{role}.net_arch": net_arch})
    return policy_size(role, read_config(grown, source=""))


def growth_problems(where: str, space: Mapping[str, Parameter], base: Config) -> Iterator[str]:
    """Yield that no network can grow, if none can.

    Args:
        where: the operator's place in the study file.
        space: its parameters by path.
        base: its base configuration.
    """
    config = read_config(base, source="")
    paths = [f"{role}.net_arch" for role in config.learning()]
    if any(_may_grow(role, space, config) for role in config.learning()):
        return
    offered = {path: _choices(space.get(path)) for path in paths}
    yield (
        f"{where} is grow, which needs a categorical parameter {' or '.join(paths)} of whose "
        "choices one can grow into another, by wider layers or, after relu, by more layers that "
        f"are as wide as the ones before them, but the choices are {offered}; offer such as "
        "[64] and [128, 128], or leave grow out"
    )


def _may_grow(role: str, space: Mapping[str, Parameter], config: CommonConfig) -> bool:
    """Return whether any choice of a role's net_arch can grow into another one."""
    choices = _choices(space.get(f"{role}.net_arch"))
    # Under other encoders and activations, other networks grow; which, a match will tell.
    others = {path for path in space if _decides_ground(path, role)}
    on = ground_of(config, role)
    return any(others or _can_grow(old, new, on) for old, new in permutations(choices, 2))


def _decides_ground(path: str, role: str) -> bool:
    first, *rest = path.split(".")
    return first == role and (not rest or rest[0] in ("encoder", "activation"))


def _choices(parameter: Parameter | None) -> list[Any]:
    """Return the net_arches that a parameter offers; of others the space's own check tells."""
    offered = parameter.choices if isinstance(parameter, CategoricalParameter) else ()
    return [
        one
        for one in offered
        if isinstance(one, list) and not any(net_arch_faults("net_arch", tuple(one)))
    ]


def _can_grow(old: Any, new: Any, on: Ground) -> bool:
    """Return whether one net_arch can grow into another one."""
    before, after = parse(old), parse(new)
    return before != after and widened(before, after, on) is not None


def _keeps_others(params: Mapping[str, Any], change: Mapping[str, Any], space: SearchSpace) -> bool:
    """Return whether the same parameters exist after a change as before it."""
    values = space.decode({**params, **change})
    return all(space.is_active(name, values) == (name in params) for name in space.order)

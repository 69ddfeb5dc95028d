"""The names of metrics: what the trained roles are measured by, known without torch."""

from collections.abc import Iterator, Mapping

MODES = ("rho", "rho_sampled")
PANELS = {
    "host": ("choose_first", "choose_last", "random"),
    "agent": ("random", "all_coord", "zeillinger"),
}


def metric_names(opponents: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Yield the metrics that learning roles with these ``opponents`` are measured by."""
    for role, names in opponents.items():
        for mode in MODES:
            yield from (f"{mode}/{role}/{name}" for name in names)
            if set(PANELS[role]) <= set(names):
                yield panel_name(mode, role)
                yield worst_name(mode, role)


def panel_name(mode: str, role: str) -> str:
    return f"{mode.replace('rho', 'panel')}/{role}"


def worst_name(mode: str, role: str) -> str:
    """Return the metric of a role against that opponent of its panel which it does worst against.

    The least rho for a host, the greatest for an agent.
    """
    return f"{mode.replace('rho', 'worst')}/{role}"


def exploitability_name(role: str) -> str:
    """Return the name of what a best response takes from a role, in rho: the less the better."""
    return f"exploitability/{role}"


def entropy_name(mode: str, role: str) -> str:
    """Return the name of the entropy, in nats, of a role's actions against all its opponents."""
    return f"{mode.replace('rho', 'entropy')}/{role}"

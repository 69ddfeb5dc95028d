"""Where trials of a population come from, in the words of their folders."""

from pathlib import Path

from hpsearch.cluster.lineage import Fresh, Lineage, Parent
from hpsearch.cluster.study_dir import final_checkpoint
from hpsearch.population.operators.options import Clone, Grow, OperatorOptions
from hpsearch.population.options import PopulationOptions
from hpsearch.schema import read_hint
from hpsearch.study.breeding.records import Origin


def lineage_of(origin: Origin, seed: int, options: PopulationOptions, folder: Path) -> Lineage:
    """Return what a trial's folder says of where it comes from.

    Args:
        origin: as it was planned.
        seed: the trial's own.
        options: of the population.
        folder: of the study file, from which founders are named.
    """
    operator = read_hint(Fresh | OperatorOptions, dict(origin.operator), source=origin.key)
    # What grows plays as before, and a copy of its parent would not be of its shape.
    is_exact = isinstance(operator, Fresh | Clone | Grow)
    return Lineage(
        operator=operator,
        seed=seed,
        parents=_parents(origin, options, folder),
        generation=origin.generation,
        member=origin.member,
        trying=None if is_exact else options.adoption,
    )


def _parents(origin: Origin, options: PopulationOptions, folder: Path) -> tuple[Parent, ...]:
    if not origin.parents and origin.founder is not None:
        return (Parent(None, str((folder / options.founders[origin.founder]).absolute())),)
    parents = zip(origin.parents, origin.parent_steps, strict=True)
    return tuple(Parent(trial, final_checkpoint(trial, steps)) for trial, steps in parents)

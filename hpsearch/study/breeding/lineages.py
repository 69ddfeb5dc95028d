"""Where trials of a population come from, in the words of their folders."""

from hpsearch.cluster.lineage import Fresh, Lineage, Parent, Trying
from hpsearch.cluster.study_dir import final_checkpoint
from hpsearch.population.operators.options import Clone, OperatorOptions
from hpsearch.population.options import PopulationOptions
from hpsearch.schema import read_hint
from hpsearch.study.breeding.records import Origin


def lineage_of(origin: Origin, seed: int, options: PopulationOptions) -> Lineage:
    """Return what a trial's folder says of where it comes from."""
    operator = read_hint(Fresh | OperatorOptions, dict(origin.operator), source=origin.key)
    parents = zip(origin.parents, origin.parent_steps, strict=True)
    adoption = options.adoption
    is_tried = adoption is not None and not isinstance(operator, Fresh | Clone)
    return Lineage(
        operator=operator,
        seed=seed,
        parents=tuple(Parent(trial, final_checkpoint(trial, steps)) for trial, steps in parents),
        generation=origin.generation,
        member=origin.member,
        trying=Trying(adoption.num_games, adoption.confidence) if is_tried and adoption else None,
    )

"""The ancestry of trials, for their folders, the graph and selection; islands; past gains."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from hpsearch.cluster.records import Birth, Exchanges, Fresh, Island, Lineage, Parent
from hpsearch.cluster.study_dir import final_checkpoint
from hpsearch.parameters import CategoricalParameter
from hpsearch.population.explore import Generation
from hpsearch.population.operators.options import Clone, Grow, HostAndAgent, OperatorOptions
from hpsearch.population.options import Model, PopulationOptions, Schedule
from hpsearch.schema import read_hint
from hpsearch.study.events import Node
from hpsearch.study.records import COMPLETE, PlannedTrial, Trial
from hpsearch.study.space import SearchSpace
from hpsearch.study.state import StudyState

MAX_INTERVALS = 300  # the newest ones, since a model's time grows with the cube of their number


def lineage_of(
    origin: PlannedTrial, seed: int, options: PopulationOptions, folder: Path
) -> Lineage:
    """Return what a trial's folder says of its origin; founders are named from ``folder``."""
    operator = read_hint(Fresh | OperatorOptions, dict(origin.operator), source=origin.key)
    # What grows plays as before, and a copy of its parent would not be of its shape.
    is_exact = isinstance(operator, Fresh | Clone | Grow)
    if not origin.parents and origin.founder is not None:
        parents = [Parent(None, str((folder / options.founders[origin.founder]).absolute()))]
    else:
        trials = zip(origin.parents, origin.parent_steps, strict=True)
        parents = [Parent(trial, final_checkpoint(trial, steps)) for trial, steps in trials]
    return Lineage(
        operator=operator,
        seed=seed,
        parents=tuple(parents),
        generation=origin.generation,
        member=origin.member,
        trying=None if is_exact else options.adoption,
    )


def island_number(origin: PlannedTrial | None, options: PopulationOptions | None) -> int | None:
    if origin is None or options is None or options.islands is None:
        return None
    return origin.member // options.islands.members


def island_of(
    origin: PlannedTrial, options: PopulationOptions, space: SearchSpace, seed: int
) -> Island | None:
    """Return what a trial's job is told of its island, None if there are no islands."""
    number, islands, explore = island_number(origin, options), options.islands, options.explore
    if islands is None:
        return None
    assert not isinstance(explore, Schedule), "refused with islands"
    return Island(
        name=f"study {seed} island {number} after match {origin.generation}",
        steps=options.steps_of_schedule,
        matches=replace(options.matches, num_games=islands.num_games, archive=0),
        selection=islands.selection,
        # A model of improvements learns from matches of all alone.
        explore=explore.perturb if isinstance(explore, Model) else explore,
        parameters={
            path: parameter
            for path, parameter in space.parameters.items()
            if not isinstance(parameter, CategoricalParameter)  # which are refused with islands
        },
    )


@dataclass(frozen=True)
class TrialAncestry:
    trial: Trial
    known: Mapping[int, Trial]  # all trials by number
    seed: int
    birth: Birth | None
    exchanges: Exchanges

    def node(self, step: int, sha256: str) -> Node:
        """Return the node of the checkpoint of a step: a copy's, once one took the place."""
        takeovers = self.exchanges.before(step).takeovers
        if takeovers:
            operator, adopted = Clone().name, None
            hashes: tuple[str, ...] = (takeovers[-1].sha256,)
            changes = {path: list(pair) for path, pair in takeovers[-1].changes.items()}
        else:
            origin, after = self.trial.origin, self.trial.params
            assert origin is not None, "it is a trial of a population"
            operator = origin.operator["name"]
            adopted = None if self.birth is None else self.birth.adopted
            parents = [self.known[number] for number in origin.parents]
            hashes = tuple(parent.sha256 or "" for parent in parents)
            before = parents[0].last_params if parents else after
            changes = {
                name: [before.get(name), after.get(name)]
                for name in dict.fromkeys([*before, *after])
                if before.get(name) != after.get(name)
            }
        number = self.trial.number
        return Node(number, step, sha256, hashes, operator, adopted, self.seed, changes)


def unreferenced(state: StudyState) -> Iterator[int]:
    """Yield the finished trials from which none comes or will: no parent, champion or member."""
    population = state.population
    if not population.has_begun:
        return
    plans = [*population.planned]
    plans += [trial.origin for trial in state.trials.values() if trial.origin is not None]
    needed = {parent for plan in plans for parent in plan.parents}
    playing = () if population.match is None else population.match.members.values()
    needed |= {*population.archive, *population.finished.values(), *playing}
    finished = (trial.number for trial in state.told(COMPLETE))
    yield from (number for number in finished if number not in needed)


# Families: whose networks began as the same ones.


def families(trial: Trial, roles: tuple[str, ...], known: Mapping[int, Trial]) -> tuple[str, ...]:
    """Return what a trial's networks began as: of each role a name that its whole family shares.

    Along first parents, which give all that an operator does not make, and along the copies that
    took a trial's place on its island. A mixture of two families counts to its first parent's.
    """
    return tuple(_family(trial, role, known) for role in roles)


def _family(trial: Trial, role: str, known: Mapping[int, Trial]) -> str:
    before = None  # only copies made before this step count; None: all copies
    while True:
        copies = [copy for copy in trial.takeovers if before is None or copy.step < before]
        origin = trial.origin
        if copies:
            # What a source gives at a step, it had before it took anything at that step.
            trial, before = known[copies[-1].source], copies[-1].source_step
        elif origin is not None and origin.parents:
            is_joined = origin.operator["name"] == HostAndAgent.name and trial.is_adopted
            parent = origin.parents[1 if is_joined and role == "agent" else 0]
            trial, before = known[parent], None
        elif origin is not None and origin.founder is not None:
            return f"founder {origin.founder}"
        else:
            return f"trial {trial.number}"


# What past intervals improved: what a model of improvements learns from.


StrengthsByMatch = Mapping[int, Mapping[int, float]]  # by match and trial


def improvements(strengths: StrengthsByMatch, known: Mapping[int, Trial]) -> list[Generation]:
    """Return how much stronger each interval made its member, less what all members gained.

    From the match that planned the interval to the first that judged it, in which every member that
    plays has gained on itself, or on its ancestor in the former. The opponents of a match are its
    own, so strengths of two matches differ by more than what was learned. What became a copy of
    another on its island has gained by that. At most `MAX_INTERVALS` are returned, the newest
    first.
    """
    judged = (_judged_by(match, strengths, known) for match in sorted(strengths, reverse=True))
    return list(islice(chain.from_iterable(judged), MAX_INTERVALS))


def _judged_by(
    match: int, strengths: StrengthsByMatch, known: Mapping[int, Trial]
) -> Iterator[Generation]:
    planned: dict[int, list[int]] = {}  # by the match that planned them
    for trial in strengths[match]:
        origin = known[trial].origin
        is_interval = origin is not None and origin.trains and _parent(known[trial]) is not None
        if origin is not None and is_interval and trial not in strengths.get(match - 1, {}):
            planned.setdefault(origin.generation, []).append(trial)
    for since, trials in planned.items():
        gains = _gains(match, since, strengths, known)
        common = sum(gains.values()) / len(gains)
        for trial in trials:
            yield Generation(known[trial].last_params, match, gains[trial] - common)


def _gains(
    match: int, since: int, strengths: StrengthsByMatch, known: Mapping[int, Trial]
) -> dict[int, float]:
    """Return how much stronger trials are than their ancestors in match ``since``, where known."""
    gains = {}
    for trial, strength in strengths[match].items():
        ancestor: int | None = trial
        while ancestor is not None and ancestor not in strengths[since]:
            ancestor = _parent(known[ancestor])
        if ancestor is not None:
            gains[trial] = strength - strengths[since][ancestor]
    return gains


def _parent(trial: Trial) -> int | None:
    """Return the trial that this one went on from; None without one, or once it became a copy."""
    origin = trial.origin
    return (
        origin.parents[0] if origin is not None and origin.parents and not trial.takeovers else None
    )

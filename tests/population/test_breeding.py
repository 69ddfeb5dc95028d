"""The plan of a generation: species, operators, explored parameters, and that it repeats."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpsearch.parameters import CategoricalParameter, FloatParameter
from hpsearch.population.breeding import JudgedMember, breed, breed_untrained
from hpsearch.population.explore import Exploring, Generation
from hpsearch.population.fitness import OpponentWeights, Scores
from hpsearch.population.operator_record import OperatorRecord
from hpsearch.population.operators import options as kinds
from hpsearch.population.operators.options import (
    AlignedAverage,
    Clone,
    Distillation,
    DistillationCrossover,
    GaussianMutation,
    Grow,
    HostAndAgent,
)
from hpsearch.population.options import (
    Closing,
    Keep,
    Model,
    Pareto,
    Perturb,
    PopulationOptions,
    Tournament,
    Truncation,
)

LR = FloatParameter(1e-5, 1.0, log=True)
GAMMA = FloatParameter(0.5, 1.0)
HALF = Truncation(share=0.5)
AVERAGE = AlignedAverage("aligned_average", 0.5)
LEARNING = Distillation(5, 8, 1e-3, 0.9, 0.999, 1e-8, 0.1, 0.5, "standardised")
DISTILLATION = DistillationCrossover("distillation", LEARNING)
MUTATION = GaussianMutation("gaussian_mutation", 0.1)


@dataclass(frozen=True)
class Blend:
    """An operator that was added as ADDING.md says."""

    name: Literal["blend"] = "blend"


def rng(seed=0):
    return np.random.default_rng(seed)


def options(**changes):
    return PopulationOptions(**({"members": 4, "interval": 8, "selection": HALF} | changes))


def members(
    num, shapes="same", *, families=None, ended=None, is_pair=False, params=None, growths=()
):
    return [
        JudgedMember(
            params=(params or {}) | {"lr": 10.0 ** -(1 + place % 4), "net": place},
            has_ended=ended is None or place in ended,
            shape=shapes[place] if shapes != "same" else shapes,
            families=(families[place] if families else f"trial {place}",),
            is_pair=is_pair,
            growths=growths,
        )
        for place in range(num)
    ]


def sure_scores(*strengths, agents=0.0):
    """Return scores without noise, of which ``agents`` are the agents' part."""
    samples = np.tile(np.array(strengths, dtype=float), (20, 1))
    objectives = samples[:, :, None]
    roles = np.stack(np.broadcast_arrays(samples[0] - agents, agents), axis=1)
    return Scores(
        samples, samples, objectives, objectives, roles, OpponentWeights(np.ones(1), np.ones(1))
    )


def exploring(history=(), **parameters):
    return Exploring(parameters or {"lr": LR}, lambda name, values: True, history, 1)


def plan(rules, who, scores, known=None, *, num_vacant=0, seed=0, records=None):
    return breed(
        rules, who, scores, known or exploring(), records or {}, rng(seed), num_vacant=num_vacant
    )


def test_who_goes_on_is_not_changed_and_children_are():
    who = members(4)
    planned = plan(options(), who, sure_scores(3, 1, 4, 2))
    assert sorted(planned.places) == [0, 1, 2, 3]
    assert not planned.vacancies
    for place in (0, 2):
        heir = planned.places[place]
        assert (heir.parents, heir.operator, heir.is_child) == ((place,), Clone(), False)
        assert heir.params == who[place].params
    for place in (1, 3):
        heir = planned.places[place]
        (parent,) = heir.parents
        assert heir.is_child
        assert parent in (0, 2)
        assert heir.params["net"] == who[parent].params["net"]
        assert heir.params["lr"] != who[parent].params["lr"]


def test_only_those_whose_interval_has_ended_are_planned_for():
    planned = plan(options(), members(4, ended={1, 2}), sure_scores(3, 1, 4, 2))
    assert sorted(planned.places) == [1, 2]
    assert planned.places[1].parents[0] in (0, 2)  # who still trains can be a parent as it last was


def test_the_places_of_the_lost_go_to_children():
    planned = plan(options(), members(3), sure_scores(3, 1, 4), num_vacant=2)
    assert len(planned.places) == 3
    assert len(planned.vacancies) == 2
    assert all(vacancy.is_child for vacancy in planned.vacancies)


def test_the_last_one_left_fills_all_places():
    for selection in (HALF, Tournament("tournament"), Pareto("pareto", ("strength",))):
        planned = plan(
            options(selection=selection, operators=(AVERAGE,)),
            members(1),
            sure_scores(3),
            num_vacant=3,
        )
        assert [vacancy.parents for vacancy in planned.vacancies] == [(0,)] * 3
        assert {vacancy.operator for vacancy in planned.vacancies} == {Clone()}


@settings(deadline=None, max_examples=60)
@given(
    shapes=st.text("ab", min_size=2, max_size=8),
    strengths=st.randoms(use_true_random=False),
    selection=st.sampled_from([HALF, Tournament("tournament", size=2), Pareto("pareto")]),
    seed=st.integers(0, 99),
)
def test_species_keep_their_shape(shapes, strengths, selection, seed):
    num = len(shapes)
    scores = sure_scores(*(strengths.random() for _ in range(num)))
    rules = options(members=num, selection=selection, operators=(Clone(), AVERAGE, MUTATION))
    planned = plan(rules, members(num, shapes), scores, seed=seed)
    for place, heir in planned.places.items():
        assert {shapes[parent] for parent in heir.parents} == {shapes[place]}
        assert heir.params["net"] == heir.parents[0]


def test_two_different_parents_where_an_operator_needs_them():
    rules = options(operators=(AVERAGE,), selection=Tournament("tournament", size=1))
    for seed in range(20):
        planned = plan(rules, members(4), sure_scores(3, 1, 4, 2), seed=seed)
        for place in planned.places.values():
            assert len(set(place.parents)) == (2 if place.is_child else 1)
            assert place.operator == (AVERAGE if place.is_child else Clone())


def test_an_operator_that_is_added_to_those_of_two_parents_gets_two(monkeypatch):
    monkeypatch.setattr(kinds, "TwoParents", kinds.TwoParents | Blend)
    planned = plan(options(operators=(Blend(),)), members(4), sure_scores(3, 1, 4, 2))
    children = [place for place in planned.places.values() if place.is_child]
    assert children
    assert {(child.operator, len(child.parents)) for child in children} == {(Blend(), 2)}


@pytest.mark.parametrize("is_pair", [True, False])
def test_only_pairs_exchange_their_players(is_pair):
    rules = options(operators=(HostAndAgent(),))
    planned = plan(rules, members(4, is_pair=is_pair), sure_scores(3, 1, 4, 2))
    children = [place for place in planned.places.values() if place.is_child]
    assert {type(child.operator) for child in children} == {HostAndAgent if is_pair else Clone}


@pytest.mark.parametrize(
    ("hosts", "agents", "parents"), [((3, 1), (0, 1), (0, 1)), ((0, 2), (3, -1), (1, 0))]
)
def test_a_pair_keeps_its_better_player_and_gets_the_others(hosts, agents, parents):
    """Member 0 is the stronger one, by its host or by its agent."""
    who = members(2, is_pair=True)
    total = np.add(hosts, agents)
    planned = plan(
        options(operators=(HostAndAgent(),), explore=Keep("keep")),
        who,
        sure_scores(*total, agents=np.array(agents, dtype=float)),
    )
    child = planned.places[1]
    assert (child.parents, child.is_child) == (parents, True)
    assert child.params == who[parents[0]].params  # the host's parent gives all but the agent


def test_who_gives_one_player_is_drawn_by_that_player():
    """The weakest pair has the best agent, which the strongest one lacks."""
    agents = np.array([0.0, 1.0, 2.0, 9.0])
    scores = sure_scores(12, 11, 10, 9.5, agents=agents)
    rules = options(operators=(HostAndAgent(),), selection=Truncation(share=0.25))
    counts = Counter(
        plan(rules, members(4, is_pair=True), scores, seed=seed).places[3].parents
        for seed in range(600)
    )
    assert set(counts) <= {(0, 1), (0, 2), (0, 3)}
    assert counts[0, 3] / 600 == pytest.approx(5 / 9, abs=0.06)


GROW = Grow("grow", 0.01)
LARGER = ({"net": "large host"}, {"net": "large agent", "more": 1})


def test_a_child_that_grows_has_what_changes_and_explores_the_rest():
    """Also beside others of its species, which is no more its own."""
    rules = options(operators=(GROW,))
    seen = Counter()
    for seed in range(60):
        planned = plan(rules, members(4, growths=LARGER), sure_scores(3, 1, 4, 2), seed=seed)
        for heir in (planned.places[1], planned.places[3]):
            parent = members(4)[heir.parents[0]].params
            assert (heir.operator, heir.is_child, len(heir.parents)) == (GROW, True, 1)
            assert heir.params | {"lr": 0} in [parent | change | {"lr": 0} for change in LARGER]
            seen[heir.params["net"]] += 1
            seen["lr"] += heir.params["lr"] != parent["lr"]
        assert [planned.places[place].params for place in (0, 2)] == [
            members(4)[place].params for place in (0, 2)
        ]
    assert 40 <= seen["large host"] <= 80  # either role as often
    assert seen["lr"] > 60  # others are at a bound


def test_a_parent_that_cannot_grow_is_copied():
    who = members(4, growths=LARGER)
    who[2] = replace(who[2], growths=())  # the best, which replaces the worst
    rules = options(operators=(GROW,), selection=Truncation(share=0.25))
    child = plan(rules, who, sure_scores(3, 1, 4, 2)).places[1]
    assert (child.parents, child.operator, child.is_child) == ((2,), Clone(), True)
    assert child.params["net"] == 2


def test_children_that_keep_their_parameters_grow_all_the_same():
    rules = options(operators=(GROW,), explore=Keep("keep"))
    child = plan(rules, members(4, growths=LARGER[:1]), sure_scores(3, 1, 4, 2)).places[1]
    assert child.params == members(4)[child.parents[0]].params | LARGER[0]


def test_operators_are_drawn_by_how_their_children_fared():
    records = {"clone": OperatorRecord(98, 98), "gaussian_mutation": OperatorRecord(98, 24)}
    rules = options(
        members=2, operators=(Clone(), MUTATION), selection=Tournament("tournament", elites=0),
        floor=0.1,
    )  # fmt: skip
    drawn = Counter(
        place.operator.name
        for seed in range(500)
        for place in plan(
            rules, members(4), sure_scores(1, 2, 3, 4), seed=seed, records=records
        ).places.values()
    )
    # Qualities 0.99 and 0.25, of which the floor leaves 0.8.
    assert drawn["clone"] / drawn.total() == pytest.approx(0.1 + 0.8 * 0.99 / 1.24, abs=0.03)


def test_children_that_keep_their_parameters():
    planned = plan(options(explore=Keep("keep")), members(4), sure_scores(3, 1, 4, 2))
    who = members(4)
    assert all(place.params == who[place.parents[0]].params for place in planned.places.values())


def test_a_parameter_that_a_new_choice_brings_about_is_drawn():
    kind = CategoricalParameter(("plain", [1, 2]))
    known = Exploring(
        {"kind": kind, "lr": LR},
        lambda name, values: name == "kind" or values["kind"] == "[1, 2]",
        (),
        1,
    )
    rules = options(explore=Perturb(switch=1.0), selection=Tournament("tournament", elites=0))
    who = [replace(member, params={"kind": "plain", "net": 7}) for member in members(4)]
    seen = Counter()
    for seed in range(40):
        for place in plan(rules, who, sure_scores(3, 1, 4, 2), known, seed=seed).places.values():
            assert place.params["net"] == 7
            assert ("lr" in place.params) == (place.params["kind"] == "[1, 2]")
            seen[place.params["kind"]] += 1
    assert seen["plain"] > 40
    assert seen["[1, 2]"] > 40


def test_existence_is_decided_by_what_children_inherit_too():
    def is_active(name, values):
        return values["net"] % 2 == 0

    known = Exploring({"lr": LR}, is_active, (), 1)
    who = members(4)
    who = [
        member
        if member.params["net"] % 2 == 0
        else replace(member, params={"net": member.params["net"]})
        for member in who
    ]
    rules = options(selection=Tournament("tournament", size=1, elites=0))
    for seed in range(20):
        for place in plan(rules, who, sure_scores(3, 1, 4, 2), known, seed=seed).places.values():
            assert ("lr" in place.params) == (place.params["net"] % 2 == 0)


def test_weights_mix_with_kin_where_there_is_any():
    rules = options(members=6, operators=(AVERAGE,), selection=Tournament("tournament", size=6))
    who, scores = members(6, families="ababcc"), sure_scores(9, 1, 2, 8, 1, 0)
    others = options(members=6, operators=(DISTILLATION,), selection=rules.selection)
    taught, mixed = set(), set()
    for seed in range(40):
        mixed |= {place.parents for place in plan(rules, who, scores, seed=seed).places.values()}
        taught |= {place.parents for place in plan(others, who, scores, seed=seed).places.values()}
    assert mixed == {(0,), (0, 2)}  # the elite, and its children
    assert {second for _, second in taught - {(0,)}} > {2, 3}  # who teaches may be of any family


def test_weights_of_one_without_kin_mix_with_the_next_best():
    rules = options(operators=(AVERAGE,), selection=Tournament("tournament", size=4))
    seen = {
        place.parents[1]
        for seed in range(40)
        for place in plan(rules, members(4), sure_scores(3, 1, 4, 2), seed=seed).places.values()
        if place.is_child
    }
    assert seen == {0, 1, 3}


def test_the_model_sends_children_where_intervals_improved_most():
    seen = rng(3).uniform(0.5, 1.0, 40)
    history = [Generation({"gamma": g}, 1, -abs(g - 0.9)) for g in seen]
    rules = options(explore=Model("model", optimism=0.01))
    who = [replace(member, params={"gamma": 0.5}) for member in members(4)]
    planned = plan(rules, who, sure_scores(3, 1, 4, 2), exploring(history, gamma=GAMMA))
    children = [place.params["gamma"] for place in planned.places.values() if place.is_child]
    assert children == pytest.approx([0.9, 0.9], abs=0.1)


def test_the_same_games_give_the_same_plan():
    rules = options(operators=(Clone(), AVERAGE, MUTATION))
    first, second, other = (
        plan(rules, members(4), sure_scores(3, 1, 4, 2), seed=seed) for seed in (5, 5, 6)
    )
    assert first == second
    assert first != other


def test_operators_change_nothing_of_who_gives_way_and_what_is_explored():
    """So a child that is not adopted leaves a population as a clone does, bit for bit."""
    for seed in range(10):
        plain, mixed = (
            plan(options(operators=operators), members(4), sure_scores(3, 1, 4, 2), seed=seed)
            for operators in [(Clone(),), (AVERAGE, MUTATION, DISTILLATION)]
        )
        for place, heir in plain.places.items():
            other = mixed.places[place]
            assert (other.parents[0], other.params) == (heir.parents[0], heir.params)
            assert other.is_child == heir.is_child


def close(rules, who, scores, seed=0):
    assert rules.closing is not None
    return breed_untrained(rules, rules.closing, who, scores, {}, rng(seed))


def test_in_the_closing_children_of_the_better_half_take_the_places_of_the_others():
    rules = options(closing=Closing((MUTATION, AVERAGE)))
    who, seen = members(4, families=["one"] * 4, ended=set()), set()
    for seed in range(20):
        born = close(rules, who, sure_scores(3, 1, 4, 2), seed)
        assert set(born) == {1, 3}
        for origin in born.values():
            assert origin.is_child
            assert origin.parents[0] in (0, 2)
            assert origin.params == who[origin.parents[0]].params  # none trains by what is explored
            seen.add(origin.operator.name)
    assert seen == {"gaussian_mutation", "aligned_average"}


def test_in_the_closing_any_difference_counts_and_none_does_not():
    rules = options(closing=Closing((MUTATION,)), selection=Truncation(share=0.25, confidence=1.0))
    noise = rng(3).normal(size=(200, 4)) + np.array([0.5, -0.5, 0.5, -0.5])
    unsure = replace(sure_scores(0, 0, 0, 0), naming=noise, confirming=noise)
    assert set(close(rules, members(4), unsure)) == {1, 3}
    assert not close(rules, members(4), sure_scores(1, 1, 1, 1))


def test_in_the_closing_who_finds_no_mate_has_no_child():
    rules = options(closing=Closing((AVERAGE,)))
    assert not close(rules, members(4, "abcd"), sure_scores(3, 1, 4, 2))


def test_in_the_closing_species_are_joined_by_its_own_distillation():
    for closing, places in [((MUTATION, DISTILLATION), {2, 3}), ((MUTATION,), {1, 3})]:
        rules = options(closing=Closing(closing))
        born = close(rules, members(4, "aabb"), sure_scores(4, 3, 2, 1))
        assert set(born) == places
        assert all(
            origin.parents[0] == place for place, origin in born.items() if len(places & {2})
        )


def test_species_are_joined_by_distillation():
    rules = options(operators=(Clone(), DISTILLATION))
    who = members(4, "aabb")
    for seed in range(10):
        planned = plan(rules, who, sure_scores(4, 3, 2, 1), seed=seed)
        for place in (2, 3):
            heir = planned.places[place]
            assert heir.operator == DISTILLATION
            assert heir.parents[0] == place  # whose shape, weights and optimizer it goes on with
            assert heir.parents[1] in (0, 1)
            assert heir.is_child
            assert heir.params["net"] == place


def test_a_distilled_child_may_learn_from_any_shape():
    rules = options(operators=(DISTILLATION,), selection=Tournament("tournament", size=1))
    seen = set()
    for seed in range(30):
        planned = plan(rules, members(4, "aabb"), sure_scores(4, 3, 2, 1), seed=seed)
        seen |= {place.parents for place in planned.places.values() if place.is_child}
    assert any("aabb"[first] != "aabb"[second] for first, second in seen)


def test_without_distillatiin_a_species_is_judged_by_itself():
    who = members(4, "abbb")
    for seed in range(10):
        planned = plan(options(selection=Truncation(share=0.25)), who, sure_scores(9, 3, 2, 1))
        assert planned.places[3].parents == (1,)
        assert planned.places[3].is_child
        planned = plan(options(), members(4, "aabc"), sure_scores(9, 8, 2, 1), seed=seed)
        assert planned.places[1].parents == (0,)  # the worst that a member can replace
        for place in (2, 3):  # alone in their species
            heir = planned.places[place]
            assert (heir.parents, heir.operator, heir.is_child) == ((place,), Clone(), False)
            assert heir.params == members(4)[place].params


def test_a_species_of_equals_keeps_its_members():
    noise = np.tile(np.array([9.0, 2.0, 2.0, 2.0]), (20, 1))
    objectives, roles = noise[:, :, None], np.stack([noise[0], np.zeros(4)], axis=1)
    scores = Scores(
        noise, noise, objectives, objectives, roles, OpponentWeights(np.ones(1), np.ones(1))
    )
    planned = plan(options(selection=Truncation(share=0.25)), members(4, "abbb"), scores)
    assert not any(place.is_child for place in planned.places.values())

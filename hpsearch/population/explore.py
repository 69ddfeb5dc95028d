"""Hyperparameters of children: their parents' perturbed, or chosen by a model of past gains.

Perturbing: Jaderberg et al., Population based training of neural networks (arXiv 1711.09846),
section 4.1.1, "perturb" and "resample"; unlike there, on the parameter's own scale and inside its
range. Values are in the form in which the study stores them.

Model: Parker-Holder, Nguyen and Roberts, Provably efficient online hyperparameter optimization with
population-based bandits (NeurIPS 2020, arXiv 2002.02518), PB2: a time-varying Gaussian process on
changes of the score, its upper confidence bound maximised, with the points that are already under
way taken as known for the bound's width. The process (Bogunovic, Scarlett and Cevher, AISTATS 2016,
arXiv 1601.06650, TV-GP-UCB), observed with noise, has the covariance
k((x, t), (x', t')) = exp(-|x - x'|^2 / 2 l^2) (1 - w)^(|t - t'| / 2).

Axes: n observations, m queries, C children, D dimensions.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from hpsearch.parameters import CategoricalParameter, NumberParameter, Parameter
from hpsearch.population.options import Keep, Model, Perturb, Schedule
from hpsearch.population.statistics import Floats

IsActive = Callable[[str, Mapping[str, Any]], bool]
"""whether a parameter exists under these values of those before it"""


def share_of(parameter: NumberParameter, value: float) -> float:
    """Return the share of the range that lies below a value: the inverse of ``parameter.quantile``.

    A value of a grid owns an interval, and is at its middle. ValueError outside the range.
    """
    if not parameter.low <= value <= parameter.high:
        low, high = parameter.low, parameter.high
        raise ValueError(f"the value must lie in {low!r}..{high!r}, got {value!r}")
    if parameter.low == parameter.high:
        return 0.5
    count = parameter.num_values()
    if parameter.log:
        # Every whole number owns the interval half way to its neighbours, also at the two ends.
        margin = 0.0 if count is None else 0.5
        low, high = math.log(parameter.low - margin), math.log(parameter.high + margin)
        return (math.log(value) - low) / (high - low)
    if count is None:
        return (value - parameter.low) / (parameter.high - parameter.low)
    return (_nearest_index(parameter, value, count) + 0.5) / count


def value_at(parameter: NumberParameter, share: float) -> float:
    """Return the value at a share of the range, which may be 1 or a little outside."""
    return parameter.quantile(min(max(share, 0.0), math.nextafter(1.0, 0.0)))


def _nearest_index(parameter: NumberParameter, value: float, count: int) -> int:
    """Return the index of the nearest of the ``count`` values of a grid."""
    if count == 1:
        return 0
    index = round((value - parameter.low) / (parameter.high - parameter.low) * (count - 1))
    return min(max(index, 0), count - 1)


def one_step(parameter: NumberParameter, value: float, how: Perturb, *, up: bool) -> float:
    """Return a number one step up or down, at the nearest bound where that leads outside.

    On a grid (whole numbers are one) the step ends at the nearest value, and is at least one value
    long. A parent's value from outside the range comes in first.
    """
    start = min(max(value, parameter.low), parameter.high)
    sign = 1 if up else -1
    if parameter.log:
        target = start * math.exp(sign * math.log(how.factor))
    else:
        target = start + sign * how.range_share * (parameter.high - parameter.low)
    count = parameter.num_values()
    if count is None:
        return min(max(target, parameter.low), parameter.high)
    before, after = (_nearest_index(parameter, at, count) for at in (start, target))
    if after == before:
        after = min(max(before + sign, 0), count - 1)
    return parameter.value(after)


def child_value(parameter: Parameter, value: Any, how: Perturb, rng: Generator) -> Any:
    """Return a value of a child; it always takes two numbers, so as to leave others' alone."""
    chance, draw = rng.random(2)
    if isinstance(parameter, CategoricalParameter):
        return parameter.quantile(draw) if chance < how.switch else value
    if chance < how.resample:
        return parameter.quantile(draw)
    return one_step(parameter, value, how, up=draw < 0.5)


def perturbed_values(
    values: Mapping[str, Any],
    parameters: Mapping[str, Parameter],
    is_active: IsActive,
    how: Perturb,
    rng: Generator,
) -> dict[str, Any]:
    """Return the values of a child, perturbed and resampled.

    A parameter that the parent lacks is drawn from its whole range; one that no longer exists under
    the child's choices is left out. Each parameter comes after those on which it depends.
    """
    child: dict[str, Any] = {}
    for name, parameter in parameters.items():
        if not is_active(name, child):
            continue
        if name in values:
            child[name] = child_value(parameter, values[name], how, rng)
        else:
            child[name] = parameter.quantile(rng.random())
    return child


LENGTH_SCALES = (0.1, 0.2, 0.4, 0.8, 1.6)
FORGETTING = (0.0, 0.02, 0.1, 0.3)
NOISES = (0.01, 0.1, 0.5, 1.0)


@dataclass(frozen=True)
class Kernel:
    """The covariance of the Gaussian process; the variance of its function is 1."""

    length_scale: float  # l, distance in x over which the function stays alike
    forgetting: float  # w, from 0 (the function never changes) to below 1
    noise: float  # variance of an observation's noise

    def covariance(self, x: Floats, t: Floats, other_x: Floats, other_t: Floats) -> Floats:
        """Return the covariance (n, m) of the function at x (n, D), t (n,) and at the others."""
        square = np.square(x[:, None] - other_x).sum(axis=2)
        ages = np.abs(t[:, None] - other_t)
        alike: Floats = np.exp(-square / (2 * self.length_scale**2))
        return alike * (1.0 - self.forgetting) ** (ages / 2)


@dataclass(frozen=True)
class Posterior:
    """The Gaussian process, given observations."""

    kernel: Kernel
    x: Floats  # (n, D)
    t: Floats  # (n,)
    factor: Floats  # (n, n) Cholesky factor of the observations' covariance
    weights: Floats  # (n,) inverse covariance times observations
    log_evidence: float  # logarithm of the observations' density

    def predict(self, x: Floats, t: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation (m,) of the function at x (m, D) and t (m,)."""
        cross = self.kernel.covariance(self.x, self.t, x, t)
        known = np.linalg.solve(self.factor, cross)
        variance = np.maximum(1.0 - np.square(known).sum(axis=0), 0.0)
        return cross.T @ self.weights, np.sqrt(variance)


def condition(kernel: Kernel, x: Floats, t: Floats, y: Floats) -> Posterior:
    """Return the process after the observations y (n,) at x (n, D) and t (n,).

    Source: Rasmussen and Williams, Gaussian processes for machine learning (2006), algorithm 2.1.
    """
    covariance = kernel.covariance(x, t, x, t) + kernel.noise * np.eye(len(y))
    factor = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    weights = np.linalg.solve(factor.T, np.linalg.solve(factor, y))
    log_evidence = -0.5 * y @ weights - np.log(factor.diagonal()).sum()
    log_evidence -= 0.5 * len(y) * np.log(2 * np.pi)
    return Posterior(kernel, x, t, factor, weights, float(log_evidence))


def fit(x: Floats, t: Floats, y: Floats) -> Posterior:
    """Return the process, of those on a grid of kernels, that makes the observations likeliest."""
    kernels = product(LENGTH_SCALES, FORGETTING, NOISES)
    return max(
        (condition(Kernel(*kernel), x, t, y) for kernel in kernels),
        key=lambda posterior: posterior.log_evidence,
    )


NUM_CANDIDATES = 512  # points looked at, half of them anywhere and half near good ones
NUM_ANCHORS = 8
NEARNESS = 0.08  # standard deviation of the candidates around a good point


class Observations(NamedTuple):
    """What was tried, when, and how much the score changed by it.

    All of one length n, and finite: members that failed are left out.
    """

    x: Floats  # (n, D) places in the unit cube
    t: Floats  # (n,) generations
    change: Floats  # (n,) of the score over the generation; high is good


def propose(seen: Observations, now: float, count: int, optimism: float, rng: Generator) -> Floats:
    """Return points of the unit cube, float64 (count, D), for children of generation ``now``.

    ``optimism`` is how many standard deviations are added to the mean. With nothing to tell points
    apart, they are drawn anywhere.
    """
    dimensions = seen.x.shape[1]
    if len(seen.change) < 2 or np.ptp(seen.change) == 0:
        return rng.random((count, dimensions))
    standard = (seen.change - seen.change.mean()) / seen.change.std()
    model = fit(seen.x, seen.t, standard)
    children = np.zeros((count, dimensions))
    for child in range(count):
        candidates = _candidates(model, now, rng)
        mean, error = model.predict(candidates, np.full(len(candidates), now))
        children[child] = candidates[(mean + optimism * error).argmax()]
        model = _under_way(model, children[child], now)
    return children


def _candidates(model: Posterior, now: float, rng: Generator) -> Floats:
    """Return points anywhere, and points around those that the model now thinks best."""
    half, dimensions = NUM_CANDIDATES // 2, model.x.shape[1]
    mean, _ = model.predict(model.x, np.full(len(model.x), now))
    anchors = model.x[np.argsort(-mean, kind="stable")[:NUM_ANCHORS]]
    near = anchors[rng.integers(len(anchors), size=half)]
    near = near + NEARNESS * rng.normal(size=(half, dimensions))
    return np.concatenate([rng.random((half, dimensions)), np.clip(near, 0.0, 1.0)])


def _under_way(model: Posterior, point: Floats, now: float) -> Posterior:
    """Return the model as if the point had done as expected: errors shrink, means stay.

    Source: Desautels, Krause and Burdick, GP-BUCB (JMLR 15, 2014).
    """
    expected, _ = model.predict(point[None], np.array([now]))
    y = np.concatenate([model.factor @ (model.factor.T @ model.weights), expected])
    return condition(model.kernel, np.vstack([model.x, point]), np.append(model.t, now), y)


@dataclass(frozen=True)
class Generation:
    """One member's training over one generation."""

    values: Mapping[str, Any]  # its hyperparameters, by name
    generation: int
    change: float  # of its score; high is good, not a number where it failed


@dataclass(frozen=True)
class Exploring:
    """The parameters that children may change, and what is known of them."""

    parameters: Mapping[str, Parameter]  # each after those on which its existence depends
    is_active: IsActive  # whether a parameter exists under the child's values so far
    history: Sequence[Generation]  # of all members; those that failed are left out of the model
    generation: int  # of the first match that judges the children


def children_params(
    how: Perturb | Model | Keep | Schedule,
    parents: Sequence[Mapping[str, Any]],
    exploring: Exploring,
    rng: Generator,
) -> list[dict[str, Any]]:
    """Return the hyperparameters of a child of each parent; those that must not change stay."""
    if isinstance(how, Keep | Schedule):
        return [dict(params) for params in parents]
    kept = [
        {name: value for name, value in params.items() if name not in exploring.parameters}
        for params in parents
    ]
    children: list[dict[str, Any]] = [{} for _ in parents]
    # Parents with the same fixed values go together, since these decide which parameters exist.
    for first, same in enumerate(kept):
        if same in kept[:first]:
            continue
        places = [place for place, values in enumerate(kept) if values == same]
        own = [parents[place] for place in places]
        new_values = _changeable_params(how, own, same, exploring, rng)
        for place, values in zip(places, new_values, strict=True):
            children[place] = same | values
    return children


def _changeable_params(
    how: Perturb | Model,
    parents: Sequence[Mapping[str, Any]],
    same: Mapping[str, Any],
    exploring: Exploring,
    rng: Generator,
) -> list[dict[str, Any]]:
    """Return the parameters that may change of children whose parents share all others."""

    def is_active(name: str, values: Mapping[str, Any]) -> bool:
        return exploring.is_active(name, {**same, **values})

    steps = how if isinstance(how, Perturb) else how.perturb
    known = exploring.parameters
    children = [perturbed_values(parent, known, is_active, steps, rng) for parent in parents]
    return children if isinstance(how, Perturb) else _modelled(children, exploring, how, rng)


def _modelled(
    children: list[dict[str, Any]], exploring: Exploring, how: Model, rng: Generator
) -> list[dict[str, Any]]:
    """Return children with values that the model proposes for some numeric parameters.

    It proposes one if all children and all past generations, failed ones aside, have it; the past
    values must lie in their ranges. Choices and other numbers stay.
    """
    known = [past for past in exploring.history if np.isfinite(past.change)]
    all_values = [*children, *(past.values for past in known)]
    numbers: dict[str, NumberParameter] = {
        name: parameter
        for name, parameter in exploring.parameters.items()
        if not isinstance(parameter, CategoricalParameter)
        and all(name in values for values in all_values)
    }
    if not numbers or not known:
        return children
    shares = [
        [share_of(parameter, past.values[name]) for name, parameter in numbers.items()]
        for past in known
    ]
    seen = Observations(
        np.array(shares),
        np.array([past.generation for past in known], dtype=np.float64),
        np.array([past.change for past in known], dtype=np.float64),
    )
    points = propose(seen, exploring.generation, len(children), how.optimism, rng)
    for child, point in zip(children, points, strict=True):
        for (name, kind), share in zip(numbers.items(), point, strict=True):
            child[name] = value_at(kind, float(share))
    return children

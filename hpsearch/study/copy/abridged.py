"""What a copy holds of a trial: all that a dashboard draws, little of what it does not."""

import json
from collections.abc import Mapping
from typing import Any, Final

from optuna.trial import FrozenTrial

MAX_VALUES: Final = 8
"""of a learning curve; the dashboard draws all curves at once, and the whole one is in a file"""
MAX_TEXT: Final = 256
"""characters of an attribute"""
CONSTRAINTS: Final = "constraints"
"""as the dashboard asks for them"""


def abridged(trial: FrozenTrial) -> FrozenTrial:
    """Return what the copy holds of a trial."""
    return FrozenTrial(
        number=trial.number,
        state=trial.state,
        value=None,
        values=trial.values,
        datetime_start=trial.datetime_start,
        datetime_complete=trial.datetime_complete,
        params=trial.params,
        distributions=trial.distributions,
        user_attrs={key: one for key, one in trial.user_attrs.items() if _is_short(one)},
        system_attrs=_constraints(trial),
        intermediate_values=thinned(trial.intermediate_values),
        trial_id=trial._trial_id,
    )


def thinned(curve: Mapping[int, float]) -> dict[int, float]:
    """Return at most MAX_VALUES of a curve, evenly, with the first and the last."""
    steps = sorted(curve)
    if len(steps) > MAX_VALUES:
        last = len(steps) - 1
        steps = [steps[round(at * last / (MAX_VALUES - 1))] for at in range(MAX_VALUES)]
    return {step: curve[step] for step in steps}


def _is_short(value: Any) -> bool:
    return len(value if isinstance(value, str) else json.dumps(value)) <= MAX_TEXT


def _constraints(trial: FrozenTrial) -> dict[str, Any]:
    violated = list(trial.constraints.values())
    return {CONSTRAINTS: violated} if violated else {}

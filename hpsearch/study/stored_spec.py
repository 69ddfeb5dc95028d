"""A study as the database keeps it: its text, what of it defines the search, and how it is read."""

import hashlib
import json
import shlex
from pathlib import Path

from hpsearch.errors import ConfigError
from hpsearch.population.operators.options import OperatorOptions
from hpsearch.programs.config import PROGRAM
from hpsearch.schema import field_hints, read, to_plain
from hpsearch.study import options
from hpsearch.study.space import SearchSpace
from hpsearch.study.spec import Study, StudySpec, read_alone

NOT_PART_OF_THE_SEARCH = (
    "storage",
    "budget",
    "max_failures",
    "executor",
    "executors",
    "prometheus",
    "notify",
    "track",
)
"""What may change between two runs of one study."""
HOW_A_PROGRAM_RUNS = ("command", "gpus", "hang_timeout", "may_end_early", "stop_seconds")
"""Keys of a program's base that may change too: an error in one of them must be mendable. Not its
parameters, steps and interval, by which its trials are compared."""


def spec_json(study: Study) -> str:
    """Return the study as JSON text, with the base configurations in place of their paths."""
    plain = to_plain(study.spec) | {"base": dict(study.bases)}
    if study.founders:
        plain["founders"] = list(study.founders)
    for key in ("notify", "track", "executors"):  # which older drivers, of queued jobs, do not know
        if not plain[key]:
            del plain[key]
    return json.dumps(plain)


def stored_study(text: str, path: Path) -> Study:
    """Return the study whose `spec_json` is ``text``; ``path`` is the file it came from."""
    data = json.loads(text)
    bases, founders = data["base"], tuple(data.pop("founders", ()))
    spec = read(StudySpec, {**data, "base": dict.fromkeys(bases, "")}, source=str(path))
    return Study(path, spec, bases, SearchSpace(spec.space), founders)


def study_without_absent_parts(text: str, path: Path) -> tuple[Study, tuple[str, ...]]:
    """Return the study whose `spec_json` is ``text``, to be looked at, and why it is not whole.

    What packages that are not installed here add to it is left out, where results can be understood
    without it. Raises ConfigError if the rest cannot be read.
    """
    try:
        return stored_study(text, path), ()
    except ConfigError as error:
        data, hints = json.loads(text), field_hints(StudySpec)
        for key in ("sampler", "pruner", "executor"):
            if not read_alone(key, hints[key], data.get(key)):
                data.pop(key, None)
        population = data.get("population") or {}
        for block, key, hint in (
            (data, "track", options.Tracker),
            (population, "operators", OperatorOptions),
            (population.get("closing") or {}, "operators", OperatorOptions),
        ):
            if key in block:
                block[key] = [each for each in block[key] if read_alone(key, hint, each)]
        return stored_study(json.dumps(data), path), tuple(error.problems)


def spec_hash(study: Study) -> str:
    """Return the sha256 of everything that defines the search."""
    whole = json.loads(spec_json(study))
    if whole["population"] is None:  # as studies were before there were populations
        del whole["population"]
    elif whole["population"]["closing"] is None:  # as populations were before they could close
        del whole["population"]["closing"]
    for key in HOW_A_PROGRAM_RUNS if study.is_program else ():
        del whole["base"][PROGRAM][key]
    search = {key: whole[key] for key in whole if key not in NOT_PART_OF_THE_SEARCH}
    return hashlib.sha256(json.dumps(search, sort_keys=True).encode()).hexdigest()


def command_note(before: str, study: Study) -> str | None:
    """Return what to say if a program is run by another command than in an older `spec_json`."""
    if not study.is_program:
        return None
    old, new = (base[PROGRAM]["command"] for base in (json.loads(before)["base"], study.bases))
    if old == new:
        return None
    return (
        f"{study.spec.name} runs another command from now on; the trials that have ended were run "
        f"by: {shlex.join(old)}"
    )

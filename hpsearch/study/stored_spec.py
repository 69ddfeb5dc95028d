"""A study as the database keeps it: its text, what of it defines the search, and how it is read."""

import hashlib
import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpsearch.errors import ConfigError
from hpsearch.population.operators.options import Clone, OperatorOptions
from hpsearch.programs.config import PROGRAM, read_trial_config
from hpsearch.schema import INSTALL_REMEDY, field_hints, read, read_hint, to_plain
from hpsearch.study import options
from hpsearch.study.space import SearchSpace
from hpsearch.study.spec import Study, StudySpec
from hpsearch.trainers.config.players import OpponentName

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
"""Keys of a program's base that may change too, so that a mistake in them can be corrected. Trials
are compared by parameters, steps and interval, so these may not."""


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


def readable_study(text: str, path: Path) -> tuple[Study, tuple[str, ...]]:
    """Return the study whose `spec_json` is ``text``, to be looked at, and why it is not whole.

    Parts that cannot be read, as their package is not here or another version, are left out where
    results can be understood without them. Raises ConfigError if the rest cannot be read.
    """
    faults: list[str] = []
    try:
        study = stored_study(text, path)
    except ConfigError as error:
        faults += error.problems
        try:
            study = stored_study(json.dumps(_without_unreadable(json.loads(text))), path)
        except ConfigError:
            raise error from None  # not what leaving parts out has made wrong
    faults += _missing_of_bases(study)
    return replace(study, is_whole=not faults), tuple(faults)


def _missing_of_bases(study: Study) -> Iterator[str]:
    """Yield the parts of packages that are not here and that configurations name."""
    for algorithm, base in study.bases.items():
        try:
            read_trial_config(base, source="")
        except ConfigError as error:
            missing = (fault for fault in error.problems if fault.endswith(INSTALL_REMEDY))
            yield from (f"base.{algorithm}.{fault}" for fault in missing)


def _without_unreadable(data: dict[str, Any]) -> dict[str, Any]:
    """Return a study as plain data without the parts of packages that cannot be read."""
    hints = field_hints(StudySpec)
    single = {key for key in ("sampler", "pruner", "executor") if key in data}
    kept = {
        key: data[key] for key in data if key not in single or _is_readable(hints[key], data[key])
    }
    if "track" in kept:
        kept["track"] = [each for each in kept["track"] if _is_readable(options.Tracker, each)]
    if kept.get("population"):
        matches = kept["population"]["matches"]
        panel = [name for name in matches["panel"] if _is_readable(OpponentName, name)]
        operators = _readable_operators(kept["population"]) or [{"name": Clone().name}]
        readable = {"matches": {**matches, "panel": panel}, "operators": operators}
        kept["population"] = kept["population"] | readable
        if closing := kept["population"].get("closing"):
            # A closing has no clones, and none at all is nothing to be looked at.
            operators = _readable_operators(closing)
            kept["population"]["closing"] = (
                {**closing, "operators": operators} if operators else None
            )
    return kept


def _readable_operators(block: dict[str, Any]) -> list[Any]:
    return [each for each in block["operators"] if _is_readable(OperatorOptions, each)]


def _is_readable(hint: Any, data: object) -> bool:
    try:
        read_hint(hint, data, source="")
    except ConfigError:
        return False
    return True


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
    old, new = json.loads(before)["base"][PROGRAM]["command"], study.bases[PROGRAM]["command"]
    if old == new:
        return None
    return f"{study.spec.name} runs another command from now on, in place of: {shlex.join(old)}"

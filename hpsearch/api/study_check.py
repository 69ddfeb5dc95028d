"""A study file checked, with what it would search and cost, before anything of it begins."""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from hpsearch import yaml_file
from hpsearch.cluster.slurm_profile import (
    driver_options,
    load_profile,
    step_options,
    trial_options,
)
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConfigError, HpsearchError, StorageError
from hpsearch.names import check_places
from hpsearch.report.forecast import Forecast, forecast
from hpsearch.study.options import AddressNotice
from hpsearch.study.spec import Study, load_study, read_sections
from hpsearch.study.spec_checks import section_problems
from hpsearch.study.spec_warnings import Example, example_trial, warnings_of
from hpsearch.study.url import FROM_ENVIRONMENT, read_token, storage_url
from hpsearch.terminal import print_line, to_html


@dataclass(frozen=True)
class StudyCheck:
    """What a study that is right would do."""

    study: str
    """its name"""
    configurations: int | None
    """how many the space holds; None for infinitely many"""
    trials: int
    """in all"""
    warnings: Sequence[str]
    """what is allowed and may not be meant, a sentence each"""
    cost: Forecast
    sbatch: Mapping[str, Sequence[str]]
    """on SLURM, the lines of a script by which `driver` and `trials` are submitted; of several
    profiles, `trials by` each of them"""
    example: Example
    """a trial that the study would train"""

    @property
    def size(self) -> str:
        size = "infinitely many" if self.configurations is None else str(self.configurations)
        return f"{self.trials} trials of {size} configurations"

    def sentences(self) -> list[str]:
        """Return what it would cost, and what is allowed and may not be meant."""
        return [f"cost: {self.cost}", *(f"note: {warning}" for warning in self.warnings)]

    def _repr_html_(self) -> str:
        def draw(console: Console) -> None:
            print_line(console, f"{self.study}: {self.size}", style="bold")
            for sentence in self.sentences():
                print_line(console, sentence)

        return to_html(draw)


def check_study(path: Path, runs: Path) -> StudyCheck:
    """Return what the study of a file would do.

    Raises ConfigError with every fault of it and every secret that is missing, UsageError if a path
    is not UTF-8.
    """
    check_places(path, runs)
    study = _load(path, runs)
    return StudyCheck(
        study=study.spec.name,
        configurations=study.space.num_configurations(),
        trials=study.spec.budget.trials,
        warnings=warnings_of(study),
        cost=forecast(study, StudyDir(runs / study.spec.name)),
        sbatch=_sbatch(study),
        example=example_trial(study),
    )


def _load(path: Path, runs: Path) -> Study:
    missing = list(_missing_secrets(path))
    try:
        study = load_study(path, runs)
    except ConfigError as error:
        raise ConfigError(str(path), [*error.problems, *missing]) from error
    if missing:
        raise ConfigError(str(path), missing)
    return study


def _missing_secrets(path: Path) -> Iterator[str]:
    sections = read_sections(yaml_file.load(path))
    storage, prometheus = sections.get("storage"), sections.get("prometheus")
    if storage is not None and not any(section_problems({"storage": storage})):
        try:
            storage_url(sections.get("name", path.stem), storage)
        except StorageError as error:
            yield f"storage: {error}"
    if prometheus is not None:
        try:
            read_token(prometheus, path.parent)
        except HpsearchError as error:
            key = "prometheus.token"
            yield f"{error}" if str(error).startswith(key) else f"{key}: {error}"
    for place, notice in enumerate(sections.get("notify", ())):
        if isinstance(notice, AddressNotice):
            variable = notice.to.removeprefix(FROM_ENVIRONMENT)
            if not os.environ.get(variable):
                yield f"notify[{place}].to: the environment variable {variable} is not set"


def _sbatch(study: Study) -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {}
    for index, executor in enumerate(study.on_slurm):
        profile = load_profile(study.profile_of(executor))
        trials = trial_options(profile, executor.ranks, executor.min_ranks)
        step = ["srun", *step_options(profile, executor.ranks, executor.min_ranks)]
        kind = "trials" if len(study.on_slurm) == 1 else f"trials by {executor.profile}"
        lines[kind] = [*map(_quoted, trials), *profile.setup, shlex.join(step)]
        if index == 0:
            lines["driver"] = [*map(_quoted, driver_options(profile.driver)), *profile.setup]
    return lines


def _quoted(option: str) -> str:
    name, equals, value = option.partition("=")
    return f"#SBATCH {name}{equals}{shlex.quote(value) if equals else ''}"

"""What is allowed in a study file but may surprise; an example of its trials, without Optuna."""

import os
import random
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from hpsearch.cluster.machine import GpuShare, counted, find_gpus
from hpsearch.cluster.slurm_profile import load_profile
from hpsearch.parameters import CategoricalParameter
from hpsearch.population.options import PopulationOptions
from hpsearch.schema import Config
from hpsearch.study import options
from hpsearch.study.space import stored_point
from hpsearch.study.spec import Study
from hpsearch.study.spec_checks import END
from hpsearch.trainers.config.ending import NEVER

GP_TRIALS = 500
EXTRAS = ("mlflow", "wandb", "notify", "psij")
"""of hpsearch, whose packages a study may need; what other packages add is not among them"""


def warnings_of(study: Study) -> list[str]:
    """Return one sentence for everything that is allowed but may surprise."""
    sentences: list[str] = []
    for executor in study.on_slurm:
        sentences += _profile_warnings(study, executor)
    if isinstance(study.executor, options.LocalOptions):
        sentences += _local_gpu_warnings(study, study.executor)
    sentences += _missing_packages(study)
    sentences += command_warnings(study)
    prometheus = study.spec.prometheus
    if prometheus is not None and prometheus.token is None and not prometheus.is_local:
        sentences.append(
            f"no metrics are served at prometheus.host {prometheus.host}, which other machines "
            "reach, without a prometheus.token; write one, or leave host out"
        )
    if study.spec.population is not None:
        return [*sentences, *_population_warnings(study, study.spec.population)]
    sentences += _ending_warnings(study)
    return [*sentences, *_sampler_warnings(study)]


def _ending_warnings(study: Study) -> Iterator[str]:
    """Say that trials may end early, by the keys of `end` of any base or searched."""
    rules = [rule for base in study.bases.values() for rule in base.get(END, NEVER).items()]
    keys = {f"{END}.{key}" for key, value in rules if value is not None}
    keys |= {path for path in study.space.parameters if path.partition(".")[0] == END}
    if keys:
        yield (
            f"{', '.join(sorted(keys))} may end trials before their steps are made, all of which "
            "the estimate counts"
        )


def _missing_packages(study: Study) -> Iterator[str]:
    """Name what the study needs beside hpsearch and is not installed here."""
    needed = [(f"track {tracker.name}", tracker.name, tracker.name) for tracker in study.spec.track]
    if any(isinstance(notice, options.AddressNotice) for notice in study.spec.notify):
        needed.append(("notify to an address", "apprise", "notify"))
    if isinstance(study.executor, options.PsijOptions):
        needed.append(("executor psij", "psij", "psij"))
    for what, package, extra in needed:
        if extra in EXTRAS and find_spec(package) is None:
            yield f"{what} needs the package {package}; pip install 'hpsearch[{extra}]'"


def command_warnings(study: Study) -> Iterator[str]:
    """Name the programs and scripts of commands that are not there."""
    bases, folder = study.bases.values(), study.path.parent
    commands = [("base.command", base["command"]) for base in bases if study.is_program]
    for notice in study.spec.notify:
        if isinstance(notice, options.CommandNotice):
            commands.append(("a command of notify", notice.command))
    # As they are looked for: beside the Python that runs hpsearch, or by a path from the folder.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    for what, (first, *arguments) in commands:
        is_there = shutil.which(folder / first if "/" in first else first, path=path) is not None
        scripts = [word for word in arguments if word.endswith(".py")]
        missing = [word for word in scripts if not (folder / word).exists()]
        for word in missing if is_there else [first, *missing]:
            yield f"{what} names {word}, which is not there; it is looked for from {folder}"


def _local_gpu_warnings(study: Study, executor: options.LocalOptions) -> Iterator[str]:
    if not study.gpus_per_job:
        return
    if not study.uses_gpus:
        yield (
            f"executor.gpus_per_job is {study.gpus_per_job}, but no trial uses a GPU, which leaves "
            f"the GPUs idle; leave it out, or set {study.gpu_settings[0]}"
        )
    gpus = GpuShare(find_gpus(), study.gpus_per_job, study.fewer_gpus)
    yield gpus.jobs_text(executor.jobs) if gpus.shortage is None else gpus.shortage


def _profile_warnings(study: Study, executor: options.SlurmOptions) -> Iterator[str]:
    asked, (use, none) = load_profile(study.profile_of(executor)).gpus_per_task, study.gpu_settings
    which = "" if len(study.on_slurm) == 1 else f"by {executor.profile} "
    if asked and not study.uses_gpus:
        yield (
            f"{which}jobs ask for {asked} GPUs each, but no trial uses a GPU, which leaves "
            f"them idle; set {use}, or gpus_per_task: 0"
        )
    if asked < study.gpus_per_rank:
        yield (
            f"{which}a task asks for {counted(asked)}, but trials need "
            f"{counted(study.gpus_per_rank)} a task; set {none}, or gpus_per_task: "
            f"{study.gpus_per_rank}"
        )


def _population_warnings(study: Study, population: PopulationOptions) -> Iterator[str]:
    rounds, rest = divmod(study.spec.budget.trials, population.members)
    yield (
        f"{population.members} members train {rounds} intervals of {population.interval:,} steps "
        f"each{f', and {rest} of them one more' if rest else ''}"
    )
    if population.closing is not None:
        yield (
            f"in up to {population.closing.generations} more generations children that do not "
            "train take places; they are no trials of the budget"
        )
    sampler = study.spec.sampler
    if not (isinstance(sampler, options.KNOW_BEFOREHAND) or population.founders):
        yield (
            f"sampler {sampler.name} learns from values, of which there are none when members "
            "begin, so the first ones are drawn at random; qmc spreads them evenly"
        )


def _sampler_warnings(study: Study) -> Iterator[str]:
    space, num_trials = study.space, study.spec.budget.trials
    match study.spec.sampler:
        case options.CMAESOptions():
            random = [
                name
                for name, parameter in space.parameters.items()
                if parameter.when or isinstance(parameter, CategoricalParameter)
            ]
            if random:
                yield (
                    "sampler cmaes moves numbers that every trial has; these stay random: "
                    f"{', '.join(random)}"
                )
        case options.GPOptions():
            if num_trials > GP_TRIALS:
                yield (
                    f"the time of sampler gp grows with the cube of the trials; above {GP_TRIALS} "
                    f"(the budget is {num_trials}) tpe suggests faster"
                )
            if find_spec("greenlet") is None:
                yield "sampler gp suggests faster with the package greenlet; pip install greenlet"
            if space.is_conditional:
                yield (
                    "sampler gp models the parameters that every trial has; conditional ones stay "
                    "random"
                )
        case options.GridOptions():
            count = space.num_configurations()
            if count is not None and num_trials > count:
                yield (
                    f"the grid has {count} configurations, fewer than the {num_trials} "
                    f"trials of the budget; they repeat"
                )


class Example(NamedTuple):
    what: str
    params: dict[str, Any]  # its parameters by dotted path
    config: Config  # its complete configuration


def example_trial(study: Study) -> Example:
    """Return a study's first trial where it is known beforehand, else one drawn by its seed."""
    space, seed = study.space, study.spec.seed
    match study.spec.sampler:
        case options.GridOptions():
            count = space.num_configurations()
            assert count is not None, "a continuous range is refused when the study file is read"
            what, stored = "the first trial", space.configuration(seed % count)
        case options.ListedOptions(configurations=configurations):
            what, stored = "the first trial", stored_point(space, configurations[0])
        case _:
            what, stored = "a trial, drawn at random by the study's seed", _drawn(study)
    config, population = study.trial_config(0, stored), study.spec.population
    if population is not None:
        config |= {"steps": population.interval}
    return Example(what, space.decode(stored), config)


def _drawn(study: Study) -> dict[str, Any]:
    rng, space = random.Random(study.spec.seed), study.space
    stored: dict[str, Any] = {}
    for name in space.order:
        share = rng.random()  # also where it is not used: no value depends on other conditions
        if space.is_active(name, space.decode(stored)):
            stored[name] = space.parameters[name].quantile(share)
    return stored

"""A study around a converted configuration of hironaka.trainer, to begin with."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hpsearch.config_paths import Config
from hpsearch.parameters import FloatParameter, Parameter
from hpsearch.shipped import shipped
from hpsearch.study.spec import Objective, load_spec
from hpsearch.study.templates import DEFAULT, TEMPLATES, Written, places, write_both
from hpsearch.trainers.config import read_config
from hpsearch.trainers.metrics import metric_names

FACTOR = 3.0
"""by which what is searched may lie below and above what the old file says"""


def write_study_around(config: Config, old: Path, target: Path) -> Written:
    """Write a study that searches around a complete configuration, and that; return where.

    It is the default template's, but for its space, the rates and discounts of the roles that
    learn, and its objective, the first that the configuration measures.

    Args:
        config: the converted configuration.
        old: where it came from.
        target: the study file, ending in .yaml or .yml, or a folder for one of the old name.

    Raises:
        UsageError: if the file would be no name for a study, or one of the files exists.
    """
    files = places(old.stem, target)
    trainer = read_config(config, source=str(old))
    metric = next(metric_names(trainer.measured_against()))
    is_host = metric.split("/")[1] == "host"  # a host wins fast, which an agent puts off
    spec = replace(
        load_spec(shipped(f"studies/{TEMPLATES[DEFAULT].file}")).spec,
        name=files.study.stem,
        storage=f"sqlite:///runs/{files.study.stem}.db",
        base=files.trainer.name,
        objectives=(Objective(metric, "maximize" if is_host else "minimize"),),
        space=dict(_space(config, list(trainer.learning()))),
    )
    about = f"Rates and discounts around those of {old.name} of hironaka.trainer."
    words = f"{old.name} of hironaka.trainer, converted; {files.study.name} searches around it."
    write_both(files, [about], spec, words, trainer)
    return files


def _space(config: Config, roles: list[str]) -> Iterator[tuple[str, Parameter]]:
    """Yield what is searched, by dotted path; a schedule sets the rate where there is one."""
    for role in roles:
        optim, gamma = config[role]["optim"], config[role]["gamma"]
        if "initial" in optim["lr_schedule"]:
            path, rate = f"{role}.optim.lr_schedule.initial", optim["lr_schedule"]["initial"]
        else:
            path, rate = f"{role}.optim.args.lr", optim["args"]["lr"]
        if rate > 0:
            yield path, FloatParameter("float", low=rate / FACTOR, high=rate * FACTOR, log=True)
        low, high = (round(max(0.0, 1 - (1 - gamma) * by), 4) for by in (FACTOR, 1 / FACTOR))
        if low < high:  # a discount of nearly 1 has nothing around it
            yield f"{role}.gamma", FloatParameter("float", low=low, high=high)

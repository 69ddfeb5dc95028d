"""Studies to begin with, every key explained: those of studies/, or around a converted file."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hpsearch.errors import DiskError, UsageError, unknown_name
from hpsearch.explained import comment, explained
from hpsearch.files import shipped, write_text
from hpsearch.names import NAME_RULE, is_name, proposed_name
from hpsearch.parameters import FloatParameter, Parameter
from hpsearch.schema import Config
from hpsearch.study.spec import Objective, StudySpec, load_spec
from hpsearch.trainers.config import TrainerConfig, read_config
from hpsearch.trainers.metrics import metric_names

STUDY_WORDS = (
    "Keys with a default may be left out; none is written null. `hpsearch validate` lists all "
    "faults of a file at once, and shows what it would search and what that costs."
)
TRAINER_WORDS = (
    "No key may be left out; none is written null. P marks what may differ between trials that "
    "train together in one job."
)
FACTOR = 3.0  # by which what is searched may lie below and above what a converted file says


DEFAULT = "search"
TEMPLATES: Mapping[str, str] = {
    "search": "four numbers of a small DQN host against a panel by TPE, two minutes on two cores",
    "choose_first": "the same against choose_first alone, the setting of the published figures",
    "ppo": "five numbers of a PPO host with a median pruner, sixteen times two minutes of a core",
    "population": "eight pairs of a DQN host and agent that breed, twenty minutes on two cores",
    "published_depth_batch": "the published sweep of depth and batch size, hours on a GPU",
    "published_pairs": "the published eight pairs at 20x3, hours on a GPU",
    "published_100x10": "the published eight pairs at 100x10, hours on a GPU",
}
"""what each searches, by name"""
_FILES = {"search": "quickstart", "ppo": "ppo_20x3", "population": "population_pairs"}
"""files below studies/ of the templates that have another name there"""


def template_file(name: str) -> Path:
    return shipped(f"studies/{_FILES.get(name, name)}.yaml")


class Written(NamedTuple):
    study: Path
    trainer: Path


def write_template(name: str, target: Path) -> Written:
    """Write a study and its trainer configuration to a file or folder; raises UsageError."""
    if name not in TEMPLATES:
        raise UsageError(unknown_name("template", name, TEMPLATES))
    files = _places(name, target)
    source = template_file(name)
    study = load_spec(source)
    (base,) = study.bases.values()
    words = f"The configuration that {files.study.name} searches around."
    trainer = read_config(base, source=str(source))
    return _write(files, _paragraphs(source), study.spec, words, trainer)


def write_study_around(config: Config, old: Path, target: Path) -> Written:
    """Write a study that searches around a configuration converted from ``old``; return where.

    It is the default template's, but for its space, the rates and discounts of the roles that
    learn, and its objective, the first role's rho over its panel where that is measured.
    """
    files = _places(old.stem, target)
    trainer = read_config(config, source=str(old))
    measured = list(metric_names(trainer.measured_against()))
    metric = next((name for name in measured if name.startswith("panel/")), measured[0])
    is_host = metric.split("/")[1] == "host"  # a host wins fast, which an agent puts off
    spec = replace(
        load_spec(template_file(DEFAULT)).spec,
        objectives=(Objective(metric, "maximize" if is_host else "minimize"),),
        space=dict(_space_around(config, list(trainer.learning()))),
    )
    about = f"Rates and discounts around those of {old.name} of hironaka.trainer."
    words = f"{old.name} of hironaka.trainer, converted; {files.study.name} searches around it."
    return _write(files, [about], spec, words, trainer)


def _places(name: str, target: Path) -> Written:
    """Return where a new study is written; UsageError if the name is wrong or a file exists."""
    if target.suffix not in ("", ".yaml", ".yml") and not target.is_dir():
        raise UsageError(
            f"a study is a .yaml file, got {str(target)!r}; change its ending, or name a folder"
        )
    study = target if target.suffix in (".yaml", ".yml") else target / f"{name}.yaml"
    if not is_name(study.stem):
        allowed = study.with_name(f"{proposed_name(study.stem)}{study.suffix}")
        raise UsageError(
            f"the name of a study {NAME_RULE}, but is {study.stem!r}; name the file "
            f"{shlex.quote(str(allowed))}, for example"
        )
    trainer = study.with_name(f"{study.stem}_trainer.yaml")
    for file in (study, trainer):
        if file.exists():
            raise UsageError(f"{file} exists and is not overwritten; name another file or folder")
    return Written(study, trainer)


def _write(
    files: Written, about: Sequence[str], spec: StudySpec, words: str, trainer: TrainerConfig
) -> Written:
    """Write a study and its trainer configuration, headed by ``about`` and ``words``."""
    name = files.study.stem
    spec = replace(spec, name=name, storage=f"sqlite:///runs/{name}.db", base=files.trainer.name)
    trainer_head = _comment([f"hpsearch train {files.trainer}", words, TRAINER_WORDS])
    study_head = _comment([f"hpsearch run {files.study}", *about, STUDY_WORDS])
    try:
        write_text(files.trainer, trainer_head + explained(trainer))
        write_text(files.study, study_head + explained(spec))
    except DiskError:
        files.trainer.unlink(missing_ok=True)
        files.study.unlink(missing_ok=True)
        raise
    return files


def _paragraphs(source: Path) -> list[str]:
    lines = source.read_text(encoding="utf-8").splitlines()
    head = lines[1 : next(n for n, line in enumerate(lines) if not line.startswith("#"))]
    text = "\n".join(line.removeprefix("#").strip() for line in head)
    return [" ".join(words.split()) for words in text.split("\n\n") if words.strip()]


def _comment(paragraphs: list[str]) -> str:
    blocks = ("\n".join(comment(paragraph)) for paragraph in paragraphs)
    return "\n#\n".join(blocks) + "\n"


def _space_around(config: Config, roles: list[str]) -> Iterator[tuple[str, Parameter]]:
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

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
from hpsearch.programs.config import ProgramConfig
from hpsearch.schema import Config
from hpsearch.study.options import SlurmOptions
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
    "a100": "DQN and PPO against a panel by TPE, with a median pruner, on a SLURM cluster of A100s",
    "a100_population": "128 DQN hosts that breed on two nodes of eight A100s of a SLURM cluster",
    "spirals": "rates and width of any program, here a script of PyTorch, two minutes on two cores",
    "spirals_population": "the same program as a population whose members copy each other",
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
    trainers: tuple[Path, ...]  # one for each algorithm
    profile: Path | None = None  # of the cluster, where the study is for one
    program: Path | None = None  # that is a trial, where the study is for one

    @property
    def files(self) -> list[Path]:
        """All of them, the study last, which names the others."""
        return [*self.trainers, *filter(None, [self.profile, self.program]), self.study]

    @property
    def verb(self) -> str:
        return "run" if self.profile is None else "submit"


def write_template(name: str, target: Path) -> Written:
    """Write a study, with the files that it names, to a file or folder; raises UsageError."""
    if name not in TEMPLATES:
        raise UsageError(unknown_name("template", name, TEMPLATES))
    source = template_file(name)
    study = load_spec(source)
    executor = study.spec.executor
    profile = executor.profile if isinstance(executor, SlurmOptions) else None
    if isinstance(study.spec.base, ProgramConfig):
        return _write_program_study(name, target, source, study.spec, study.spec.base)
    files = _places(name, target, [*study.bases], has_profile=profile is not None)
    words = f"The configuration that {files.study.name} searches around."
    trainers = [read_config(base, source=str(source)) for base in study.bases.values()]
    given = "" if profile is None else (source.parent / profile).read_text(encoding="utf-8")
    return _write(files, _paragraphs(source), study.spec, words, trainers, given)


def _write_program_study(
    name: str, target: Path, source: Path, spec: StudySpec, base: ProgramConfig
) -> Written:
    """Write a study whose trials are a program, which is copied beside it."""
    (place,) = (word for word in base.command if (source.parent / word).is_file())
    study = _places(name, target, [], has_profile=False).study
    files = Written(study, (), program=study.with_name(f"{study.stem}_program.py"))
    _check_free(files)
    assert files.program is not None
    command = tuple(files.program.name if word == place else word for word in base.command)
    given = (source.parent / place).read_text(encoding="utf-8")
    spec = replace(spec, base=replace(base, command=command))
    return _write(files, _paragraphs(source), spec, "", [], given)


def write_study_around(config: Config, old: Path, target: Path) -> Written:
    """Write a study that searches around a configuration converted from ``old``; return where.

    It is the default template's, but for its space, the rates and discounts of the roles that
    learn, and its objective, the first role's rho over its panel where that is measured.
    """
    files = _places(old.stem, target, ["trainer"], has_profile=False)
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
    return _write(files, [about], spec, words, [trainer])


def _places(name: str, target: Path, algorithms: Sequence[str], *, has_profile: bool) -> Written:
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
    names = algorithms if len(algorithms) > 1 else ["trainer"]
    trainers = tuple(study.with_name(f"{study.stem}_{each}.yaml") for each in names)
    profile = study.with_name(f"{study.stem}_profile.yaml") if has_profile else None
    written = Written(study, trainers if algorithms else (), profile)
    _check_free(written)
    return written


def _check_free(written: Written) -> None:
    for file in written.files:
        if file.exists():
            raise UsageError(f"{file} exists and is not overwritten; name another file or folder")


def _write(
    files: Written,
    about: Sequence[str],
    spec: StudySpec,
    words: str,
    trainers: Sequence[TrainerConfig],
    copied: str = "",
) -> Written:
    """Write a study, headed by ``about``, and its configurations, headed by ``words``.

    And the text of its profile or program, which is ``copied``.
    """
    name, executor = files.study.stem, spec.executor
    names = [file.name for file in files.trainers]
    base = names[0] if names else spec.base
    if len(names) > 1:
        base = {own.algorithm: file for own, file in zip(trainers, names, strict=True)}
    if isinstance(executor, SlurmOptions) and files.profile is not None:
        executor = replace(executor, profile=files.profile.name)
    storage = f"sqlite:///runs/{name}.db"
    spec = replace(spec, name=name, storage=storage, base=base, executor=executor)
    texts = [
        _comment([f"hpsearch train {file}", words, TRAINER_WORDS]) + explained(trainer)
        for file, trainer in zip(files.trainers, trainers, strict=True)
    ]
    texts += [copied] if files.profile or files.program else []
    study_head = _comment([f"hpsearch {files.verb} {files.study}", *about, STUDY_WORDS])
    texts.append(study_head + explained(spec))
    try:
        for file, text in zip(files.files, texts, strict=True):
            write_text(file, text)
    except DiskError:
        for file in files.files:
            file.unlink(missing_ok=True)
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
            yield path, FloatParameter(low=rate / FACTOR, high=rate * FACTOR, log=True)
        low, high = (round(max(0.0, 1 - (1 - gamma) * by), 4) for by in (FACTOR, 1 / FACTOR))
        if low < high:  # a discount of nearly 1 has nothing around it
            yield f"{role}.gamma", FloatParameter(low=low, high=high)

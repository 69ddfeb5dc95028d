"""The study file: its blocks, and how they are read with all faults at once."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from hpsearch import yaml_file
from hpsearch.cluster.record_files import RecordFile, read_record
from hpsearch.cluster.slurm_profile import load_profile
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConfigError, CorruptError
from hpsearch.parameters import Parameter
from hpsearch.population.options import PopulationOptions
from hpsearch.programs.config import PROGRAM, ProgramConfig
from hpsearch.schema import (
    Config,
    NonNegative,
    Positive,
    Range,
    apply,
    read,
    read_hint,
    to_plain,
)
from hpsearch.study import options, spec_checks
from hpsearch.study.breeding.checks import population_problems, schedule_problems
from hpsearch.study.space import ALGORITHM, SearchSpace
from hpsearch.study.url import FROM_ENVIRONMENT
from hpsearch.trainers.config import read_config

if TYPE_CHECKING:
    from hpsearch.study.records import Trial


ENOUGH_PROBLEMS = 100  # after which no more are looked for: each takes time to explain
SEEDS_PER_STUDY = 1_000_000


@dataclass(frozen=True)
class Objective:
    """One number by which trials are compared."""

    metric: str
    """name under which the trainer reports it"""
    goal: Literal["maximize", "minimize"]


@dataclass(frozen=True)
class Budget:
    """When the study is finished, counted over all its runs."""

    trials: Positive
    """trials in all"""
    wall_hours: Annotated[float, Range(low=0.0, open_low=True)] | None = None
    """hours after which no trial is started"""
    gpu_hours: Annotated[float, Range(low=0.0, open_low=True)] | None = None
    """hours of GPUs, spent by all jobs together, after which no job is started"""


@dataclass(frozen=True)
class StudySpec:
    """What a study file says."""

    name: str
    """letters, digits and . _ -; also the name of the study's directory"""
    seed: NonNegative
    """of all suggestions and, with the trial's number, of all training"""
    storage: str
    """database URL, or env: and the name of the environment variable that holds it"""
    base: str | dict[str, str] | ProgramConfig
    """path of a trainer configuration, from the study file; one for each algorithm; or any program,
    which is run in place of a trainer"""
    objectives: tuple[Objective, ...]
    """by what trials are compared; of several, which are not pruned, the first names the best"""
    space: dict[str, Parameter]
    """parameters by the dotted path of the trainer configuration that they set"""
    budget: Budget
    sampler: options.Sampler = field(default_factory=options.TPEOptions)
    """how configurations are suggested"""
    pruner: options.Pruner = field(default_factory=options.NoPruning)
    """which trials end early"""
    max_failures: NonNegative = 3
    """the study stops when more trials than this have failed"""
    population: PopulationOptions | None = None
    """how trials follow each other as the intervals of members that breed; null for a search"""
    executor: options.ExecutorOptions = field(default_factory=options.LocalOptions)
    """where jobs run, unless there are executors; `Study.executor` says which it is"""
    executors: tuple[options.SlurmOptions, ...] = ()
    """in place of executor, several profiles of a cluster, the preferred first: a job goes by the
    first that has fewer than its jobs"""
    prometheus: options.PrometheusOptions | None = None
    """where the driver serves metrics of the study; null: nowhere"""
    notify: tuple[options.Notice, ...] = ()
    """who is told when the study ends, fails, stalls or has a new best"""
    track: tuple[options.Tracker, ...] = ()
    """where every trial is also a run; each tracker once"""

    def check(self) -> Iterator[str]:
        if not self.space:
            yield "space must name at least one parameter, but is empty"
        names = [tracker.name for tracker in self.track]
        if len(set(names)) < len(names):
            yield f"track must name each tracker once, but names {', '.join(names)}"
        yield from options.executors_problems(self.executors)


@dataclass(frozen=True)
class Study:
    """A study file that is right, with the base configurations that it names."""

    path: Path
    spec: StudySpec
    bases: Mapping[str, Config]  # complete configurations by algorithm
    space: SearchSpace
    founders: tuple[Config, ...] = ()
    """complete trainer configurations of the checkpoints with which a population begins"""
    trials_in_file: int | None = None
    """budget.trials of the file, whatever total a command gave; None where no file was read"""
    is_whole: bool = True
    """whether no part was left out, as its package is not here; see `readable_study`"""

    @property
    def is_program(self) -> bool:
        """Whether its trials are programs, which play no games."""
        return PROGRAM in self.bases

    @property
    def executor(self) -> options.ExecutorOptions:
        """Where its jobs run; of several executors the first, with the jobs of all."""
        return _joined(self.spec.executor, self.spec.executors)

    @property
    def on_slurm(self) -> tuple[options.SlurmOptions, ...]:
        """Its executors on a SLURM cluster, in order of preference."""
        executor = self.spec.executor
        return self.spec.executors or (
            (executor,) if isinstance(executor, options.SlurmOptions) else ()
        )

    def profile_of(self, executor: options.SlurmOptions) -> Path:
        return self.path.parent / executor.profile

    def with_executor(self, executor: options.ExecutorOptions) -> "Study":
        spec = dataclasses.replace(self.spec, executor=executor, executors=())
        return dataclasses.replace(self, spec=spec)

    @property
    def uses_gpus(self) -> bool:
        return spec_checks.use_gpus((*self.bases.values(), *self.founders), self.space.parameters)

    @property
    def gpu_settings(self) -> tuple[str, str]:
        """The settings by which trials use a GPU, and by which they use none."""
        if self.is_program:
            return "gpus: 1 in base", "gpus: 0 in base"
        return "device: cuda", "device: cpu"

    @property
    def gpus_per_job(self) -> int:
        executor = self.executor
        if isinstance(executor, options.LocalOptions) and executor.gpus_per_job is not None:
            return executor.gpus_per_job
        return executor.ranks * self.gpus_per_rank

    @property
    def gpus_per_rank(self) -> int:
        """How many each rank needs."""
        configs = (*self.bases.values(), *self.founders)
        return spec_checks.gpus_per_rank(configs, self.space.parameters)

    @property
    def has_actors(self) -> bool:
        return any(base.get("rollouts", {}).get("mode") == "actors" for base in self.bases.values())

    @property
    def fewer_gpus(self) -> tuple[int, ...]:
        """With how many GPUs a job of this machine may also begin, the most first."""
        executor = self.executor
        if not isinstance(executor, options.LocalOptions):
            return ()
        per_rank = self.gpus_per_job // executor.ranks
        return tuple(per_rank * num for num in executor.fewer_ranks if per_rank)

    @property
    def refills(self) -> bool:
        """Return whether a pilot is given more while some of its trials still train.

        False with islands, whose members train together from match to match. False also for the
        only job of a study on this machine: what is asked for then depends on the history alone, so
        that the same seed gives the same trials after any kill.
        """
        executor, population = self.executor, self.spec.population
        is_only_job = isinstance(executor, options.LocalOptions) and executor.jobs == 1
        return not is_only_job and (population is None or population.islands is None)

    def trial_config(self, number: int, params: Mapping[str, Any]) -> Config:
        """Return a trial's configuration; its seed is derived by number, unless searched."""
        return self.trainer_config(self._seed(number) | self.space.decode(params))

    def config_of(self, trial: "Trial") -> Config:
        """Return the trainer configuration of a trial."""
        origin, settings = trial.origin, self.settings_of(trial)
        if origin is None or origin.founder is None:
            return self.trainer_config(settings)
        return apply(self.founders[origin.founder], settings)

    def settings_of(self, trial: "Trial") -> dict[str, Any]:
        """Return what a trial changes in its base; a member trains to its interval's end."""
        settings = self._seed(trial.number) | self.space.decode(trial.last_params)
        if trial.origin is not None:
            settings |= {"steps": trial.origin.steps}
        return settings

    def _seed(self, number: int) -> dict[str, int]:
        return {"seed": self.spec.seed * SEEDS_PER_STUDY + number}

    def trainer_config(self, values: Mapping[str, Any]) -> Config:
        algorithm = values.get(ALGORITHM, next(iter(self.bases)))
        settings = {path: value for path, value in values.items() if path != ALGORITHM}
        return apply(self.bases[algorithm], settings)


def load_spec(path: Path, *, trials: int | None = None) -> Study:
    """Return the study of a file, with ``trials`` in all if given; ConfigError lists all faults."""
    data, trials_in_file = yaml_file.load(path), None
    if isinstance(data, dict) and isinstance(data.get("budget"), dict):
        trials_in_file = data["budget"].get("trials")
        if trials is not None:
            data = data | {"budget": data["budget"] | {"trials": trials}}
    _refuse_trainer(data, path)
    problems: list[str] = []
    if isinstance(data, dict) and data.get("executors") and "executor" in data:
        problems.append("executors must not stand beside executor; leave one of them out")
    try:
        spec = read(StudySpec, data, source=str(path))
    except ConfigError as error:
        problems += error.problems
        if len(problems) > ENOUGH_PROBLEMS:
            raise
    sections = read_sections(data)
    problems += spec_checks.section_problems(sections)
    wrong: list[tuple[Config, Sequence[str]]] = []
    bases = _read_bases(sections.get("base", {}), path.parent, problems, wrong)
    parameters = sections.get("space", {})
    problems += spec_checks.trainer_problems(sections.get("objectives", ()), parameters, bases)
    problems += population_problems(sections, bases)
    executor, sampler = sections.get("executor"), sections.get("sampler")
    for key, each in _executors(sections):
        problems += _profile_problems(key, each, path.parent)
    problems += islice(_space_problems(data, parameters, bases, wrong), ENOUGH_PROBLEMS)
    founders = spec_checks.read_founders(sections, path.parent, problems)
    configs = (*bases.values(), *founders)
    problems += spec_checks.gpu_problems(executor, configs, parameters)
    if executor is not None:
        key = f"{options.executor_key(sections)}.ranks"
        problems += spec_checks.rank_problems(key, executor.ranks, configs, parameters)
    if isinstance(sampler, options.ListedOptions):
        faults = spec_checks.configuration_problems(
            "sampler.configurations", sampler.configurations, parameters, data
        )
        problems += islice(faults, ENOUGH_PROBLEMS)
    problems += schedule_problems(sections, bases, data)
    if problems:
        raise ConfigError(str(path), problems)
    return Study(path, spec, bases, SearchSpace(spec.space), founders, trials_in_file)


def _refuse_trainer(data: object, path: Path) -> None:
    of_studies = ("name", "base", "space", "objectives")  # keys
    if isinstance(data, dict) and "algorithm" in data and data.keys().isdisjoint(of_studies):
        remedy = f"train it with: hpsearch train {path}"
        raise ConfigError(
            str(path), [f"the file holds a trainer's configuration and no study; {remedy}"]
        )


@dataclass(frozen=True)
class GivenTotal:
    """The total that `run --trials` gave last; it counts until the file's own changes."""

    trials: int
    in_file: int  # what the study file said then


def load_study(path: Path, runs: Path, trials: int | None = None) -> Study:
    """Return the study of a file, with a total that is given now, or before and not damaged."""
    if trials is not None:
        return load_spec(path, trials=trials)
    study = load_spec(path)
    folder, in_file = StudyDir(runs / study.spec.name), study.spec.budget.trials
    before = None
    with suppress(CorruptError):
        before = read_record(GivenTotal, folder.given_total) if folder.root.is_dir() else None
    if before is None or before.in_file != in_file or before.trials == in_file:
        return study
    return load_spec(path, trials=before.trials)


def note_given_total(study: Study, folder: StudyDir) -> None:
    """Note the total that was given in place of the file's, or that none is any more."""
    total, in_file = study.spec.budget.trials, study.trials_in_file
    # A study as it was last driven says nothing of its file, so what was noted still holds.
    if in_file is not None and (in_file != total or folder.given_total.exists()):
        RecordFile(GivenTotal, folder.given_total).write(GivenTotal(total, in_file))


def secret_variables(spec: StudySpec) -> frozenset[str]:
    """Return the environment variables from which the driver takes what no job may know."""
    token = None if spec.prometheus is None else spec.prometheus.token
    sources = [spec.storage] if token is None else [spec.storage, token]
    sources += [notice.to for notice in spec.notify if isinstance(notice, options.AddressNotice)]
    named = [source for source in sources if source.startswith(FROM_ENVIRONMENT)]
    of_trackers = [name for tracker in spec.track for name in tracker.SECRETS]
    return frozenset(source.removeprefix(FROM_ENVIRONMENT) for source in named) | {*of_trackers}


def read_sections(data: object) -> dict[str, Any]:
    """Return the top-level keys that can be read, each alone, so that one fault hides no other."""
    if not isinstance(data, Mapping):
        return {}
    sections: dict[str, Any] = {}
    for section in dataclasses.fields(StudySpec):
        if section.name == "space":
            sections["space"] = _readable_parameters(data.get("space"))
        elif section.name in data:
            sections |= _read_alone(section.name, section.type, data[section.name])
        elif section.default_factory is not dataclasses.MISSING:
            sections[section.name] = section.default_factory()
    if "executors" in data and "executors" not in sections:  # else the default would be judged
        sections.pop("executor", None)
    if "executor" in sections:
        sections["executor"] = _joined(sections["executor"], sections.get("executors", ()))
    return sections


def _readable_parameters(data: object) -> dict[str, Parameter]:
    """Return the parameters that can be read, without those that depend on unreadable ones."""
    if not isinstance(data, Mapping):
        return {}
    readable: dict[str, Parameter] = {}
    for name, entry in data.items():
        readable |= _read_alone(str(name), Parameter, entry)
    unreadable = set(map(str, data)) - readable.keys()
    while lost := {name for name in readable if not unreadable.isdisjoint(readable[name].when)}:
        unreadable |= lost
        readable = {name: readable[name] for name in readable if name not in lost}
    return readable


def _read_alone(name: str, hint: Any, data: object) -> dict[str, Any]:
    try:
        return {name: read_hint(hint, data, source=name)}
    except ConfigError:
        return {}


def _space_problems(
    data: Any,
    parameters: Mapping[str, Parameter],
    bases: Mapping[str, Config],
    wrong: Sequence[tuple[Config, Sequence[str]]],
) -> Iterator[str]:
    """Yield what is wrong with the space; ``wrong`` are bases as their files hold them, and why."""
    conditions = list(islice(spec_checks.condition_problems(parameters), ENOUGH_PROBLEMS))
    yield from conditions
    checked = dict(parameters)
    if conditions:  # of parameters with conditions it is not known in which trials they are
        checked = {name: checked[name] for name in parameters if not parameters[name].when}
    if bases:
        yield from spec_checks.algorithm_problems(parameters, bases)
        yield from spec_checks.base_problems(SearchSpace(checked), bases)
    space = data.get("space") if isinstance(data, Mapping) else None
    configs = [*bases.values(), *(config for config, _ in wrong)]
    if isinstance(space, Mapping) and configs:
        left = [str(name) for name in space if not (bases and name in checked)]
        faults = [fault for _, faults in wrong for fault in faults]
        yield from spec_checks.unread_problems(left, configs, faults)


def _joined(
    executor: options.ExecutorOptions, executors: Sequence[options.SlurmOptions]
) -> options.ExecutorOptions:
    """Return where jobs run: of several executors the first, with the jobs of all."""
    if not executors:
        return executor
    return dataclasses.replace(executors[0], jobs=sum(each.jobs for each in executors))


def _executors(sections: Mapping[str, Any]) -> Iterator[tuple[str, options.ExecutorOptions]]:
    """Yield the key and the options of each executor that can be read."""
    executors = sections.get("executors", ())
    yield from ((f"executors[{place}]", executor) for place, executor in enumerate(executors))
    if not executors and "executor" in sections:
        yield "executor", sections["executor"]


def _profile_problems(
    key: str, executor: options.ExecutorOptions, directory: Path
) -> Iterator[str]:
    if not isinstance(executor, options.SlurmOptions):
        return
    try:
        profile = load_profile(directory / executor.profile)
    except ConfigError as error:
        yield from (f"{key}.profile {error.source}: {problem}" for problem in error.problems)
        return
    ranks, nodes, at_once = executor.ranks, profile.nodes, profile.tasks_per_job
    if at_once * ranks % nodes:
        yield (
            f"{key}.profile: nodes must divide the tasks of a job, tasks_per_job={at_once} "
            f"times {key}.ranks={ranks}, but is {nodes}"
        )
    elif executor.min_ranks is not None and (at_once > 1 or executor.min_ranks % (ranks // nodes)):
        yield (
            f"{key}.min_ranks must fill whole nodes of {at_once * ranks // nodes} tasks each, "
            f"with tasks_per_job: 1 in the profile, but is {executor.min_ranks}"
        )


def _read_bases(
    base: str | dict[str, str] | ProgramConfig,
    directory: Path,
    problems: list[str],
    wrong: list[tuple[Config, Sequence[str]]],
) -> dict[str, Config]:
    """Return the bases by algorithm; faults go to ``problems``, wrong bases to ``wrong``."""
    if isinstance(base, ProgramConfig):
        return {PROGRAM: to_plain(base)}
    named = {None: base} if isinstance(base, str) else dict(base)
    bases: dict[str, Config] = {}
    for algorithm, file in named.items():
        path = directory / file
        data = None
        try:
            data = yaml_file.load(path)
            config = read_config(data, source=str(path))
        except ConfigError as error:
            problems += [f"base {path}: {problem}" for problem in error.problems]
            if isinstance(data, dict):
                wrong.append((data, error.problems))
            continue
        if algorithm not in (None, config.algorithm):
            problems.append(f"base.{algorithm} names {path}, whose algorithm is {config.algorithm}")
            continue
        bases[config.algorithm] = to_plain(data)  # a copy: the file may have YAML aliases
    return bases

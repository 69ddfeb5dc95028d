"""Study files: what is right is read, what is wrong is said, all at once."""

import copy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_actors import FIXED
from study_files import BASE, BATCH_SIZE, LR, NET_ARCH, load, plain_study

from hpsearch import yaml_file
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConfigError, StorageError
from hpsearch.schema import to_plain
from hpsearch.study.derived import inherited
from hpsearch.study.options import (
    HyperbandOptions,
    LocalOptions,
    NoPruning,
    SlurmOptions,
    TPEOptions,
)
from hpsearch.study.spec import load_spec
from hpsearch.study.spec_checks import rank_problems
from hpsearch.study.spec_warnings import warnings_of
from hpsearch.study.stored_spec import spec_hash, spec_json, stored_study
from hpsearch.study.url import hide_password, storage_url, url_problem
from hpsearch.trainers.config import read_config

DOUBLE = {"type": "categorical", "choices": [True, False]}
PROFILE = Path(__file__).parents[2] / "slurm/dev-cluster.yaml"
GAMMA = {"type": "float", "low": 0.5, "high": 0.99}


def problems(folder: Path, **changes: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load(folder, **changes)
    return caught.value.problems


def test_minimal_file_has_documented_defaults(tmp_path: Path) -> None:
    spec = load(tmp_path).spec
    assert spec.sampler == TPEOptions()
    assert spec.pruner == NoPruning()
    assert spec.max_failures == 3
    assert spec.executor == LocalOptions("local", jobs=1, members_per_job=1, cpus_per_job=None)
    assert spec.budget.wall_hours is None


def test_whole_file_is_read(tmp_path: Path) -> None:
    study = load(
        tmp_path,
        space={
            "host.optim.args.lr": LR,
            "host.batch_size": BATCH_SIZE,
            "host.net_arch": NET_ARCH,
            "algorithm": {"type": "categorical", "choices": ["dqn"]},
            "dqn.double": DOUBLE | {"when": {"algorithm": "dqn"}},
            "host.gamma": GAMMA | {"when": {"dqn.double": [True], "host.net_arch": [64, 64]}},
        },
        pruner={"name": "hyperband", "max_resource": 4000, "min_resource": 500},
        executor={"name": "local", "jobs": 2, "members_per_job": 4, "cpus_per_job": None},
    )
    assert study.spec.pruner == HyperbandOptions("hyperband", 4000, 500)
    assert study.space.parameters["host.optim.args.lr"].low == 1e-5
    assert study.bases == {"dqn": yaml_file.load(BASE)}


def test_trainer_config_is_complete_and_leaves_the_base_alone(tmp_path: Path) -> None:
    study = load(tmp_path)
    before = copy.deepcopy(study.bases["dqn"])
    plain = study.trainer_config({"host.optim.args.lr": 0.002, "host.net_arch": [128, 128]})
    config = read_config(plain, source="test")
    assert config.host.optim.args.lr == 0.002
    assert config.host.net_arch == (128, 128)
    assert study.bases["dqn"] == before


def test_all_faults_are_listed_at_once(tmp_path: Path) -> None:
    messages = problems(
        tmp_path,
        name="a b",
        storage="postgresql://me:secret@host/db",
        space={
            "host.optim.args.lr": LR | {"low": 0.1},
            "host.optim.args.lrr": LR,
            "host.gamma": GAMMA | {"high": 1.5},
            "host.tau": GAMMA | {"when": {"nothing": 1}},
        },
        sampler={"name": "tpee"},
        pruner={"name": "median", "warmup": 3},
        budget={},
        extra=1,
    )
    said = "\n".join(messages)
    for part in (
        "name must begin",
        "env:HPSEARCH_STORAGE",
        "low must not lie above high",
        "did you mean host.optim.args.lr",
        "space.host.gamma allows 1.5",
        "unknown parameter 'nothing'",
        "did you mean 'tpe'",
        "unknown key 'warmup'",
        "budget.trials is missing",
        "unknown key 'extra'",
    ):
        assert part in said
    assert len(messages) == 10
    assert "secret" not in said


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "-x"}, "name must begin"),
        ({"name": "x" * 65}, "at most 64"),
        ({"seed": "1"}, "seed must be a whole number"),
        ({"storage": "quick.db"}, "storage must be a database URL"),
        ({"storage": "sqlite://"}, "storage must name a file"),
        ({"storage": "sqlite:///:memory:"}, "storage must name a file"),
        ({"storage": "env:"}, "name of an environment variable"),
        ({"storage": "mysql://host/db?user=me&password=x"}, "must not hold a password"),
        ({"base": "nowhere.yaml"}, "nowhere.yaml: does not exist"),
        ({"base": {"ppo": str(BASE)}}, "whose algorithm is dqn"),
        ({"objectives": []}, "objectives must name at least one"),
        ({"objectives": [{"metric": " ", "goal": "minimize"}]}, "metric must not be empty"),
        ({"objectives": [{"metric": "a", "goal": "minimize"}] * 2}, "stands twice"),
        ({"prometheus": {"port": 0}}, "prometheus.port must lie in"),
        ({"prometheus": {"port": 9464, "host": ""}}, "host must be a name or an address"),
        ({"executor": {"name": "local", "gpus_per_job": -1}}, "gpus_per_job must lie in [0, inf)"),
        ({"prometheus": {"port": 9464, "token": "env:"}}, "token must be the path of a file"),
        ({"space": {}}, "space must name at least one parameter"),
        ({"sampler": {"name": "grid"}}, "space.host.optim.args.lr must have a step"),
        ({"pruner": {"name": "hyperband"}}, "pruner.max_resource is missing"),
        (
            {"pruner": {"name": "hyperband", "max_resource": 3, "min_resource": 9}},
            "min_resource must not lie above max_resource",
        ),
        (
            {"pruner": {"name": "successive_halving", "bootstrap_count": 2}},
            "bootstrap_count must be 0 while min_resource is auto",
        ),
        ({"sampler": {"name": "cmaes", "popsize": 3}}, "popsize must lie in [4, inf)"),
        ({"executor": {"name": "slrum"}}, "unknown name 'slrum' (did you mean 'slurm'?)"),
        ({"executor": {"name": "slurm"}}, "executor.profile is missing"),
        (
            {"executor": {"name": "slurm", "profile": "none.yaml", "jobs": 2}},
            "none.yaml: does not exist; check the path",
        ),
        ({"executor": {"name": "local", "jobs": 0}}, "executor.jobs must lie in [1, inf)"),
        ({"budget": {"trials": 0}}, "budget.trials must lie in [1, inf)"),
    ],
)
def test_fault_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    assert any(message in problem for problem in problems(tmp_path, **changes))


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        (LR | {"low": 0.0}, "low must be above 0 for a logarithmic range"),
        (LR | {"step": 0.1}, "step cannot be combined with log"),
        (GAMMA | {"step": 0.2}, "the nearest below is 0.9"),
        (GAMMA | {"step": 0.0}, "step must be above 0"),
        (GAMMA | {"low": "0.5"}, "a text; write the number without quotes"),
        (BATCH_SIZE | {"high": 500}, "the nearest below is 448"),
        (BATCH_SIZE | {"log": True}, "step cannot be combined with log"),
        ({"type": "categorical", "choices": []}, "at least one value"),
        ({"type": "categorical", "choices": [1, True]}, "true and 1 are the same to Optuna"),
        ({"type": "categorical", "choices": [[64], "[64]"]}, "are the same to Optuna"),
        ({"type": "categorical", "choices": [float("nan")]}, "choices must be numbers"),
        ({"type": "integer", "low": 1, "high": 2}, "valid: categorical, float, int"),
    ],
)
def test_fault_of_a_parameter_is_named(
    tmp_path: Path, parameter: dict[str, Any], message: str
) -> None:
    messages = problems(tmp_path, space={"host.gamma": parameter})
    assert messages[0].startswith("space.host.gamma")
    assert message in messages[0]


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"host.gama": GAMMA}, "(did you mean host.gamma"),
        ({"lr": LR}, "(did you mean host.optim.args.lr"),
        ({"host.gamma": GAMMA | {"when": {"host.er": 0.1}, "low": 0.1}}, "unknown parameter"),
        (
            {"host.gamma": GAMMA | {"when": {"host.tau": 0.5}}, "host.tau": GAMMA},
            "must name a categorical parameter, but it is of type float",
        ),
        (
            {"host.gamma": GAMMA | {"when": {"dqn.double": "yes"}}, "dqn.double": DOUBLE},
            "unknown choice '\"yes\"'",
        ),
        (
            {"host.gamma": GAMMA | {"when": {"dqn.double": 1}}, "dqn.double": DOUBLE},
            "unknown choice '1'; valid: false, true",
        ),
        (
            {"host.gamma": GAMMA | {"when": {"dqn.double": []}}, "dqn.double": DOUBLE},
            "the list is empty",
        ),
        (
            {
                "dqn.double": DOUBLE | {"when": {"reposition": True}},
                "reposition": DOUBLE | {"when": {"dqn.double": True}},
            },
            "dqn.double needs reposition needs dqn.double",
        ),
        ({"algorithm": {"type": "categorical", "choices": ["dqn", "ppo"]}}, "offers 'ppo'"),
        ({"host.batch_size": BATCH_SIZE | {"low": 0}}, "host.batch_size must lie in [1, inf)"),
        ({"host.batch_size": GAMMA}, "host.batch_size must be a whole number, but is 0.5"),
        (
            {"reward": {"type": "categorical", "choices": ["terminal", "nothing"]}},
            "allows 'nothing', which is no valid dqn configuration: reward is an unknown",
        ),
    ],
)
def test_fault_between_parameters_and_base_is_named(
    tmp_path: Path, space: dict[str, Any], message: str
) -> None:
    assert any(message in problem for problem in problems(tmp_path, space=space))


def test_what_depends_on_an_unreadable_parameter_has_no_fault_of_its_own(tmp_path: Path) -> None:
    """Nor has what depends on that, nor what needs none of them."""
    space = {
        "reposition": {"type": "categorical"},
        "dqn.double": DOUBLE | {"when": {"reposition": True}},
        "host.gamma": GAMMA | {"when": {"dqn.double": True}},
        "host.net_arch": NET_ARCH,
        "host.tau": GAMMA | {"when": {"host.net_arch": [[64, 64]]}},
    }
    assert problems(tmp_path, space=space) == ("space.reposition.choices is missing",)


def test_path_that_a_choice_brings_is_known_where_the_choice_is_taken(tmp_path: Path) -> None:
    schedules = [{"mode": "constant"}, {"mode": "linear", "initial": 1.0, "steps": 10}]
    schedule = {"type": "categorical", "choices": schedules}
    steps = {"type": "int", "low": 10, "high": 100}
    space = {"host.er_schedule": schedule, "host.er_schedule.steps": steps}
    assert "no path of the dqn base" in problems(tmp_path, space=space)[0]

    space["host.er_schedule.steps"] = steps | {"when": {"host.er_schedule": schedules[1]}}
    study = load(tmp_path, space=space)
    values = {"host.er_schedule.steps": 70, "host.er_schedule": schedules[1]}
    applied = study.trainer_config(values)["host"]["er_schedule"]
    assert applied == {"mode": "linear", "initial": 1.0, "steps": 70}


@pytest.mark.parametrize("pruner", ["median", "successive_halving", "hyperband"])
def test_several_objectives_exclude_pruners_and_cmaes(tmp_path: Path, pruner: str) -> None:
    measured = ("rho/host/choose_first", "rho_sampled/host/choose_first")
    objectives = [{"metric": name, "goal": "maximize"} for name in measured]
    options = {"name": pruner} | ({"max_resource": 9} if pruner == "hyperband" else {})
    messages = problems(tmp_path, objectives=objectives, pruner=options, sampler={"name": "cmaes"})
    assert len(messages) == 2
    assert "pruner must be none" in messages[0]
    assert "sampler must not be cmaes" in messages[1]
    load(tmp_path, objectives=objectives)


def test_file_that_is_no_mapping(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text("- 1\n")
    with pytest.raises(ConfigError, match="must be a mapping"):
        load_spec(path)


@pytest.mark.parametrize("where", ["base", "space"])
def test_gpus_of_a_job_on_this_machine(tmp_path: Path, where: str) -> None:
    """One where a trial may train on a GPU, unless the file says otherwise; none would be wrong."""
    device = {"type": "categorical", "choices": ["cpu", "cuda"]}
    cuda: dict[str, Any] = {"space": {"host.gamma": GAMMA, "device": device}}
    if where == "base":
        base = yaml_file.load(BASE) | {"device": "cuda"}
        (tmp_path / "cuda.yaml").write_text(yaml_file.dump(base))
        cuda = {"base": str(tmp_path / "cuda.yaml")}

    def gpus(number: int | None, **changes: Any) -> int:
        executor = {"name": "local", "gpus_per_job": number}
        return load(tmp_path, executor=executor, **changes).gpus_per_job

    assert [gpus(None), gpus(0), gpus(2)] == [0, 0, 2]
    assert [gpus(None, **cuda), gpus(2, **cuda)] == [1, 2]
    assert problems(tmp_path, executor={"name": "local", "gpus_per_job": 0}, **cuda) == (
        "executor.gpus_per_job must be 1 or more where trials train on device cuda, but is 0; "
        "leave it out, or set device: cpu",
    )


@pytest.mark.parametrize(
    ("ranks", "shards", "searched", "wrong"),
    [
        (2, 4, None, None),
        (3, 4, None, 4),
        (1, 8, None, None),
        (2, 2, {"type": "categorical", "choices": [4, 8]}, None),
        (2, 2, {"type": "categorical", "choices": [4, 1]}, 1),
        (2, 2, {"type": "int", "low": 2, "high": 8, "step": 2}, None),
        (2, 2, {"type": "int", "low": 2, "high": 8}, 3),
        (2, 2, {"type": "int", "low": 2, "high": 2}, None),
    ],
)
def test_ranks_divide_the_shards(tmp_path: Path, ranks, shards, searched, wrong) -> None:
    plain = yaml_file.load(BASE) | {"shards": shards}
    (tmp_path / "sharded.yaml").write_text(yaml_file.dump(plain))
    space = {"host.gamma": GAMMA} | ({} if searched is None else {"shards": searched})
    executor = {"name": "local", "ranks": ranks}
    base = str(tmp_path / "sharded.yaml")
    study = {"executor": executor, "base": base, "space": space}
    if wrong is None:
        load(tmp_path, **study)
    else:
        assert problems(tmp_path, **study) == (
            f"executor.ranks must divide the trainer's key shards={wrong}, but is {ranks}; write a "
            "multiple of it there",
        )


def test_a_configuration_from_before_shards_has_one() -> None:
    assert [*rank_problems("executor.ranks", 1, [{}], {})] == []
    own = [{"shards": n, "rollouts": {"actors": n}} for n in (2, 4)]  # each base by itself
    assert [*rank_problems("executor.ranks", 1, own, {})] == []
    (problem,) = rank_problems("executor.ranks", 2, [{}], {})
    assert problem.startswith("executor.ranks must divide the trainer's key shards=1, but is 2; ")


def test_the_actors_of_all_ranks_divide_the_shards() -> None:
    config = {"shards": 4, "rollouts": {"mode": "actors", "actors": 2}}
    assert [*rank_problems("executor.ranks", 2, [config], {})] == []
    assert [*rank_problems("executor.ranks", 4, [config], {})] == [
        "executor.ranks=4 times the trainer's rollouts.actors=2 must divide its key shards=4; "
        "write a multiple of 8 there"
    ]


def test_each_rank_has_a_gpu(tmp_path: Path) -> None:
    plain = yaml_file.load(BASE) | {"device": "cuda", "shards": 2}
    (tmp_path / "cuda.yaml").write_text(yaml_file.dump(plain))
    base = str(tmp_path / "cuda.yaml")
    assert load(tmp_path, executor={"name": "local", "ranks": 2}, base=base).gpus_per_job == 2
    assert problems(
        tmp_path, executor={"name": "local", "ranks": 2, "gpus_per_job": 1}, base=base
    ) == (
        "executor.gpus_per_job must be a multiple of executor.ranks=2 where trials train on "
        "device cuda, but is 1; leave it out, or set device: cpu",
    )


def test_so_has_each_actor_to_which_weights_go_by_nccl(tmp_path: Path) -> None:
    plain = yaml_file.load(BASE) | {"device": "cuda", "shards": 4}
    plain["rollouts"] = to_plain(replace(FIXED, device="cuda", sync_method="nccl"))
    (tmp_path / "cuda.yaml").write_text(yaml_file.dump(plain))
    base, executor = str(tmp_path / "cuda.yaml"), {"name": "local", "ranks": 2}
    assert load(tmp_path, executor=executor, base=base).gpus_per_job == 2 * 3
    assert problems(tmp_path, executor=executor | {"gpus_per_job": 4}, base=base) == (
        "executor.gpus_per_job must be a multiple of executor.ranks=2, with 3 for each rank, as "
        "weights go to actors by NCCL, where trials train on device cuda, but is 4; leave it out, "
        "or set device: cpu",
    )


@pytest.mark.parametrize("gpus_per_job", [None, 8])
def test_a_job_may_begin_with_fewer_ranks(tmp_path: Path, gpus_per_job: int | None) -> None:
    plain = yaml_file.load(BASE) | {"device": "cuda", "shards": 4}
    (tmp_path / "cuda.yaml").write_text(yaml_file.dump(plain))
    base, per_rank = str(tmp_path / "cuda.yaml"), 1 if gpus_per_job is None else 2

    def fewer(min_ranks: int | None) -> list[float]:
        executor = {"ranks": 4, "min_ranks": min_ranks, "gpus_per_job": gpus_per_job}
        study = load(tmp_path, executor={"name": "local", **executor}, base=base)
        return [num / per_rank for num in study.fewer_gpus]

    assert [fewer(None), fewer(4), fewer(2), fewer(1)] == [[], [], [2], [2, 1]]


def test_several_executors_are_one_with_the_jobs_of_all(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(PROFILE.read_text())
    slurm = {"name": "slurm", "profile": str(PROFILE), "jobs": 2, "members_per_job": 4}
    study = load(tmp_path, executors=[slurm, slurm | {"profile": "other.yaml", "jobs": 3}])
    assert isinstance(study.executor, SlurmOptions)
    assert (study.executor.jobs, study.executor.members_per_job) == (5, 4)
    assert [study.profile_of(executor) for executor in study.on_slurm] == [PROFILE, other]
    again = stored_study(spec_json(study), study.path)
    assert (again.on_slurm, again.executor) == (study.on_slurm, study.executor)
    derived = inherited(study, StudyDir(tmp_path / "runs/other"))
    assert [executor["profile"] for executor in derived["executors"]] == [str(PROFILE), str(other)]
    assert "executor" not in derived
    alone = study.with_executor(study.on_slurm[1])
    assert (alone.executor, alone.on_slurm) == (study.on_slurm[1], study.on_slurm[1:])


@pytest.mark.parametrize(
    ("executors", "change", "problem"),
    [
        ([{}], {"executor": {"name": "local"}}, "executors must not stand beside executor"),
        ([{"members_per_job": 2}, {}], {}, "executors must agree in members_per_job, but name 1"),
        ([{}, {"pilot": False}], {}, "executors must agree in pilot, but name false and true"),
        ([{"ranks": 2}], {}, "executors[0].ranks must divide the trainer's key shards=1, but is 2"),
        ([{}, {}], {}, "executors must name each profile once"),
        ([{}, {"profile": "none.yaml"}], {}, "executors[1].profile"),
        ([{}, {"name": "local"}], {}, "executors[1].name is an unknown name 'local'; valid: slurm"),
    ],
)
def test_several_executors_that_do_not_fit(
    tmp_path: Path, executors: list[dict[str, Any]], change: dict[str, Any], problem: str
) -> None:
    slurm = {"name": "slurm", "profile": str(PROFILE), "jobs": 1}
    faults = problems(tmp_path, executors=[slurm | each for each in executors], **change)
    assert [fault for fault in faults if problem in fault], faults


@pytest.mark.parametrize("min_ranks", [3, 8])
@pytest.mark.parametrize("name", ["local", "slurm"])
def test_fewer_ranks_divide_all(tmp_path: Path, name: str, min_ranks: int) -> None:
    of_cluster = {"profile": str(PROFILE), "jobs": 1} if name == "slurm" else {}
    executor = {"name": name, **of_cluster, "ranks": 4, "min_ranks": min_ranks}
    assert problems(tmp_path, executor=executor) == (
        f"executor.min_ranks must divide ranks=4, but is {min_ranks}",
    )


def test_hash_is_of_what_defines_the_search(tmp_path: Path) -> None:
    first = spec_hash(load(tmp_path))
    same = (
        {"budget": {"trials": 99}},
        {"storage": "sqlite:///other.db"},
        {"max_failures": 9},
        {"executor": {"name": "local", "jobs": 9}},
        {"executors": [{"name": "slurm", "profile": str(PROFILE), "jobs": 2}]},
        {"prometheus": {"port": 9464}},
        {"sampler": {"name": "tpe"}},
        {"space": {"host.net_arch": NET_ARCH, "host.optim.args.lr": LR}},
    )
    other = (
        {"seed": 2},
        {"name": "slow"},
        {"sampler": {"name": "random"}},
        {"space": {"host.net_arch": NET_ARCH}},
        {"objectives": [{"metric": "rho/host/choose_first", "goal": "minimize"}]},
    )
    assert {spec_hash(load(tmp_path, **changes)) for changes in same} == {first}
    assert len({first} | {spec_hash(load(tmp_path, **changes)) for changes in other}) == 6


def test_hash_follows_the_base_not_its_path(tmp_path: Path) -> None:
    base = tmp_path / "copy.yaml"
    base.write_text(BASE.read_text())
    assert spec_hash(load(tmp_path, base="copy.yaml")) == spec_hash(load(tmp_path))
    base.write_text(BASE.read_text().replace("seed: 1", "seed: 2"))
    assert spec_hash(load(tmp_path, base="copy.yaml")) != spec_hash(load(tmp_path))
    assert '"dimension": 3' in spec_json(load(tmp_path))


def test_a_base_that_would_not_go_on_is_refused(tmp_path: Path) -> None:
    text = BASE.read_text()
    assert "resume: auto" in text
    (tmp_path / "anew.yaml").write_text(text.replace("resume: auto", "resume: never"))
    with pytest.raises(ConfigError, match=r"must say checkpoint\.resume: auto.*says never"):
        load(tmp_path, base="anew.yaml")


def test_storage_url_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = load(tmp_path, storage="env:OUR_DATABASE").spec
    monkeypatch.delenv("OUR_DATABASE", raising=False)
    with pytest.raises(StorageError, match="OUR_DATABASE, which is not set; export"):
        storage_url(spec.name, spec.storage)
    monkeypatch.setenv("OUR_DATABASE", "nonsense")
    with pytest.raises(StorageError, match="OUR_DATABASE must be a database URL"):
        storage_url(spec.name, spec.storage)
    monkeypatch.setenv("OUR_DATABASE", "postgresql://me:secret@host/db")
    assert storage_url(spec.name, spec.storage) == "postgresql://me:secret@host/db"
    plain = load(tmp_path).spec
    assert storage_url(plain.name, plain.storage) == "sqlite:///quick.db"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("postgresql://me:secret@host:abc/db", "must have a number for a port"),
        ("mysql+pymysql://me:se@cret@host/db", "must write an @ in a name or password as %40"),
        ("postgresql://me:secret@host:5432/db", None),
        ("postgresql+psycopg://me:s%40cret@[::1]:5432/db?sslmode=require", None),
        ("postgresql+psycopg:///db?host=/var/run/postgresql", None),
        ("mysql+pymysql://me@host/db", None),
        ("sqlite:////home/me:you@here@x/x.db", None),
    ],
)
def test_what_is_wrong_with_a_url(url, problem):
    message = url_problem(url)
    if problem is None:
        assert message is None
    else:
        assert problem in message
        assert "cret" not in message


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("mysql+pymysql://me:se@cr:et/@host/db", "mysql+pymysql://me:***@host/db"),
        ("mysql://h/db?user=me&password=secret&x=1", "mysql://h/db?user=me&password=***&x=1"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("sqlite:////home/me:you@here/x.db", "sqlite:////home/me:you@here/x.db"),
    ],
)
def test_password_is_hidden(url: str, shown: str) -> None:
    assert hide_password(url) == shown


def test_warnings_name_what_may_surprise(tmp_path: Path) -> None:
    assert warnings_of(load(tmp_path)) == []
    cmaes = load(tmp_path, sampler={"name": "cmaes"})
    assert warnings_of(cmaes)[0].endswith("stay random: host.net_arch")
    gp = load(tmp_path, sampler={"name": "gp"}, budget={"trials": 5000})
    assert "cube of the trials" in warnings_of(gp)[0]
    breeding = {"members": 6, "interval": 500}
    population = load(tmp_path, population=breeding, sampler={"name": "qmc"})
    assert warnings_of(population) == [
        "6 members train 2 intervals of 500 steps each, and 4 of them one more"
    ]
    drawn = warnings_of(load(tmp_path, population=breeding, budget={"trials": 18}))
    assert drawn[0] == "6 members train 3 intervals of 500 steps each"
    assert "sampler tpe learns from values" in drawn[1]
    grid = load(tmp_path, sampler={"name": "grid"}, space={"host.net_arch": NET_ARCH})
    assert "2 configurations, fewer than the 16 trials" in warnings_of(grid)[0]


def test_reading_a_study_file_loads_neither_optuna_nor_sqlalchemy(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(yaml_file.dump(plain_study()))
    script = (
        "import sys; from pathlib import Path; from hpsearch.study.spec import load_spec; "
        f"load_spec(Path({str(path)!r})); "
        "print({'optuna', 'sqlalchemy', 'torch', 'numpy', 'alembic'} & set(sys.modules))"
    )
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert printed.stdout.strip() == "set()", printed.stderr

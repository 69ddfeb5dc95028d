"""SLURM profiles: every file loads, every fault has its path, submitit takes the parameters."""

import copy
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from profiles import plain_profile

from hpsearch.cluster.slurm_profile import (
    driver_options,
    load_profile,
    sbatch_parameters,
    trial_options,
)
from hpsearch.errors import ConfigError

PROFILES = sorted((Path(__file__).parents[2] / "slurm").glob("*.yaml"))

PLAIN = plain_profile()


@pytest.fixture
def load(tmp_path):
    """Return a function: changes, by dotted key -> the profile of such a file."""

    def load_changed(changes):
        plain = copy.deepcopy(PLAIN)
        for path, value in changes.items():
            place, _, key = path.rpartition(".")
            (plain[place] if place else plain)[key] = value
        path = tmp_path / "site.yaml"
        path.write_text(yaml.safe_dump(plain))
        return load_profile(path)

    return load_changed


def test_profiles_are_found():
    assert {path.stem for path in PROFILES} >= {"a100", "dev-cluster"}


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_every_profile_loads(path):
    sbatch_parameters(load_profile(path))


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_every_key_is_explained(path):
    readme = (path.parent / "README.md").read_text()
    profile = yaml.safe_load(path.read_text())
    assert [key for key in (*profile, *profile["driver"]) if f"`{key}`" not in readme] == []


@pytest.mark.parametrize("key", [*PLAIN, *(f"driver.{key}" for key in PLAIN["driver"])])
def test_no_key_has_a_default(tmp_path, key):
    plain = copy.deepcopy(PLAIN)
    place, _, name = key.rpartition(".")
    del (plain[place] if place else plain)[name]
    path = tmp_path / "site.yaml"
    path.write_text(yaml.safe_dump(plain))
    with pytest.raises(ConfigError, match="is missing") as caught:
        load_profile(path)
    assert caught.value.problems == (f"{key} is missing",)


@pytest.mark.parametrize("key", ["partition", "account", "qos", "constraint", "gpu_type"])
@pytest.mark.parametrize("name", ["", "a b", "a;b", "$(id)", "`id`", "a\nb", "a'b", "a=b", "a/b"])
def test_a_name_cannot_reach_the_shell(load, key, name):
    with pytest.raises(ConfigError) as caught:
        load({key: name})
    (problem,) = caught.value.problems
    assert problem.startswith(f"{key} must be of letters, digits")
    assert problem.endswith(f"but is {name!r}")


def test_names_of_real_sites(load):
    names = {
        "partition": "gpu_a100-long,gpu.short",
        "account": "p-2024+x",
        "qos": "normal",
        "constraint": "[rack1*2&rack2*4]",
    }
    profile = load(names)
    assert {key: getattr(profile, key) for key in names} == names


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"signal_delay_seconds": 3600},
            "signal_delay_seconds must be less than the 3600 seconds of walltime_minutes, "
            "but is 3600",
        ),
        ({"gpus_per_task": -1}, "gpus_per_task must lie in [0, inf), but is -1"),
        (
            {"gpus_per_task": 0},
            "gpu_type must be null while gpus_per_task is 0, but is 'a100'",
        ),
        ({"setup": ["a\nb"]}, "setup[0] must be one line, but is 'a\\nb'"),
        (
            {"driver.account": "a b"},
            "driver.account must be of letters, digits and _ . + -, but is 'a b'",
        ),
    ],
    ids=lambda case: next(iter(case)) if isinstance(case, dict) else "",
)
def test_a_fault_is_one_sentence_with_its_path(load, changes, problem):
    with pytest.raises(ConfigError) as caught:
        load(changes)
    assert caught.value.problems == (problem,)


def test_all_faults_at_once(load):
    with pytest.raises(ConfigError) as caught:
        load({"walltime_minutes": 0, "array_paralelism": 3, "driver.memory_gib": "8"})
    paths = [problem.split()[0] for problem in caught.value.problems]
    assert paths == ["array_paralelism", "walltime_minutes", "driver.memory_gib"]


def test_the_tasks_of_a_job_have_their_shares_of_the_node(load):
    single, four = (sbatch_parameters(load({"tasks_per_job": tasks})) for tasks in (1, 4))
    different = {key: four[key] for key in four if four[key] != single[key]}
    assert different == {"ntasks_per_node": 4, "mem": "480G", "gres": "gpu:a100:8"}


@pytest.mark.parametrize(
    ("nodes", "tasks_per_job", "ranks", "min_ranks", "asked"),
    [
        (1, 1, 4, None, (1, 4, "gpu:a100:8", "480G")),
        (2, 1, 4, None, (2, 2, "gpu:a100:4", "240G")),
        (2, 1, 4, 4, (2, 2, "gpu:a100:4", "240G")),
        (2, 2, 1, None, (2, 1, "gpu:a100:2", "120G")),
        (1, 2, 2, None, (1, 4, "gpu:a100:8", "480G")),
    ],
)
def test_ranks_are_tasks_of_as_many_nodes(load, nodes, tasks_per_job, ranks, min_ranks, asked):
    profile = load({"nodes": nodes, "tasks_per_job": tasks_per_job})
    parameters = sbatch_parameters(profile, ranks, min_ranks)
    parameters |= parameters["additional_parameters"]
    keys = ("nodes", "ntasks_per_node", "gres", "mem")
    assert tuple(parameters[key] for key in keys) == asked


def test_srun_alone_knows_of_the_tasks_of_a_range_of_nodes(load):
    """SLURM would else give the fewest nodes, however many are free."""
    profile = load({"nodes": 2})
    all_nodes, some = sbatch_parameters(profile, 4), sbatch_parameters(profile, 4, 2)
    different = {key: value for key, value in some.items() if value != all_nodes[key]}
    assert different == {
        "cpus_per_task": 2 * profile.cpus_per_task,
        "srun_args": [*all_nodes["srun_args"], "--ntasks-per-node=2"],
        "additional_parameters": {"no-requeue": True, "nodes": "1-2"},
    }
    assert all_nodes.keys() - some.keys() == {"ntasks_per_node"}
    asked = trial_options(profile, 4, 2)
    assert "--nodes=1-2" in asked
    assert not any("ntasks" in option for option in asked)


def test_parameters(load):
    assert sbatch_parameters(load({})) == {
        "partition": "gpu",
        "account": "geometry",
        "constraint": "a100&(nvlink|ib)",
        "gres": "gpu:a100:2",
        "nodes": 1,
        "ntasks_per_node": 1,
        "cpus_per_task": 16,
        "mem": "120G",
        "time": 60,
        "signal_delay_s": 300,
        "setup": ["module load cuda", "export A='b c'"],
        "array_parallelism": 4,
        "stderr_to_stdout": True,
        "srun_args": ["--cpus-per-task=16", "--kill-on-bad-exit=0", "--wait=0"],
        "additional_parameters": {"no-requeue": True},
    }


@pytest.mark.parametrize(
    ("changes", "gres"),
    [
        ({"gpu_type": None, "gpus_per_task": 1}, "gpu:1"),
        ({"gpu_type": None, "gpus_per_task": 0}, None),
    ],
    ids=["any GPU", "no GPU"],
)
def test_gpus(load, changes, gres):
    assert sbatch_parameters(load(changes)).get("gres") == gres


def test_what_submitit_makes_of_it(load, tmp_path, monkeypatch):
    import submitit

    monkeypatch.setattr(submitit.SlurmExecutor, "affinity", classmethod(lambda cls: 2))
    executor = submitit.SlurmExecutor(folder=tmp_path)
    executor.update_parameters(**sbatch_parameters(load({})))
    text = executor._make_submission_file_text("work", "uid")
    wanted = ["--no-requeue", "--signal=USR2@300", "--gres=gpu:a100:2", "--mem=120G", "--time=60"]
    assert [flag for flag in wanted if f"#SBATCH {flag}\n" not in text] == []
    assert "#SBATCH --constraint='a100&(nvlink|ib)'\n" in text
    assert "\nmodule load cuda\n" in text
    assert "--error" not in text


def test_neither_torch_nor_sql_is_imported():
    code = (
        "import sys, hpsearch.cluster.slurm_profile; "
        "print([m for m in ('torch', 'sqlalchemy', 'submitit') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


MORE = {"reservation": "june", "comment": "it's a sweep", "nice": 100, "exclusive": True}


def test_more_options_of_sbatch(load):
    driver = plain_profile()["driver"] | {"sbatch": {"mail-type": "FAIL"}}
    profile = load({"sbatch": MORE, "driver": driver})
    more = ["--reservation=june", "--comment=it's a sweep", "--nice=100", "--exclusive"]
    assert {*more} <= {*trial_options(profile)}
    assert driver_options(profile.driver)[-1] == "--mail-type=FAIL"
    given = sbatch_parameters(profile)["additional_parameters"]
    assert given == MORE | {"no-requeue": True}


@pytest.mark.parametrize(
    ("sbatch", "problem"),
    [
        ({"partition": "gpu"}, "sbatch.partition is for hpsearch to give; say it by partition in"),
        ({"mem": "4G"}, "sbatch.mem is for hpsearch to give; say it by memory_gib instead"),
        ({"gpus": 4}, "sbatch.gpus is for hpsearch to give; "),
        ({"quiet": True}, "sbatch.quiet is for hpsearch to give, which could lose its jobs"),
        ({"requeu": True}, "by their whole names, but requeu begins requeue"),
        ({"requeue": True}, "sbatch.requeue is for hpsearch to give, which could lose its jobs"),
        ({"job-name": "x"}, "sbatch.job-name is for hpsearch"),
        ({"--nice": 1}, "sbatch must name options by their long names, without --"),
        ({"exclusive": False}, "leave it out instead of false"),
        ({"comment": "a\nb"}, "must be of printable ASCII on one line"),
        ({"comment": "a\\b"}, "must be of printable ASCII on one line, without a backslash"),
        ({"nice": None}, "sbatch.nice must be"),
    ],
)
@pytest.mark.parametrize("of_driver", [False, True])
def test_options_that_hpsearch_gives_are_refused(load, sbatch, problem, of_driver):
    driver = plain_profile()["driver"]
    own = {"sbatch": sbatch}
    changes = {"driver": driver | own} if of_driver else own
    with pytest.raises(ConfigError, match=re.escape(problem)):
        load(changes)


def test_the_remedy_is_a_key_that_there_is(load):
    driver = plain_profile()["driver"]
    with pytest.raises(ConfigError, match="say it by gpus_per_task instead"):
        load({"sbatch": {"gpus": 4}})
    with pytest.raises(ConfigError, match="the driver needs one CPU alone"):
        load({"driver": driver | {"sbatch": {"gpus": 4}}})

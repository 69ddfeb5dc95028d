"""Every kind of bad input: one message with the remedy, the right exit code, nothing lost.

The sentences about samplers, spaces and trainer files as such are tested with the files that make
them; here they must reach the user.
"""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from cli_tools import (
    METRIC,
    STUDY,
    Run,
    damage,
    events,
    hpsearch,
    jobs_of,
    kill_jobs,
    outcomes,
    read,
    refused,
    told,
    write_study,
    write_trainer,
)
from tried import tried

from hpsearch.cluster.study_dir import StudyDir

SHORT = {"steps": 10, "checkpoint/interval": 5, "evaluation/interval": 5}
TWO_TRIALS = {"budget/trials": 2, "executor/jobs": 1}


@pytest.fixture
def folder(tmp_path):
    """An empty folder; jobs that a failed test leaves there are killed."""
    yield tmp_path
    kill_jobs(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with a finished study of two trials."""
    folder = tmp_path_factory.mktemp("finished")
    write_trainer(folder, SHORT)
    write_study(folder, TWO_TRIALS)
    hpsearch(folder, "run", "study.yaml", "--no-export")
    return folder


# The command line itself.


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["run"], "required: STUDY"),
        (["run", "study.yaml", "--exprt"], "unrecognized arguments: --exprt"),
        (["export", "tiny", "--trial", "best"], "invalid int value: 'best'"),
    ],
)
def test_a_wrong_command(folder, arguments, problem):
    done = hpsearch(folder, *arguments, code=2)
    assert done.stdout == ""
    assert problem in done.stderr
    assert done.stderr.startswith("usage: hpsearch")


# A study file.


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        ({"seed": ...}, ["seed is missing"]),
        ({"sede": 1}, ["unknown key 'sede'", "did you mean 'seed'"]),
        ({"seed": -1}, ["seed must", "-1"]),
        ({"budget/trials": 0}, ["budget.trials must", "but is 0"]),
        ({"seed": True}, ["seed must be a whole number", "but is true"]),
        ({"name": "a/b"}, ["name must begin with a letter", "'a/b'"]),
        ({"sampler/name": "tpee"}, ["sampler", "'tpee'", "did you mean 'tpe'", "random"]),
        ({"pruner": {"name": "mean"}}, ["pruner", "'mean'", "median", "none"]),
        ({"executor/name": "slrm"}, ["executor.name", "'slrm'", "local"]),
        ({"base": "trainr.yaml"}, ["trainr.yaml", "does not exist"]),
        ({"space/host.gama": STUDY["space"]["host.gamma"]}, ["host.gama", "mean host.gamma"]),
        ({"space/host.gamma/high": 1.5}, ["space.host.gamma allows 1.5", "host.gamma must lie"]),
        ({"space/host.gamma/low": 0.99}, ["space.host.gamma", "low", "0.99"]),
        ({"space": {}}, ["space must name at least one parameter"]),
        ({"objectives": []}, ["objectives must name at least one metric"]),
        ({"storage": "postgresql://me:secret@host/db"}, ["must not hold a password", "env:"]),
        ({"storage": "oracle://host/db"}, ["storage must be a database URL", "sqlite", "env:"]),
        ({"storage": "sqlite://"}, ["storage must name a file"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_fault_in_a_study_file(folder, changes, problems):
    write_study(folder, changes)
    for command in ("validate", "run"):
        message = refused(folder, command, "study.yaml", code=3)
        assert message.startswith("study.yaml: ")
        assert len(message.splitlines()) == 1
        for problem in problems:
            assert problem in message
        assert "secret" not in message
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("metric", "opponents", "valid"),
    [
        ("rho/host/choose_frist", ["choose_first"], METRIC),
        ("rho/agent/random", ["choose_first", "random"], "rho/host/random"),
        ("panel/host", ["choose_first", "random"], METRIC),
        ("loss", ["choose_first"], METRIC),
    ],
)
def test_a_metric_that_is_not_measured_is_refused_before_anything_runs(
    folder, metric, opponents, valid
):
    write_trainer(folder, {"evaluation/opponents": opponents})
    write_study(folder, {"objectives": [{"metric": metric, "goal": "maximize"}]})
    message = refused(folder, "run", "study.yaml", code=3)
    assert message.startswith("study.yaml: objectives[0].metric is measured by no trial of the dqn")
    assert f"unknown metric {metric!r}" in message
    assert valid in message.partition("valid: ")[2]
    assert "evaluation.opponents decides" in message
    assert not (folder / "runs").exists()


@pytest.mark.parametrize("command", ["run", "submit"])
def test_a_gpu_that_this_machine_has_not_is_refused_before_anything_runs(folder, command):
    write_trainer(folder, {"device": "cuda"})
    write_study(folder)
    message = refused(folder, command, "study.yaml", code=2, env={"CUDA_VISIBLE_DEVICES": ""})
    assert message == (
        "tiny cannot train here: each job is to have 1 GPU, but there is none here "
        "(CUDA_VISIBLE_DEVICES is ''); set device: cpu in the trainer configuration, or gpus: 0 "
        "for a program, or run the study on a machine with a GPU"
    )
    assert not (folder / "runs").exists()


def test_a_metric_that_the_base_measures_is_accepted(folder):
    write_trainer(folder, {"evaluation/opponents": ["choose_first", "choose_last", "random"]})
    for metric in ("panel/host", "panel_sampled/host", "rho_sampled/host/random"):
        write_study(folder, {"objectives": [{"metric": metric, "goal": "maximize"}]})
        hpsearch(folder, "validate", "study.yaml")


def test_all_faults_of_all_files_are_listed_at_once(folder):
    write_trainer(folder, {"host/gamma": 2.0, "host/tua": 1.0, "dimension": ...})
    wrong = {"seed": -1, "sampler/name": "tp", "bugdet": 1, "objectives": [], "budget/trials": "x"}
    write_study(folder, {**wrong, "space/host.gamma/type": "flot"})
    lines = refused(folder, "validate", "study.yaml", code=3).splitlines()
    assert lines[0] == f"study.yaml has {len(lines) - 1} problems:"
    assert all(line.startswith("  - ") for line in lines[1:])
    for words in (
        ["seed must"],
        ["sampler", "'tp'"],
        ["bugdet", "did you mean 'budget'"],
        ["objectives must name"],
        ["budget.trials must be a whole number"],
        ["space.host.gamma", "'flot'", "float"],
        ["base trainer.yaml: host.gamma must lie in"],
        ["base trainer.yaml", "host.tua", "did you mean 'tau'"],
        ["base trainer.yaml", "dimension is missing"],
    ):
        assert any(all(word in line for word in words) for line in lines[1:]), (words, lines)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"name: tiny\n  seed: 1\n", "is not YAML: "),
        (b"name: [tiny\n", "is not YAML: "),
        (b"name: tiny\nname: tiny\n", "the key 'name' stands twice"),
        (b"\x89PNG\r\n\x1a\n\x00", "is not a text file"),
        (b"", "must be a mapping"),
        (b"- name\n", "must be a mapping"),
        (b"name: !!python/object/apply:os.system ['touch pwned']\n", "is not YAML: "),
    ],
)
def test_a_file_that_is_no_study(folder, content, problem):
    (folder / "study.yaml").write_bytes(content)
    for command in ("validate", "run", "status"):
        message = refused(folder, command, "study.yaml", code=3)
        assert message.startswith("study.yaml: ")
        assert problem in message, message
    assert [path.name for path in folder.iterdir()] == ["study.yaml"]


def test_a_file_that_is_not_there(folder):
    message = refused(folder, "run", "study.yaml", code=3)
    assert message == "study.yaml: does not exist; check the path"
    (folder / "study.yaml").mkdir()
    message = refused(folder, "run", "study.yaml", code=3)
    assert "study.yaml: cannot be read: it must be a regular file" in message


@pytest.mark.slow
def test_a_study_that_is_not_known(folder, finished):
    message = refused(folder, "status", "tiny", code=2)
    assert message == (
        "no study 'tiny'; there are none under runs. Start one with: hpsearch run STUDY.yaml"
    )
    for command in ("status", "trials", "best", "export", "run", "tick"):
        message = refused(finished, command, "tinny", code=2)
        assert message.startswith("no study 'tinny'; there are: tiny. Start one with: hpsearch run")
    write_study(folder)
    for command in ("status", "trials", "best", "export"):
        message = refused(folder, command, "study.yaml", code=2)
        assert message == (
            "the study tiny has not been started; start it with: hpsearch run study.yaml"
        )
    assert not (folder / "runs").exists()


# A study name that exists.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "changed"),
    [
        ({"seed": 4}, "seed"),
        ({"space/host.gamma/high": 0.96}, "space"),
        ({"sampler/n_startup_trials": 4, "seed": 4}, "sampler, seed"),
        ({"objectives": [{"metric": METRIC, "goal": "minimize"}]}, "objectives"),
    ],
)
def test_another_search_under_the_same_name(finished, changes, changed):
    before = outcomes(finished)
    write_study(finished, {**TWO_TRIALS, **changes})
    message = refused(finished, "run", "study.yaml", code=4)
    write_study(finished, TWO_TRIALS)
    assert message == (
        f"the study tiny exists in this database and searches something else (what changed: "
        f"{changed}); give the study another name, or restore what changed"
    )
    assert outcomes(finished) == before
    assert read(finished, "status", "tiny")["trials"]["finished"] == 2


@pytest.mark.slow
def test_another_base_under_the_same_name(finished):
    write_trainer(finished, {**SHORT, "host/tau": 0.5})
    message = refused(finished, "run", "study.yaml", code=4)
    write_trainer(finished, SHORT)
    assert "(what changed: base)" in message
    assert hpsearch(finished, "run", "study.yaml", "--no-export").stdout.startswith("best: ")


def test_a_study_of_optuna_under_the_same_name(folder):
    import optuna

    write_study(folder)
    (folder / "runs").mkdir()
    storage = optuna.storages.RDBStorage(f"sqlite:///{folder}/runs/tiny.db")
    optuna.create_study(study_name="tiny", storage=storage)
    storage.remove_session()
    storage.engine.dispose()
    message = refused(folder, "run", "study.yaml", code=4)
    assert message == (
        "the database holds an Optuna study 'tiny' that hpsearch did not make; "
        "give the study another name"
    )


# Databases.

SERVER = "postgresql+psycopg://me:se%40cret@127.0.0.1:9/db?connect_timeout=2"


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "postgresql", "mysql+pymysql"])
def test_a_server_that_does_not_answer(folder, scheme):
    write_study(folder, {"storage": "env:HPSEARCH_TEST_STORAGE"})
    env = {"HPSEARCH_TEST_STORAGE": f"{scheme}://me:se%40cret@127.0.0.1:9/db"}
    began = time.monotonic()
    message = refused(folder, "run", "study.yaml", code=5, env=env)
    assert time.monotonic() - began < 60
    assert message.splitlines() == [message]
    assert "cret" not in message
    if "is not installed" in message:
        assert "pip install 'hpsearch[postgresql]' and name it postgresql+psycopg://" in message
        assert "pip install 'hpsearch[mysql]' and name it mysql+pymysql://" in message
    else:
        assert "cannot be used" in message
        assert "check the URL and the server" in message
    assert f"{scheme}://me:***@127.0.0.1:9/db" in message
    assert not told(folder)


def test_a_database_url_that_is_not_set_or_none(folder):
    write_study(folder, {"storage": "env:HPSEARCH_TEST_STORAGE"})
    message = refused(folder, "run", "study.yaml", code=5)
    assert "the environment variable HPSEARCH_TEST_STORAGE, which is not set" in message
    assert "export HPSEARCH_TEST_STORAGE=postgresql+psycopg://" in message
    env = {"HPSEARCH_TEST_STORAGE": "orcl://me:secret@host/db"}
    message = refused(folder, "run", "study.yaml", code=5, env=env)
    assert "HPSEARCH_TEST_STORAGE must be a database URL such as sqlite:///" in message
    assert "secret" not in message


@pytest.mark.slow
def test_a_database_in_an_environment_variable(folder):
    write_trainer(folder, SHORT)
    write_study(folder, {**TWO_TRIALS, "storage": "env:HPSEARCH_TEST_STORAGE"})
    env = {"HPSEARCH_TEST_STORAGE": "sqlite:///runs/tiny.db"}
    hpsearch(folder, "run", "study.yaml", "--no-export", env=env)
    assert len(outcomes(folder)) == 2
    hpsearch(folder, "best", "tiny", env=env)
    assert "is not set" in refused(folder, "best", "tiny", code=5)


def test_a_database_where_none_can_be(folder):
    (folder / "file").write_text("mine")
    write_study(folder, {"storage": "sqlite:///file/tiny.db"})
    message = refused(folder, "run", "study.yaml", code=6)
    assert "the directory of the database sqlite:///file/tiny.db cannot be created" in message
    assert message.endswith("give storage another path")
    write_study(folder, {"storage": "sqlite:///."})
    message = refused(folder, "run", "study.yaml", code=5)
    assert "cannot be opened; check that it is a file" in message
    assert (folder / "file").read_text() == "mine"


def test_a_file_that_is_no_database(folder):
    write_study(folder)
    (folder / "runs").mkdir()
    (folder / "runs/tiny.db").write_bytes(b"not a database " * 100)
    for command in ("run", "status"):
        message = refused(folder, command, "study.yaml", code=5)
        assert "sqlite:///runs/tiny.db is no intact SQLite database" in message
        assert "restore it from a copy, or give storage another file" in message
    assert (folder / "runs/tiny.db").read_bytes() == b"not a database " * 100


@pytest.mark.slow
def test_the_folder_of_runs_is_a_file(folder):
    write_study(folder, {"storage": "sqlite:///tiny.db"})
    (folder / "runs").write_text("mine")
    message = refused(folder, "run", "study.yaml", code=6)
    assert "runs/tiny/" in message
    assert len(message.splitlines()) == 1


# Disks.


@contextmanager
def small_disk(path, megabytes: int):
    """Mount a file system of that size; skip where that is not permitted."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount command here")
    if done.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    try:
        yield path
    finally:
        kill_jobs(path)
        subprocess.run(["umount", "-l", str(path)], check=True)


def fill(path):
    """Leave no byte free on the disk of a new file."""
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue


def free(path, kilobytes: int):
    path.write_bytes(path.read_bytes()[kilobytes * 1024 :])


def list_into(folder: Path, stdout: IO[str] | int) -> subprocess.CompletedProcess:
    """List no studies, in a few bytes, which Python keeps until the command ends."""
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        [sys.executable, "-m", "hpsearch.cli", "ls", "--json"],
        cwd=folder,
        env=buffered,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


def test_what_cannot_be_written_at_the_end_is_told_in_a_sentence(tmp_path):
    with Path("/dev/full").open("w") as full:
        done = list_into(tmp_path, full)
    assert done.returncode == 6
    assert done.stderr.startswith("hpsearch: a file operation failed: No space left on device")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_has_seen_enough_hears_no_complaint(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    done = list_into(tmp_path, writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.slow
@pytest.mark.parametrize("kilobytes", [0, *tried([16, 128, 400], slow=[128])])
def test_a_disk_that_is_full_from_the_start(tmp_path, kilobytes):
    """At once, while the tables are made, while the study begins: with space it goes on."""
    with small_disk(tmp_path / "disk", 4) as disk:
        write_trainer(disk, SHORT)
        write_study(disk, TWO_TRIALS)
        fill(disk / "ballast")
        free(disk / "ballast", kilobytes)
        # A process of its own: what had no space to give the study back must be seen to be dead.
        done = hpsearch(disk, "run", "study.yaml", "--no-export", env={}, code=None)
        message = done.stderr.strip()
        if done.returncode != 0:  # what was left has been enough
            assert done.returncode == 6, message
            assert message.startswith("hpsearch: ")
            assert "free some space" in message
        (disk / "ballast").unlink()
        hpsearch(disk, "run", "study.yaml", "--no-export")
        assert read(disk, "status", "tiny")["trials"]["finished"] == 2


@pytest.mark.slow
def test_a_disk_that_becomes_full_loses_nothing(tmp_path):
    """In the middle of a job: what was done stands, and with space the same command goes on."""
    with small_disk(tmp_path / "disk", 8) as disk:
        long = {"steps": 1000, "checkpoint/interval": 20, "evaluation/interval": 500}
        write_trainer(disk, long)
        changes = {"budget/trials": 4, "executor": {"name": "local", "members_per_job": 2}}
        write_study(disk, changes)
        run = Run(disk, "--no-export")
        run.wait_until(lambda: len(told(disk)) >= 2 and len(events(disk, "asked")) == 4)
        finished = {number: outcome for number, outcome in outcomes(disk).items() if outcome[1]}
        fill(disk / "ballast")
        code, _, err = run.wait()
        assert code == 6, err
        assert err.startswith("hpsearch: ")
        first, second = err.splitlines()
        assert "free some space" in first
        assert second.endswith("are tried again by: hpsearch retry study.yaml --kind disk")
        (disk / "ballast").unlink()
        assert read(disk, "status", "tiny")["state"] == "interrupted"
        hpsearch(disk, "run", "study.yaml", "--no-export")
        after = outcomes(disk)
        assert {number: after[number] for number in finished} == finished
        assert read(disk, "status", "tiny")["trials"]["finished"] == 4
        assert jobs_of(disk) == []


@pytest.mark.slow
def test_an_export_for_which_there_is_no_space_leaves_the_older_one(
    tmp_path, finished, monkeypatch
):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # its policies take seconds to write
    with small_disk(tmp_path / "disk", 1) as disk:
        hpsearch(finished, "export", "tiny", "-o", str(disk / "best"))
        before = {path: path.read_bytes() for path in disk.rglob("*") if path.is_file()}
        fill(disk / "ballast")
        message = refused(finished, "export", "tiny", "-o", str(disk / "best"), code=6)
        assert message.startswith(f"{disk / 'best'} cannot be written (")
        assert "No space left on device" in message
        assert "; free some space, then export again" in message
        (disk / "ballast").unlink()
        assert {path: path.read_bytes() for path in disk.rglob("*") if path.is_file()} == before


# Damaged files.


@pytest.mark.slow
def test_a_best_trial_without_a_whole_checkpoint(finished):
    best = read(finished, "best", "tiny")["trial"]
    folder = StudyDir(finished / "runs/tiny").trial(best).checkpoints
    files = sorted(folder.glob("step-*/tensors.safetensors"))
    assert files
    before = [path.read_bytes() for path in files]
    for path in files:
        damage(path)
    message = refused(finished, "export", "tiny", code=7)
    for path, data in zip(files, before, strict=True):
        path.write_bytes(data)
    assert message == (
        f"the last checkpoint in {folder} is missing or damaged; export another trial "
        "with --trial, or run the study again with another name"
    )
    assert read(finished, "best", "tiny")["trial"] == best


@pytest.mark.slow
def test_a_damaged_note_of_where_the_study_is(finished):
    note = StudyDir(finished / "runs/tiny").spec
    before = note.read_text()
    half_a_character = before.replace('"name": "tiny"', '"name": "\\ud800"')
    assert half_a_character != before
    for text in ("{", "[]", '{"name": "tiny"}', half_a_character):
        note.write_text(text)
        message = refused(finished, "status", "tiny", code=7)
        assert str(note.relative_to(finished)) in message
        assert "run the study file again" in message
        assert read(finished, "status", "study.yaml")["trials"]["finished"] == 2
    hpsearch(finished, "run", "study.yaml", "--no-export")
    assert note.read_text() == before


# Studies whose trials fail.


@pytest.mark.slow
def test_a_study_whose_trials_become_nan(folder):
    write_trainer(folder, {"host/optim/args/eps": 1e-30, "steps": 20})
    lr = {"type": "float", "low": 1e38, "high": 3e38}
    write_study(folder, {"space/host.optim.args.lr": lr, "max_failures": 2})
    message = refused(folder, "run", "study.yaml", code=8)
    first, cause, last = message.splitlines()
    assert first == "the study tiny stopped: more than 2 trials failed:"
    assert cause.startswith("  - nan: the weights became infinite or NaN; lower the learning rate ")
    # Whichever of the two jobs was faster.
    assert "(trials 0, 1, 2" in cause or "(trials 3, 4, 5" in cause
    assert str(folder / "runs/tiny/jobs") in last
    assert "raise max_failures" in last
    status = read(folder, "status", "tiny")
    assert (status["state"], status["best"]) == ("failed", None)
    assert status["failures"] == {"nan": status["trials"]["failed"]}
    assert "failed (nan): the weights became" in hpsearch(folder, "status", "tiny").stdout
    assert jobs_of(folder) == []
    # It stays failed, and says so again.
    assert refused(folder, "run", "study.yaml", code=8).splitlines()[0] == first
    # As the sentence says.
    write_study(folder, {"space/host.optim.args.lr": lr, "max_failures": 6})
    hpsearch(folder, "run", "study.yaml", "--no-export", code=1)
    assert read(folder, "status", "tiny")["trials"]["failed"] == 6


@pytest.mark.slow
def test_causes_are_grouped(folder):
    """Who is met is searched, and half of the choices do not measure the objective."""
    write_trainer(folder, SHORT)
    write_study(
        folder,
        {
            "space": {
                "evaluation.opponents": {"type": "categorical", "choices": [["random"]]},
                "host.gamma": STUDY["space"]["host.gamma"],
            },
            "max_failures": 0,
            **TWO_TRIALS,
        },
    )
    message = refused(folder, "run", "study.yaml", code=8)
    cause = (
        f"  - code: the trial measured no {METRIC}; "
        "it measured rho/host/random, rho_sampled/host/random (trials 0, 1)"
    )
    assert message.splitlines()[:2] == [
        "the study tiny stopped: more than 0 trials failed:",
        cause,
    ]


@pytest.mark.slow
def test_a_few_failures_are_allowed(folder):
    write_trainer(folder, SHORT)
    choices = [["random"], ["choose_first"]]
    write_study(
        folder,
        {
            "space": {"evaluation.opponents": {"type": "categorical", "choices": choices}},
            "sampler": {"name": "grid"},
            "budget/trials": 2,
        },
    )
    hpsearch(folder, "run", "study.yaml", "--no-export")
    status = read(folder, "status", "tiny")
    assert status["state"] == "finished"
    assert (status["trials"]["finished"], status["trials"]["failed"]) == (1, 1)
    failed = next(t for t in read(folder, "trials", "tiny") if t["state"] == "failed")
    assert failed["failure"] == "code"
    assert refused(folder, "export", "tiny", "--trial", str(failed["trial"]), code=2).startswith(
        f"trial {failed['trial']} has not finished"
    )


@pytest.mark.slow
def test_everything_is_written_under_runs(finished):
    assert {path.name for path in finished.iterdir()} == {"runs", "study.yaml", "trainer.yaml"}
    assert {path.name for path in (finished / "runs").iterdir()} == {"tiny", "tiny.db"}

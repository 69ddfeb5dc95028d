"""The command line on a study that has finished: what it prints, publishes and exports."""

import csv
import io
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_tools import (
    METRIC,
    hpsearch,
    outcomes,
    plain_optuna,
    read,
    refused,
    write_study,
    write_trainer,
)
from optuna.trial import TrialState

from hpsearch import yaml_file
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.trainers import checkpoint
from hpsearch.trainers.config import read_config

COMMANDS = (
    *("validate", "run", "submit", "tick", "drive", "status", "trials", "best", "export"),
    *("confirm", "pause", "resume", "stop", "cancel", "retry", "doctor", "gc", "crossplay"),
    *("replay", "breed"),
)
EXPORTED = {
    *("README.md", "config.yaml", "evaluation.json", "provenance.json", "weights.safetensors"),
    *("policy-host.pt2", "policy-host.onnx"),
}
WITHOUT_ONNX = EXPORTED - {"policy-host.onnx"}
"""takes seconds less, and is what is exported where onnxruntime is missing"""
QUICK = (["--help"], ["crossplay", "--help"], ["validate", "study.yaml"])
HEAVY = {"torch", "numba", "optuna", "sqlalchemy", "submitit", "scipy"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with a finished study: six trials in two jobs, and what `run` printed."""
    folder = tmp_path_factory.mktemp("finished")
    write_trainer(folder, {"host/net_arch": [8, "b"]})
    write_study(folder)
    done = hpsearch(folder, "run", "study.yaml")
    assert done.stderr == ""
    (folder / "stdout").write_text(done.stdout)
    return folder


def best_of(folder: Path) -> dict:
    return max(read(folder, "trials", "tiny"), key=lambda trial: trial["value"])


# What is answered without a study.


@pytest.mark.parametrize("arguments", [[], *([command] for command in COMMANDS)])
def test_help_is_printed(tmp_path, arguments):
    done = hpsearch(tmp_path, *arguments, "--help")
    assert "usage: hpsearch" in done.stdout
    assert done.stderr == ""


def test_help_names_every_command_and_exit_code(tmp_path):
    text = hpsearch(tmp_path, "--help").stdout
    for command in COMMANDS:
        assert re.search(rf"\n    {command}\s", text)
    for code in ("4 conflict", "5 database", "6 disk", "8 training failed", "130"):
        assert code in text


@pytest.mark.parametrize("arguments", QUICK)
def test_help_and_validate_answer_at_once(tmp_path, arguments):
    """In half a second: the best of several, because the machine may be busy."""
    write_study(tmp_path)
    times = []
    for _ in range(8):
        began = time.monotonic()
        hpsearch(tmp_path, *arguments)
        times.append(time.monotonic() - began)
        if times[-1] < 0.5:
            return
    raise AssertionError(times)


@pytest.mark.parametrize("arguments", QUICK)
def test_help_and_validate_import_nothing_heavy(tmp_path, arguments):
    write_study(tmp_path)
    script = f"""
import sys
from hpsearch.cli import main
try:
    main({arguments!r})
except SystemExit:
    pass
print(sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stderr == "[]\n"


def test_the_version_is_the_packages():
    from hpsearch import __version__

    done = hpsearch(Path(), "--version")
    assert done.stdout == f"hpsearch {__version__}\n"


def test_python_runs_the_package_as_the_command():
    module = [sys.executable, "-m", "hpsearch", "ls", "--nonsense"]
    done = subprocess.run(module, capture_output=True, text=True)
    assert done.stderr == hpsearch(Path(), "ls", "--nonsense", code=done.returncode).stderr


def test_validate_shows_a_configuration_that_can_be_run(tmp_path):
    write_study(tmp_path)
    text = hpsearch(tmp_path, "validate", "study.yaml").stdout
    assert text.startswith("study.yaml is a valid study: 6 trials of infinitely many config")
    data = read(tmp_path, "validate", "study.yaml")
    assert (data["study"], data["trials"], data["configurations"]) == ("tiny", 6, None)
    assert read_config(data["example"], source="example").max_num_points == 5
    assert not (tmp_path / "runs").exists()


def test_validate_counts_configurations_and_remarks_on_a_small_grid(tmp_path):
    lr = {"type": "categorical", "choices": [1e-3, 1e-2]}
    write_study(tmp_path, {"space": {"host.optim.args.lr": lr}, "sampler": {"name": "grid"}})
    data = read(tmp_path, "validate", "study.yaml")
    assert data["configurations"] == 2
    assert "fewer than the 6 trials" in data["remarks"][0]
    assert "note: the grid has 2" in hpsearch(tmp_path, "validate", "study.yaml").stdout


# The finished study.


@pytest.mark.slow
def test_run_says_what_it_found_and_where_it_lies(finished):
    text = (finished / "stdout").read_text()
    best = best_of(finished)
    assert f"best: trial {best['trial']}, {METRIC} {best['value']:.4f} [" in text
    assert f"host.gamma: {best['params']['host.gamma']:.4g}" in text
    assert "On 10,000 games from starts that the search never used" in text
    for player in (f"trial {best['trial']}", "zeillinger", "all_coord", "random"):
        assert f"\n {player} " in text
    assert text.splitlines()[-1] == f"exported to {finished}/runs/tiny/best"


@pytest.mark.slow
def test_folders_and_files_are_the_users_alone(finished):
    written = [finished / "runs", *(finished / "runs").rglob("*")]
    assert len(written) > 30
    modes = {(path.is_dir(), oct(path.stat().st_mode & 0o777)) for path in written}
    assert modes == {(True, "0o700"), (False, "0o600")}


@pytest.mark.slow
def test_status_publishes_its_keys(finished):
    data = read(finished, "status", "tiny")
    assert data["study"] == "tiny"
    assert data["state"] == "finished"
    counts = {"finished": 6, "running": 0, "waiting": 0, "pruned": 0, "failed": 0}
    assert data["trials"] == counts
    assert data["best"] == best_of(finished)
    text = hpsearch(finished, "status", "tiny").stdout
    assert text.startswith("tiny: finished\ntrials: 6 of 6 (6 finished)\nbest: trial ")


@pytest.mark.slow
def test_trials_and_best_publish_their_keys(finished):
    trials = read(finished, "trials", "tiny")
    assert [trial["trial"] for trial in trials] == list(range(6))
    for trial in [*trials, read(finished, "best", "tiny")]:
        assert {"trial", "state", "metrics", "params", "config"} <= trial.keys()
        assert trial["state"] == "finished"
        measured = trial["metrics"][METRIC]
        assert measured.keys() == {"value", "low", "high", "capped", "games"}
        assert measured["value"] == trial["value"]
        assert measured["low"] <= measured["value"] <= measured["high"]
        assert measured["games"] == 200
        config = read_config(trial["config"], source="trial")
        assert config.host.optim.args.lr == trial["params"]["host.optim.args.lr"]
        assert config.host.gamma == trial["params"]["host.gamma"]
        assert config.seed == 3_000_000 + trial["trial"]
        files = StudyDir(finished / "runs/tiny").trial(trial["trial"])
        assert yaml_file.load(files.config) == trial["config"]
    assert read(finished, "best", "tiny") == best_of(finished)


@pytest.mark.slow
def test_trials_and_best_print_tables(finished):
    lines = hpsearch(finished, "trials", "tiny").stdout.splitlines()
    assert lines[0].split() == ["trial", "state", METRIC, "lr", "gamma"]
    for number, (line, trial) in enumerate(
        zip(lines[1:], read(finished, "trials", "tiny"), strict=True)
    ):
        assert line.split()[:3] == [str(number), "finished", f"{trial['value']:.4f}"]
    best = best_of(finished)
    verdict, lines = hpsearch(finished, "best", "tiny").stdout.split("best: ")
    assert verdict.startswith(f"Trial {best['trial']}, as host, is ")
    assert lines.startswith(f"trial {best['trial']}, {METRIC} {best['value']:.4f} [")


@pytest.mark.slow
def test_trials_prints_csv(finished):
    process = [sys.executable, "-m", "hpsearch.cli", "trials", "tiny", "--csv"]
    text = subprocess.run(process, cwd=finished, capture_output=True, check=True).stdout.decode()
    assert text.count("\r\n") == text.count("\n") == 7
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    for row, trial in zip(rows, read(finished, "trials", "tiny"), strict=True):
        measured = trial["metrics"][METRIC]
        assert (int(row["number"]), row["state"]) == (trial["trial"], trial["state"])
        assert float(row[METRIC]) == measured["value"]
        assert float(row[f"{METRIC} low"]) == measured["low"]
        assert float(row[f"{METRIC} high"]) == measured["high"]
        assert {name: float(row[name]) for name in trial["params"]} == trial["params"]


@pytest.mark.slow
def test_a_file_names_the_study_as_well_as_its_name_does(finished):
    for command in ("status", "trials", "best"):
        assert read(finished, command, "study.yaml") == read(finished, command, "tiny")
    runs = str(finished / "runs")
    assert read(finished, "best", "tiny", "--runs", runs) == read(finished, "best", "tiny")


@pytest.mark.slow
def test_from_another_folder_the_database_is_missed_by_name(finished):
    runs = str(finished / "runs")
    message = refused(finished.parent, "best", "tiny", "--runs", runs, code=5)
    assert message.startswith(f"the database of the study tiny is not at {finished.parent}/runs/")
    assert "run the command in the folder in which the study was started" in message
    study = str(finished / "study.yaml")
    message = refused(finished.parent, "run", study, "--runs", runs, code=4)
    assert message.startswith(f"{finished}/runs/tiny holds the trials of a study that is not in")
    assert read(finished, "status", "tiny")["trials"]["finished"] == 6


@pytest.mark.slow
def test_a_reader_may_leave_early(finished):
    """As `hpsearch trials tiny | head -1` does."""
    process = subprocess.Popen(
        [sys.executable, "-m", "hpsearch.cli", "trials", "tiny", "--json"],
        cwd=finished,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    process.wait()


@pytest.mark.slow
def test_the_best_trials_of_a_study_play(finished):
    told = {trial["trial"]: trial["value"] for trial in read(finished, "trials", "tiny")}
    best = sorted(told, key=told.get, reverse=True)
    everywhere = ("tiny", "study.yaml", "runs/tiny", f"runs/tiny/trials/{best[0]}")
    plain = read(finished, "crossplay", *everywhere, "--top", "2", "--games", "20")
    steps = {host["name"]: host["step"] for host in plain["hosts"] if host["step"]}
    assert steps == {f"tiny/{number}": 60 for number in best[:2]}
    assert {agent["step"] for agent in plain["agents"]} == {None}
    message = refused(finished, "crossplay", "tinny", code=2)
    assert message.startswith("unknown player 'tinny' (did you mean 'tiny'?); valid: all_coord, ")
    message = refused(finished, "crossplay", "tiny", "--no-panel", code=2)
    assert message.startswith(
        "no player plays as agent: tiny can only play the other side; name one"
    )


@pytest.mark.slow
def test_plain_optuna_agrees(finished):
    study = plain_optuna(finished)
    trials = read(finished, "trials", "tiny")
    assert study.best_trial.number == best_of(finished)["trial"]
    assert study.direction.name == "MAXIMIZE"
    assert study.metric_names == [METRIC]
    for ours, theirs in zip(trials, study.trials, strict=True):
        assert theirs.state == TrialState.COMPLETE
        assert (theirs.number, theirs.value, theirs.params) == (
            ours["trial"],
            ours["value"],
            ours["params"],
        )
        assert sorted(theirs.intermediate_values) == [20, 40, 60]
        files = StudyDir(finished / "runs/tiny").trial(theirs.number)
        curve = {row["step"]: row["metrics"][METRIC]["value"] for row in files.read_metrics()}
        assert curve == theirs.intermediate_values
    assert len({trial.value for trial in study.trials}) > 1


@pytest.mark.slow
def test_the_optuna_command_line_agrees(finished):
    def optuna(command: str):
        words = [command, "--study-name", "tiny", "--storage", "sqlite:///runs/tiny.db"]
        done = subprocess.run(
            [Path(sys.executable).parent / "optuna", *words, "-f", "json"],
            cwd=finished,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    listed = [(trial["number"], trial["value"], trial["params"]) for trial in optuna("trials")]
    assert listed == [
        (trial["trial"], {METRIC: trial["value"]}, trial["params"])
        for trial in read(finished, "trials", "tiny")
    ]
    assert optuna("best-trial")["number"] == best_of(finished)["trial"]


@pytest.mark.slow
def test_running_it_again_changes_nothing(finished):
    before = outcomes(finished)
    files = {path: path.stat().st_mtime_ns for path in finished.rglob("trials/**/*")}
    done = hpsearch(finished, "run", "study.yaml", "--no-export")
    assert done.stdout.startswith("best: trial ")
    assert outcomes(finished) == before
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("trials/**/*")} == files


# Export.


@pytest.mark.slow
def test_the_export_is_complete(finished):
    best, folder = best_of(finished), finished / "runs/tiny/best"
    assert {path.name for path in folder.iterdir()} == EXPORTED
    assert yaml_file.load(folder / "config.yaml") == best["config"]
    measures = json.loads((folder / "evaluation.json").read_text())
    assert (measures["study"], measures["trial"]) == ("tiny", best["trial"])
    assert measures["params"] == best["params"]
    assert measures["search_metrics"] == best["metrics"]
    players = [row["player"] for row in measures["rows"]]
    assert players == ["trained", "zeillinger", "all_coord", "random"]
    for row in measures["rows"]:
        assert row["metrics"][METRIC]["games"] == 10_000
    assert measures["provenance"].keys() >= {"hpsearch", "python", "torch", "optuna"}


@pytest.mark.slow
def test_export_to_a_new_folder_is_the_same(finished, tmp_path):
    done = hpsearch(finished, "export", "tiny", "-o", str(tmp_path / "deep" / "best"), "--json")
    data = json.loads(done.stdout)
    assert done.stderr == (
        "hpsearch: tiny is not confirmed: its best may be the luckiest; "
        "compare with: hpsearch confirm tiny\n"
    )
    assert data["folder"] == str(tmp_path / "deep" / "best")
    for name in EXPORTED - {"provenance.json"}:  # which tells the command and the time
        exported = (tmp_path / "deep" / "best" / name).read_bytes()
        assert exported == (finished / "runs/tiny/best" / name).read_bytes()
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["best"]


@pytest.mark.slow
def test_export_of_another_trial_replaces_an_older_export(finished, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    trials = read(finished, "trials", "tiny")
    other = next(trial for trial in trials if trial["trial"] != best_of(finished)["trial"])
    shutil.copytree(finished / "runs/tiny/best", tmp_path / "best")
    number = str(other["trial"])
    done = hpsearch(finished, "export", "tiny", "--trial", number, "-o", str(tmp_path / "best"))
    assert f"\n trial {number} " in done.stdout
    assert done.stdout.splitlines()[-1] == f"exported to {tmp_path / 'best'}"
    assert {path.name for path in (tmp_path / "best").iterdir()} == WITHOUT_ONNX
    assert yaml_file.load(tmp_path / "best" / "config.yaml") == other["config"]
    assert json.loads((tmp_path / "best/evaluation.json").read_text())["trial"] == other["trial"]


@pytest.mark.slow
def test_export_into_an_empty_folder(finished, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    (tmp_path / "empty").mkdir()
    hpsearch(finished, "export", "tiny", "-o", str(tmp_path / "empty"))
    assert {path.name for path in (tmp_path / "empty").iterdir()} == WITHOUT_ONNX


@pytest.mark.slow
def test_export_leaves_foreign_files_alone(finished, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    message = refused(finished, "export", "tiny", "-o", str(tmp_path), code=2)
    assert message.startswith(f"{tmp_path} holds 'notes.txt', and only a folder with nothing but")
    message = refused(finished, "export", "tiny", "-o", str(tmp_path / "notes.txt"), code=2)
    assert message == f"{tmp_path / 'notes.txt'} is a file; choose another folder with -o"
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.slow
def test_export_of_a_trial_that_there_is_not(finished):
    message = refused(finished, "export", "tiny", "--trial", "6", code=2)
    assert message == "the study tiny has no trial 6, only 0 to 5"


@pytest.mark.slow
def test_the_exported_weights_are_plain_torch_layers(finished):
    """Built from the README of the export alone, a plain network values the actions the same."""
    import torch
    from safetensors.torch import load_file

    from hpsearch.trainers.algorithms import build_trainer

    best, folder = best_of(finished), finished / "runs/tiny/best"
    weights = load_file(folder / "weights.safetensors")
    readme = (folder / "README.md").read_text()
    for name, tensor in weights.items():
        assert f"- `{name}`: {list(tensor.shape)}" in readme
    net = torch.nn.Sequential(
        torch.nn.Linear(15, 8), torch.nn.ReLU(), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 4)
    ).eval()
    position = {"0": "0", "1": "2", "2": "3"}
    named = {}
    for name, tensor in weights.items():
        role, layer, what = name.split(".")
        assert role == "host"
        named[f"{position[layer]}.{what}"] = tensor
    loaded = net.load_state_dict(named, strict=False)
    assert set(loaded.missing_keys) <= {"2.num_batches_tracked"}
    assert loaded.unexpected_keys == []

    checkpoints = StudyDir(finished / "runs/tiny").trial(best["trial"]).checkpoints
    trainer = build_trainer([read_config(best["config"], source="best")])
    trainer.load(checkpoint.path_of(checkpoints, best["config"]["steps"]), 0)
    points = trainer.fused_game.points  # (1, B, 5, 3), in the middle of games
    assert (points < 0).any()
    features = torch.tensor([described(game) for game in points[0].tolist()])
    with torch.no_grad():
        values = net(features)
        trained = trainer.host_net(trainer.rollouts.kernel.observe(points))[0]
    assert values.std() > 0
    torch.testing.assert_close(values, trained, rtol=1e-5, atol=1e-6)


def described(game: list[list[int]]) -> list[float]:
    """Return one game's features as the export's README.md describes them."""
    rows = sorted((row for row in game if min(row) >= 0), reverse=True)
    largest = max(1, max(max(row) for row in rows))
    shown = [number / largest for row in rows for number in row]
    return shown + [-1.0] * (sum(map(len, game)) - len(shown))

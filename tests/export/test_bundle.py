"""Bundles: what they hold against the trainer that made them, and others that are found out."""

import dataclasses
import functools
import hashlib
import json
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from zipfile import ZipFile, is_zipfile

import pytest
import torch
from cli_tools import hpsearch, write_study, write_trainer
from safetensors.torch import load_file, save_file
from views import METRIC, Story, rho

from hpsearch import yaml_file
from hpsearch.cli import main
from hpsearch.errors import CorruptError, DiskError, UsageError
from hpsearch.export import programs, reading, writing
from hpsearch.export.folder import BundleDir
from hpsearch.export.reading import bundles_in, read_bundle, reproduce
from hpsearch.export.writing import How, export_bundle, export_bundles
from hpsearch.trainers import checkpoint
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import read_config
from hpsearch.trainers.match import threads

HOW = How(60, "hpsearch export tiny", datetime(2026, 1, 2, tzinfo=UTC), key=None)
FILES = {
    *("README.md", "config.yaml", "evaluation.json", "provenance.json", "weights.safetensors"),
    *("policy-host.pt2", "policy-agent.pt2"),
}
ALONE = """
import sys
for name in {missing!r}:
    sys.modules[name] = None  # importing it fails

{lines}
"""


@pytest.fixture(scope="module", autouse=True)
def single_thread():
    """Nets and batches this small lose by sharing, above all on a busy machine."""
    with threads(1):
        yield


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A study of pairs whose trials 0 and 1 have finished, and 2 has not; with checkpoints."""
    folder = tmp_path_factory.mktemp("told")
    opponents = ["choose_first", "zeillinger"]
    changes = {"steps": 4, "host/net_arch": [8, "b"], "evaluation/opponents": opponents}
    trainer = write_trainer(folder, changes)
    plain = yaml_file.load(trainer)
    trainer.write_text(yaml_file.dump({**plain, "agent": plain["host"]}))
    story = Story(write_study(folder))
    for number, value in enumerate((0.2, 0.1, None)):
        story.ask(number)
        story.run(number, job=f"0000{number}")
        if value is not None:
            story.tell(number, "finished", value)
            train(story, number)
    return story


@pytest.fixture(scope="module")
def bundle(told, tmp_path_factory):
    """The bundle of trial 0."""
    folder = tmp_path_factory.mktemp("bundles") / "best"
    export_bundle(told.view, told.view.state.trials[0], folder, HOW)
    return folder


@pytest.fixture
def copied(bundle, tmp_path):
    """A copy of it to change."""
    folder = tmp_path / "copied"
    folder.mkdir()
    for path in bundle.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def train(story: Story, number: int) -> None:
    config = story.view.config(story.view.state.trials[number])
    trainer = build_trainer([read_config(config, source="test")])
    trainer.train(config["steps"])
    trainer.save(story.view.folder.trial(number).checkpoints, 0)


def trained(story: Story, number: int):
    """Return the trainer at the end of a trial."""
    view = story.view
    config = view.config(view.state.trials[number])
    trainer = build_trainer([read_config(config, source="test")])
    trainer.load(checkpoint.path_of(view.folder.trial(number).checkpoints, config["steps"]), 0)
    return trainer


def certify_anew(folder: Path) -> None:
    """Let the provenance list the files as they are now."""
    bundle = BundleDir(folder)
    origin = json.loads(bundle.provenance.read_text())
    bundle.provenance.write_text(json.dumps({**origin, "files": bundle.digests()}))


def once(function):
    """Return a function that calls this one the first time, and returns the same ever after."""
    returned = []

    @functools.wraps(function)
    def call(*arguments):
        if not returned:
            returned.append(function(*arguments))
        return returned[0]

    return call


def copying(folder: Path):
    """Return what writes the program of another bundle instead of a new one."""
    return lambda path, *_: shutil.copy(folder / path.name, path)


def write_nothing(path: Path, *_: object) -> None:
    """Stand for what writes a program, which takes a second."""
    path.write_bytes(b"")


def without_onnx(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.suffix != ".onnx"}


# What is written.


@pytest.mark.slow
def test_it_holds_what_the_trainer_has(told, bundle):
    trainer, config = trained(told, 0), told.view.config(told.view.state.trials[0])
    assert without_onnx(bundle) == FILES
    assert yaml_file.load(bundle / "config.yaml") == config
    assert '"off"' in (bundle / "config.yaml").read_text().replace("'", '"')
    weights = load_file(bundle / "weights.safetensors")
    for learner in trainer.learners:
        for name, tensor in learner.net.layers(0).items():
            assert torch.equal(weights.pop(f"{learner.name}.{name}"), tensor)
    assert not weights


@pytest.mark.slow
def test_it_certifies_what_the_trainer_measures(told, bundle):
    evaluation = json.loads((bundle / "evaluation.json").read_text())
    measured = trained(told, 0).evaluate_rho(num_games=60, split="confirmation")[0]
    rows = {(row["player"], row["role"]): row["metrics"] for row in evaluation["rows"]}
    certified = rows["trained", "host"] | rows["trained", "agent"]
    assert certified == {name: dataclasses.asdict(metric) for name, metric in measured.items()}
    assert [row["player"] for row in evaluation["rows"] if row["role"] == "host"] == [
        *("trained", "zeillinger", "all_coord", "random")
    ]
    assert evaluation["conditions"]["games"] == 60
    assert evaluation["conditions"]["split"] == "confirmation"
    assert evaluation["conditions"]["threads"] == 1
    assert evaluation["crossplay"] is None
    assert evaluation["search_metrics"] == {METRIC: rho(0.2)}


@pytest.mark.slow
def test_it_says_where_it_comes_from(told, bundle):
    origin = json.loads((bundle / "provenance.json").read_text())
    path = told.view.folder.root / origin["checkpoint"]["path"]
    assert (origin["format"], origin["study"], origin["trial"]) == (2, "tiny", 0)
    assert origin["checkpoint"]["sha256"] == checkpoint.identity(path)
    assert (origin["command"], origin["at"]) == (
        "hpsearch export tiny",
        "2026-01-02T00:00:00+00:00",
    )
    assert origin["versions"]["torch"] == torch.__version__
    assert re.fullmatch(r"[0-9a-f]{40}\+?", origin["commit"])
    files = {path.name for path in bundle.iterdir()} - {"provenance.json"}
    assert origin["files"].keys() == files
    for name in files:
        content = (bundle / name).read_bytes()
        assert origin["files"][name] == hashlib.sha256(content).hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pt2", "onnx"])
def test_the_lines_of_its_readme_play_without_us(told, bundle, kind):
    if kind == "onnx":
        pytest.importorskip("onnxruntime")
    readme = (bundle / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    lines = ""
    for role in ("host", "agent"):  # each by its own lines alone
        block = next(block for block in blocks if f"policy-{role}.{kind}" in block)
        lines += f"exec({block!r}, names := {{}})\nprint(names['action'].tolist())\n"
    missing = ["hpsearch", "numba", "safetensors", "scipy", "optuna", "triton"]
    missing += ["onnxruntime"] if kind == "pt2" else ["torch"]
    done = subprocess.run(
        [sys.executable, "-c", ALONE.format(missing=missing, lines=lines)],
        cwd=bundle,
        capture_output=True,
        text=True,
        env={},
    )
    assert done.returncode == 0, done.stderr
    observation = torch.cat([torch.eye(3), -torch.ones(2, 3)]).reshape(1, 15)
    trainer = trained(told, 0)
    with torch.no_grad():
        of_host = trainer.host_net(observation[None])
        of_agent = trainer.agent_net(torch.cat([observation, torch.ones(1, 3)], dim=1)[None])
    assert done.stdout == f"{[int(of_host.argmax())]}\n{[int(of_agent.argmax())]}\n"


@pytest.mark.slow
def test_its_configuration_trains_as_it_is(bundle, tmp_path):
    done = hpsearch(tmp_path, "train", str(bundle / "config.yaml"))
    assert done.stdout.splitlines()[-1] == f"checkpoints and curves are in {tmp_path}/runs/config"
    steps = yaml_file.load(bundle / "config.yaml")["steps"]
    saved = load_file(
        checkpoint.path_of(tmp_path / "runs/config/checkpoints", steps) / checkpoint.TENSORS
    )
    weights = load_file(bundle / "weights.safetensors")
    first = saved["host.net.weights"][: weights["host.0.weight"].numel()]
    assert torch.equal(first.reshape(-1, 8).T, weights["host.0.weight"])  # the same training


@pytest.mark.slow
def test_its_policies_do_not_tell_where_our_code_lay(bundle):
    here = str(Path(writing.__file__).parent).encode()
    programs = [*bundle.glob("policy-*.onnx"), *bundle.glob("policy-*.pt2")]
    assert len(programs) >= 2
    for path in programs:
        held = [path.read_bytes()]
        if is_zipfile(path):
            with ZipFile(path) as archive:
                held = [archive.read(name) for name in archive.namelist()]
        assert not any(here in part for part in held), path


@pytest.mark.slow
def test_the_same_trial_gives_the_same_bytes_and_a_signature(told, bundle, tmp_path, monkeypatch):
    # That new programs have the same bytes is what `reproduce` finds below.
    monkeypatch.setattr(programs, "save_program", copying(bundle))
    monkeypatch.setattr(programs, "save_onnx", copying(bundle))
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"]
    subprocess.run(command, check=True)
    how = dataclasses.replace(HOW, key=tmp_path / "key")
    export_bundle(told.view, told.view.state.trials[0], tmp_path / "again", how)
    for path in bundle.iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes(), path.name
    (tmp_path / "signers").write_text(f"ada {(tmp_path / 'key.pub').read_text()}")
    assert read_bundle(tmp_path / "again", tmp_path / "signers").signer == "ada"


@pytest.mark.slow
def test_a_key_that_does_not_sign_leaves_the_older_bundle(told, copied, monkeypatch):
    before = {path: path.read_bytes() for path in copied.iterdir()}
    monkeypatch.setattr(writing, "_write_players", lambda *_: None)
    (copied.parent / "key").write_text("no key")
    for name, words in (("none", "there is no key"), ("key", "ssh-keygen cannot sign with")):
        how = dataclasses.replace(HOW, key=copied.parent / name)
        with pytest.raises(UsageError, match=words):
            export_bundle(told.view, told.view.state.trials[0], copied, how)
    assert {path: path.read_bytes() for path in copied.iterdir()} == before


# What is measured again.


@pytest.mark.slow
def test_it_is_what_it_certifies(bundle, capsys, monkeypatch):
    monkeypatch.setattr(reading, "reproduce", once(reproduce))
    assert main(["evaluate", str(bundle)]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    assert "measured again, every number as certified, bit for bit" in output.out.replace("\n", " ")
    assert main(["evaluate", str(bundle), "--json"]) == 0
    (plain,) = json.loads(capsys.readouterr().out)
    assert (plain["reproduced"], plain["differences"]) == (True, [])
    assert (plain["signer"], plain["uncompared"]) == (None, [])
    assert plain["rows"] == json.loads((bundle / "evaluation.json").read_text())["rows"]


@pytest.mark.slow
def test_another_number_is_found_out(copied, capsys, monkeypatch):
    monkeypatch.setattr(reading, "program_differences", lambda *_: [])  # they are the same
    path = copied / "evaluation.json"
    data = json.loads(path.read_text())
    value = data["rows"][0]["metrics"][METRIC]["value"]
    data["rows"][0]["metrics"][METRIC]["value"] = value * (1 + 2**-52)
    data["provenance"]["torch"] = "1.0"
    path.write_text(json.dumps(data))
    certify_anew(copied)
    assert reproduce(read_bundle(copied)) == [
        f"trained, {METRIC}, value: certified {value * (1 + 2**-52)}, measured {value}",
        f"version of torch: 1.0 when certified, {torch.__version__} here",
    ]
    assert main(["evaluate", str(copied)]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("hpsearch: not everything is as certified")
    assert f"trained, {METRIC}, value" in output.err


@pytest.mark.slow
def test_another_parameter_is_found_out(copied, monkeypatch):
    monkeypatch.setattr(reading, "program_differences", lambda *_: [])  # they are the same
    path = copied / "evaluation.json"
    data = json.loads(path.read_text())
    before = data["params"]["host.gamma"]
    data["params"]["host.gamma"] = 0.123
    path.write_text(json.dumps(data))
    certify_anew(copied)
    differences = reproduce(read_bundle(copied))
    assert differences == [f"host.gamma: 0.123 when certified, {before} in config.yaml"]


@pytest.mark.slow
def test_other_weights_are_found_out(copied):
    path = copied / "weights.safetensors"
    weights = load_file(path)
    save_file({name: -tensor for name, tensor in weights.items()}, path)
    certify_anew(copied)
    differences = reproduce(read_bundle(copied))
    assert any(line.startswith(f"trained, {METRIC}, value") for line in differences)
    for role in ("host", "agent"):
        assert any(
            f"policy-{role}.pt2 is not the program of the weights" in line for line in differences
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FILES - {"provenance.json"}))
def test_a_damaged_or_missing_file_is_named(copied, name):
    before = (copied / name).read_bytes()
    (copied / name).write_bytes(before + b" ")
    with pytest.raises(CorruptError, match=f"{name} is not as it was written"):
        read_bundle(copied)
    (copied / name).unlink()
    with pytest.raises(CorruptError, match=f"{name} is missing"):
        read_bundle(copied)


@pytest.mark.slow
def test_what_lists_no_files_or_other_layers(copied):
    path = copied / "weights.safetensors"
    weights = load_file(path)
    del weights["host.0.bias"]
    save_file(weights, path)
    certify_anew(copied)
    with pytest.raises(CorruptError, match="is not of the networks"):
        read_bundle(copied)
    (copied / "provenance.json").unlink()
    with pytest.raises(CorruptError, match=r"provenance\.json is missing"):
        read_bundle(copied)


@pytest.mark.slow
def test_of_a_bundle_nothing_else_is_measured(bundle, capsys):
    for more in (["--games", "5"], ["--match-steps", "0"], ["--show-games", "1"]):
        assert main(["evaluate", str(bundle), *more]) == 2
        assert "is a bundle, of which what it certifies is measured" in capsys.readouterr().err


# Folders.


@pytest.mark.slow
def test_several_lie_side_by_side(told, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setattr(writing, "write_program", write_nothing)
    monkeypatch.setattr(reading, "program_differences", lambda *_: [])
    trials = [told.view.state.trials[number] for number in (0, 1)]
    folder = tmp_path / "top"
    exported = export_bundles(told.view, trials, folder, HOW)
    assert [bundle["trial"] for bundle in exported] == [0, 1]
    places = [folder / "1-trial-0", folder / "2-trial-1"]
    assert bundles_in(folder) == places
    assert all(without_onnx(place) == FILES for place in places)
    assert main(["evaluate", str(folder), "--json"]) == 0
    assert [load["trial"] for load in json.loads(capsys.readouterr().out)] == [0, 1]


@pytest.mark.slow
def test_an_older_one_stays_until_the_new_one_is_whole(told, copied, monkeypatch):
    before = {path: path.read_bytes() for path in copied.iterdir()}

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with monkeypatch.context() as patched:
        patched.setattr(writing, "write_program", fail)
        with pytest.raises(DiskError, match="No space left on device"):
            export_bundle(told.view, told.view.state.trials[1], copied, HOW)
    assert {path: path.read_bytes() for path in copied.iterdir()} == before
    assert [path.name for path in copied.parent.iterdir()] == ["copied"]
    monkeypatch.setattr(writing, "write_program", write_nothing)
    export_bundle(told.view, told.view.state.trials[1], copied, HOW)
    assert json.loads((copied / "evaluation.json").read_text())["trial"] == 1


def test_what_has_not_finished_is_not_exported(told, tmp_path):
    trials = told.view.state.trials
    with pytest.raises(UsageError, match="trial 2 has not finished"):
        export_bundles(told.view, [trials[0], trials[2]], tmp_path / "top", HOW)
    assert not list(tmp_path.iterdir())

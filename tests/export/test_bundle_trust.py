"""Bundles from anywhere: what was tampered with is refused, and nothing that it brings is run."""

import json
import os
import random
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch
from hostile_bundles import (
    PROVENANCE,
    RUNNING_A_COMMAND,
    Malice,
    list_files_anew,
    tamper_program,
    torch_pickle,
)
from safetensors.torch import load_file, save_file

from hpsearch.cli import main
from hpsearch.errors import CorruptError, HpsearchError
from hpsearch.export.certificate import certify, sign
from hpsearch.export.folder import FORMAT, SORTED_POINTS, read_file
from hpsearch.export.programs import onnx_differences, program_differences, save_program
from hpsearch.export.reading import read_bundle, reproduce
from hpsearch.trainers.match import threads

SHIPPED = Path(__file__).parents[2] / "reports/choose_first/best"
NUM_GAMES = 40
PLAYED_MUTANTS = 3
needs_openssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no OpenSSH")


@pytest.fixture(scope="module", autouse=True)
def single_thread():
    """Nets and batches this small lose by sharing, above all on a busy machine."""
    with threads(1):
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The shipped bundle, of fewer games and without ONNX, so that it is measured soon."""
    folder = tmp_path_factory.mktemp("bundles") / "best"
    shutil.copytree(SHIPPED, folder)
    players = read_bundle(folder).players
    (folder / "policy-host.onnx").unlink()
    save_program(folder / "policy-host.pt2", players["host"], "host", SORTED_POINTS)
    conditions, rows = certify(players, NUM_GAMES)
    certified = {"conditions": asdict(conditions), "rows": [asdict(row) for row in rows]}
    change_json(folder / "evaluation.json", certified)
    list_files_anew(folder)
    return folder


@pytest.fixture
def bundle(whole, tmp_path):
    """A copy of it to change."""
    return Path(shutil.copytree(whole, tmp_path / "best"))


def change_json(path: Path, changes: dict) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def refused(capsys, folder: Path, code: int, *options: str) -> str:
    """Return the sentence by which a bundle is refused."""
    assert main(["evaluate", str(folder), *options]) == code
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("hpsearch: ")
    assert "a fault of hpsearch" not in output.err
    assert len(output.err) < 5000
    return output.err


# Programs.


def test_the_untouched_one_is_as_certified(bundle, capsys):
    assert main(["evaluate", str(bundle)]) == 0
    assert "every number as certified, bit for bit" in capsys.readouterr().out


@pytest.mark.parametrize("how", RUNNING_A_COMMAND)
def test_a_program_that_would_run_a_command_is_not_run(bundle, tmp_path, capsys, how):
    tamper_program(bundle, f"touch {tmp_path}/marker", how)
    assert "policy-host.pt2 is not the program of the weights" in refused(capsys, bundle, 1)
    assert not (tmp_path / "marker").exists()


def bomb(path: Path) -> None:
    with ZipFile(path, "w", compression=8) as archive:
        archive.writestr("policy-host/data/weights/weight_0", bytes(10**8))


def twice(path: Path) -> None:
    with ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr(archive.namelist()[0], b"")


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20000])


def pickled(path: Path) -> None:
    path.write_bytes(torch_pickle("exit 1"))


def from_elsewhere(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(torch.__version__.encode(), b"1.2.3", 1))


@pytest.mark.parametrize("how", [bomb, twice, torn, pickled])
def test_other_archives_are_not_the_program(bundle, capsys, how):
    how(bundle / "policy-host.pt2")
    list_files_anew(bundle)
    assert "policy-host.pt2 is not the program of the weights" in refused(capsys, bundle, 1)


def test_a_program_of_another_torch_is_not_called_certified(bundle, capsys):
    from_elsewhere(bundle / "policy-host.pt2")
    list_files_anew(bundle)
    message = refused(capsys, bundle, 1)
    assert f"could not be checked: torch 1.2.3 wrote it, and torch {torch.__version__}" in message


def test_another_build_of_the_same_torch_writes_the_same_program(bundle, whole, monkeypatch):
    player = read_bundle(whole).players["host"]
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(torch, "__version__", f"{torch.__version__.partition('+')[0]}+cu999")
        save_program(bundle / "policy-host.pt2", player, "host", SORTED_POINTS)
    list_files_anew(bundle)
    assert b"+cu999" in (bundle / "policy-host.pt2").read_bytes()
    assert reproduce(read_bundle(bundle)) == []


@pytest.mark.slow
def test_another_onnx_policy_is_not_the_program(bundle, monkeypatch, capsys):
    pytest.importorskip("onnxruntime")
    path = bundle / "policy-host.onnx"
    content = (SHIPPED / path.name).read_bytes()
    path.write_bytes(content.replace(b"argmax", b"argmin"))
    list_files_anew(bundle)
    assert "policy-host.onnx is not the program of the weights" in refused(capsys, bundle, 1)
    monkeypatch.setattr("hpsearch.export.programs.can_write", lambda: False)
    assert main(["evaluate", str(bundle)]) == 0
    assert "policy-host.onnx was not compared with the weights" in capsys.readouterr().err


# Formats.


@pytest.mark.slow
def test_a_bundle_of_the_first_format_keeps_its_programs():
    """Written before policies reduced and sorted by themselves, and never again since."""
    bundle = read_bundle(SHIPPED)
    assert "format" not in json.loads((SHIPPED / PROVENANCE).read_text())
    lines = program_differences(bundle.folder, bundle.contents, bundle.players)
    lines += onnx_differences(bundle.folder, bundle.contents, bundle.players)
    assert not [line for line in lines if "is not the program of the weights" in line]


def test_another_format_names_other_programs(bundle, capsys):
    change_json(bundle / PROVENANCE, {"format": FORMAT})
    assert "policy-host.pt2 is not the program of the weights" in refused(capsys, bundle, 1)


@pytest.mark.parametrize("named", [0, 3, True, None, "2", [2]])
def test_a_format_that_is_not_known_is_refused(bundle, capsys, named):
    change_json(bundle / PROVENANCE, {"format": named})
    message = refused(capsys, bundle, 7)
    assert f"is a bundle of format {named}" in message
    assert "reads 1 and 2; evaluate it with the version that wrote it" in message


# Files.


def list_more(folder: Path, name: str) -> None:
    origin = json.loads((folder / PROVENANCE).read_text())
    change_json(folder / PROVENANCE, {"files": {**origin["files"], name: "0" * 64}})


def list_nothing(folder: Path) -> None:
    change_json(folder / PROVENANCE, {"files": {}})


def list_no_files(folder: Path) -> None:
    change_json(folder / PROVENANCE, {"files": ["README.md"]})


def list_all_but_the_weights(folder: Path) -> None:
    origin = json.loads((folder / PROVENANCE).read_text())
    del origin["files"]["weights.safetensors"]
    change_json(folder / PROVENANCE, origin)


def list_a_file_twice(folder: Path) -> None:
    path = folder / PROVENANCE
    path.write_text(path.read_text().replace('"files": {', '"files": {"README.md": "0", '))


def list_a_player_without_weights(folder: Path) -> None:
    shutil.copy(folder / "policy-host.pt2", folder / "policy-agent.pt2")
    list_files_anew(folder)


def link_outside(folder: Path) -> None:
    moved = (folder / "README.md").rename(folder.parent / "README.md")
    (folder / "README.md").symlink_to(moved)


def link_the_provenance(folder: Path) -> None:
    moved = (folder / PROVENANCE).rename(folder.parent / PROVENANCE)
    (folder / PROVENANCE).symlink_to(moved)


def add_a_file(folder: Path) -> None:
    (folder / "run\x1b[2Jme.py").write_text("")


def add_and_list_a_file(folder: Path) -> None:
    add_a_file(folder)
    list_files_anew(folder)


def add_a_folder(folder: Path) -> None:
    (folder / "policies").mkdir()


def make_a_pipe(folder: Path) -> None:
    (folder / "README.md").unlink()
    os.mkfifo(folder / "README.md")


def make_the_certificate_a_pipe(folder: Path) -> None:
    (folder / "evaluation.json").unlink()
    os.mkfifo(folder / "evaluation.json")


def lose_the_certificate(folder: Path) -> None:
    (folder / "evaluation.json").unlink()


def grow(folder: Path) -> None:
    os.truncate(folder / "policy-host.pt2", 2**40)  # sparse: it takes no space


def many(folder: Path) -> None:
    for number in range(1001):
        (folder / str(number)).touch()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (lambda folder: list_more(folder, "../outside"), "lists '../outside', but a bundle has"),
        (lambda folder: list_more(folder, "/etc/passwd"), "lists '/etc/passwd', but a bundle has"),
        (lambda folder: list_more(folder, "a/../README.md"), "but a bundle has only"),
        (lambda folder: list_more(folder, "lineage.json"), "lineage.json is missing"),
        (list_nothing, "lists no file, so it certifies nothing"),
        (list_no_files, "has no provenance.json that lists its files"),
        (list_all_but_the_weights, "holds 'weights.safetensors', which provenance.json does not"),
        (list_a_file_twice, "is no JSON (a key stands twice)"),
        (list_a_player_without_weights, "other files than the players of config.yaml have"),
        (link_outside, "README.md is no regular file"),
        (link_the_provenance, "provenance.json is no regular file"),
        (add_a_file, r"holds 'run\x1b[2Jme.py', which provenance.json does not list"),
        (add_and_list_a_file, r"lists 'run\x1b[2Jme.py', but a bundle has only"),
        (add_a_folder, "holds 'policies', which provenance.json does not list"),
        (make_a_pipe, "README.md is no regular file"),
        (make_the_certificate_a_pipe, "evaluation.json is no regular file"),
        (lose_the_certificate, "evaluation.json is missing"),
        (grow, "policy-host.pt2 is no regular file of at most"),
        (many, "holds too many files for a bundle"),
    ],
)
def test_the_folder_holds_what_is_listed_and_nothing_else(bundle, capsys, how, words):
    how(bundle)
    assert words in refused(capsys, bundle, 7)


@pytest.mark.parametrize("name", ["../best", "/", ".", "", "linked", None, ["best"], "best/."])
def test_an_index_names_folders_within(bundle, capsys, name):
    (bundle.parent / "linked").symlink_to(bundle)
    (bundle.parent / "bundles.json").write_text(json.dumps({"bundles": [{"folder": name}]}))
    assert "which is no folder in it" in refused(capsys, bundle.parent, 7)


@pytest.mark.parametrize("text", ["[" * 100_000, "{}", '{"bundles": 3}', '{"bundles": [{}, {}]}'])
def test_a_damaged_index(bundle, capsys, text):
    (bundle.parent / "bundles.json").write_text(text)
    assert "bundles.json" in refused(capsys, bundle.parent, 7)


# What the files hold.


@pytest.mark.parametrize("name", [PROVENANCE, "evaluation.json"])
@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"\xff\xfe", b"[]", b"null", b"[" * 100_000, b'{"files": ' * 5000),
        b'{"files": {"a": ' + b"9" * 10_000 + b"}}",
        b"[" + b"[]," * 70_000 + b"0]",
    ],
    ids=["empty", "not_utf8", "list", "null", "deep", "deep_maps", "long_number", "many"],
)
def test_json_that_is_none_or_too_much(bundle, capsys, name, content):
    (bundle / name).write_bytes(content)
    if name != PROVENANCE:
        list_files_anew(bundle)
    assert name in refused(capsys, bundle, 7)


def doubled(count: int) -> str:
    """Return YAML whose last value stands for two to the power of ``count`` others."""
    lines = [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, count)]
    return "\n".join(["a0: &a0 [0, 0]", *lines])


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ("algorithm: dqn", "algorithm: !!python/object/apply:os.system ['touch marker']", 3),
        ("algorithm: dqn", "[" * 1_000, 3),
        ("algorithm: dqn", doubled(64), 3),
        ("algorithm: dqn", "algorithm: &a [*a]", 3),
        ("algorithm: dqn", "algorithm: !!int ''", 3),
        ("algorithm: dqn", '"\\e[2J": dqn', 3),
        ("algorithm: dqn", f"algorithm: 0x{'f' * 9000}", 3),
        ("algorithm: dqn", f"algorithm: 1{':59' * 5000}.0", 3),
        ("net_arch: [64, 64]", "net_arch: [{repeat: 1000000000, net_arch: [64]}]", 3),
        ("net_arch: [64, 64]", "net_arch: [{repeat: 10000, net_arch: [{repeat: 10000, "
            "net_arch: [64]}]}]", 3),
        ("net_arch: [64, 64]", "net_arch: [1000000000000]", 7),
        ("net_arch: [64, 64]", f"net_arch: [r1{'0' * 4000}]", 7),
        ("{name: flatten, num_points: 8}",
            "{name: attention, width: 8, heads: 2, blocks: 1000000000}", 3),
        ("max_num_points: 20", "max_num_points: 1000000000", 7),
        ("max_value: 20", "max_value: 1000000000000", 7),
        ("seed: 1000008", "seed: -1", 3),
        ("seed: 1000008", "seed: 99999999999999999999999", 7),
    ],
)  # fmt: skip
def test_a_configuration_that_asks_for_too_much(bundle, capsys, monkeypatch, before, after, code):
    monkeypatch.chdir(bundle.parent)
    text = (bundle / "config.yaml").read_text()
    assert before in text
    (bundle / "config.yaml").write_text(text.replace(before, after))
    list_files_anew(bundle)
    message = refused(capsys, bundle, code)
    assert "config.yaml" in message or "points" in message
    assert "\x1b" not in message
    assert not Path("marker").exists()


def set_condition(**changes):
    def change(certificate):
        certificate["conditions"] |= changes

    return change


def set_value(certificate):
    certificate["rows"][0]["metrics"]["rho/host/choose_first"]["value"] = True


def set_study(certificate):
    certificate["study"] = "\ud800"


def set_params(certificate):
    certificate["params"] = {"\x1b[2J": 1}


def repeat_a_row(certificate):
    better = json.loads(json.dumps(certificate["rows"][0]))
    better["metrics"]["rho/host/choose_first"]["value"] = 0.9
    certificate["rows"].insert(0, better)


@pytest.mark.parametrize(
    ("how", "code", "words"),
    [
        (set_condition(games=10**15), 7, "coordinates in all can be measured"),
        (set_condition(threads=10**6), 7, "threads must lie in [1, 1024]"),
        (set_condition(device="tape"), 7, "is no certificate of this version"),
        (set_value, 7, "must be a number, but is true"),
        (set_study, 7, "holds a str that no bundle has"),
        (set_params, 1, r"\x1b[2J: 1 when certified, nothing in config.yaml"),
        (repeat_a_row, 1, "rows: certified are others than are measured"),
    ],
)
def test_a_certificate_that_was_changed(bundle, capsys, how, code, words):
    certificate = json.loads((bundle / "evaluation.json").read_text())
    how(certificate)
    (bundle / "evaluation.json").write_text(json.dumps(certificate))
    list_files_anew(bundle)
    message = refused(capsys, bundle, code)
    assert words in message
    assert "\x1b" not in message


def cut(path: Path) -> None:
    os.truncate(path, 1000)


def giant_header(path: Path) -> None:
    path.write_bytes((2**63).to_bytes(8, "little") + path.read_bytes()[8:])


def header_beyond_the_end(path: Path) -> None:
    path.write_bytes((2**19).to_bytes(8, "little") + path.read_bytes()[8:])


def deep_header(path: Path) -> None:
    path.write_bytes((2**19).to_bytes(8, "little") + b"[" * 2**19)


def whole_numbers(path: Path) -> None:
    save_file({name: tensor.long() for name, tensor in load_file(path).items()}, path)


def another_tensor(path: Path) -> None:
    save_file({**load_file(path), "\x1b": torch.zeros(3)}, path)


def pickle_of_weights(path: Path) -> None:
    torch.save({"host.0.weight": Malice("touch marker")}, path)


@pytest.mark.parametrize(
    "how",
    [
        *(cut, giant_header, header_beyond_the_end, deep_header),
        *(whole_numbers, another_tensor, pickle_of_weights),
    ],
)
def test_weights_that_are_none(bundle, capsys, monkeypatch, how):
    monkeypatch.chdir(bundle.parent)
    how(bundle / "weights.safetensors")
    list_files_anew(bundle)
    message = refused(capsys, bundle, 7)
    assert "weights.safetensors" in message
    assert "\x1b" not in message
    assert not Path("marker").exists()


def test_weights_that_are_no_numbers_are_measured(bundle, capsys):
    path = bundle / "weights.safetensors"
    save_file({name: tensor * torch.nan for name, tensor in load_file(path).items()}, path)
    list_files_anew(bundle)
    assert "not everything is as certified" in refused(capsys, bundle, 1)


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Return a file with a few bytes changed, a piece lost, doubled, or repeated elsewhere."""
    start = rng.randrange(len(content))
    stop = min(len(content), start + rng.choice((1, 2, 8, 64, 1000)))
    piece = content[start:stop]
    match rng.randrange(6):
        case 0:
            changed = bytes(byte ^ 1 << rng.randrange(8) for byte in piece[:2]) + piece[2:]
        case 1:
            changed = b""
        case 2:
            changed = piece * rng.choice((2, 50))
        case 3:
            changed = rng.choice((b"[", b"{", b'"', b"0", b"-", b"99999999", b"1e999", b"NaN"))
        case 4:
            changed = rng.choice((b"null", b"true", b"[]", b"{}", b'""', b"*a", b"&a ", b"\\ud800"))
        case _:
            return content[:start]
    return content[:start] + changed + content[stop:]


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 40), pytest.param(None, 400, marks=pytest.mark.slow)]
)
def test_whatever_is_changed_in_it_nothing_but_our_errors_is_raised(
    whole, tmp_path, monkeypatch, seed, count
):
    monkeypatch.chdir(tmp_path)
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    rng, whole_ones = random.Random(seed), 0
    folder = Path(shutil.copytree(whole, tmp_path / "best"))
    tamper_program(folder, "touch marker", RUNNING_A_COMMAND[0])
    names = sorted(path.name for path in folder.iterdir())
    # Mostly what is parsed; a program's bytes are only compared.
    weights = [1 if name.startswith(("policy", "README")) else 6 for name in names]
    for number in range(count):
        name = rng.choices(names, weights)[0]
        before = {path: (folder / path).read_bytes() for path in (name, PROVENANCE)}
        (folder / name).write_bytes(mutated(before[name], rng))
        if name != PROVENANCE:
            list_files_anew(folder)
        try:
            bundle = read_bundle(folder)
            whole_ones += 1
            if whole_ones <= PLAYED_MUTANTS and bundle.certificate.conditions.games <= NUM_GAMES:
                assert any("policy-host.pt2" in line for line in reproduce(bundle))
        except HpsearchError:
            pass
        except BaseException as error:
            error.add_note(f"{seed=} {number=} {name=}")
            raise
        for path, content in before.items():
            (folder / path).write_bytes(content)
    assert whole_ones > PLAYED_MUTANTS, seed
    assert not Path("marker").exists()


# Signatures.


def make_key(folder: Path, name: str) -> str:
    """Write a key to a file; return its line in a list of signers."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / name)]
    subprocess.run(command, check=True)
    return f"{name}@lab {(folder / f'{name}.pub').read_text()}"


@needs_openssh
def test_who_signed_it_is_told(bundle, tmp_path, capsys):
    signers = tmp_path / "signers"
    signers.write_text(make_key(tmp_path, "ada") + make_key(tmp_path, "bob"))
    sign(bundle / PROVENANCE, tmp_path / "bob")
    assert main(["evaluate", str(bundle), "--signers", str(signers)]) == 0
    output = capsys.readouterr()
    assert output.out.splitlines()[-1] == f"{bundle}: signed by bob@lab"
    assert output.err == ""
    assert main(["evaluate", str(bundle)]) == 0
    output = capsys.readouterr()
    assert "signed by" not in output.out
    assert (
        output.err
        == f"hpsearch: {bundle} is signed; --signers FILE tells whether by a key that you trust\n"
    )


@needs_openssh
def test_a_missing_or_wrong_signature_is_refused_before_anything_is_read(bundle, tmp_path, capsys):
    signers, option = tmp_path / "signers", ["--signers", str(tmp_path / "signers")]
    signers.write_text(make_key(tmp_path, "ada"))
    stranger = make_key(tmp_path, "eve")
    (bundle / "README.md").unlink()  # which nothing of this notices
    assert "is not signed: it has no provenance.json.sig" in refused(capsys, bundle, 7, *option)
    sign(bundle / PROVENANCE, tmp_path / "eve")
    assert "is none of a signer in" in refused(capsys, bundle, 7, *option)
    signers.write_text(stranger)
    assert "README.md is missing" in refused(capsys, bundle, 7, *option)
    change_json(bundle / PROVENANCE, {"study": "another"})
    assert "is none of a signer in" in refused(capsys, bundle, 7, *option)
    (bundle / "provenance.json.sig").write_bytes(b"\xff\x1b[2J")
    message = refused(capsys, bundle, 7, *option)
    assert "is none of a signer in" in message
    assert "\x1b" not in message
    (bundle / "provenance.json.sig").unlink()
    (bundle / "provenance.json.sig").symlink_to(tmp_path / "nothing")
    assert "is no regular file" in refused(capsys, bundle, 7, *option)


@needs_openssh
def test_a_signature_for_something_else_does_not_fit(bundle, tmp_path, capsys):
    (tmp_path / "signers").write_text(make_key(tmp_path, "ada"))
    command = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(tmp_path / "ada"), "-n", "git"]
    subprocess.run([*command, str(bundle / PROVENANCE)], check=True, capture_output=True)
    message = refused(capsys, bundle, 7, "--signers", str(tmp_path / "signers"))
    assert "is none of a signer in" in message


def test_options_of_signatures_that_cannot_be_meant(bundle, tmp_path, capsys, monkeypatch):
    (bundle / "provenance.json.sig").write_text("")
    there_is_none = refused(capsys, bundle, 2, "--signers", str(tmp_path / "none"))
    assert "there is no file" in there_is_none
    (tmp_path / "signers").write_text("")
    only_bundles = refused(capsys, Path("zeillinger"), 2, "--signers", str(tmp_path / "signers"))
    assert "is no bundle, and only bundles are signed" in only_bundles
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = refused(capsys, bundle, 1, "--signers", str(tmp_path / "signers"))
    assert "signatures need ssh-keygen, which is not installed here" in missing


def test_only_a_lineage_may_be_long(tmp_path):
    """That of a hundred thousand trials has a row for each of some ten thousand intervals."""
    for name in ("lineage.json", "evaluation.json"):
        (tmp_path / name).write_bytes(b" " * (2**23 + 1))
    assert len(read_file(tmp_path / "lineage.json")) == 2**23 + 1
    with pytest.raises(CorruptError, match="of at most 8,388,608 bytes"):
        read_file(tmp_path / "evaluation.json")

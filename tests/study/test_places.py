"""Paths that are not UTF-8, and files of very many faults: refused at once, with a sentence."""

import os
import time
from pathlib import Path

import pytest
from cli_tools import write_study, write_trainer
from drives import drive, new_study
from fakes import FakeExecutor
from study_files import plain_study

from hpsearch import cli, yaml_file
from hpsearch.errors import SHOWN_PROBLEMS, ConfigError
from hpsearch.schema import read
from hpsearch.study.spec import StudySpec, load_spec

ODD = os.fsdecode(b"caf\xe9")
"""a name in Latin-1"""


@pytest.mark.parametrize("command", ["run", "submit", "train", "validate", "tick"])
@pytest.mark.parametrize("which", ["runs", "file", "here"])
def test_a_path_that_is_not_utf8_is_refused_before_anything_begins(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    command: str,
    which: str,
) -> None:
    place = tmp_path / ODD
    folder = tmp_path if which == "runs" else place
    folder.mkdir(exist_ok=True)
    name = "trainer.yaml" if command == "train" else "study.yaml"
    write_study(folder)
    write_trainer(folder)
    monkeypatch.chdir(folder if which == "here" else tmp_path)
    before = sorted(tmp_path.rglob("*"))
    file = name if which == "here" else str(folder / name)
    runs = str(place / "runs") if which == "runs" else "runs"
    assert cli.main([command, file, "--runs", runs]) == 2
    output = capfd.readouterr().err
    assert output.startswith("hpsearch: paths of studies and runs must be UTF-8")
    assert "caf\\xe9" in output
    assert sorted(tmp_path.rglob("*")) == before


def test_nothing_is_exported_to_such_a_path(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    drive(new_study(tmp_path), FakeExecutor())
    given = ["export", "quick", "--runs", str(tmp_path / "runs"), "-o", str(tmp_path / ODD)]
    assert cli.main(given) == 2
    assert capfd.readouterr().err.startswith("hpsearch: paths of studies and runs must be UTF-8")
    assert not (tmp_path / ODD).exists()


def test_a_file_of_a_hundred_thousand_wrong_keys_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text("".join(f"wrong{number}: {number}\n" for number in range(100_000)))
    began = time.process_time()
    with pytest.raises(ConfigError, match="a mapping has more than 1,000 keys at line 1001"):
        load_spec(path)
    assert time.process_time() - began < 1


def test_of_many_wrong_keys_the_first_are_explained(tmp_path: Path) -> None:
    began = time.process_time()
    with pytest.raises(ConfigError) as error:
        read(StudySpec, {f"bugdet{number}": 1 for number in range(100_000)}, source="study.yaml")
    lines = str(error.value).splitlines()
    assert time.process_time() - began < 1
    assert lines[0] == "study.yaml has 100,007 problems:"
    assert all("did you mean 'budget'" in line for line in lines[1 : SHOWN_PROBLEMS + 1])
    assert lines[SHOWN_PROBLEMS + 1 :] == ["  - and 99,987 more"]
    assert len(error.value.problems) == 100_007


def test_of_many_wrong_parameters_the_first_are_explained(tmp_path: Path) -> None:
    space = {
        f"host.gama{number}": {"type": "float", "low": 0.1, "high": 0.9} for number in range(900)
    }
    path = tmp_path / "study.yaml"
    path.write_text(yaml_file.dump(plain_study(space=space)))
    began = time.process_time()
    with pytest.raises(ConfigError, match=r"did you mean host\.gamma"):
        load_spec(path)
    assert time.process_time() - began < 3  # nearly all of it reading YAML

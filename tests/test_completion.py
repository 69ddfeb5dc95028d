"""Shells complete our commands: the script, sourced in a real one."""

import argparse
import shutil
import subprocess
from pathlib import Path

import pytest
from cli_tools import hpsearch

from hpsearch.cli import build_parser
from hpsearch.commands.completion import BY_METAVAR

SHELLS = ("bash", "zsh", "fish", "tcsh")

# What bash does when the key is pressed: it sets the words and calls the function that `complete`
# registered.
PRESS = """
source "./$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
COMP_LINE="$*"
function=$(complete -p hpsearch | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
"$function" hpsearch "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with two study files, another file, and two studies that were started."""
    folder = tmp_path_factory.mktemp("folder")
    for name in ("old", "steady"):
        (folder / "runs" / name).mkdir(parents=True)
        (folder / "runs" / name / "study.json").write_text("{}")
    (folder / "runs/run_of_its_own").mkdir()
    (folder / "deep").mkdir()
    for name in ("study.yaml", "other.yml", "notes.txt"):
        (folder / name).write_text("")
    (folder / ".script").write_text(hpsearch(folder, "completion", "bash").stdout)
    return folder


def press(folder: Path, *words: str) -> list[str]:
    """Return what bash offers for the last of the words."""
    done = subprocess.run(
        ["bash", "--norc", "-c", PRESS, "bash", ".script", "hpsearch", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return sorted(line for line in done.stdout.splitlines() if line)


def test_commands_are_completed(folder):
    assert press(folder, "st") == ["status", "stop"]
    actions = [action for action in build_parser()._actions if action.choices]
    assert press(folder, "") == sorted(actions[0].choices)


def test_options_are_completed(folder):
    assert press(folder, "status", "--w") == ["--watch"]
    assert press(folder, "status", "study.yaml", "--") == ["--help", "--json", "--runs", "--watch"]
    assert press(folder, "run", "--no") == ["--no-export"]


def test_study_files_and_started_studies_are_completed(folder):
    assert press(folder, "status", "st") == ["steady", "study.yaml"]
    assert press(folder, "run", "") == ["deep", "old", "other.yml", "runs", "steady", "study.yaml"]
    assert press(folder, "run", "o") == ["old", "other.yml"]
    assert press(folder, "crossplay", "steady", "o") == ["old", "other.yml"]


def test_other_arguments_are_completed_as_what_they_are(folder):
    assert press(folder, "train", "") == ["deep", "other.yml", "runs", "study.yaml"]
    assert press(folder, "export", "old", "-o", "d") == ["deep"]
    assert press(folder, "status", "--runs", "") == ["deep", "runs"]
    assert press(folder, "crossplay", "--device", "") == ["auto", "cpu", "cuda"]
    assert press(folder, "completion", "") == sorted(SHELLS)


def test_there_is_nothing_to_complete_where_no_study_was_started(tmp_path):
    (tmp_path / ".script").write_text(hpsearch(tmp_path, "completion", "bash").stdout)
    assert press(tmp_path, "status", "") == []


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_names_every_command(folder, shell):
    text = hpsearch(folder, "completion", shell).stdout
    actions = [action for action in build_parser()._actions if action.choices]
    assert [name for name in actions[0].choices if name not in text] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_of_its_language(folder, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    text = hpsearch(folder, "completion", shell).stdout
    subprocess.run([shell, "-n"], input=text, text=True, check=True)


def test_every_path_is_known_to_be_one():
    actions = [action for action in build_parser()._actions if action.choices]
    for name, parser in actions[0].choices.items():
        for action in parser._actions:
            if isinstance(action, argparse._StoreAction) and action.type is Path:
                assert action.metavar in BY_METAVAR, (name, action.metavar)

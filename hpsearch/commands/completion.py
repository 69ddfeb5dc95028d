"""The script by which a shell completes our commands, made by shtab, without starting Python."""

import argparse
from collections.abc import Iterator
from typing import Any

import shtab

STUDIES: dict[str, Any] = {
    "bash": "_hpsearch_study_files",
    "zsh": "_hpsearch_study_files",
    "fish": "(_hpsearch_study_files)",
    "tcsh": "f:*.{yaml,yml}",  # it has no functions
    "preamble": {
        "bash": r"""
_hpsearch_study_files() {
  local file
  compgen -f -X '!*.yaml' -- "$1"
  compgen -f -X '!*.yml' -- "$1"
  compgen -d -- "$1"
  for file in runs/*/study.json; do
    [ -e "$file" ] || continue
    file=${file#runs/}
    compgen -W "${file%/study.json}" -- "$1"
  done
}""",
        "zsh": r"""
_hpsearch_study_files() {
  local -a studies
  studies=(runs/*/study.json(N:h:t))
  compadd -a studies
  _files -g '*.(yaml|yml)'
}""",
        "fish": r"""
function _hpsearch_study_files
  for file in runs/*/study.json
    string split -f 2 / -- $file
  end
  __fish_complete_suffix .yaml
  __fish_complete_suffix .yml
end""",
    },
}
"""study files, folders, and studies that were started in this folder"""
YAML = shtab.glob("*.yaml", "*.yml")
BY_METAVAR: dict[str, Any] = {
    "CHECKPOINT": shtab.FILE,
    "CONFIG": YAML,
    "DIR": shtab.DIRECTORY,
    "DIR|FILE": YAML,
    "FILE": shtab.FILE,
    "FOLDER": shtab.DIRECTORY,
    "KEY": shtab.FILE,
    "OLD": YAML,
    "PLAYER": STUDIES,
    "STUDY": STUDIES,
}


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    for action in _actions(parser):
        if isinstance(action.metavar, str) and action.metavar in BY_METAVAR:
            action.complete = BY_METAVAR[action.metavar]  # type: ignore[attr-defined]  # as shtab asks
    script: str = shtab.complete(parser, shell)
    return script


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
        else:
            yield action

"""The help of every command ends with examples that the parser accepts."""

import argparse
import shlex
from pathlib import Path

import pytest

from hpsearch.cli import build_parser, parse
from hpsearch.cluster.failures import KINDS
from hpsearch.study.templates import TEMPLATES

ROOT = Path(__file__).parent.parent


def commands() -> dict[str, argparse.ArgumentParser]:
    actions = [action for action in build_parser()._actions if action.choices]
    return actions[0].choices


def examples(command: str) -> list[str]:
    """Return the lines at the end of a command's help, below `example:`."""
    _, separator, text = commands()[command].format_help().rpartition("\nexample")
    assert separator
    heading, *lines = text.splitlines()
    assert heading == ("s:" if len(lines) > 1 else ":")
    return [line.strip() for line in lines]


@pytest.mark.parametrize("command", commands())
def test_help_ends_with_examples_that_are_accepted(command):
    for example in examples(command):
        program, *words = shlex.split(example.partition(" > ")[0])
        assert (program, words[0]) == ("hpsearch", command)
        assert parse(words).name == command
        for word in words:
            if word.startswith("studies/"):
                assert (ROOT / word).is_file()


def test_names_in_examples_are_valid():
    assert set(parse(shlex.split(examples("retry")[0])[1:]).arguments["kinds"]) <= set(KINDS)
    assert parse(shlex.split(examples("init")[0])[1:]).arguments["template"] in TEMPLATES


def test_the_examples_of_the_whole_are_accepted():
    text = build_parser().format_help().partition("\nexamples:\n")[2].partition("\n\n")[0]
    lines = text.splitlines()
    assert len(lines) > 5
    for line in lines:
        command = line.strip().partition("  ")[0]
        assert parse(shlex.split(command)[1:]).name

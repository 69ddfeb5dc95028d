"""What the command line answers before it does anything: its help, and unknown commands."""

import re
from inspect import signature
from itertools import chain

import pytest
from cli_tools import hpsearch

from hpsearch.cli import COMMANDS, NAMES, build_parser, main


def groups_of(text: str) -> dict[str, list[str]]:
    """Return the commands by the headings that the help prints above them."""
    listed: dict[str, list[str]] = {}
    lines = text.partition("\ncommands:\n")[2].partition("\n\n")[0].splitlines()
    for line in lines:
        if heading := re.fullmatch(r"  (\w[\w ]*):", line):
            listed[heading[1]] = []
        elif command := re.match(r"    (\w+)", line):
            list(listed.values())[-1].append(command[1])
    return listed


def test_the_help_lists_every_command_once_in_the_groups_of_a_users_way(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    listed = groups_of(capsys.readouterr().out)
    assert list(listed) == ["begin", "run", "look", "compare", "take away", "plumbing"]
    choices = next(action.choices for action in build_parser()._actions if action.choices)
    assert sorted(chain.from_iterable(listed.values())) == sorted(choices)
    assert {"drive", "tick"} <= set(listed["plumbing"])
    assert {"init", "validate"} <= set(listed["begin"])
    assert listed == {
        group: [command.name for command in commands] for group, commands in COMMANDS.items()
    }


def test_every_summary_stands_beside_its_command(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    for command in NAMES:
        assert re.search(rf"^    {command} +\w.*\w", text, flags=re.MULTILINE), command


def test_without_a_command_the_help_is_printed(tmp_path):
    done = hpsearch(tmp_path, code=2)
    assert done.stdout == hpsearch(tmp_path, "--help").stdout
    assert done.stderr == ""
    assert "hpsearch alone prints this help, with exit code 2" in done.stdout


@pytest.mark.parametrize(
    ("typed", "meant"), [("runn", "run"), ("statsu", "status"), ("exprt", "export")]
)
def test_an_unknown_command_is_told_which_was_meant(typed, meant, capsys):
    assert main([typed, "study.yaml"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    valid = ", ".join(sorted(NAMES))
    sentence = f"unknown command '{typed}' (did you mean '{meant}'?); valid: {valid}"
    assert output.err == f"hpsearch: {sentence}\n"


def test_a_command_like_none_lists_all(capsys):
    assert main(["qqqq"]) == 2
    assert "did you mean" not in (said := capsys.readouterr().err)
    assert all(command in said for command in NAMES)


def test_a_command_is_a_function_of_its_arguments():
    parsers = next(action.choices for action in build_parser()._actions if action.choices)
    for name, parser in parsers.items():
        given = {action.dest for action in parser._actions} - {"help"}
        assert set(signature(parser.get_default("command").function).parameters) == given, name

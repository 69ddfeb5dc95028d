"""The one reader of files below runs/, and what a terminal is shown of them."""

import json
import os
import re
import time
from pathlib import Path

import pytest
from hostile import ESCAPE
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from hpsearch import files
from hpsearch.cluster.record_files import CurveFile
from hpsearch.errors import CorruptError
from hpsearch.files import (
    forget_after,
    last_lines,
    parse_json,
    read_json,
    read_lines,
    write_bytes,
)
from hpsearch.printable import printable, printable_streams
from hpsearch.terminal import Terminal

DEEP = [
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"[" * 900 + b"]" * 900,
    b'{"a":' * 65 + b"1" + b"}" * 65,
]


@pytest.mark.parametrize("content", [*DEEP, b"9" * 5000], ids=range(len(DEEP) + 1))
def test_what_is_nested_too_deeply_or_too_long_a_number_is_corrupt(tmp_path, content):
    path = tmp_path / "record.json"
    path.write_bytes(content)
    with pytest.raises(CorruptError, match=r"record\.json"):
        read_json(path)


def test_what_is_nested_as_deeply_as_allowed_is_read():
    text = "[" * files.MAX_DEPTH + "]" * files.MAX_DEPTH
    assert json.dumps(parse_json(text)) == text
    assert len(parse_json("[" + "{}," * 999 + "{}]")) == 1000  # many, but not deep


@pytest.mark.parametrize("innermost", ["1", "[]", "{}"])
def test_the_deepest_level_is_the_same_whatever_it_holds(innermost):
    depth = files.MAX_DEPTH
    text = "[" * depth + innermost + "]" * depth
    assert json.dumps(parse_json(text)) == text
    with pytest.raises(ValueError, match=f"nested more than {depth} deep"):
        parse_json(f"[{text}]")


def make_loop(path):
    path.symlink_to(path.name)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, make_loop])
@pytest.mark.timeout(20)
def test_what_is_no_regular_file_is_corrupt_and_not_waited_for(tmp_path, make):
    make(tmp_path / "record.json")
    with pytest.raises(CorruptError, match="no regular file"):
        read_json(tmp_path / "record.json")
    with pytest.raises(CorruptError, match="no regular file"):
        list(read_lines(tmp_path / "record.json"))
    assert last_lines(tmp_path / "record.json", 3) == []


def test_a_symbolic_link_to_a_file_is_read(tmp_path):
    (tmp_path / "there").write_text("[1]")
    (tmp_path / "link").symlink_to("there")
    assert read_json(tmp_path / "link") == [1]


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    path = tmp_path / "record.json"
    path.write_bytes(b"1")
    os.truncate(path, 2**40)  # it takes no room
    with pytest.raises(CorruptError, match="more than 67,108,864 bytes"):
        read_json(path)


def test_texts_are_free_of_what_cannot_be_kept():
    text = r'{"a\ud800": ["\udfff \u0000 \ud83d\ude00"]}'
    assert parse_json(text) == {"a\ufffd": ["\ufffd \ufffd \U0001f600"]}


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_but_value_errors(data):
    try:
        value = parse_json(data)
    except ValueError:
        return
    json.dumps(value, ensure_ascii=False).encode()


def test_lines_that_are_too_long_are_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_LINE", 8)
    path = tmp_path / "lines"
    path.write_bytes(b"1234567\n" + b"x" * 100 + b"\n12345678\n\nabc\ntorn")
    assert list(read_lines(path)) == [b"1234567", b"", b"abc"]


def test_the_end_of_a_log_is_read_without_the_rest(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"")
    os.truncate(path, 2**40)
    with path.open("ab") as file:
        file.write(b"\nlast but one\nlast \xff\n")
    began = time.monotonic()
    assert last_lines(path, 2) == ["last but one", "last \ufffd"]
    assert time.monotonic() - began < 10


def test_a_line_after_a_torn_one_is_not_lost(tmp_path):
    curve = CurveFile(tmp_path / "curve.jsonl")
    curve.append({"step": 5})
    with curve.path.open("ab") as file:
        file.write(b'{"step": 10, "met')  # killed here
    curve.append({"step": 15})
    assert [row["step"] for row in curve.read()] == [5, 15]
    forget_after(curve.path, 5)
    assert curve.path.read_text() == '{"step": 5}\n'


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'{"step": -1}',
        b'{"step": 1e3}',
        b'{"step": true}',
        b'{"step": 99999999999999999}',
    ],
    ids=range(5),
)
def test_a_damaged_line_of_a_curve_is_left_out(tmp_path, line):
    curve = CurveFile(tmp_path / "curve.jsonl")
    write_bytes(curve.path, b'{"step": 1}\n' + line + b'\n{"step": 2}\n')
    assert [row["step"] for row in curve.read()] == [1, 2]


@given(st.text())
def test_printable_text_steers_nothing_and_can_be_encoded(text):
    said = printable(text)
    said.encode()
    assert all(char.isprintable() or char in "\n\t" or ord(char) >= 128 for char in said)
    assert not {"\x9b", "\x9d", "\u202e"} & set(said)
    assert printable(said) == said
    assert printable("Größe\t1\r\n") == "Größe\t1\n"


def test_what_commands_print_steers_no_terminal(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with printable_streams():
        print(f"name {ESCAPE} \ud800")
        table = Table(ESCAPE)
        table.add_row(f"[/bold] {ESCAPE}")
        Terminal().print(table)
        Terminal(width=40).print(f"message {ESCAPE}", style="red", soft_wrap=True)
    output = capsys.readouterr().out
    assert "\x1b[31m" in output  # rich's own colours stay
    assert "\x1b]" not in output
    assert "\x1b[2J" not in output
    assert "\x07" not in output
    assert "[/bold]" in output


PACKAGE = Path(files.__file__).parent
READS = re.compile(
    r"\.read_text\(|\.read_bytes\(|\.open\(\"r|json\.load\(|np\.load\(|torch\.load\("
)
NOT_BELOW_RUNS = {
    "audit/disk.py",  # an archive of arrays that the bounded reader has opened
    "cluster/code_snapshot.py",  # this package's own code
    "cluster/training_threads.py",  # what the system tells of its cores
    "export/folder.py",  # bundles, which have a reader of their own, as the next one
    "export/programs.py",
    "doctor/machine.py",  # what it has just written to try a file system; the system's mounts
    "game/kernels/loop_cache.py",  # the code of compiled loops
    "report/page/page.py",  # the page's own style and script
    "report/page/material.py",  # the user's study file
    "trainers/kernel_cache.py",  # a mark beside the programs that numba keeps
    "study/templates.py",  # the studies that come with the package
}


def test_nothing_else_opens_files_below_runs():
    reading = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if READS.search(path.read_text(encoding="utf-8"))
    }
    assert reading <= NOT_BELOW_RUNS


def test_all_commands_print_on_the_terminal_that_nothing_steers():
    consoles = [
        path.name
        for path in PACKAGE.rglob("*.py")
        if re.search(r"(?<!\w)Console\((?!\):)", path.read_text(encoding="utf-8"))
    ]
    assert consoles == []

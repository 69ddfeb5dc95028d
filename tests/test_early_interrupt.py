"""Ctrl-C while a command is still being imported."""

import subprocess
import sys

import pytest

HEARD = "signal.signal(signal.SIGINT, signal.default_int_handler)"
"""what the tests' own process may have been started to ignore"""


@pytest.mark.parametrize("module", ["argparse", "hpsearch.commands.run", "hpsearch.names"])
@pytest.mark.parametrize(
    ("program", "started"),
    [("/usr/bin/hpsearch", "hpsearch.cli"), ("/usr/lib/hpsearch/__main__.py", "hpsearch")],
)
def test_a_command_that_is_being_imported_ends_with_one_sentence(module, program, started):
    """The signal comes when a module that is named is about to be imported."""
    code = (
        "import os, runpy, signal, sys\n"
        f"{HEARD}\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        f"sys.argv = [{program!r}, 'ls']\n"
        f"runpy.run_module({started!r}, run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "hpsearch: interrupted\n")


def run_with_callback(statement: str) -> subprocess.CompletedProcess:
    """Run a statement in the callback of a weak reference, while a command imports what it needs.

    Python calls such callbacks by itself, as for each module it has imported.
    """
    code = (
        "import runpy, signal, sys, time, weakref\n"
        f"{HEARD}\n"
        f"def callback(reference): {statement}\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name != 'hpsearch.commands.completion': return\n"
        "        watched = set()\n"
        "        reference = weakref.ref(watched, callback)\n"
        "        del watched\n"
        "        time.sleep(1)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.argv = ['/usr/bin/hpsearch', 'completion', 'bash']\n"
        "runpy.run_module('hpsearch.cli', run_name='__main__')\n"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_an_interrupt_that_python_drops_comes_again():
    done = run_with_callback("signal.raise_signal(signal.SIGINT)")
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "hpsearch: interrupted\n"


def run_with(definitions: str) -> tuple[int, str]:
    """Run a command of which ``definitions`` replace parts; return its exit code and complaint."""
    code = (
        "import signal, sys\n"
        f"{HEARD}\n"
        "sys.argv = ['/usr/bin/hpsearch', 'ls']\n"
        "from hpsearch import cli\n"
        f"{definitions}"
        "cli.entry()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_a_second_interrupt_changes_nothing_of_how_it_ends():
    """It comes while the first one is said."""
    ended = run_with(
        "def parse(arguments): signal.raise_signal(signal.SIGINT)\n"
        "def say(sentence): signal.raise_signal(signal.SIGINT); told(sentence)\n"
        "told, cli.say, cli.parse = cli.say, say, parse\n"
    )
    assert ended == (130, "hpsearch: interrupted\n")


def test_an_interrupt_that_becomes_another_error_is_still_one():
    """As in Python's ssl, whose C code puts a TypeError in its place."""
    ended = run_with(
        "def parse(arguments):\n"
        "    try: signal.raise_signal(signal.SIGINT)\n"
        "    except KeyboardInterrupt: raise TypeError('expected a message argument')\n"
        "cli.parse = parse\n"
    )
    assert ended == (130, "hpsearch: interrupted\n")


def test_another_error_that_python_drops_is_printed():
    done = run_with_callback("1 / 0")
    assert done.returncode == 0
    assert "ZeroDivisionError" in done.stderr


def test_importing_the_command_line_leaves_the_signal_alone():
    code = "import hpsearch.cli; print(signal.getsignal(signal.SIGINT).__name__)"
    code = f"import signal; {HEARD}; {code}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "default_int_handler\n"

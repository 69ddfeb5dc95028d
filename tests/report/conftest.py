"""A small study of which nothing has happened yet."""

import pytest
from cli_tools import write_study
from views import Story


@pytest.fixture
def story(tmp_path):
    """A study of six trials of 60 steps."""
    return Story(write_study(tmp_path))


@pytest.fixture
def terminal(monkeypatch):
    """The surroundings of somebody at a terminal, whatever these tests run on."""
    monkeypatch.setenv("TERM", "xterm-256color")
    return monkeypatch

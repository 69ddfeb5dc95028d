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
    """A terminal with colours; tests/conftest.py has removed what says otherwise."""
    monkeypatch.setenv("TERM", "xterm-256color")
    return monkeypatch

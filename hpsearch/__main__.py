"""Lets `python -m hpsearch` do what the installed command does."""

from hpsearch.cli import entry

if __name__ == "__main__":
    entry()

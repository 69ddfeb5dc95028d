"""Files of the repository that an installed package brings along, so that each stands once.

They lie in their own folders of the repository; a wheel holds copies in ``hpsearch/files/``, which
pyproject.toml lists.
"""

from pathlib import Path

_PACKAGE = Path(__file__).parent


def shipped(name: str) -> Path:
    """Return where a file lies that the repository holds as ``name``, such as studies/x.yaml."""
    copy = _PACKAGE / "files" / name
    return copy if copy.exists() else _PACKAGE.parent / name

"""The token that Prometheus must show before a driver tells it anything of the study."""

import os
import stat
from pathlib import Path
from typing import Final

from hpsearch.errors import DiskError, UsageError
from hpsearch.files import open_file
from hpsearch.study.options import PrometheusOptions
from hpsearch.study.spec_checks import FROM_ENVIRONMENT

MAX_LENGTH: Final = 1024
"""characters of a token"""


def read_token(options: PrometheusOptions, folder: Path) -> str | None:
    """Return the token, None where the metrics are for this machine alone and need none.

    Args:
        options: what the study file says.
        folder: of the study file, from which paths are read.

    Raises:
        UsageError: if a token is needed and there is none that a header can hold.
        CorruptError: if its file is no regular file.
        DiskError: if its file cannot be read.
    """
    said = options.token
    if said is None:
        if options.is_local:
            return None
        raise UsageError(
            f"prometheus.host {options.host} is reached from other machines, so prometheus.token "
            "must name a file with a token, or env: and a variable; write one of these, or leave "
            "host out"
        )
    if said.startswith(FROM_ENVIRONMENT):
        variable = said.removeprefix(FROM_ENVIRONMENT)
        if not os.environ.get(variable):
            raise UsageError(
                f"prometheus.token names the environment variable {variable}, which is not set; "
                f"export {variable}=$(openssl rand -hex 32)"
            )
        token, place = os.environ[variable], f"the environment variable {variable}"
    else:
        token, place = _read_private(folder / said), str(folder / said)
    token = token.strip()
    if not (token.isascii() and token.isprintable() and 0 < len(token) <= MAX_LENGTH) or (
        " " in token
    ):
        raise UsageError(
            f"the token in {place} must be 1 to {MAX_LENGTH} letters, digits or signs without "
            f"spaces, but has {len(token)} characters that are not all such; write one by: "
            "openssl rand -hex 32"
        )
    return token


def _read_private(path: Path) -> str:
    """Return what a file begins with that its owner alone may read."""
    try:
        with open_file(path) as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read(2 * MAX_LENGTH).decode("latin-1")
    except OSError as error:
        raise DiskError(
            f"the token {path} cannot be read ({error.strerror}); write it, or give "
            "prometheus.token another path"
        ) from error
    if mode & 0o077:
        raise UsageError(
            f"the token {path} must be readable by its owner alone, but its mode is {mode:04o}; "
            f"run: chmod 600 {path}"
        )
    return text

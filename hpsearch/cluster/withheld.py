"""What jobs do not get of the driver's environment.

A job inherits the environment of its submission, and SLURM stores it as long as it knows the job.
Jobs need no database, so the variable with its password is taken out.
"""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager


@contextmanager
def without_variables(names: Collection[str]) -> Iterator[None]:
    """Let processes that are started in the block not inherit these environment variables.

    submitit gives what it starts a copy of the whole environment, and takes no other one.
    """
    values = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(values)

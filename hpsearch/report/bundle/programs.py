"""The greedy policy as a file that torch alone loads (torch.export)."""

from pathlib import Path
from zipfile import is_zipfile

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram

from hpsearch.errors import CorruptError, HpsearchError
from hpsearch.report.bundle.greedy import Greedy, greedy_policy
from hpsearch.report.bundle.positions import BATCHES, Positions, trained_actions
from hpsearch.trainers.saved_player import SavedPlayer


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

    Raises:
        HpsearchError: if it answers otherwise anywhere.
        OSError: if it cannot be written.
    """
    torch.export.save(traced(greedy_policy(role, player.net, autocast=True)), path)
    differing = differing_actions(path, player, role, positions)
    if differing:
        raise HpsearchError(
            f"the exported policy of the {role} differs from the trained one on {differing} of "
            f"{len(positions.points)} positions; export on the CPU that trained it, or with the "
            "version of torch that hpsearch is tested with"
        )


def differing_actions(path: Path, player: SavedPlayer, role: str, positions: Positions) -> int:
    """Return on how many positions a written policy plays otherwise than a player.

    Each number of games at once is compared with the same of the player, whose products may round
    otherwise for another number.

    Raises:
        CorruptError: if the file holds no program.
    """
    policy = load_program(path)
    counts = []
    for batch in (*BATCHES, len(positions.points)):
        some = positions.first(batch)
        answers: Tensor = policy(*some.of(role))
        counts.append(int((answers != trained_actions(player, role, some)).sum()))
    return max(counts)


def load_program(path: Path) -> torch.nn.Module:
    """Return the policy in a file.

    Raises:
        CorruptError: if the file is missing or holds no program.
    """
    # Looked at first: torch prints a traceback before it refuses.
    if not is_zipfile(path):
        raise CorruptError(f"{path} is missing or holds no policy; export it again")
    return torch.export.load(path).module()

"""The greedy policy as files that run without hpsearch: programs for torch, and for ONNX.

A program is never loaded to see what it does, since torch.export runs what a file says. It is the
one of a bundle's weights if it has the same bytes as one that is written anew.
"""

import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram
from torch.export.pt2_archive import PT2ArchiveReader, PT2ArchiveWriter
from torch.onnx.errors import OnnxExporterError

from hpsearch.errors import HpsearchError
from hpsearch.export.folder import FORMAT, SORTED_POINTS, BundleDir, Contents
from hpsearch.export.greedy import (
    BATCHES,
    ByRole,
    Greedy,
    SamplePositions,
    greedy_policy,
    sample_positions,
    trained_actions,
)
from hpsearch.game.random import derive_key
from hpsearch.trainers.config.players import EncoderExtension
from hpsearch.trainers.opponents import SavedPlayer
from hpsearch.trainers.rollouts import game_config

_WRITTEN_LAST: Final = (".data/version", "byteorder", ".data/serialization_id")
"""what torch's writer adds to an archive by itself"""


def traced(policy: Greedy) -> ExportedProgram:
    """Return a policy as a program for any number of games, without paths of this machine."""
    example, batch = policy.example(), Dim("batch", min=1)
    shapes = tuple({0: batch} for _ in example)
    with torch.no_grad():
        program = torch.export.export(policy.eval(), example, dynamic_shapes=shapes)
    return _without_places(program)


def _without_places(program: ExportedProgram) -> ExportedProgram:
    """Return the program without its stack traces, in which paths of this machine stand."""
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    return program


def write_program(path: Path, player: SavedPlayer, role: str, positions: SamplePositions) -> None:
    """Write a greedy policy; HpsearchError if it plays otherwise than its player.

    Or if torch cannot trace the encoder of another package.
    """
    encoder = player.config.learning()[role].encoder
    try:
        save_program(path, player, role, FORMAT)
    except Exception as error:
        if not isinstance(encoder, EncoderExtension):
            raise
        raise HpsearchError(
            f"torch cannot export the {role}: its encoder {encoder.name} is no fixed sequence of "
            f"operations on tensors ({type(error).__name__}: {error}); hold it to "
            "hpsearch.testing.game_parts.check_encoder"
        ) from error
    differing = differing_actions(path, player, role, FORMAT, positions)
    if differing:
        raise HpsearchError(
            f"the exported policy of the {role} differs from the trained one on {differing} of "
            f"{len(positions.points)} positions; export on the CPU that trained it, or with the "
            "version of torch that hpsearch is tested with"
        )


def save_program(path: Path, player: SavedPlayer, role: str, bundle_format: int) -> None:
    """Write the greedy policy of a player: the same bytes for the same weights and versions."""
    program = traced(greedy_policy(role, player.net, bundle_format, autocast=True))
    # torch's writer of files ends the whole process where the disk is full, so it is tried first.
    memory = io.BytesIO()
    torch.export.save(program, memory)
    path.write_bytes(memory.getvalue() + bytes(2**16))  # the names in a file may be longer
    torch.export.save(program, path)


def differing_actions(
    path: Path, player: SavedPlayer, role: str, bundle_format: int, positions: SamplePositions
) -> int:
    """Return on how many positions a policy plays otherwise than a player.

    Each number of games at once is compared with the same of the player, whose products may round
    otherwise for another number. The policy at ``path`` is one that this process wrote: loading one
    runs whatever its file says.
    """
    policy = torch.export.load(path).module()
    asked = positions if bundle_format == SORTED_POINTS else positions.raw()
    counts = []
    for batch in (*BATCHES, len(positions.points)):
        answers: Tensor = policy(*asked.first(batch).of(role))
        actions = trained_actions(player, role, positions.first(batch))
        counts.append(int((answers != actions).sum()))
    return max(counts)


def digest_by_build(path: Path, build: str) -> str:
    """Return a program's sha256 as another build of torch, for CPU or CUDA, had written it."""
    if build == torch.__version__:
        return sha256(path.read_bytes()).hexdigest()
    before = f'"torch_version": "{torch.__version__}"'.encode()
    after = f'"torch_version": "{build}"'.encode()
    with TemporaryDirectory(prefix="hpsearch-") as folder:
        renamed = Path(folder) / path.name
        with PT2ArchiveReader(str(path)) as old, PT2ArchiveWriter(str(renamed)) as new:
            for name in old.get_file_names():
                if name in _WRITTEN_LAST:
                    continue
                content = old.read_bytes(name)
                if name == "models/model.json":
                    content = content.replace(before, after)
                new.write_bytes(name, content)
        return sha256(renamed.read_bytes()).hexdigest()


MISSING: Final = (
    "no ONNX policy: the packages that write it are not installed; add them with "
    "pip install 'hpsearch[onnx]', then export again"
)
TOLERANCE: Final = 1e-4  # of values, over the largest: closer ones may change places


def write_onnx(
    path: Path, player: SavedPlayer, role: str, positions: SamplePositions
) -> str | None:
    """Write a greedy policy in float32; return why there is none, None if there is."""
    if not can_write():
        return MISSING
    greedy = greedy_policy(role, player.net, FORMAT, autocast=False)
    try:
        save_onnx(path, greedy, torch.__version__)
    except OnnxExporterError as error:
        return f"no ONNX policy of the {role}: torch cannot write it ({str(error).splitlines()[0]})"
    inputs = positions.raw().of(role)
    differing = _differing(path, inputs, _clear_actions(greedy, inputs))
    if differing == 0:
        return None
    path.unlink()
    total = len(positions.points)
    return f"no ONNX policy of the {role}: onnxruntime plays otherwise on {differing} of {total}"


def can_write() -> bool:
    try:
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        return False
    return True


def save_onnx(path: Path, greedy: Greedy, build: str) -> None:
    """Write a policy in ONNX as by ``build`` of torch: equal bytes for equal weights."""
    unknown_to_onnx = {
        torch.ops.aten.scaled_dot_product_attention.default: _attention,
        torch.ops.aten.argsort.stable: _stable_argsort,
    }
    with _without_warnings():
        program = _without_places(traced(greedy).run_decompositions(unknown_to_onnx))
        written = torch.onnx.export(program, dynamo=True, verbose=False)
    assert written is not None, "without a path it is returned"
    written.model.producer_version = build
    written.save(path)


@torch.no_grad()
def _clear_actions(greedy: Greedy, inputs: Sequence[Tensor]) -> Tensor:
    """Return the greedy actions int64 (B,), -1 where another one is about as good."""
    ranking: Tensor = greedy.ranking(*inputs)
    actions = ranking.argmax(dim=-1)
    if ranking.shape[1] == 1:  # a host in two dimensions has no choice
        return actions
    best = ranking.topk(2, dim=-1).values
    scale = ranking.where(ranking.isfinite(), 0.0).abs().amax(dim=-1)
    return torch.where(best[:, 0] - best[:, 1] > TOLERANCE * scale, actions, -1)


def _differing(path: Path, inputs: Sequence[Tensor], clear: Tensor) -> int:
    """Return on how many positions onnxruntime plays another than the clearly best action."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [argument.name for argument in session.get_inputs()]
    counts = []
    for batch in (*BATCHES, len(clear)):
        named = {name: values[:batch].numpy() for name, values in zip(names, inputs, strict=True)}
        answers = torch.from_numpy(session.run(None, named)[0])
        counts.append(int(((answers != clear[:batch]) & (clear[:batch] >= 0)).sum()))
    return max(counts)


def _attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor) -> Tensor:
    """Return what torch's scaled_dot_product_attention does; ONNX's has no axis of members."""
    weights = query @ key.mT * query.shape[-1] ** -0.5
    weights = weights.masked_fill(~attn_mask, -torch.inf).softmax(dim=-1)
    attended: Tensor = weights @ value
    return attended


def _stable_argsort(values: Tensor, *, stable: bool, dim: int = -1, descending: bool) -> Tensor:
    """Return what torch's argsort does; of equal values, ONNX's TopK takes the earlier first."""
    return values.topk(values.shape[dim], dim=dim, largest=descending).indices


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Keep torch from speaking of packages that it could also use, and of its own code."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logger.setLevel(before)


def program_differences(bundle: BundleDir, contents: Contents, players: ByRole) -> list[str]:
    """Return a line for every program for torch that is not the one of the weights, or plays so."""
    lines = []
    for role, player in players.items():
        name = bundle.program(role).name
        build = _build(bundle, contents, role)
        positions = sample_positions(game_config(player.config), derive_key("bundle"))
        with TemporaryDirectory(prefix="hpsearch-") as folder:
            path = Path(folder) / name
            save_program(path, player, role, contents.bundle_format)
            differing = differing_actions(path, player, role, contents.bundle_format, positions)
            is_same = digest_by_build(path, build) == contents.digests[name]
        if differing:
            total = len(positions.points)
            lines.append(f"{name} plays otherwise than the weights on {differing} of {total}")
        if not is_same:
            lines.append(_other(name, build))
    return lines


def onnx_differences(bundle: BundleDir, contents: Contents, players: ByRole) -> list[str]:
    """Return a line a program for ONNX that is not the weights'; none without the packages."""
    lines = []
    for role, player in players.items():
        name = bundle.onnx(role).name
        if name not in contents.digests or not can_write():
            continue
        build = _build(bundle, contents, role)
        greedy = greedy_policy(role, player.net, contents.bundle_format, autocast=False)
        with TemporaryDirectory(prefix="hpsearch-") as folder, suppress(OnnxExporterError):
            path = Path(folder) / name
            save_onnx(path, greedy, build)
            if sha256(path.read_bytes()).hexdigest() == contents.digests[name]:
                continue
        lines.append(_other(name, build))
    return lines


def _build(bundle: BundleDir, contents: Contents, role: str) -> str:
    return contents.builds.get(bundle.program(role).name, torch.__version__)


def uncompared(contents: Contents) -> list[str]:
    """Return the names of the programs that this machine lacks the packages to compare."""
    return [name for name in contents.digests if name.endswith(".onnx") and not can_write()]


def _other(name: str, build: str) -> str:
    here = torch.__version__
    if build.partition("+")[0] == here.partition("+")[0]:
        return f"{name} is not the program of the weights, which give other bytes here"
    return (
        f"{name} could not be checked: torch {build} wrote it, and torch {here}, which is here, "
        f"gives other bytes for the weights; evaluate it with torch {build}"
    )

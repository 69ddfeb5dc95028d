"""The greedy policy in ONNX, where the packages that write and run it are installed."""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import torch
from torch import Tensor
from torch.onnx.errors import OnnxExporterError

from hpsearch.report.bundle.files import FORMAT
from hpsearch.report.bundle.greedy import Greedy, greedy_policy
from hpsearch.report.bundle.positions import BATCHES, Positions
from hpsearch.report.bundle.programs import traced, without_places
from hpsearch.trainers.saved_player import SavedPlayer

MISSING: Final = (
    "no ONNX policy: the packages that write it are not installed; add them with "
    "pip install 'hpsearch[onnx]', then export again"
)
TOLERANCE: Final = 1e-4
"""of values, over the largest: sums in another order may let closer ones change places"""


def write_onnx(path: Path, player: SavedPlayer, role: str, positions: Positions) -> str | None:
    """Write the greedy policy of a player in float32, and let onnxruntime play it.

    Nothing is written where it plays otherwise on a position in which the best action is clearly
    the best.

    Returns:
        Why there is no ONNX policy, None if there is one.

    Raises:
        OSError: if it cannot be written.
    """
    if not can_write():
        return MISSING
    greedy = greedy_policy(role, player.net, FORMAT, autocast=False)
    try:
        save_onnx(path, greedy, torch.__version__)
    except OnnxExporterError as error:
        return f"no ONNX policy of the {role}: torch cannot write it ({str(error).splitlines()[0]})"
    some = positions.raw().of(role)
    differing = _differing(path, some, _clear_actions(greedy, some))
    if differing == 0:
        return None
    path.unlink()
    total = len(positions.points)
    return f"no ONNX policy of the {role}: onnxruntime plays otherwise on {differing} of {total}"


def can_write() -> bool:
    """Return whether the packages that write ONNX policies, and play them, are installed."""
    try:
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        return False
    return True


def save_onnx(path: Path, greedy: Greedy, build: str) -> None:
    """Write a policy in ONNX: the same bytes for the same weights and versions.

    Args:
        path: of the file.
        greedy: the policy, in float32.
        build: of torch, by which the file says that it was written.

    Raises:
        OnnxExporterError: if torch cannot.
    """
    unknown_to_onnx = {
        torch.ops.aten.scaled_dot_product_attention.default: _attention,
        torch.ops.aten.argsort.stable: _stable_argsort,
    }
    with _without_remarks():
        program = without_places(traced(greedy).run_decompositions(unknown_to_onnx))
        written = torch.onnx.export(program, dynamo=True, verbose=False)
    assert written is not None, "without a path it is returned"
    written.model.producer_version = build
    written.save(path)


@torch.no_grad()
def _clear_actions(greedy: Greedy, some: Sequence[Tensor]) -> Tensor:
    """Return the greedy actions int64 (B,), -1 where another one is about as good."""
    ranking: Tensor = greedy.ranking(*some)
    actions = ranking.argmax(dim=-1)
    if ranking.shape[1] == 1:  # a host in two dimensions has no choice
        return actions
    best = ranking.topk(2, dim=-1).values
    scale = ranking.where(ranking.isfinite(), 0.0).abs().amax(dim=-1)
    return torch.where(best[:, 0] - best[:, 1] > TOLERANCE * scale, actions, -1)


def _differing(path: Path, some: Sequence[Tensor], clear: Tensor) -> int:
    """Return on how many positions onnxruntime plays another than the clearly best action."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    counts = []
    for batch in (*BATCHES, len(clear)):
        inputs = {name: one[:batch].numpy() for name, one in zip(names, some, strict=True)}
        answers = torch.from_numpy(session.run(None, inputs)[0])
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
def _without_remarks() -> Iterator[None]:
    """Keep torch from speaking of packages that it could also use, and of its own code."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)

"""A bundle's README: what is in it, and the lines that load each file."""

from collections.abc import Mapping, Sequence

from hpsearch.trainers.config import TrainerConfig
from hpsearch.trainers.opponents import SavedPlayer


def readme_text(
    title: str,
    players: Mapping[str, SavedPlayer],
    shapes: Mapping[str, Sequence[int]],
    remarks: Sequence[str],
) -> str:
    """Return the README of a bundle with these players, by role, and these tensors, by name.

    ``remarks`` say why what could be there is not.
    """
    config = next(iter(players.values())).config
    without_onnx = "".join(f"- {remark[0].upper()}{remark[1:]}.\n" for remark in remarks)
    parts = [
        f"# {title}\n",
        _FILES,
        without_onnx,
        _POSITIONS.format(
            num_points=config.max_num_points,
            dimension=config.dimension,
            roles=" and ".join(players),
        ),
        *(_policy(role, config, has_onnx=not remarks) for role in players),
        _WEIGHTS,
        *(f"- `{name}`: {list(shape)}\n" for name, shape in shapes.items()),
    ]
    return "".join(parts)


_FILES = """
- `config.yaml`: the complete trainer configuration; `hpsearch train config.yaml` runs it.
- `policy-ROLE.pt2`: the greedy policy, for torch alone; `policy-ROLE.onnx`: the same for
  ONNX, in float32.
- `weights.safetensors`: the networks.
- `evaluation.json`: the certificate: rho on starts that the search never used, beside the scripted
  players, with seeds and intervals; of a population's player also its row of the last cross-play.
  `hpsearch evaluate` with this folder measures all but that row again and compares every number.
  Until then load no policy from a maker you do not know: torch.export.load runs what a file says.
- `lineage.json`, only beside a population's player: who it descends from.
- `provenance.json`: study, trial, checkpoint, command, commit, versions, machine, and the sha256 of
  every other file.
"""

_POSITIONS = """
## Playing

Positions are integers (B, {num_points}, {dimension}), of any number B of games: up to {num_points}
points in any order, and rows of -1 where there are fewer. A policy takes them as they come: it
leaves out duplicates and points that lie above another one in all coordinates, sorts the others,
and divides them by their largest coordinate. torch's policies take int32 and int64; onnxruntime's
take int64, so pass `points.astype(np.int64)`. This bundle plays: {roles}.
"""

_WEIGHTS = """
## Weights

A weight (outputs, inputs) and a bias a linear layer, in the order of the forward pass, as
torch.nn.Linear holds them; batch norms as torch.nn.BatchNorm1d:

```python
from safetensors.torch import load_file

weights = load_file("weights.safetensors")
```

Every network takes the N x D points that a policy is left with (above), divided by their largest
coordinate, rows sorted descending, empty rows -1 at the end, flattened; an agent's takes the D bits
of the host's subset after them. The `encoder`
of `config.yaml` says what it makes of them: `flatten` keeps the first `num_points` rows. A network
of Q-learning returns the value of every action; one of PPO has two towers, `0` gives the logarithm
of each action's odds, `1` the value of the position.

"""


_HOST = """
`action` (B,) numbers the subsets of at least two of the {dimension} coordinates:

```python
subsets = [n for n in range(2**{dimension}) if n & (n - 1)]
chosen = [[k for k in range({dimension}) if subsets[one] >> k & 1] for one in action.tolist()]
```
"""

_AGENT = """
`action` (B,) is the coordinate that is replaced by the sum over the subset.
"""


def _policy(role: str, config: TrainerConfig, *, has_onnx: bool) -> str:
    dimension = config.dimension
    shape = (1, config.max_num_points, dimension)
    rows = min(config.max_num_points, dimension)  # a point on every axis, as far as there is room
    arguments = subset = numpy_subset = ""
    if role == "agent":
        arguments = ", subset"
        subset = f"subset = torch.ones(1, {dimension}, dtype=torch.bool)\n"
        numpy_subset = f', "subset": np.ones((1, {dimension}), dtype=np.bool_)'
    by_torch = f"""
The {role}, by torch alone:

```python
import torch

policy = torch.export.load("policy-{role}.pt2").module()
points = torch.full({shape}, -1)
points[0, :{rows}] = torch.eye({dimension}, dtype=torch.int64)[:{rows}]
{subset}action = policy(points{arguments})
```
"""
    by_onnx = f"""
By onnxruntime:

```python
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("policy-{role}.onnx")
points = np.full({shape}, -1, dtype=np.int64)
points[0, :{rows}] = np.eye({dimension}, dtype=np.int64)[:{rows}]
(action,) = session.run(None, {{"points": points{numpy_subset}}})
```
"""
    meaning = (_HOST if role == "host" else _AGENT).format(dimension=dimension)
    return by_torch + meaning + (by_onnx if has_onnx else "")

"""Writes bundles: the player, its certificate, where it comes from, and how to load each file."""

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from hpsearch.analysis.examination import device_of
from hpsearch.analysis.lineage import read_lineage
from hpsearch.cluster.code_snapshot import code_commit, versions
from hpsearch.cluster.records import MatchPlan
from hpsearch.cluster.study_dir import MatchGames
from hpsearch.errors import ConflictError, CorruptError, UsageError
from hpsearch.export.certificate import certify, sign
from hpsearch.export.folder import FORMAT, INDEX, BundleDir, replacing
from hpsearch.export.greedy import ByRole, sample_positions
from hpsearch.export.programs import write_onnx, write_program
from hpsearch.export.text import config_text
from hpsearch.game.random import derive_key
from hpsearch.study.records import COMPLETE, Match, Trial
from hpsearch.study.view import StudyView
from hpsearch.trainers import checkpoint
from hpsearch.trainers.config import TrainerConfig, read_config
from hpsearch.trainers.evaluation import starts_key
from hpsearch.trainers.opponents import SavedPlayer, load_player
from hpsearch.trainers.rho import BOOTSTRAP_SEED, Lengths, rho
from hpsearch.trainers.rollouts import game_config


@dataclass(frozen=True)
class How:
    num_games: int  # games per opponent and mode
    command: str  # the command line
    at: datetime
    key: Path | None  # by which they are signed; None leaves them unsigned


def lineage(view: StudyView, trial: Trial) -> dict[str, Any] | None:
    """Return who a population's trial descends from, the oldest first; None for a search."""
    if view.study.spec.population is None:
        return None
    ancestry = read_lineage(view)
    line = ancestry.line(trial.number) if trial.number in ancestry.relatives else []
    return {
        "trial": trial.number,
        "champion": ancestry.champion == trial.number,
        "origin": None if trial.origin is None else asdict(trial.origin),
        "line": [asdict(relative) for relative in line],
    }


def crossplay(view: StudyView, trial: Trial) -> dict[str, Any] | None:
    """Return a trial's games in the last match that it played as a member, None if there is none.

    rho is of the starts that confirm, with its 95 % interval, by role and opponent; high is a
    strong host, low a strong agent. Raises CorruptError if the match's files are damaged.
    """
    matches = view.state.population.matches.values()
    played = [match for match in matches if trial.number in match.strengths]
    if not played:
        return None
    folder = view.folder.match(played[-1].number)
    games = folder.read_games()
    return None if games is None else _row(played[-1], trial.number, folder.plan.required(), games)


def _row(match: Match, trial: int, plan: MatchPlan, games: MatchGames) -> dict[str, Any]:
    name, split = str(trial), plan.splits[-1]
    hosts, agents = ([player.name for player in side] for side in (plan.hosts, plan.agents))
    moves, finished = games.moves[-1], games.finished[-1]  # (hosts, agents, games) on these starts
    row: dict[str, Any] = {
        "match": match.number,
        "split": split,
        "games": plan.num_games,
        "max_steps": plan.max_steps,
        "seeds": {"starts": starts_key(split), "intervals": BOOTSTRAP_SEED},
        "strength": match.strengths[trial],
        "interval": match.intervals[trial],
    }
    if name in hosts:
        place = hosts.index(name)
        row["host"] = _against(agents, moves[place], finished[place])
    if name in agents:
        place = agents.index(name)
        row["agent"] = _against(hosts, moves[:, place], finished[:, place])
    return row


def _against(
    opponents: Iterable[str], moves: npt.NDArray[np.int64], finished: npt.NDArray[np.bool_]
) -> dict[str, dict[str, float]]:
    lengths = map(Lengths, moves, finished)
    return {name: asdict(rho(length)) for name, length in zip(opponents, lengths, strict=True)}


Measures = dict[str, Any]  # what evaluation.json holds


def export_bundle(view: StudyView, trial: Trial, folder: Path, how: How) -> Measures:
    """Write the bundle of a finished trial; return its certificate.

    Raises UsageError if the trial has not finished, the folder holds something else, or the key
    does not sign; CorruptError if its last checkpoint is missing or damaged; DiskError if the
    folder cannot be written; an older bundle stays.
    """
    _check_finished([trial])
    with replacing(folder) as temporary:
        return _write(BundleDir(temporary), view, trial, how)


def export_bundles(
    view: StudyView, trials: Sequence[Trial], folder: Path, how: How
) -> list[Measures]:
    """Write a bundle of each trial in this order, or none; raises as `export_bundle`."""
    _check_finished(trials)
    measures, listed = [], []
    with replacing(folder) as temporary:
        for name, trial in zip(bundle_names(trials), trials, strict=True):
            measures.append(_write(BundleDir(temporary / name), view, trial, how))
            listed.append({"folder": name, "trial": trial.number, "metrics": trial.metrics})
        _write_json(temporary / INDEX, {"bundles": listed})
    return measures


def bundle_names(trials: Sequence[Trial]) -> list[str]:
    """Return the folders of several bundles: the place of each, and its trial."""
    return [f"{place}-trial-{trial.number}" for place, trial in enumerate(trials, start=1)]


def _check_finished(trials: Sequence[Trial]) -> None:
    unfinished = [trial.number for trial in trials if trial.told != COMPLETE]
    if unfinished:
        raise UsageError(f"trial {unfinished[0]} has not finished, so there is nothing to export")


def _write(bundle: BundleDir, view: StudyView, trial: Trial, how: How) -> Measures:
    config = view.config(trial)
    source, players = _last_players(view, trial, config, torch.device("cpu"))
    device = device_of(config["device"])
    measured = players if device.type == "cpu" else _last_players(view, trial, config, device)[1]
    measures = _measures(view, trial, measured, how.num_games)
    bundle.root.mkdir(exist_ok=True)
    bundle.config.write_text(config_text(config, "yaml"), encoding="utf-8")
    _write_json(bundle.certificate, measures)
    if (line := lineage(view, trial)) is not None:
        _write_json(bundle.lineage, line)
    _write_players(bundle, players, f"Trial {trial.number} of the study {view.name}")
    path = str(source.relative_to(view.folder.root))
    origin = {
        "format": FORMAT,
        "study": view.name,
        "trial": trial.number,
        "checkpoint": {"path": path, "sha256": checkpoint.identity(source)},
        "command": how.command,
        "at": how.at.isoformat(timespec="seconds"),
        "commit": code_commit(),
        "versions": versions(),
        "platform": platform.platform(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "trained_on": config["device"],
        "trained_with": _packages_of(view, trial),
        "files": bundle.digests(),
    }
    _write_json(bundle.provenance, origin)
    if how.key is not None:
        sign(bundle.provenance, how.key)
    return measures


def _packages_of(view: StudyView, trial: Trial) -> dict[str, str]:
    """Return the versions of other packages with which a trial's last attempt trained."""
    start = view.folder.trial(trial.number).attempt(trial.attempts).start.try_read()
    return {} if start is None else start.packages


def _measures(view: StudyView, trial: Trial, players: ByRole, num_games: int) -> Measures:
    conditions, rows = certify(players, num_games)
    return {
        "study": view.name,
        "trial": trial.number,
        "objective": view.metric,
        "params": view.settings(trial),
        "search_metrics": trial.metrics,
        "conditions": asdict(conditions),
        "rows": [asdict(row) for row in rows],
        "crossplay": crossplay(view, trial),
        "provenance": versions(),
    }


def _write_players(bundle: BundleDir, players: dict[str, SavedPlayer], title: str) -> None:
    tensors = {
        f"{role}.{name}": tensor
        for role, player in players.items()
        for name, tensor in player.net.layers(0).items()
    }
    checkpoint.write_tensors(bundle.weights, tensors)
    reasons = []  # one of a role, or None
    for role, player in players.items():
        positions = sample_positions(game_config(player.config), derive_key("bundle"))
        write_program(bundle.program(role), player, role, positions)
        reasons.append(write_onnx(bundle.onnx(role), player, role, positions))
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    text = _readme(title, players, shapes, list(dict.fromkeys(filter(None, reasons))))
    bundle.readme.write_text(text, encoding="utf-8")


def _last_players(
    view: StudyView, trial: Trial, config: dict[str, Any], device: torch.device
) -> tuple[Path, dict[str, SavedPlayer]]:
    """Return the checkpoint at the end of a trial, and the players that it holds, by role."""
    files = view.folder.trial(trial.number)
    path = checkpoint.path_of(files.checkpoints, view.last_step(trial))
    roles = read_config(config, source=str(files.config)).learning()
    try:
        return path, {role: load_player(path, role, device) for role in roles}
    except (ConflictError, CorruptError) as error:
        raise CorruptError(
            f"the last checkpoint in {files.checkpoints} is missing or damaged; export another "
            "trial with --trial, or run the study again with another name"
        ) from error


def _write_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


# The README of a bundle.


def _readme(
    title: str, players: ByRole, shapes: Mapping[str, Sequence[int]], reasons: Sequence[str]
) -> str:
    """Return the README of a bundle; ``reasons`` say why what could be there is not."""
    config = next(iter(players.values())).config
    without_onnx = "".join(f"- {reason[0].upper()}{reason[1:]}.\n" for reason in reasons)
    size = {"num_points": config.max_num_points, "dimension": config.dimension}
    parts = [
        f"# {title}\n",
        _FILES,
        without_onnx,
        _POSITIONS.format(**size, roles=" and ".join(players)),
        *(_policy_text(role, config, has_onnx=not reasons) for role in players),
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
chosen = [[k for k in range({dimension}) if subsets[code] >> k & 1] for code in action.tolist()]
```
"""

_AGENT = """
`action` (B,) is the coordinate that is replaced by the sum over the subset.
"""


def _policy_text(role: str, config: TrainerConfig, *, has_onnx: bool) -> str:
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

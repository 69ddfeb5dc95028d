"""The certificate of a bundle: what was measured, how to repeat it, and who signed it with OpenSSH.

Players that learned on a GPU are measured there, if the machine has one: large games take hours
elsewhere. What is signed is the provenance, which holds the sha256 of every other file.
"""

import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final, Literal

import torch

from hpsearch.analysis.examination import SPLIT, ComparedPlayer, compare
from hpsearch.errors import CorruptError, HpsearchError, UsageError
from hpsearch.export.folder import shown
from hpsearch.export.greedy import ByRole
from hpsearch.game.kernels.threads import threads
from hpsearch.schema import NonNegative, Positive, Range
from hpsearch.trainers.evaluation import noise_key_of, starts_key
from hpsearch.trainers.metrics import MODES, PANELS, worst_name
from hpsearch.trainers.rho import BOOTSTRAP_SEED

Rows = tuple[ComparedPlayer, ...]
WORST: Final = frozenset(worst_name(mode, role) for mode in MODES for role in PANELS)
"""names of metrics"""


@dataclass(frozen=True)
class CertificateSeeds:
    training: NonNegative  # of the configuration
    starts: NonNegative
    moves: NonNegative  # keys of the starts, and of moves that are drawn
    intervals: NonNegative


@dataclass(frozen=True)
class Conditions:
    split: str  # name of the set of starts, which neither training nor the search uses
    games: Positive  # games per opponent and mode
    max_steps: Positive  # moves after which a game counts as unfinished
    exploration: float  # share of its moves that the sampled policy draws
    seeds: CertificateSeeds
    device: Literal["cpu", "cuda"]  # where the games were played
    threads: Annotated[int, Range(low=1, high=1024)]  # of torch, on the CPU


@dataclass(frozen=True)
class Certificate:
    study: str
    trial: NonNegative
    objective: str  # the metric that the study looks at first
    params: dict[str, Any]  # of the trial, by the dotted path in its configuration
    search_metrics: Any  # what the search measured of it
    conditions: Conditions
    rows: Rows
    crossplay: Any  # its row of the last cross-play; None outside of populations
    provenance: dict[str, str]  # versions of what played, by package


def certify(players: ByRole, num_games: int) -> tuple[Conditions, Rows]:
    """Measure the players of one configuration, by role, as this machine does it."""
    player = next(iter(players.values()))
    config, is_gpu = player.config, player.net.weights.device.type == "cuda"
    conditions = Conditions(
        split=SPLIT,
        games=num_games,
        max_steps=config.evaluation.max_steps,
        exploration=config.evaluation.er,
        seeds=CertificateSeeds(config.seed, starts_key(SPLIT), noise_key_of(SPLIT), BOOTSTRAP_SEED),
        device="cuda" if is_gpu else "cpu",
        threads=torch.get_num_threads(),
    )
    return conditions, tuple(compare(players, num_games))


def differences(players: ByRole, conditions: Conditions, rows: Rows) -> list[str]:
    """Measure players again under a certificate's ``conditions``; return a line a difference."""
    with threads(conditions.threads):  # sums that are split otherwise round otherwise
        now, measured = certify(players, conditions.games)
    if not any(name in WORST for row in rows for name in row.metrics):
        measured = tuple(map(_without_worst, measured))
    before, after = _numbers(conditions, rows), _numbers(now, measured)
    lines = [
        f"{name}: certified {before.get(name)}, measured {after.get(name)}"
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name)
    ]
    if not lines and rows != measured:  # a row twice, of which the second one is right
        return ["rows: certified are others than are measured, or in another order"]
    return lines


def _without_worst(row: ComparedPlayer) -> ComparedPlayer:
    """Return a row as versions before 0.2 certified it, which did not know the worst of a panel."""
    kept = {name: numbers for name, numbers in row.metrics.items() if name not in WORST}
    return replace(row, metrics=kept)


def _numbers(conditions: Conditions, rows: Rows) -> dict[str, Any]:
    plain = asdict(conditions)
    seeds = {f"seeds.{name}": value for name, value in plain.pop("seeds").items()}
    numbers = {
        f"{row.player}, {metric}, {key}": number
        for row in rows
        for metric, row_numbers in row.metrics.items()
        for key, number in row_numbers.items()
    }
    return {**plain, **seeds, **numbers}


NAMESPACE: Final = "hpsearch"  # what is signed: a signature for anything else does not fit


def sign(path: Path, key: Path) -> None:
    """Write a file's signature beside it, by an OpenSSH key; UsageError if that does not sign."""
    if not key.is_file():
        raise UsageError(f"there is no key {key}; make one with: ssh-keygen -t ed25519")
    done = _ssh_keygen(["-Y", "sign", "-f", key.absolute(), "-n", NAMESPACE, path], b"")
    if done.returncode != 0:
        raise UsageError(f"ssh-keygen cannot sign with {key} ({_reason(done)}); name another key")


def signer_of(content: bytes, signature: bytes, signers: Path) -> str:
    """Return who of the allowed signers signed this content; CorruptError if none did."""
    if not signers.is_file():
        raise UsageError(
            f"there is no file {signers}; write a line for each signer you trust: NAME KEYTYPE KEY"
        )
    with TemporaryDirectory(prefix="hpsearch-") as folder:
        path = Path(folder) / "signature"
        path.write_bytes(signature)
        known: list[str | Path] = ["-f", signers.absolute(), "-s", path]
        done = _ssh_keygen(["-Y", "find-principals", *known], b"")
        for name in done.stdout.decode("utf-8", "replace").splitlines():
            done = _ssh_keygen(["-Y", "verify", "-I", name, "-n", NAMESPACE, *known], content)
            if done.returncode == 0:
                return shown(name)
    raise CorruptError(
        f"the signature is none of a signer in {signers} for this content ({_reason(done)}); do "
        "not trust it, or get the bundle anew"
    )


def _ssh_keygen(
    arguments: Sequence[str | Path], content: bytes
) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(["ssh-keygen", *arguments], input=content, capture_output=True)
    except FileNotFoundError as error:
        raise HpsearchError(
            "signatures need ssh-keygen, which is not installed here; install OpenSSH 8.2 or "
            "newer, or leave out the option"
        ) from error


def _reason(done: "subprocess.CompletedProcess[bytes]") -> str:
    lines = (done.stderr + done.stdout).decode("utf-8", "replace").split("\n")
    return shown(next((line.strip() for line in lines if line.strip()), "it says nothing"))

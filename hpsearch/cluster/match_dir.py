"""The folder of a match: which players meet, and how long their games took."""

import io
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

from hpsearch.cluster.record_files import Folder, Place, Record
from hpsearch.errors import CorruptError, DiskError
from hpsearch.files import open_file, read_json, replace_json, unreadable, write_bytes
from hpsearch.schema import NonNegative, Positive
from hpsearch.trainers.checkpoint_name import PREFIX
from hpsearch.trainers.config.players import Role

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


MAX_ARRAY = 2**31  # bytes of an array: 32 times 32 players in 500,000 games each


@dataclass(frozen=True)
class MatchPlayer:
    """Who plays."""

    name: str  # each once on its side
    checkpoint: str | None
    """folder, from the study's or absolute; None for the scripted player of that name"""


@dataclass(frozen=True)
class Response:
    """An opponent that is trained against one player alone."""

    role: Role  # of the player, which does not learn
    trial: NonNegative  # of the player
    checkpoint: str  # folder of the player, from the study's
    steps: Positive  # of the opponent's training
    seed: NonNegative


@dataclass(frozen=True)
class MatchPlan:
    """Every host against every agent."""

    hosts: tuple[MatchPlayer, ...]
    agents: tuple[MatchPlayer, ...]
    num_games: Positive  # of each pair in each set of starts
    max_steps: Positive  # moves after which a game counts as unfinished
    splits: tuple[str, ...]  # names of the sets of starts, which are independent of each other
    device: str
    responses: tuple[Response, ...] = ()
    """opponents to train and to let play, on the last set of starts"""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Return that of its games: sets of starts, hosts, agents, games of each pair."""
        return len(self.splits), len(self.hosts), len(self.agents), self.num_games

    @property
    def num_pairs(self) -> int:
        return len(self.splits) * len(self.hosts) * len(self.agents)


@dataclass(frozen=True)
class Answer:
    """How a player fared against a response."""

    role: Role  # of the player
    trial: NonNegative
    value: float  # rho
    low: float
    high: float  # ends of its 95 % interval


@dataclass(frozen=True)
class Answers:
    """How champions fared against all responses of a match."""

    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class MatchGames:
    """How long the games of every pair took. Axes: S sets of starts, P hosts, Q agents, G games."""

    moves: "npt.NDArray[np.int64]"
    """(S, P, Q, G), the cap where a game did not finish; game g of every pair has the same start"""
    finished: "npt.NDArray[np.bool_]"  # (S, P, Q, G)


class MatchDir(Folder):
    """The folder of one match, runs/<study>/matches/<number>/."""

    plan = Record(MatchPlan, "plan.json")  # who plays, by the driver
    _answers = Record(Answers, "answers.json")  # how the champions fared against responses
    _alive = Place("alive.json")  # when the job last gave a heartbeat, how many pairs played
    _games = Place("games.npz")  # lengths of all games, written by the job last

    def write_games(self, games: MatchGames) -> None:
        """Say how the games went: the last thing that a match writes."""
        import numpy as np

        file = io.BytesIO()
        np.savez_compressed(file, moves=games.moves.astype(np.int32), finished=games.finished)
        write_bytes(self._games, file.getvalue())

    def read_games(self) -> MatchGames | None:
        """Return how the games went, None if they have not been played.

        Raises CorruptError if the file is damaged, DiskError if it cannot be read.
        """
        import numpy as np

        try:
            # Opened here, since numpy leaves a file open in which it finds no archive.
            with open_file(self._games) as file, ZipFile(file) as archive:
                moves, finished = (_array(archive, f"{name}.npy") for name in ("moves", "finished"))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unreadable(self._games, error) from error
        except CorruptError:
            raise
        # Neither zipfile nor numpy says what it raises for a damaged file.
        except Exception as error:
            raise CorruptError(f"{self._games} holds no games ({error})") from error
        if moves.dtype.kind != "i" or moves.min(initial=0) < 0 or moves.shape != finished.shape:
            raise CorruptError(f"{self._games} holds no games, but {moves.dtype} {moves.shape}")
        return MatchGames(moves.astype(np.int64), finished.astype(np.bool_))

    def write_answers(self, answers: Sequence[Answer]) -> None:
        """Say how responses fared; before the games."""
        self._answers.write(Answers(tuple(answers)))

    def read_answers(self) -> tuple[Answer, ...]:
        """Return how responses fared, none if none played; raises as `read_record`."""
        answers = self._answers.read()
        return () if answers is None else answers.answers

    def give_sign(self, pairs_played: int = 0) -> None:
        """Say that the job lives, and how far it is."""
        replace_json(self._alive, {"at": time.time(), "pairs": pairs_played})

    def progress(self) -> tuple[int, int] | None:
        """Return how many pairs have played, of how many; None while that is not known."""
        plan = self.plan.read_if_possible()
        if plan is None:
            return None
        try:
            sign = read_json(self._alive)
        except (CorruptError, DiskError):
            return None
        match sign:
            case {"pairs": int(pairs)} if 0 <= pairs <= plan.num_pairs:
                return pairs, plan.num_pairs
        return 0, plan.num_pairs

    def last_sign(self) -> float:
        """Return when the job last gave a heartbeat by its machine's clock, 0 if not known."""
        with suppress(CorruptError, DiskError):
            match read_json(self._alive):
                case {"at": float(at)} if isfinite(at):
                    return at
        return 0.0

    @property
    def responses(self) -> list[Path]:
        """The checkpoints of the responses that were trained for this match."""
        return sorted(self.root.glob(f"response-*/{PREFIX}*"))

    def response(self, role: str) -> Path:
        return self.root / f"response-{role}"


def _array(archive: ZipFile, name: str) -> "npt.NDArray[Any]":
    """Return an array of an archive; it is no larger than the archive says, and than MAX_ARRAY.

    numpy by itself would make room for whatever its header claims before it reads a value.
    """
    import numpy as np

    size = archive.getinfo(name).file_size
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError(f"an array of version {version}")
        shape, in_columns, kind = np.lib.format.read_array_header_1_0(file)
        needed = kind.itemsize * prod(shape)
        if kind.hasobject or needed > min(size, MAX_ARRAY):
            raise ValueError(f"an array of {kind} and shape {shape} in {size} bytes")
        values = np.frombuffer(file.read(needed), kind)
        return values.reshape(shape, order="F" if in_columns else "C")

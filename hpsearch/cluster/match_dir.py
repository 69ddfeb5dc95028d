"""The folder of a match: who plays whom, and how long their games took.

runs/<study>/matches/<number>/
    plan.json          who plays, written by the driver
    response-<role>/   checkpoints of opponents that were trained against the champion's role
    answers.json       how the champion fared against them
    alive.json         when the job last gave a sign of life
    games.npz          lengths of all games, written by the job last
"""

import io
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

from hpsearch.atomic import read_json, unreadable, write_bytes, write_json
from hpsearch.cluster.record_file import required_record
from hpsearch.errors import ConfigError, CorruptError, DiskError
from hpsearch.schema import NonNegative, Positive, read
from hpsearch.trainers.checkpoint_name import PREFIX
from hpsearch.trainers.config.players import Role

if TYPE_CHECKING:  # it takes as long to import as all that validates a study
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True)
class Entrant:
    """Who plays."""

    name: str
    """each once on its side"""
    checkpoint: str | None
    """folder, from the study's or absolute; None for the scripted player of that name"""


@dataclass(frozen=True)
class Response:
    """An opponent that is trained against one player alone."""

    role: Role
    """of the player, which does not learn"""
    trial: NonNegative
    """of the player"""
    checkpoint: str
    """folder of the player, from the study's"""
    steps: Positive
    """of the opponent's training"""
    seed: NonNegative


@dataclass(frozen=True)
class MatchPlan:
    """Every host against every agent."""

    hosts: tuple[Entrant, ...]
    agents: tuple[Entrant, ...]
    num_games: Positive
    """of each pair in each set of starts"""
    max_steps: Positive
    """moves after which a game counts as unfinished"""
    splits: tuple[str, ...]
    """names of the sets of starts, which are independent of each other"""
    device: str
    responses: tuple[Response, ...] = ()
    """opponents to train and to let play, on the last set of starts"""


@dataclass(frozen=True)
class Answer:
    """How a player fared against a response."""

    role: Role
    """of the player"""
    trial: NonNegative
    value: float
    """rho"""
    low: float
    high: float
    """ends of its 95 % interval"""


@dataclass(frozen=True)
class Games:
    """How long the games of every pair took. Axes: S sets of starts, P hosts, Q agents, G games."""

    moves: "npt.NDArray[np.int64]"
    """(S, P, Q, G), the cap where a game did not finish; game g of every pair has the same start"""
    finished: "npt.NDArray[np.bool_]"
    """(S, P, Q, G)"""


@dataclass(frozen=True)
class MatchDir:
    """The folder of one match."""

    root: Path

    def write_plan(self, plan: MatchPlan) -> None:
        """Say who plays; doing it again changes nothing."""
        write_json(self._plan, asdict(plan))

    def read_plan(self) -> MatchPlan:
        """Return who plays.

        Raises:
            CorruptError, DiskError: as `required_record`.
        """
        return required_record(MatchPlan, self._plan)

    def write_games(self, games: Games) -> None:
        """Say how the games went: the last thing that a match writes."""
        import numpy as np

        file = io.BytesIO()
        np.savez_compressed(file, moves=games.moves.astype(np.int32), finished=games.finished)
        write_bytes(self._games, file.getvalue())

    def read_games(self) -> Games | None:
        """Return how the games went, None if they have not been played.

        Raises:
            CorruptError: if the file is damaged.
            DiskError: if it cannot be read.
        """
        import numpy as np

        try:
            # Opened here, since numpy leaves a file open in which it finds no archive.
            with self._games.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return Games(arrays["moves"].astype(np.int64), arrays["finished"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, EOFError, BadZipFile) as error:
            raise CorruptError(f"{self._games} holds no games ({error})") from error
        except OSError as error:
            raise unreadable(self._games, error) from error

    def write_answers(self, answers: Sequence[Answer]) -> None:
        """Say how responses fared; before the games."""
        write_json(self._answers, {"answers": [asdict(one) for one in answers]})

    def read_answers(self) -> tuple[Answer, ...]:
        """Return how responses fared, none if none played.

        Raises:
            CorruptError: if the file is damaged.
            DiskError: if it cannot be read.
        """
        data = read_json(self._answers)
        try:
            found = () if data is None else data["answers"]
            return tuple(read(Answer, one, source=str(self._answers)) for one in found)
        except (ConfigError, KeyError, TypeError) as error:
            raise CorruptError(f"{self._answers} holds no answers ({error})") from error

    def give_sign(self) -> None:
        """Say that the job lives."""
        write_json(self._alive, {"at": time.time()})

    def last_sign(self) -> float:
        """Return when the job last gave a sign of life, 0 if that is not known.

        In seconds since the epoch, by the clock of its machine.
        """
        try:
            match read_json(self._alive):
                case {"at": float(at)}:
                    return at
        except (CorruptError, DiskError):
            pass
        return 0.0

    @property
    def responses(self) -> list[Path]:
        """Return the checkpoints of the responses that were trained for this match."""
        return sorted(self.root.glob(f"response-*/{PREFIX}*"))

    def response(self, role: str) -> Path:
        """Return the folder of the checkpoints of a response to a player of a role."""
        return self.root / f"response-{role}"

    @property
    def _plan(self) -> Path:
        return self.root / "plan.json"

    @property
    def _answers(self) -> Path:
        return self.root / "answers.json"

    @property
    def _alive(self) -> Path:
        return self.root / "alive.json"

    @property
    def _games(self) -> Path:
        return self.root / "games.npz"

"""Players that can be asked for moves: of a checkpoint, a bundle, a study, or scripted ones.

Positions are sets of points with natural coordinates, in any order; points that lie above another
one in all coordinates count for nothing. A learned player sees a position as it is given; where its
game has ``reposition``, each coordinate's minimum is 0 in the positions that it learned.
"""

import operator
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from hpsearch.analysis.evaluation_text import plain_report
from hpsearch.analysis.examination import (
    CPU,
    ExaminationPlan,
    ExaminedPlayer,
    examine,
    find_player,
    of_saved_players,
)
from hpsearch.analysis.players import unknown_player
from hpsearch.api.arguments import check_positive, checked
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import UsageError
from hpsearch.export.reading import bundles_in, read_bundle
from hpsearch.game import rules
from hpsearch.game.players import AGENTS, HOSTS
from hpsearch.game.random import derive_key
from hpsearch.game.rules import MAX_COORDINATE, MAX_DIMENSION, GameConfig, HostActionEncoder
from hpsearch.game.stream import Stream
from hpsearch.names import is_name
from hpsearch.study.view import StudyView, best_trial, open_view
from hpsearch.trainers.playing import record_game, transcript
from hpsearch.trainers.policies import Policy, Position, Turn

Points = Sequence[Sequence[int]]
"""a row for each point, D coordinates; a numpy array or a tensor of whole numbers, too"""


class Player:
    """A host, an agent, or one of each that learned together; they play what they hold best."""

    def __init__(self, examined: ExaminedPlayer, seed: int) -> None:
        """Take the policies; ``seed`` is that of scripted players who draw their moves."""
        self.examined: Final = examined
        """the policies as hpsearch itself uses them, which may change between versions"""
        self._noise = Stream(torch.tensor([derive_key(seed, "player")]))

    def __repr__(self) -> str:
        return f"Player({self.name!r}, roles={self.roles})"

    @property
    def name(self) -> str:
        return self.examined.name

    @property
    def place(self) -> Path | None:
        """Where its checkpoint or bundle lies; None of a scripted player."""
        return self.examined.checkpoint

    @property
    def roles(self) -> tuple[str, ...]:
        """Which of host and agent it plays."""
        policies = {"host": self.examined.host, "agent": self.examined.agent}
        return tuple(role for role, policy in policies.items() if policy is not None)

    @property
    def game(self) -> GameConfig:
        """The game that it learned; scripted players know any."""
        return self.examined.game

    def choose_coordinates(self, points: Points) -> tuple[int, ...]:
        """Return the coordinates that its host chooses, two or more, ascending.

        Raises UsageError if it is no host, the rows are no points of its game, or the game is over.
        """
        policy = self._policy("host")
        position = self._position(points)
        action = self._ask(policy, position, None)
        subset = HostActionEncoder(position.shape[-1]).decode(action)
        return tuple(subset.flatten().nonzero().flatten().tolist())

    def choose_axis(self, points: Points, coordinates: Iterable[int]) -> int:
        """Return the one of the host's ``coordinates`` that its agent chooses.

        Raises UsageError as `choose_coordinates`, and if these are not two or more of the game's.
        """
        policy = self._policy("agent")
        position = self._position(points)
        dimension = position.shape[-1]
        try:
            chosen = {operator.index(coordinate) for coordinate in coordinates}
        except TypeError as error:
            raise UsageError("coordinates are a list of whole numbers, such as (0, 2)") from error
        if len(chosen) < 2 or not chosen <= set(range(dimension)):
            raise UsageError(
                f"a host chooses at least two coordinates of 0 to {dimension - 1}, "
                f"got {sorted(chosen)}"
            )
        subset = torch.tensor([[[place in chosen for place in range(dimension)]]])
        return int(self._ask(policy, position, subset))

    @checked
    def play(
        self, agent: "Player", points: Points, *, max_steps: int | None = None, seed: int = 0
    ) -> str:
        """Return a game of its host against an agent, a line a move, from a position.

        ``seed`` is that of players who draw their moves. The game is cut off after ``max_steps``
        moves, by default as in the game that they learned. Raises UsageError if they play no such
        roles, or learned games of different sizes.
        """
        check_positive(max_steps=max_steps)
        if not isinstance(agent, Player):
            raise UsageError(f"agent must be a player, as load_player returns, but is {agent!r}")
        host_policy, agent_policy = self._policy("host"), agent._policy("agent")
        learned = [player for player in (self, agent) if player._is_learned]
        if len({(own.game.max_num_points, own.game.dimension) for own in learned}) > 1:
            raise UsageError(f"{self.name} and {agent.name} learned games of different sizes")
        first = (learned or [self])[0]
        game = record_game(
            host_policy,
            agent_policy,
            first._position(points),
            max_steps=first.examined.max_steps if max_steps is None else max_steps,
            reposition=first.game.reposition,
            key=derive_key(seed, "played game"),
        )
        return transcript(game)

    @checked
    def evaluate(
        self,
        *,
        games: int = 4000,
        match_moves: int | None = None,
        best_response: int | None = None,
    ) -> dict[str, Any]:
        """Return rho against scripted players and what else is known, as `hpsearch evaluate`.

        With ``match_moves`` the published match is played for so many moves; with
        ``best_response`` an opponent trains against each role alone for so many steps, which
        UsageError refuses for scripted players.
        """
        check_positive(games=games, match_moves=match_moves, best_response=best_response)
        plan = ExaminationPlan(games, match_moves, best_response)
        return plain_report(examine(self.examined, plan))

    @property
    def _is_learned(self) -> bool:
        return self.examined.checkpoint is not None

    def _policy(self, role: str) -> Policy:
        policy = self.examined.host if role == "host" else self.examined.agent
        if policy is None:
            raise UsageError(f"{self.name} plays as {' and '.join(self.roles)}, not as {role}")
        return policy

    def _position(self, points: Points) -> Tensor:
        """Return a position as the player's game has it, int32 (N, D), its points reduced."""
        try:
            rows = [[operator.index(value) for value in row] for row in points]
        except TypeError as error:
            raise UsageError("a point is a row of whole numbers") from error
        if not rows or len({len(row) for row in rows}) > 1:
            raise UsageError("a position has at least one point, all with as many coordinates")
        if not 2 <= len(rows[0]) <= MAX_DIMENSION:
            raise UsageError(f"a point has 2 to {MAX_DIMENSION} coordinates, got {len(rows[0])}")
        if any(not 0 <= value <= MAX_COORDINATE for row in rows for value in row):
            raise UsageError(f"coordinates must be in 0..{MAX_COORDINATE}")
        reduced = rules.newton_polytope(torch.tensor(rows, dtype=torch.int32))
        if rules.is_over(reduced):
            raise UsageError("the game is over: one point lies below all others")
        if not self._is_learned:
            return reduced
        num_points, dimension, game = int(rules.is_live(reduced).sum()), len(rows[0]), self.game
        if dimension != game.dimension or num_points > game.max_num_points:
            raise UsageError(
                f"{self.name} knows positions of at most {game.max_num_points} points in "
                f"{game.dimension} coordinates, got {num_points} in {dimension}"
            )
        padded = torch.full((game.max_num_points, dimension), rules.PADDING, dtype=torch.int32)
        padded[:num_points] = reduced[:num_points]
        return padded

    def _ask(self, policy: Policy, position: Tensor, subset: Tensor | None) -> Tensor:
        noise = self._noise.uniform(2)[:, None]
        with torch.no_grad():
            return policy(Turn(Position.of(position[None, None]), subset, noise, torch.zeros(1, 1)))


@checked
def load_player(name_or_path: str | Path, *, runs: str | Path = "runs", seed: int = 0) -> Player:
    """Return a scripted player by its name, or the players of what lies at a path.

    That may be a checkpoint, the folder of a run or a trial (its newest one), a bundle that
    `export` wrote, or a study, by its file, its name below ``runs`` or its folder, whose best trial
    it is. Raises UsageError or CorruptError if it is none of these.
    """
    if name_or_path == "":
        raise UsageError("a player is given by a name or a path, but this is ''")
    path = Path(name_or_path)
    if str(name_or_path) in {*HOSTS, *AGENTS}:
        return Player(find_player(path, CPU), seed)
    if path.suffix in (".yaml", ".yml"):
        return Player(find_player(_best_of(open_view(str(path), Path(runs))), CPU), seed)
    for folder in (Path(runs) / path, path):
        if StudyDir(folder).spec.exists():
            view = open_view(folder.absolute().name, folder.absolute().parent)
            return Player(find_player(_best_of(view), CPU), seed)
    if not path.is_dir() and is_name(str(name_or_path)):
        raise unknown_player(str(name_or_path), Path(runs))
    bundles = bundles_in(path)
    if len(bundles) > 1:
        listed = ", ".join(map(str, bundles))
        raise UsageError(f"{path} holds several bundles; name one of them: {listed}")
    examined = _of_bundle(bundles[0]) if bundles else find_player(path, CPU)
    return Player(examined, seed)


def _best_of(view: StudyView) -> Path:
    view.require_players()
    return view.folder.trial(best_trial(view).number).root


def _of_bundle(folder: Path) -> ExaminedPlayer:
    bundle = read_bundle(folder)
    return of_saved_players(f"{folder.name} of {bundle.certificate.study}", folder, bundle.players)

"""Every host against every agent, from Python."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from hpsearch.analysis.players import HowToPlay, RoundRobinPlayers, find_players, play_round_robin
from hpsearch.analysis.standings import Standings, plain_standings, print_standings, standings
from hpsearch.api.arguments import as_list, check_positive, checked
from hpsearch.api.notebook import data_frame
from hpsearch.api.player import Player
from hpsearch.api.study_handle import StudyHandle
from hpsearch.errors import UsageError
from hpsearch.export.reading import take_bundles
from hpsearch.terminal import to_html

if TYPE_CHECKING:
    from pandas import DataFrame

Entrant = str | Path | StudyHandle | Player
MIN_GAMES = 2  # of a pair, without which nothing is known of its noise


@dataclass(frozen=True)
class CrossPlayResult:
    standings: Standings
    """of hosts and agents, the strongest first; rho of each pair with its 95 % interval"""
    players: RoundRobinPlayers
    how: HowToPlay

    def to_dict(self) -> dict[str, Any]:
        """Return everything, as `hpsearch crossplay --json` prints it."""
        return plain_standings(self.standings, self.players, self.how)

    def frame(self) -> "DataFrame":
        """Return rho, a row a host and a column an agent; UsageError without pandas."""
        hosts = [host.name for host in self.standings.hosts]
        agents = [agent.name for agent in self.standings.agents]
        return data_frame(self.standings.rho, agents, hosts)

    def _repr_html_(self) -> str:
        return to_html(
            lambda console: print_standings(console, self.standings, intervals=False, width=None)
        )


@checked
def cross_play(
    players: "Sequence[Entrant] | Entrant",
    *,
    runs: str | Path = "runs",
    top: int = 3,
    panel: bool = True,
    games: int = 1000,
    seed: int = 0,
    sampled: bool = False,
    device: torch.device | str = "cpu",
) -> CrossPlayResult:
    """Let every host play every agent, from the same starts, and rate them.

    Players are studies (their ``top`` trials of each role), by name, file or handle, checkpoints,
    folders of runs or trials, bundles, names of scripted players, and loaded ones; with ``panel``
    the scripted ones play on both sides. ``games`` are those of a pair. With ``sampled`` players
    draw moves as in their evaluations. Raises UsageError if a name stands for nothing,
    ConflictError if players know different games, CorruptError if a bundle is damaged.
    """
    if games < MIN_GAMES:
        raise UsageError(f"games must be at least {MIN_GAMES}, got {games}")
    try:
        how = HowToPlay(games, seed, sampled, torch.device(device))
    except RuntimeError as error:
        raise UsageError(
            f"device must be one that torch knows, such as cpu or cuda, but is {device!r}"
        ) from error
    check_positive(top=top)
    known = (str, Path, StudyHandle, Player)
    listed = as_list("players", players, known, "a study, a player, or the name or place of one")
    if not listed:
        raise UsageError("name at least one player, such as zeillinger")
    names = [_name(player) for player in listed]
    others, bundles = take_bundles(names, Path(runs), how.device)
    found = find_players(
        others, Path(runs), top=top, panel=panel, device=how.device, bundles=bundles
    )
    return CrossPlayResult(standings(play_round_robin(found, how), seed), found, how)


def _name(entrant: Entrant) -> str:
    """Return the name or place by which `find_players` knows it."""
    match entrant:
        case StudyHandle():
            return str(entrant.folder)
        case Player():
            return entrant.name if entrant.place is None else str(entrant.place)
    return str(entrant)

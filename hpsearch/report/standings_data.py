"""A cross-play as data for programs: JSON, whose keys are published and stay, and CSV."""

import csv
import io
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hpsearch.report.entrants import Entrants, Side
from hpsearch.report.round_robin import HowToPlay
from hpsearch.report.standings import MAX_RANKED_PAIRS, Standing, Standings
from hpsearch.trainers.saved_player import SavedPlayer

COLUMNS = ("host", "agent", "rho", "low", "high", "capped", "games")


def plain_standings(found: Standings, entrants: Entrants, how: HowToPlay) -> dict[str, Any]:
    """Return everything; matrices have a row a host and a column an agent, as these are listed."""
    game, left_out = entrants.game, found.hosts[0].alpha_rank is None
    return {
        "game": {
            "dimension": game.dimension,
            "max_num_points": game.max_num_points,
            "max_value": game.max_value,
            "reposition": game.reposition,
            "max_steps": entrants.max_steps,
        },
        "games": how.num_games,
        "seed": how.seed,
        "mode": "sampled" if how.sampled else "greedy",
        "hosts": [_plain(one, entrants.host) for one in found.hosts],
        "agents": [_plain(one, entrants.agent) for one in found.agents],
        "rho": found.rho.tolist(),
        "low": found.low.tolist(),
        "high": found.high.tolist(),
        "capped": found.capped.tolist(),
        "equilibrium": asdict(found.balance),
        "best": {"host": found.hosts[0].name, "agent": found.agents[0].name},
        "cyclic_share": {"rho": found.cyclic_share, "log_rho": found.cyclic_share_log},
        "cycles": [asdict(cycle) for cycle in found.cycles],
        "alpha_rank_left_out": f"more than {MAX_RANKED_PAIRS} pairs" if left_out else None,
    }


def csv_text(found: Standings) -> str:
    """Return a line a pair, below the names of the columns."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for p, host in enumerate(found.hosts):
        for q, agent in enumerate(found.agents):
            cell = (float(m[p, q]) for m in (found.rho, found.low, found.high, found.capped))
            writer.writerow((host.name, agent.name, *cell, found.num_games))
    return text.getvalue()


def _plain(standing: Standing, side: Side) -> dict[str, Any]:
    """Return a player's ratings and where it comes from, null for a scripted one."""
    return {
        **asdict(standing),
        "checkpoint": _path(side.checkpoints, standing.name),
        "step": _step(side.learned, standing.name),
    }


def _path(checkpoints: Mapping[str, Path], name: str) -> str | None:
    return str(checkpoints[name]) if name in checkpoints else None


def _step(players: Mapping[str, SavedPlayer], name: str) -> int | None:
    return players[name].step if name in players else None

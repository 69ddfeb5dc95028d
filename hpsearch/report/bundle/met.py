"""The row of a population's trial in the last cross-play that it took part in.

Axes: S sets of starts, G games.
"""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from hpsearch.cluster.match_dir import Games, MatchPlan
from hpsearch.report.view import StudyView
from hpsearch.study.breeding.records import Match
from hpsearch.study.records import Trial
from hpsearch.trainers.evaluation import BOOTSTRAP_SEED, starts_key
from hpsearch.trainers.rho import Lengths, rho


def crossplay(view: StudyView, trial: Trial) -> dict[str, Any] | None:
    """Return a trial's games in the last match that it played as a member, None if there is none.

    rho is of the starts that confirm, with its 95 % interval, by role and opponent; high is a
    strong host, low a strong agent.

    Raises:
        CorruptError: if the match's files are damaged.
    """
    matches = [
        one for one in view.state.population.matches.values() if trial.number in one.strengths
    ]
    if not matches:
        return None
    folder = view.folder.match(matches[-1].number)
    games = folder.read_games()
    return None if games is None else _row(matches[-1], trial.number, folder.read_plan(), games)


def _row(match: Match, trial: int, plan: MatchPlan, games: Games) -> dict[str, Any]:
    name, split = str(trial), plan.splits[-1]
    hosts, agents = ([one.name for one in side] for side in (plan.hosts, plan.agents))
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
        mine = Games(games.moves[:, hosts.index(name)], games.finished[:, hosts.index(name)])
        row["host"] = _against(agents, mine)
    if name in agents:
        place = agents.index(name)
        row["agent"] = _against(hosts, Games(games.moves[:, :, place], games.finished[:, :, place]))
    return row


def _against(opponents: Iterable[str], games: Games) -> dict[str, dict[str, float]]:
    """Return rho against each opponent, of games (S, opponents, G)."""
    lengths = (Lengths(*pair) for pair in zip(games.moves[-1], games.finished[-1], strict=True))
    return {
        name: asdict(rho(one, BOOTSTRAP_SEED)) for name, one in zip(opponents, lengths, strict=True)
    }

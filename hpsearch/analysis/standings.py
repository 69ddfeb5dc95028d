"""How strong each player is by a cross-play: as data, as tables and as a picture.

Axes: P hosts, Q agents, G games of each pair, R samples of the starts.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console

from hpsearch.analysis.pictures import drawing
from hpsearch.analysis.players import HowToPlay, RoundRobinPlayers
from hpsearch.game.random import derive_key
from hpsearch.population.crossplay import CrossPlay
from hpsearch.population.ratings import cycles
from hpsearch.population.ratings.alpha_rank import alpha_rank_limit
from hpsearch.population.ratings.bradley_terry import bradley_terry, wins_by_speed
from hpsearch.population.ratings.nash import NashRatings, nash_averaging, nash_conv
from hpsearch.population.statistics import CONFIDENCE, Floats, interval, resampled_rho, rho_errors
from hpsearch.terminal import print_line, print_whole, text_table

CELL_SAMPLES: Final = 1000
RATING_SAMPLES: Final = 200  # those of them that are rated too, which takes a linear program each
RIDGE: Final = 0.01  # of Bradley-Terry strengths: hardly moves who has some twenty games
RANK_NOISE: Final = 1e-3  # of alpha-rank: share of takeovers against the gain
MAX_RANKED_PAIRS: Final = 1024  # for alpha-rank, whose time grows with their cube: a second
NUM_CYCLES: Final = 5


@dataclass(frozen=True)
class Estimate:
    value: float
    low: float
    high: float

    @property
    def half(self) -> float:
        return (self.high - self.low) / 2

    @property
    def text(self) -> str:
        return f"{self.value:.4f} ±{self.half:.4f}"


@dataclass(frozen=True)
class PlayerStanding:
    name: str
    nash: Estimate  # Nash averaging: rho against the opponents of the equilibrium
    played: float  # how often the equilibrium plays it
    strength: Estimate  # Bradley-Terry, in logits; high is strong on both sides
    alpha_rank: float | None  # share of evolution's time; None where there are too many pairs
    exploitability: float  # what its best answer takes from the value of the game, in rho
    best_answer: str  # the opponent that takes most


@dataclass(frozen=True)
class Balance:
    """The equilibrium of the game in which both sides choose a player."""

    value: Estimate
    exploitability: float  # of both sides together: zero but for rounding
    resampled_exploitability: float  # the same on average over starts drawn again


@dataclass(frozen=True)
class Standings:
    hosts: tuple[PlayerStanding, ...]  # the strongest first, also in all matrices
    agents: tuple[PlayerStanding, ...]
    rho: Floats  # (P, Q)
    low: Floats  # (P, Q), the lower end of the 95 % interval
    high: Floats  # (P, Q), the upper end of the 95 % interval
    capped: Floats  # (P, Q), share of games that did not finish
    num_games: int  # of each pair
    balance: Balance
    cyclic_share: float  # part of rho's differences that is cyclic, beyond noise
    cyclic_share_log: float  # the same of log rho, in which a factor of strength is nothing cyclic
    cycles: tuple[dict[str, Any], ...]
    """the strongest swaps, then those of best answers: each a named `cycles.Cycle`, with its kind;
    strengths are in rho, of a swap beyond its error"""


def standings(played: CrossPlay, seed: int) -> Standings:
    """Rate all players; ``seed`` is that of the starts drawn again."""
    rng = np.random.default_rng(derive_key(seed, "cross-play", "resampling"))
    samples = resampled_rho(played.moves, CELL_SAMPLES, rng)
    rho, errors = played.rho(), rho_errors(played.moves)
    nash = nash_averaging(rho)
    resampled = [nash_averaging(sample) for sample in samples[:RATING_SAMPLES]]
    hosts, agents = _standings(played, rho, nash, resampled)
    low, high = interval(samples, CONFIDENCE)
    # All that the equilibrium plays have the best rating there is, so they differ by how often.
    down = sorted(range(len(hosts)), key=lambda p: (-hosts[p].played, -hosts[p].nash.value))
    across = sorted(range(len(agents)), key=lambda q: (-agents[q].played, agents[q].nash.value))
    place = np.ix_(down, across)
    return Standings(
        tuple(hosts[p] for p in down),
        tuple(agents[q] for q in across),
        rho[place],
        low[place],
        high[place],
        1.0 - played.finished.mean(axis=2)[place],
        played.moves.shape[2],
        _balance(rho, nash, samples, resampled),
        cycles.cyclic_share_beyond_noise(rho, errors),
        cycles.cyclic_share_beyond_noise(np.log(rho), errors / rho),
        tuple(_cycles(played, rho, errors)),
    )


def _standings(
    played: CrossPlay, rho: Floats, nash: NashRatings, resampled: Sequence[NashRatings]
) -> tuple[list[PlayerStanding], list[PlayerStanding]]:
    num_games = np.full(rho.shape, played.moves.shape[2])
    strengths = bradley_terry(wins_by_speed(played.moves), num_games, ridge=RIDGE)
    host_ends, agent_ends = strengths.intervals(CONFIDENCE)
    rank = alpha_rank_limit(rho, -rho, noise=RANK_NOISE) if rho.size <= MAX_RANKED_PAIRS else None
    value, equilibrium = nash.equilibrium.value, nash.equilibrium
    hosts = _side(
        (played.hosts, played.agents),
        rho - value,
        _estimates(nash.hosts, _ends([sample.hosts for sample in resampled])),
        equilibrium.hosts,
        _estimates(strengths.hosts, host_ends),
        None if rank is None else rank.sum(axis=1),
    )
    agents = _side(
        (played.agents, played.hosts),
        value - rho.T,
        _estimates(nash.agents, _ends([sample.agents for sample in resampled])),
        equilibrium.agents,
        _estimates(strengths.agents, agent_ends),
        None if rank is None else rank.sum(axis=0),
    )
    return hosts, agents


def _side(
    names: tuple[Sequence[str], Sequence[str]],
    gains: Floats,
    nash: Sequence[Estimate],
    shares: Floats,
    strengths: Sequence[Estimate],
    ranks: Floats | None,
) -> list[PlayerStanding]:
    """Return the standings of one side, K players; ``names`` are theirs and their opponents'.

    ``gains`` (K, opponents) are in rho beyond the value of the game, high is good for the player;
    ``shares`` (K,) is how often the equilibrium plays each, ``ranks`` (K,) are of alpha-rank.
    """
    players, opponents = names
    return [
        PlayerStanding(
            name=name,
            nash=nash[k],
            played=float(shares[k]),
            strength=strengths[k],
            alpha_rank=None if ranks is None else float(ranks[k]),
            exploitability=float(max(0.0, -gains[k].min())),
            best_answer=opponents[int(gains[k].argmin())],
        )
        for k, name in enumerate(players)
    ]


def _ends(samples: Sequence[Floats]) -> Floats:
    return interval(np.stack(samples), CONFIDENCE)


def _estimates(values: Floats, ends: Floats) -> list[Estimate]:
    """Return the values (K,) with the ends (2, K) of their intervals."""
    return [Estimate(*numbers) for numbers in zip(values.tolist(), *ends.tolist(), strict=True)]


def _balance(
    rho: Floats, nash: NashRatings, samples: Floats, resampled: Sequence[NashRatings]
) -> Balance:
    equilibrium = nash.equilibrium
    values = np.array([ratings.equilibrium.value for ratings in resampled])
    value = Estimate(equilibrium.value, *interval(values, CONFIDENCE).tolist())
    gains = [nash_conv(sample, equilibrium) for sample in samples]
    return Balance(value, nash_conv(rho, equilibrium), float(np.mean(gains)))


def _cycles(played: CrossPlay, rho: Floats, errors: Floats) -> Iterator[dict[str, Any]]:
    # No player switches for what may well be noise: two errors of a difference of two cells.
    margin = 2.0 * float(np.sqrt(2.0) * errors.max())
    swaps = cycles.swap_cycles(rho, errors=errors, confidence=CONFIDENCE, num_cycles=NUM_CYCLES)
    rounds = cycles.best_response_cycles(rho, margin=margin)[:NUM_CYCLES]
    for kind, strongest in (("swap", swaps), ("best answers", rounds)):
        for cycle in strongest:
            yield {"kind": kind, **cycle.named(played.hosts, played.agents)}


def plain_standings(
    standings: Standings, players: RoundRobinPlayers, how: HowToPlay
) -> dict[str, Any]:
    """Return everything; matrices have a row a host and a column an agent, as these are listed."""
    game, left_out = players.game, standings.hosts[0].alpha_rank is None
    return {
        "game": {
            "dimension": game.dimension,
            "max_num_points": game.max_num_points,
            "max_value": game.max_value,
            "reposition": game.reposition,
            "max_steps": players.max_steps,
        },
        "games": how.num_games,
        "seed": how.seed,
        "mode": "sampled" if how.sampled else "greedy",
        "hosts": [_plain(host, players) for host in standings.hosts],
        "agents": [_plain(agent, players) for agent in standings.agents],
        "rho": standings.rho.tolist(),
        "low": standings.low.tolist(),
        "high": standings.high.tolist(),
        "capped": standings.capped.tolist(),
        "equilibrium": asdict(standings.balance),
        "best": {"host": standings.hosts[0].name, "agent": standings.agents[0].name},
        "cyclic_share": {"rho": standings.cyclic_share, "log_rho": standings.cyclic_share_log},
        "cycles": list(standings.cycles),
        "alpha_rank_left_out": f"more than {MAX_RANKED_PAIRS} pairs" if left_out else None,
    }


def csv_text(standings: Standings) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("host", "agent", "rho", "low", "high", "capped", "games"))
    matrices = (standings.rho, standings.low, standings.high, standings.capped)
    for p, host in enumerate(standings.hosts):
        for q, agent in enumerate(standings.agents):
            cells = (float(matrix[p, q]) for matrix in matrices)
            writer.writerow((host.name, agent.name, *cells, standings.num_games))
    return text.getvalue()


def _plain(standing: PlayerStanding, players: RoundRobinPlayers) -> dict[str, Any]:
    """Return a player's ratings and where it comes from, null for a scripted one."""
    path = players.checkpoints.get(standing.name)
    sides = {**players.hosts.learned, **players.agents.learned}
    return {
        **asdict(standing),
        "checkpoint": None if path is None else str(path),
        "step": None if path is None else sides[standing.name].step,
    }


GAP = 2  # columns of a terminal between two of a table
LEGEND = (
    "",
    "Nash: rho against the opponents that matter, those of the equilibrium; high is a strong host, "
    "low a strong agent",
    "played: how often the equilibrium plays it; gap: what its best answer takes from the value, "
    "low is safe",
    "strength: Bradley-Terry, in logits, by who is faster than usual from the same start; high is "
    "strong, on both sides",
)
HALVES = (
    "±: half of a 95 % interval; of Nash and rho over starts drawn again, the same for all, of "
    "strength as if games were independent"
)


def print_standings(
    console: Console, cross_play: Standings, *, intervals: bool, width: int | None
) -> None:
    shown = columns_that_fit(cross_play, width, intervals=intervals)
    left = len(cross_play.agents) - shown
    print_line(
        console,
        f"rho, games decided a move: host down, agent across, {cross_play.num_games:,} games a "
        "pair; high is a strong host, low a strong agent\n"
        "the strongest host stands on top, the strongest agent on the left",
    )
    rows = (
        (host.name, *(_cell(cross_play, p, q, intervals=intervals) for q in range(shown)))
        for p, host in enumerate(cross_play.hosts)
    )
    _print_table(console, ("host", *_names(cross_play.agents[:shown])), rows)
    if cross_play.capped.any():
        p, q = divmod(int(cross_play.capped.argmax()), len(cross_play.agents))
        pair = f"{cross_play.hosts[p].name} against {cross_play.agents[q].name}"
        print_line(
            console,
            f"{cross_play.capped.mean():.1%} of all games were not over after the last move "
            f"allowed and count as that long; {pair}: {cross_play.capped[p, q]:.1%}",
        )
    if left:
        print_line(
            console, f"{left} weaker agents do not fit here; --json and -o FILE show them too"
        )
    for side, standings in (("host", cross_play.hosts), ("agent", cross_play.agents)):
        print_line(console, "")
        _print_ratings(console, side, standings)
    for line in (*LEGEND, *_balance_lines(cross_play), *_cycle_lines(cross_play)):
        print_line(console, line)


def columns_that_fit(standings: Standings, width: int | None, *, intervals: bool) -> int:
    """Return how many agents' columns fit into ``width``, at least one; all where it is None."""
    if width is None:
        return len(standings.agents)
    left = width - max(len(name) for name in ("host", *_names(standings.hosts)))
    for count, agent in enumerate(standings.agents):
        rows = range(len(standings.hosts))
        cells = (_cell(standings, row, count, intervals=intervals) for row in rows)
        left -= GAP + max(map(len, (agent.name, *cells)))
        if left < 0:
            return max(count, 1)
    return len(standings.agents)


def _print_table(console: Console, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = text_table(columns, rows)
    table.pad_edge = False  # it begins and ends with its cells, so that more of them fit
    print_whole(console, table)


def _print_ratings(console: Console, side: str, standings: Sequence[PlayerStanding]) -> None:
    rank = ("alpha-rank",) if standings[0].alpha_rank is not None else ()
    rows = (
        (
            player.name,
            player.nash.text,
            f"{player.played:.1%}",
            f"{player.exploitability:.4f}",
            f"{player.strength.value:+.2f} ±{player.strength.half:.2f}",
            *(() if player.alpha_rank is None else (f"{player.alpha_rank:.1%}",)),
        )
        for player in standings
    )
    _print_table(console, (side, "Nash", "played", "gap", "strength", *rank), rows)


def _balance_lines(cross_play: Standings) -> Iterator[str]:
    if cross_play.hosts[0].alpha_rank is not None:
        yield "alpha-rank: the share of time that evolution spends with it; high is strong"
    else:
        yield (
            f"alpha-rank is left out: its time grows with the cube of the pairs, of which there "
            f"are {cross_play.rho.size:,}, more than {MAX_RANKED_PAIRS:,}"
        )
    yield from (HALVES, "")
    balance = cross_play.balance
    yield (
        f"equilibrium: rho {balance.value.text}; best answers take {balance.exploitability:.4f} "
        f"in these games, {balance.resampled_exploitability:.4f} on starts drawn again (noise)"
    )
    for side, standings in (("host", cross_play.hosts), ("agent", cross_play.agents)):
        best = standings[0]
        yield (
            f"best {side}: {best.name}; its best answer, {best.best_answer}, takes "
            f"{best.exploitability:.4f} of rho"
        )


def _cycle_lines(standings: Standings) -> Iterator[str]:
    yield (
        f"cyclic: {standings.cyclic_share:.1%} of rho's differences beyond noise, "
        f"{standings.cyclic_share_log:.1%} of log rho's (0 %: one strength a player tells "
        "everything)"
    )
    if not standings.cycles:
        yield "no cycle stands out from the noise"
        return
    yield "strongest cycles, in which A < B says that B answers A:"
    for cycle in standings.cycles:
        answers = zip(cycle["hosts"], cycle["agents"], strict=True)
        steps = " ".join(f"host {host} < agent {agent} <" for host, agent in answers)
        kind = "two hosts, two agents" if cycle["kind"] == "swap" else "best answers"
        yield f"  {kind}, by {cycle['strength']:.4f} at least: {steps} host {cycle['hosts'][0]}"


def _names(standings: Sequence[PlayerStanding]) -> list[str]:
    return [standing.name for standing in standings]


def _cell(standings: Standings, p: int, q: int, *, intervals: bool) -> str:
    cell = Estimate(standings.rho[p, q], standings.low[p, q], standings.high[p, q])
    return cell.text if intervals else f"{cell.value:.4f}"


TITLE: Final = "rho, high (bright) is a strong host, low (dark) a strong agent"
COLOURS: Final = "cividis"  # from dark to bright, told apart also without red or green and in grey
MAX_NUMBERED: Final = 20  # players of a side up to which the cells hold numbers too
CELL: Final = (0.62, 0.42)  # inches of a cell with a number: width, height
SMALL_CELL: Final = 0.16  # inches of one without
MARGIN: Final = (2.6, 2.2)  # inches for names and the bar of colours: width, height
MIN_SIZE: Final = (7.0, 3.6)  # inches, so that the title fits


def write_matrix(standings: Standings, path: Path) -> None:
    """Draw rho of all pairs in place of a file with a suffix of PICTURES; DiskError if not."""
    rows, columns = standings.rho.shape
    is_numbered = max(rows, columns) <= MAX_NUMBERED
    cell = CELL if is_numbered else (SMALL_CELL, SMALL_CELL)
    width, height = columns * cell[0] + MARGIN[0], rows * cell[1] + MARGIN[1]
    size = (max(MIN_SIZE[0], width), max(MIN_SIZE[1], height))
    font = 8.0 if is_numbered else 5.0
    middle = (standings.rho.min() + standings.rho.max()) / 2
    with drawing(path, size) as figure:
        axes = figure.add_subplot()
        image = axes.imshow(standings.rho, cmap=COLOURS, aspect="auto")
        figure.colorbar(image, ax=axes, label="rho")
        axes.set_title(f"{TITLE}, {standings.num_games:,} games per pair", fontsize=9)
        axes.set_yticks(range(rows), _names(standings.hosts), fontsize=font)
        slanted: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        axes.set_xticks(range(columns), _names(standings.agents), fontsize=font, **slanted)
        axes.set(xlabel="agent", ylabel="host")
        for (p, q), value in np.ndenumerate(standings.rho) if is_numbered else ():
            ink = "black" if value > middle else "white"
            axes.text(q, p, f"{value:.3f}", ha="center", va="center", fontsize=7, color=ink)

"""The best trial's players beside scripted and published ones, as numbers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hpsearch.config_paths import value_at
from hpsearch.report.page.material import Material
from hpsearch.report.view import StudyView
from hpsearch.study.records import Trial
from hpsearch.trainers.metrics import MODES, PANELS, panel_name
from hpsearch.trainers.published import RHOS

if TYPE_CHECKING:  # they load torch
    from hpsearch.report.examination import Report, RoleReport
    from hpsearch.trainers.rho import Rho

PANEL: Final = "panel"
"""column of the geometric mean over all opponents"""
TITLES: Final = {"rho": "greedy", "rho_sampled": "sampled"}
PUBLISHED_GAME: Final = {
    "dimension": 3,
    "max_value": 20,
    "evaluation.max_steps": 100,
}
"""in which rho was published"""


@dataclass(frozen=True)
class Value:
    """A measured or published rho."""

    value: float
    low: float | None
    high: float | None
    """ends of the 95 % interval; None where none was published"""


@dataclass(frozen=True)
class Row:
    """One player's rho."""

    player: str
    values: dict[str, Value]
    """by opponent"""


@dataclass(frozen=True)
class Comparison:
    """Players of one role against the same opponents."""

    role: str
    opponents: tuple[str, ...]
    """columns"""
    rows: tuple[Row, ...]
    """the best trial's first"""
    source: str
    """how the numbers came about, a sentence"""


def comparisons(material: Material) -> tuple[Comparison, ...]:
    """Return a comparison for each role that was measured; none where no trial has finished."""
    best = material.best
    if best is None:
        return ()
    published = tuple(_published(material.view, best))
    if isinstance(material.measured, str):
        return tuple(_searched(best, published))
    report = material.measured.report
    return tuple(
        _examined(report, role, f"trial {best.number}", published) for role in report.roles
    )


def _examined(
    report: "Report", role: "RoleReport", name: str, published: tuple[Row, ...]
) -> Comparison:
    modes = [mode for mode in MODES if panel_name(mode, role.role) in role.evaluation.metrics]
    own = [
        Row(f"{name}, {TITLES[m]}", _values(role.evaluation.metrics, m, role.role)) for m in modes
    ]
    others = [
        Row(player, _values(found.metrics, MODES[0], role.role))
        for player, found in role.references.items()
    ]
    return Comparison(
        role.role,
        (*PANELS[role.role], PANEL),
        (*own, *others, *(published if role.role == "host" else ())),
        f"{report.num_games:,} games an opponent, from starts that neither training nor the search "
        f"used; a game counts as unfinished after {report.max_steps} moves.",
    )


def _values(metrics: Mapping[str, "Rho"], mode: str, role: str) -> dict[str, Value]:
    names = {name: f"{mode}/{role}/{name}" for name in PANELS[role]}
    names[PANEL] = panel_name(mode, role)
    found = {column: metrics[name] for column, name in names.items() if name in metrics}
    return {column: Value(rho.value, rho.low, rho.high) for column, rho in found.items()}


def _searched(best: Trial, published: tuple[Row, ...]) -> Iterator[Comparison]:
    """Yield what the search itself measured of the best trial."""
    for role in PANELS:
        named = {name: _place(name) for name in best.metrics if name.split("/")[1:2] == [role]}
        opponents = tuple(dict.fromkeys(column for _, column in named.values()))
        rows = [
            Row(
                f"trial {best.number}, {TITLES[mode]}",
                {
                    column: _plain(best.metrics[name])
                    for name, (its_mode, column) in named.items()
                    if its_mode == mode
                },
            )
            for mode in MODES
        ]
        measured = [row for row in rows if row.values]
        others = published if role == "host" else ()
        if measured:
            yield Comparison(
                role,
                tuple(
                    dict.fromkeys((*opponents, *(name for row in others for name in row.values)))
                ),
                (*measured, *others),
                "As the search measured it, by which the trial was chosen; so it may be lucky.",
            )


def _place(metric: str) -> tuple[str, str]:
    """Return the mode and the column that a metric's name tells: an opponent, panel or worst."""
    mode, _, *opponent = metric.split("/")
    if opponent:
        return mode, opponent[0]
    column = mode.partition("_")[0]
    return mode.replace(column, MODES[0]), column


def _plain(rho: Mapping[str, float]) -> Value:
    return Value(rho["value"], rho["low"], rho["high"])


def _published(view: StudyView, best: Trial) -> Iterator[Row]:
    """Yield the hosts whose rho was published for the games of the trial."""
    config: dict[str, Any] = view.config(best)
    if any(value_at(config, path) != wanted for path, wanted in PUBLISHED_GAME.items()):
        return
    known = [rho for rho in RHOS if rho.num_points == config["max_num_points"]]
    for host in dict.fromkeys(rho.host for rho in known):
        values = {rho.agent: Value(rho.value, None, None) for rho in known if rho.host == host}
        yield Row(host if host.startswith("published") else f"{host}, published", values)

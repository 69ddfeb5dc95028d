"""The ancestry of a population and the line that led to its champion: data, text, picture."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from hpsearch.analysis.pictures import COLOURS, drawing
from hpsearch.cluster.study_dir import owner_of
from hpsearch.errors import HpsearchError, UsageError
from hpsearch.study.database import Database, StudyRecords
from hpsearch.study.events import Node, read_nodes
from hpsearch.study.records import Trial
from hpsearch.study.url import storage_url
from hpsearch.study.view import StudyView, setting_text, short_names
from hpsearch.terminal import print_whole, text_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MAX_RELATIVES: Final = 1000  # drawn and listed one by one, those of the newest generations


@dataclass(frozen=True)
class FounderRecord:
    study: str | None  # None where the checkpoint is of no trial
    trial: int | None
    checkpoint: str


@dataclass(frozen=True)
class Relative:
    trial: int
    generation: int  # matches that decided over its ancestors
    member: int  # place in the population
    parents: tuple[int, ...]  # trials; the first gives all that the operator does not make
    begin: int  # step at which it, or the last copy in its place, went on
    operator: str
    adopted: bool | None  # whether the operator's child was; else it is a copy of the first parent
    is_child: bool  # whether selection put it in its place; else it goes on there
    strength: float | None  # in the first match that it played, in logarithms of rho
    changes: dict[str, Any]  # hyperparameters that differ from the first parent's: before and after
    params: Mapping[str, Any]  # all hyperparameters since then, as Optuna stores them
    step: int  # of the checkpoint that it, or a copy of it, left
    sha256: str  # of that checkpoint
    seed: int
    founder: FounderRecord | None = None  # from which it goes on, without parents here

    @property
    def has_trained(self) -> bool:
        """Whether it trained for at least one step; children of a closing generation did not."""
        return self.step > self.begin


@dataclass(frozen=True)
class Ancestry:
    relatives: Mapping[int, Relative]  # by trial: as they ended
    by_content: Mapping[str, Relative]  # by the sha256 of what they, or copies, left
    first_parents: Mapping[str, str]  # content of the first parent's checkpoint, by content
    champion: int | None  # of the last match, None before the first

    def line(self, trial: int) -> list[Relative]:
        """Return the first parents that lead to a trial, oldest first; UsageError if unknown."""
        if trial not in self.relatives:
            known = ", ".join(map(str, self.relatives)) or "none"
            raise UsageError(
                f"no trial {trial} of the population has finished; those that have: {known}"
            )
        line = [self.relatives[trial]]
        parents = self.first_parents
        while (parent := self.by_content.get(parents.get(line[-1].sha256, ""))) is not None:
            line.append(parent)
        return line[::-1]

    def champions_line(self) -> list[Relative]:
        """Return the line that led to the champion, empty where there is none yet."""
        if self.champion is None or self.champion not in self.relatives:
            return []
        return self.line(self.champion)

    def newest(self) -> list[Relative]:
        """Return at most `MAX_RELATIVES`, those of the newest generations, by generation."""
        relatives = self.relatives.values()
        ordered = sorted(relatives, key=lambda relative: (relative.generation, relative.member))
        return ordered[-MAX_RELATIVES:]

    def edges(self, children: Iterable[Relative]) -> Iterator[tuple[Relative, Relative, int]]:
        """Yield each child with each parent that has ended, and the parent's place, from 0."""
        for child in children:
            for position, number in enumerate(child.parents):
                if (parent := self.relatives.get(number)) is not None:
                    yield child, parent, position


def read_lineage(view: StudyView) -> Ancestry:
    """Return the descent in a population; raises UsageError if the study is no population."""
    spec = view.study.spec
    if spec.population is None:
        raise UsageError(
            f"{spec.name} is no population, so its trials have no ancestry; "
            f"a study file becomes one by its key population"
        )
    # The graph is read after the state: what a running study has added since is of no known trial.
    with closing(Database.open(storage_url(spec.name, spec.storage))) as database:
        record = StudyRecords(database).get(spec.name)
        known = [] if record is None else read_nodes(database, record.id)
    nodes = [node for node in known if node.trial in view.state.trials]
    strengths: dict[int, float] = {}
    for match in view.state.population.matches.values():
        for trial, strength in match.strengths.items():
            strengths.setdefault(trial, strength)
    founders = [_founder(view, place) for place in spec.population.founders]
    trials = view.state.trials
    by_content = {
        node.sha256: _relative(trials[node.trial], node, strengths, founders) for node in nodes
    }
    ended = [node for node in nodes if node.sha256 == trials[node.trial].sha256]
    champions = view.state.population.archive
    return Ancestry(
        relatives={node.trial: by_content[node.sha256] for node in ended},
        by_content=by_content,
        first_parents={node.sha256: node.parents[0] for node in nodes if node.parents},
        champion=champions[-1] if champions else None,
    )


def lineage_or_why(view: StudyView) -> Ancestry | str:
    try:
        return read_lineage(view)
    except HpsearchError as error:
        return str(error)


def _founder(view: StudyView, place: str) -> FounderRecord:
    path = (view.study.path.parent / place).absolute()
    study, trial = owner_of(path) or (None, None)
    return FounderRecord(study, trial, str(path))


def _relative(
    trial: Trial, node: Node, strengths: Mapping[int, float], founders: Sequence[FounderRecord]
) -> Relative:
    origin = trial.origin
    assert origin is not None, "nodes are trials of a population"
    parents, begin, params = origin.parents, origin.first_step, trial.params
    takeovers = [exploit for exploit in trial.takeovers if exploit.step < node.step]
    if takeovers:
        last = takeovers[-1]
        parents, begin, params = (last.source,), last.step, last.params
    begun_by = None if origin.parents or takeovers else origin.founder
    return Relative(
        trial=trial.number,
        generation=origin.generation,
        member=origin.member,
        parents=parents,
        begin=begin,
        operator=node.operator,
        adopted=node.adopted,
        is_child=origin.is_child or bool(takeovers),
        strength=strengths.get(trial.number),
        changes=node.changes,
        params=params,
        step=node.step,
        sha256=node.sha256,
        seed=node.seed,
        founder=None if begun_by is None else founders[begun_by],
    )


def schedule_of(view: StudyView, descent: Ancestry, trial: int) -> list[dict[str, Any]]:
    """Return the hyperparameters in each interval; UsageError if the line has a founder or grew."""
    options, line = view.study.spec.population, descent.line(trial)
    assert options is not None, "a trial with ancestry is of a population"
    if line[0].founder is not None:
        raise UsageError(
            f"trial {trial} of {view.name} descends from a founder, "
            f"{line[0].founder.checkpoint}; what that one had learned is no part of "
            "the schedule, which can be tried from new networks alone: replay the study of the "
            "founder, or a trial whose line began with new networks"
        )
    grown = [relative.trial for relative in line if relative.operator == "grow"]
    if grown:
        raise UsageError(
            f"networks grew on the line that led to trial {trial} of {view.name}, in "
            f"trial {grown[0]}, but members that follow a schedule keep their networks: replay a "
            "trial before that one"
        )
    return [
        view.study.space.decode(relative.params)
        for relative in line
        for _ in range((relative.step - relative.begin) // options.steps_of_schedule)
    ]


def num_mixed(descent: Ancestry, trial: int) -> int:
    """Return in how many intervals of the line an operator had changed the first parent."""
    line = descent.line(trial)
    made = [relative for relative in line if relative.operator not in ("fresh", "clone")]
    return sum(relative.adopted is not False for relative in made)


def plain_lineage(descent: Ancestry, line: Sequence[Relative]) -> dict[str, Any]:
    """Return all trials with their parents, and the line to one; the keys are published."""
    return {
        "champion": descent.champion,
        "line": [relative.trial for relative in line],
        "trials": [asdict(relative) for relative in descent.relatives.values()],
        "edges": [
            {"parent": parent, "child": relative.trial, "position": position}
            for relative in descent.relatives.values()
            for position, parent in enumerate(relative.parents)
        ],
    }


def print_lineage(console: Console, relatives: Sequence[Relative], champion: int | None) -> None:
    columns = ("match", "trial", "member", "parents", "operator", "strength", "changes")
    rows = (
        (str(r.generation), str(r.trial), str(r.member), ", ".join(map(str, r.parents)), *made)
        for r, made in zip(relatives, made_texts(relatives), strict=True)
    )
    table = text_table(columns, rows, left=("parents", "operator", "changes"))
    if console.is_terminal:
        console.print(table)
    else:
        print_whole(console, table)
    not_adopted = [relative for relative in relatives if relative.adopted is False]
    if not_adopted:
        # Of several, the champion; it is what the reader looks for.
        relative = min(not_adopted, key=lambda relative: relative.trial != champion)
        console.print(
            f"trial {relative.trial}{', the champion,' if relative.trial == champion else ''} was "
            f"not adopted: the child that {relative.operator} made lost against a copy of its "
            "first parent, so that copy trained in its place, with the changes",
            highlight=False,
            soft_wrap=not console.is_terminal,
        )


def made_texts(relatives: Sequence[Relative]) -> Iterator[tuple[str, str, str]]:
    names = short_names(path for relative in relatives for path in relative.changes)
    for relative in relatives:
        changes = (
            f"{names[path]} {' -> '.join('none' if v is None else setting_text(v) for v in ends)}"
            for path, ends in relative.changes.items()
        )
        yield operator_text(relative), strength_text(relative), ", ".join(changes)


def strength_text(relative: Relative) -> str:
    return "" if relative.strength is None else f"{relative.strength:+.3f}"


def operator_text(relative: Relative) -> str:
    """Return how a trial was made: new, by an operator, or by going on as it was."""
    founder = relative.founder
    if founder is not None:
        whose = founder.checkpoint if founder.study is None else f"{founder.study}/{founder.trial}"
        return f"{relative.operator} of {whose}"
    if relative.operator == "fresh":
        return "begun anew"
    if not relative.is_child:
        return "goes on"
    adopted = "" if relative.adopted is not False else ", not adopted"
    return f"{relative.operator}{adopted}{'' if relative.has_trained else ', untrained'}"


ON_PAPER: Final = (*COLOURS, "#000000")
QUIET: Final = "#BBBBBB"
CELL: Final = (0.55, 0.42)  # inches of a generation, of a member
MARGIN: Final = (2.6, 1.4)
MIN_SIZE: Final = (6.0, 3.0)


def write_lineage(descent: Ancestry, path: Path) -> None:
    """Draw the ancestry in place of a file, with a suffix of PICTURES; DiskError if not."""
    relatives = list(descent.relatives.values())
    generations = max((relative.generation for relative in relatives), default=0) + 1
    members = max((relative.member for relative in relatives), default=0) + 1
    width, height = generations * CELL[0] + MARGIN[0], members * CELL[1] + MARGIN[1]
    line = {relative.trial for relative in descent.champions_line()}
    with drawing(path, (max(MIN_SIZE[0], width), max(MIN_SIZE[1], height))) as figure:
        axes = figure.add_subplot()
        _draw_edges(axes, descent, line)
        for relative in relatives:
            x, y = relative.generation, relative.member
            edge = "black" if relative.trial in line else QUIET
            look: dict[str, Any] = {"markersize": 13, "color": "white", "markeredgecolor": edge}
            axes.plot(x, y, marker="o", zorder=3, **look)
            axes.text(x, y, str(relative.trial), ha="center", va="center", fontsize=6, zorder=4)
        axes.set(xlabel="matches before", ylabel="member")
        axes.set_yticks(range(members))
        axes.invert_yaxis()
        axes.set_title("descent; the champion's line is bold", fontsize=9)
        if any(relative.is_child for relative in relatives):
            figure.legend(loc="outside right upper", fontsize=8, title="children by")


def _draw_edges(axes: "Axes", descent: Ancestry, line: set[int]) -> None:
    relatives = descent.relatives.values()
    operators = sorted({relative.operator for relative in relatives if relative.is_child})
    colours = {name: ON_PAPER[at % len(ON_PAPER)] for at, name in enumerate(operators)}
    for name in operators:
        axes.plot([], [], color=colours[name], label=name)  # for the legend
    for child, parent, position in descent.edges(relatives):
        is_in_line = position == 0 and {child.trial, parent.trial} <= line
        axes.plot(
            [parent.generation, child.generation],
            [parent.member, child.member],
            color=colours[child.operator] if child.is_child else QUIET,
            linestyle="-" if position == 0 else ":",
            linewidth=2.6 if is_in_line else 1.0,
            zorder=2 if is_in_line else 1,
        )

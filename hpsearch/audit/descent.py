"""Configurations, checkpoints, ancestry and matches: on disk, in events, and in the graph."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from hpsearch.audit.books import Books
from hpsearch.audit.disk import Disk, StudyFile, TrialFiles
from hpsearch.audit.finding import (
    MALFORMED,
    Fault,
    Findings,
    Problems,
    checked,
    differing,
    is_same,
    shown,
    unlike,
)
from hpsearch.audit.ledger import FAILED, FINISHED, PRUNED, Ledger, MatchEntry, TrialEntry
from hpsearch.parameters import label_of
from hpsearch.schema import value_at

SEEDS_PER_STUDY = 1_000_000


def check_descent(books: Books, ledger: Ledger, disk: Disk) -> Findings:
    """Yield what is missing, damaged, or of another origin than events say."""
    kept = {number for number in _kept(ledger) if type(number) is int}
    for number, trial in ledger.trials.items():
        files = disk.trial(number)
        yield from checked("config", number, _config(books, trial, files))
        yield from checked("checkpoints", number, _checkpoints(trial, files, kept))
        yield from checked("ancestry", number, _folder(trial, files, disk))
        if trial.origin is not None:
            yield from checked("ancestry", number, _graph(books, ledger, trial, files))
    by_sha256 = {node.sha256 for node in books.nodes}
    for node in books.nodes:
        entry = ledger.trials.get(node.trial)
        if entry is None or entry.origin is None:
            yield Fault("ancestry", node.trial, "the graph has it, but events know no such member")
        for parent in node.parents:
            if parent not in by_sha256:
                message = f"its parent {shown(parent)} is not in the database"
                yield Fault("ancestry", node.trial, message)
    for number in sorted(disk.numbers("matches") - ledger.matches.keys()):
        yield Fault("matches", None, f"match {number} has a folder, but was never called")
    for match in ledger.matches.values():
        yield from checked("matches", None, _match(ledger, match, disk))


# Configurations.


def _config(books: Books, trial: TrialEntry, files: TrialFiles) -> Problems:
    """The complete configuration is a base with the trial's params, its seed, and its own end."""
    file = files.config
    if not file.exists and not files.control.exists:  # which is written after it
        return
    config = file.whole()
    expected = dict(_expected(books, trial))
    inner = {
        path: value
        for path, value in expected.items()
        if not any(other.startswith(f"{path}.") for other in expected)
    }
    yield from unlike(file.path, {path: value_at(config, path) for path in inner}, inner)
    differences = [
        [path for path in _leaves(base, config) if not _is_within(path, expected)]
        for base in (*books.spec["base"].values(), *books.spec.get("founders", ()))
    ]
    fewest = min(differences, key=len, default=[])
    if fewest:
        yield f"{file.path} differs from its base in {', '.join(fewest)}"


def _expected(books: Books, trial: TrialEntry) -> Iterator[tuple[str, Any]]:
    if "seed" not in trial.params:
        yield "seed", books.spec["seed"] * SEEDS_PER_STUDY + trial.number
    for name, value in trial.params.items():
        parameter = books.spec["space"].get(name, {})
        for choice in parameter.get("choices", ()):
            if is_same(label_of(choice), value):
                value = choice
        yield name, value
    if trial.steps is not None:
        yield "steps", trial.steps


def _leaves(base: Mapping[str, Any], config: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key in differing(base, config):
        left, right = base.get(key), config.get(key)
        if isinstance(left, dict) and isinstance(right, dict):
            yield from _leaves(left, right, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def _is_within(path: str, paths: Mapping[str, Any]) -> bool:
    return any(path == known or path.startswith(f"{known}.") for known in paths)


# Checkpoints.


def _kept(ledger: Ledger) -> Iterator[Any]:
    """Yield the trials whose last checkpoint must be there: gc removes what nothing needs.

    Of events whose form is wrong, which are faults elsewhere, what can be read.
    """
    members: dict[Any, int] = {}
    for trial in ledger.trials.values():
        if trial.state != FINISHED:
            continue
        if trial.origin is None:
            yield trial.number
            continue
        with suppress(*MALFORMED):
            first_step = int(next(iter(trial.origin["parent_steps"]), 0))
            birth = None if trial.told is None else trial.told.data.get("birth")
            if trial.steps != first_step or birth is None or birth["adopted"]:
                members[trial.origin["member"]] = trial.number
    yield from members.values()
    origins = [trial.origin for trial in ledger.trials.values() if trial.origin is not None]
    for origin in (*ledger.planned.values(), *origins):
        with suppress(*MALFORMED):
            yield from origin["parents"]
    for match in ledger.matches.values():
        if match.decision is None:
            yield from match.members.values()
        else:
            with suppress(*MALFORMED):
                yield match.decision["champion"]


def _checkpoints(trial: TrialEntry, files: TrialFiles, kept: set[int]) -> Problems:
    for step, checkpoint in files.checkpoints.items():
        if checkpoint.problem is not None:
            yield f"{checkpoint.path}: {checkpoint.problem}"
        elif checkpoint.state is not None and checkpoint.state["step"] != step:
            yield f"{checkpoint.path} is of step {checkpoint.state['step']}"
    if trial.told is None or trial.number not in kept:
        return
    newest, best = max(files.checkpoints, default=None), files.best
    if trial.state == FINISHED:
        last = trial.steps
        if last is None and trial.teller is not None and trial.teller.ended is not None:
            last = trial.teller.ended.data["step"]
        if newest is None or newest != last:
            yield f"it finished at step {last}, but its newest checkpoint is of step {newest}"
    is_given_up = trial.state in (PRUNED, FAILED)
    if best.exists and not is_given_up and best.get("step") not in files.checkpoints:
        problem = best.problem or f"names step {shown(best.get('step'))}"
        yield f"{best.path} {problem}, of which no checkpoint is there"


# Ancestry.


NO_ORIGIN: Mapping[str, Any] = {
    "parents": (),
    "parent_steps": (),
    "operator": {"name": "fresh"},
    "generation": 0,
    "member": 0,
    "founder": None,
}
"""of a trial of a study that is no population"""


def _folder(trial: TrialEntry, files: TrialFiles, disk: Disk) -> Problems:
    """The folder says what events planned, and its parents are there as long as they are needed."""
    file, origin = files.lineage, trial.origin or NO_ORIGIN
    for other in (files.birth, files.exchanges, files.best):
        if other.problem is not None:
            yield other.fault
    if not file.exists and not files.control.exists:  # which is written after it
        return
    lineage = file.whole()
    own = {key: lineage[key] for key in ("generation", "member", "operator", "seed")}
    parents = lineage["parents"]
    own |= {"parents": [[parent["trial"], _step_of(parent["checkpoint"])] for parent in parents]}
    planned = [list(pair) for pair in zip(origin["parents"], origin["parent_steps"], strict=False)]
    if not origin["parents"] and origin["founder"] is not None:
        planned = [[None, step] for step in origin["parent_steps"]]
    told = {key: origin[key] for key in ("generation", "member", "operator")}
    told |= {"parents": planned, "seed": (files.config.data or own)["seed"]}
    yield from unlike(file.path, own, told, "events and config.yaml say")
    if trial.told is None and not files.checkpoints:
        for parent in parents:
            if not disk.holds(parent["checkpoint"]):
                yield f"it is to be born of {shown(parent['checkpoint'])}, which is missing"


def _step_of(place: str) -> int | None:
    number = place.rpartition("/step-")[2]
    return int(number) if number.isdecimal() else None


def _graph(books: Books, ledger: Ledger, trial: TrialEntry, files: TrialFiles) -> Problems:
    """The graph holds the nodes that the event of the trial's end tells, and they are on disk."""
    rows = [node for node in books.nodes if node.trial == trial.number]
    if trial.told is None:
        for row in rows:
            yield f"the graph has its step {row.step}, but it has not ended"
        return
    data = trial.told.data
    nodes = [node for node in (data.get("node"), *data.get("lent", ())) if node is not None]
    stored = {row.step: {**vars(row), "parents": list(row.parents)} for row in rows}
    told = {node["step"]: node for node in nodes}
    for step in sorted({*stored, *told}):
        if not is_same(stored.get(step), told.get(step)):
            own = f"the graph has {shown(stored.get(step))}"
            yield f"the event tells the node {shown(told.get(step))} of step {step}, {own}"
        checkpoint = files.checkpoints.get(step)
        if step in told and checkpoint is not None and checkpoint.sha256 != told[step]["sha256"]:
            sha256 = told[step]["sha256"]
            yield f"events know step {step} as {sha256}, {checkpoint.path} is {checkpoint.sha256}"
    if trial.state == FINISHED:
        yield from _node(ledger, trial, data, files)
    if "takeovers" in data:  # else the files were damaged when it was told
        yield from _exchanged(data, files)


def _node(
    ledger: Ledger, trial: TrialEntry, data: Mapping[str, Any], files: TrialFiles
) -> Problems:
    """A trial that finished has a node, of the parents and the operator that were planned."""
    node, origin = data.get("node"), trial.origin
    assert origin is not None, "it is a trial of a population"
    if node is None:
        yield "it finished, but the event tells no checkpoint of it"
        return
    takeovers = data.get("takeovers", ())
    copied = [takeover for takeover in takeovers if takeover["step"] < node["step"]]
    expected = {
        "trial": trial.number,
        "step": trial.steps,
        "operator": origin["operator"]["name"],
        "parents": [_sha256(ledger, parent) for parent in origin["parents"]],
        "changes": _changes(_last_params(ledger, trial, origin), trial.params),
    }
    if copied:
        last = copied[-1]
        expected |= {"parents": [last["sha256"]], "operator": "clone", "changes": last["changes"]}
    if files.config.data is not None:
        expected |= {"seed": files.config.get("seed")}
    yield from unlike("its node says", {key: node[key] for key in expected}, expected)
    checkpoint = files.checkpoints.get(node["step"])
    state = None if takeovers or not origin["parents"] or checkpoint is None else checkpoint.state
    if state is not None and not is_same(state["parents"], node["parents"]):
        own = f"its checkpoint {shown(state['parents'])}"
        yield f"its node has the parents {shown(node['parents'])}, {own}"


def _exchanged(data: Mapping[str, Any], files: TrialFiles) -> Problems:
    """What the job wrote of birth and exchanges is what was told."""
    birth, exchanges = files.birth, files.exchanges
    if not is_same(birth.data, data["birth"]):
        yield f"the event tells the birth {shown(data['birth'])}, {birth.content}"
    if exchanges.problem is None:  # else that is a fault already
        lent = [{key: loan[key] for key in ("step", "sha256")} for loan in data["lent"]]
        told = {"takeovers": data["takeovers"], "loans": lent}
        content = exchanges.data or {"takeovers": [], "loans": []}
        yield from unlike(exchanges.path, {key: content[key] for key in told}, told)


def _sha256(ledger: Ledger, parent: Any) -> str:
    told = ledger.trials[parent].told
    node = None if told is None else told.data.get("node")
    return "" if node is None else str(node["sha256"])


def _last_params(ledger: Ledger, trial: TrialEntry, origin: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a trial's first parent had at its end, the trial's own where it has none."""
    if not origin["parents"]:
        return trial.params
    first = ledger.trials[origin["parents"][0]]
    takeovers = () if first.told is None else first.told.data.get("takeovers", ())
    params: Mapping[str, Any] = takeovers[-1]["params"] if takeovers else first.params
    return params


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: [before.get(name), after.get(name)]
        for name in {*before, *after}
        if before.get(name) != after.get(name)
    }


# Matches.


def _match(ledger: Ledger, match: MatchEntry, disk: Disk) -> Problems:
    """A match that was given has a plan, one that was judged has games, of those it called."""
    number, plan = match.number, disk.file(f"matches/{match.number}/plan.json")
    if not plan.exists:
        if match.given:
            yield f"match {number} was given to a job, but has no plan.json"
        return
    content = plan.whole()
    players = {*match.members.values(), *match.archive}
    for side in ("hosts", "agents"):
        listed = [(player["name"], player["checkpoint"]) for player in content[side]]
        learned = {int(name): place for name, place in listed if place is not None}
        if learned and learned.keys() != players:
            called = f"match {number} was called of {sorted(players)}"
            yield f"{called}, but {plan.path} lists {sorted(learned)}"
        for trial, place in learned.items():
            expected = ledger.trials[trial].steps if trial in ledger.trials else None
            if not place.startswith(f"trials/{trial}/") or _step_of(place) != expected:
                yield Fault("matches", trial, f"{plan.path} lets {shown(place)} play for it")
            elif match.decision is None and not disk.holds(place):
                yield Fault("matches", trial, f"match {number} needs {place}, which is missing")
    yield from _games(match, content, disk.games(number))


def _games(match: MatchEntry, plan: Mapping[str, Any], games: StudyFile) -> Problems:
    shape = [len(plan["splits"]), len(plan["hosts"]), len(plan["agents"]), plan["num_games"]]
    is_whole = is_same(games.data, {"moves": shape, "finished": shape})
    if games.exists and (games.problem is not None or not is_whole):
        # While a match is open, a damaged file counts as none, and it is played again.
        yield f"{games.content}, but plan.json asks for games of the shape {shape}"
    decision = match.decision
    is_needed = decision is not None and (match.ended or decision["children"])
    if is_needed and not games.exists:
        yield f"match {match.number} was decided, but {games.path} is missing"

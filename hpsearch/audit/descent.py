"""Configurations, checkpoints, ancestry and matches: on disk, in events, and in the graph."""

import json
from collections.abc import Mapping
from typing import Any

from hpsearch.audit import finding
from hpsearch.audit.books import Books
from hpsearch.audit.disk import Disk, StudyFile, TrialFiles
from hpsearch.audit.finding import Fault, Findings, Problems, checked, is_same, shown, unlike
from hpsearch.audit.ledger import FINISHED, Ledger, MatchEntry, TrialEntry, folded
from hpsearch.schema import Config, paths, value_at
from hpsearch.study.breeding.lineage import unreferenced
from hpsearch.study.records import PlannedTrial, Trial
from hpsearch.study.spec import Study
from hpsearch.study.state import StudyState
from hpsearch.study.stored_spec import readable_study


def check_descent(books: Books, ledger: Ledger, disk: Disk) -> Findings:
    """Yield what is missing, damaged, or of another origin than events say."""
    yield from checked("config", None, _configs(books, ledger, disk))
    state = folded(books.events)
    ends = _ends(books, state)
    if state is None:
        yield Fault("events", None, "no command can read the events")
    if ends is None:
        unknown = "whether last checkpoints are there, and from which ones nodes descend"
        yield Fault("checkpoints", None, f"until the events are right it is not checked {unknown}")
    for number, trial in ledger.trials.items():
        files, may_be_gone = disk.trial(number), ends is None or number in ends
        yield from checked("checkpoints", number, _checkpoints(trial, files, may_be_gone))
        yield from checked("ancestry", number, _folder(trial, files, disk))
        if trial.origin is not None:
            yield from checked("ancestry", number, _graph(books, state, trial, files))
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


def _ends(books: Books, state: StudyState | None) -> set[int] | None:
    """Return the trials whose last checkpoints gc may remove; None where events are malformed."""
    if books.spec.get("population") is None:
        return set()
    try:
        return None if state is None else {*unreferenced(state)}
    except finding.MALFORMED:  # which the ledger's rules tell
        return None


# Configurations.

HOW_A_PROGRAM_RUNS = ("command", "gpus", "hang_timeout", "may_end_early", "stop_seconds")
"""keys of a program's base that may change while its study goes on"""


def _configs(books: Books, ledger: Ledger, disk: Disk) -> Problems:
    study, _ = readable_study(json.dumps(books.spec), disk.root)
    for number, trial in ledger.trials.items():
        yield from checked("config", number, _config(study, trial, disk.trial(number)))


def _config(study: Study, trial: TrialEntry, files: TrialFiles) -> Problems:
    """A trial's folder holds the configuration that the study and the trial's params give."""
    file = files.config
    if file.exists or files.control.exists:  # which is written after it
        origin = None if trial.origin is None else PlannedTrial.of(trial.origin)
        expected = _flat(study.config_of(Trial(trial.number, {**trial.params}, origin=origin)))
        own = _flat(file.whole())
        if study.is_program:  # how a program runs may have changed since
            free = {*HOW_A_PROGRAM_RUNS} - study.space.parameters.keys()
            expected |= {key: own[key] for key in free & own.keys()}
        yield from unlike(file.path, own, expected, "the study says")


def _flat(config: Config) -> dict[str, Any]:
    """Return the values by dotted path."""
    every = {path: value_at(config, path) for path in paths(config)}
    return {path: value for path, value in every.items() if not isinstance(value, dict)}


# Checkpoints.


def _checkpoints(trial: TrialEntry, files: TrialFiles, may_be_gone: bool) -> Problems:
    """Checkpoints are whole, and the last one is there unless gc may have removed it."""
    for step, checkpoint in files.checkpoints.items():
        if checkpoint.problem is not None:
            yield f"{checkpoint.path}: {checkpoint.problem}"
        elif checkpoint.state is not None and checkpoint.state["step"] != step:
            yield f"{checkpoint.path} is of step {checkpoint.state['step']}"
    if trial.state != FINISHED or may_be_gone:
        return
    newest, best, last = max(files.checkpoints, default=None), files.best, trial.steps
    if last is None and trial.teller is not None and trial.teller.ended is not None:
        last = trial.teller.ended.data["step"]
    if newest is None or newest != last:
        yield f"it finished at step {last}, but its newest checkpoint is of step {newest}"
    if best.exists and best.get("step") not in files.checkpoints:
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
    if not file.exists and (trial.origin is None or not files.control.exists):
        return  # it is written before control.json, and may be missing where there are no parents
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
                yield f"it is to be created from {shown(parent['checkpoint'])}, which is missing"


def _step_of(place: str) -> int | None:
    number = place.rpartition("/step-")[2]
    return int(number) if number.isdecimal() else None


def _graph(
    books: Books, state: StudyState | None, trial: TrialEntry, files: TrialFiles
) -> Problems:
    """The graph holds the nodes that the event of the trial's end tells, and they are on disk."""
    rows = [node for node in books.nodes if node.trial == trial.number]
    if trial.told is None:
        for row in rows:
            yield f"the graph has its step {row.step}, but it has not ended"
        return
    data = trial.told.data
    stored = {row.step: vars(row) for row in rows}
    nodes = (data.get("node"), *data.get("lent", ()))
    told = {node["step"]: node for node in nodes if node is not None}
    for step in sorted({*stored, *told}):
        if not is_same(stored.get(step), told.get(step)):
            own = f"the graph has {shown(stored.get(step))}"
            yield f"the event tells the node {shown(told.get(step))} of step {step}, {own}"
        checkpoint = files.checkpoints.get(step)
        if step in told and checkpoint is not None and checkpoint.sha256 != told[step]["sha256"]:
            sha256 = told[step]["sha256"]
            yield f"events know step {step} as {sha256}, {checkpoint.path} is {checkpoint.sha256}"
    if trial.state == FINISHED and state is not None:
        yield from _node(state, trial, data, files)
    if "takeovers" in data:  # else the files were damaged when it was told
        yield from _exchanged(data, files)


def _node(
    state: StudyState, trial: TrialEntry, data: Mapping[str, Any], files: TrialFiles
) -> Problems:
    """A trial that finished has a node, of the parents and the operator that were planned."""
    node, origin = data.get("node"), trial.origin
    assert origin is not None, "it is a trial of a population"
    if node is None:
        yield "it finished, but the event tells no checkpoint of it"
        return
    parents = [state.trials[parent] for parent in origin["parents"]]
    before = parents[0].last_params if parents else trial.params
    keys = {*before, *trial.params}
    pairs = {key: [before.get(key), trial.params.get(key)] for key in keys}
    takeovers = data.get("takeovers", ())
    copied = [exploit for exploit in takeovers if exploit["step"] < node["step"]]
    expected = {
        "trial": trial.number,
        "step": trial.steps,
        "operator": origin["operator"]["name"],
        "parents": [parent.sha256 or "" for parent in parents],
        "changes": {key: [was, now] for key, (was, now) in pairs.items() if was != now},
    }
    if copied:
        last = copied[-1]
        expected |= {"parents": [last["sha256"]], "operator": "clone", "changes": last["changes"]}
    if files.config.data is not None:
        expected |= {"seed": files.config.get("seed")}
    yield from unlike("its node says", {key: node[key] for key in expected}, expected)
    checkpoint = files.checkpoints.get(node["step"])
    saved = None if checkpoint is None or takeovers or not parents else checkpoint.state
    if saved is not None and not is_same(saved["parents"], node["parents"]):
        own = f"its checkpoint {shown(saved['parents'])}"
        yield f"its node has the parents {shown(node['parents'])}, {own}"


def _exchanged(data: Mapping[str, Any], files: TrialFiles) -> Problems:
    """What the job wrote of birth and exchanges is what was told."""
    birth, exchanges = files.birth, files.exchanges
    if not is_same(birth.data, data["birth"]):
        yield f"the event tells the birth {shown(data['birth'])}, {birth.content}"
    if exchanges.problem is None:  # else that is a fault already
        lent = [{key: donation[key] for key in ("step", "sha256")} for donation in data["lent"]]
        told = {"takeovers": data["takeovers"], "loans": lent}
        content = exchanges.data or {"takeovers": [], "loans": []}
        yield from unlike(exchanges.path, {key: content[key] for key in told}, told)


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

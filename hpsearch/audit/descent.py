"""Checkpoints and ancestry: on disk, in events, and in the graph of descent."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from hpsearch.audit.books import Books, NodeInBooks
from hpsearch.audit.disk import CheckpointFiles, Disk, StudyFile, TrialFiles
from hpsearch.audit.finding import MALFORMED, Fault, Findings, differing, is_same, shown
from hpsearch.audit.ledger import FAILED, FINISHED, PRUNED, Ledger, MatchEntry, TrialEntry
from hpsearch.audit.trials import guarded
from hpsearch.parameters import label_of
from hpsearch.schema import value_at

SEEDS_PER_STUDY = 1_000_000


def check_descent(books: Books, ledger: Ledger, disk: Disk) -> Findings:
    """Yield what is missing, damaged, or of another origin than events say."""
    kept = {number for number in _kept(ledger) if type(number) is int}
    by_sha256 = {node.sha256 for node in books.nodes}
    for number, trial in ledger.trials.items():
        files = disk.trial(number)
        yield from guarded("config", number, _config(books, trial, files))
        yield from guarded("checkpoints", number, _checkpoints(trial, files, kept))
        yield from guarded("ancestry", number, _folder(trial, files, disk))
        if trial.origin is not None:
            yield from guarded("ancestry", number, _graph(books, ledger, trial, files))
    yield from _strays(books, ledger)
    for node in books.nodes:
        for parent in node.parents:
            if parent not in by_sha256:
                yield Fault(
                    "ancestry", node.trial, f"its parent {shown(parent)} is not in the database"
                )
    for number in sorted(disk.matches.keys() - ledger.matches.keys()):
        yield Fault("matches", None, f"match {number} has a folder, but was never called")
    for match in ledger.matches.values():
        yield from guarded("matches", None, _match(ledger, match, disk))


# Configurations.


def _config(books: Books, trial: TrialEntry, files: TrialFiles) -> Findings:
    """The complete configuration is a base with the trial's params, its seed, and its own end."""
    file = files.config
    if not file.exists:
        if files.control.exists:  # which is written after it
            yield Fault("config", trial.number, f"{file.path} is missing")
        return
    if file.problem is not None or not isinstance(file.data, dict):
        yield Fault("config", trial.number, f"{file.path} {file.problem or 'holds no mapping'}")
        return
    config, expected = file.data, dict(_expected(books, trial))
    for path, value in expected.items():
        inner = any(other.startswith(f"{path}.") for other in expected)
        if not inner and not is_same(value_at(config, path), value):
            yield Fault(
                "config",
                trial.number,
                f"events say {path} {shown(value)}, {file.path} {shown(value_at(config, path))}",
            )
    differences = [
        [path for path in _leaves(base, config) if not _is_within(path, expected)]
        for base in (*books.spec["base"].values(), *books.spec.get("founders", ()))
    ]
    fewest = min(differences, key=len, default=[])
    if fewest:
        yield Fault(
            "config", trial.number, f"{file.path} differs from its base in {', '.join(fewest)}"
        )


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
    """Yield the paths at which two configurations differ."""
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
            if trial.steps != _first_step(trial) or _is_adopted(trial):
                members[trial.origin["member"]] = trial.number
    yield from members.values()
    for origin in (*ledger.planned.values(), *_origins(ledger)):
        with suppress(*MALFORMED):
            yield from origin["parents"]
    for match in ledger.matches.values():
        if match.decision is None:
            yield from match.members.values()
        else:
            with suppress(*MALFORMED):
                yield match.decision["champion"]


def _origins(ledger: Ledger) -> Iterator[Mapping[str, Any]]:
    return (trial.origin for trial in ledger.trials.values() if trial.origin is not None)


def _first_step(trial: TrialEntry) -> int:
    steps = () if trial.origin is None else trial.origin["parent_steps"]
    return int(steps[0]) if steps else 0


def _is_adopted(trial: TrialEntry) -> bool:
    birth = None if trial.told is None else trial.told.data.get("birth")
    return birth is None or bool(birth["adopted"])


def _checkpoints(trial: TrialEntry, files: TrialFiles, kept: set[int]) -> Findings:
    is_given_up = trial.state in (PRUNED, FAILED)
    for step, checkpoint in files.checkpoints.items():
        if checkpoint.problem is not None:
            yield Fault("checkpoints", trial.number, f"{checkpoint.path}: {checkpoint.problem}")
        elif checkpoint.state and checkpoint.state["step"] != step:
            yield Fault(
                "checkpoints",
                trial.number,
                f"{checkpoint.path} is of step {checkpoint.state['step']}",
            )
    newest = max(files.checkpoints, default=None)
    if trial.state == FINISHED and trial.number in kept:
        last = trial.steps
        if last is None and trial.teller is not None and trial.teller.ended is not None:
            last = trial.teller.ended.data["step"]
        if newest is None or newest != last:
            yield Fault(
                "checkpoints",
                trial.number,
                f"it finished at step {last}, but its newest checkpoint is of step {newest}",
            )
    best = files.best
    if best.exists and not is_given_up and trial.told is not None and trial.number in kept:
        named = best.data.get("step") if isinstance(best.data, dict) else None
        if named not in files.checkpoints:
            yield Fault(
                "checkpoints",
                trial.number,
                f"{best.path} {best.problem or f'names step {shown(named)}'}, of which no "
                "checkpoint is there",
            )


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


def _folder(trial: TrialEntry, files: TrialFiles, disk: Disk) -> Findings:
    """The folder says what events planned, and its parents are there as long as they are needed."""
    number, file, origin = trial.number, files.lineage, trial.origin or NO_ORIGIN
    for other in (files.birth, files.exchanges, files.best):
        if other.problem is not None:
            yield Fault("ancestry", number, f"{other.path} {other.problem}")
    if not file.exists:
        if files.control.exists:  # which is written after it
            yield Fault("ancestry", number, f"{file.path} is missing")
        return
    if file.problem is not None:
        yield Fault("ancestry", number, f"{file.path} {file.problem}")
        return
    said = file.data
    parents = [[parent["trial"], _step_of(parent["checkpoint"])] for parent in said["parents"]]
    planned = [list(pair) for pair in zip(origin["parents"], origin["parent_steps"], strict=False)]
    if not origin["parents"] and origin["founder"] is not None:
        planned = [[None, step] for step in origin["parent_steps"]]
    keys = ("generation", "member")
    own = {key: said[key] for key in keys} | {"parents": parents, "operator": said["operator"]}
    wanted = {key: origin[key] for key in keys} | {
        "parents": planned,
        "operator": origin["operator"],
    }
    for key in differing(own, wanted):
        yield Fault(
            "ancestry",
            number,
            f"events say {key} {shown(wanted[key])}, {file.path} {shown(own[key])}",
        )
    seed = files.config.data.get("seed") if isinstance(files.config.data, dict) else said["seed"]
    if not is_same(said["seed"], seed):
        yield Fault(
            "ancestry", number, f"{files.config.path} says seed {seed}, {file.path} differs"
        )
    if trial.told is None and not files.checkpoints:
        for parent in said["parents"]:
            if not disk.holds(parent["checkpoint"]):
                yield Fault(
                    "ancestry",
                    number,
                    f"it is to be born of {shown(parent['checkpoint'])}, which is missing",
                )


def _step_of(place: str) -> int | None:
    number = place.rpartition("/step-")[2]
    return int(number) if number.isdecimal() else None


def _graph(books: Books, ledger: Ledger, trial: TrialEntry, files: TrialFiles) -> Findings:
    """The graph holds the nodes that the event of the trial's end tells, and they are on disk."""
    number = trial.number
    rows = [node for node in books.nodes if node.trial == number]
    if trial.told is None:
        for row in rows:
            yield Fault(
                "ancestry", number, f"the graph has its step {row.step}, but it has not ended"
            )
        return
    data = trial.told.data
    nodes = [node for node in (data.get("node"), *data.get("lent", ())) if node is not None]
    stored = {row.step: _plain(row) for row in rows}
    told = {node["step"]: node for node in nodes}
    for step in sorted({*stored, *told}):
        if not is_same(stored.get(step), told.get(step)):
            yield Fault(
                "ancestry",
                number,
                f"the event tells the node {shown(told.get(step))} of step {step}, the graph has "
                f"{shown(stored.get(step))}",
            )
        checkpoint = files.checkpoints.get(step)
        if step in told and checkpoint is not None and checkpoint.sha256 != told[step]["sha256"]:
            yield Fault(
                "ancestry",
                number,
                f"events know step {step} as {told[step]['sha256']}, {checkpoint.path} is "
                f"{checkpoint.sha256}",
            )
    yield from _node(ledger, trial, data, files)
    yield from _born(data, trial, files)


def _plain(row: NodeInBooks) -> dict[str, Any]:
    return {**vars(row), "parents": list(row.parents)}


def _node(
    ledger: Ledger, trial: TrialEntry, data: Mapping[str, Any], files: TrialFiles
) -> Findings:
    """A trial that finished has a node, of the parents and the operator that were planned."""
    node, origin = data.get("node"), trial.origin
    assert origin is not None, "it is a trial of a population"
    if trial.state != FINISHED:
        return
    if node is None:
        yield Fault(
            "ancestry", trial.number, "it finished, but the event tells no checkpoint of it"
        )
        return
    takeovers = data.get("takeovers", ())
    copied = [takeover for takeover in takeovers if takeover["step"] < node["step"]]
    parents = [_sha256(ledger, parent) for parent in origin["parents"]]
    operator, before = origin["operator"]["name"], _last_params(ledger, origin["parents"])
    changes = None if before is None else _changes(before, trial.params)
    if copied:
        parents, operator, changes = [copied[-1]["sha256"]], "clone", copied[-1]["changes"]
    elif not origin["parents"]:
        changes = {}
    expected = {"trial": trial.number, "step": trial.steps, "operator": operator}
    expected |= {"parents": parents, "changes": changes}
    own = {key: node[key] for key in expected}
    for key in differing(own, expected):
        yield Fault(
            "ancestry",
            trial.number,
            f"its node says {key} {shown(own[key])}, but events before {shown(expected[key])}",
        )
    if isinstance(files.config.data, dict) and node["seed"] != files.config.data.get("seed"):
        yield Fault(
            "ancestry", trial.number, f"its node says seed {node['seed']}, unlike config.yaml"
        )
    checkpoint = files.checkpoints.get(node["step"], CheckpointFiles("", None, {}, None))
    is_own = bool(checkpoint.state) and not takeovers and bool(origin["parents"])
    if is_own and not is_same(checkpoint.state["parents"], node["parents"]):
        yield Fault(
            "ancestry",
            trial.number,
            f"its node has the parents {shown(node['parents'])}, {checkpoint.path} "
            f"{shown(checkpoint.state['parents'])}",
        )


def _born(data: Mapping[str, Any], trial: TrialEntry, files: TrialFiles) -> Findings:
    """What the job wrote of birth and exchanges is what was told."""
    birth, exchanges = files.birth, files.exchanges
    if "takeovers" not in data:  # the files were damaged when it was told
        return
    if not is_same(birth.data, data["birth"]):
        yield Fault(
            "ancestry",
            trial.number,
            f"the event tells the birth {shown(data['birth'])}, {birth.path} "
            f"{birth.problem or shown(birth.data)}",
        )
    said = exchanges.data if isinstance(exchanges.data, dict) else {"takeovers": [], "loans": []}
    lent = [{key: loan[key] for key in ("step", "sha256")} for loan in data["lent"]]
    wrote = {"takeovers": said["takeovers"], "loans": said["loans"]}
    if exchanges.problem or not is_same(wrote, {"takeovers": data["takeovers"], "loans": lent}):
        yield Fault(
            "ancestry",
            trial.number,
            f"the event tells other exchanges than {exchanges.path}, which "
            f"{exchanges.problem or 'says ' + shown(wrote)}",
        )


def _sha256(ledger: Ledger, parent: Any) -> str:
    told = ledger.trials[parent].told
    node = None if told is None else told.data.get("node")
    return "" if node is None else str(node["sha256"])


def _last_params(ledger: Ledger, parents: list[int]) -> Mapping[str, Any] | None:
    if not parents:
        return None
    first = ledger.trials[parents[0]]
    takeovers = () if first.told is None else first.told.data.get("takeovers", ())
    params: Mapping[str, Any] = takeovers[-1]["params"] if takeovers else first.params
    return params


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    names = {*before, *after}
    return {
        name: [before.get(name), after.get(name)]
        for name in names
        if before.get(name) != after.get(name)
    }


def _strays(books: Books, ledger: Ledger) -> Findings:
    for node in books.nodes:
        trial = ledger.trials.get(node.trial)
        if trial is None or trial.origin is None:
            yield Fault("ancestry", node.trial, "the graph has it, but events know no such member")


# Matches.


def _match(ledger: Ledger, match: MatchEntry, disk: Disk) -> Findings:
    """A match that was given has a plan, one that was judged has games, of those it called."""
    files, number = disk.match(match.number), match.number
    plan = files.plan
    if not plan.exists:
        if match.given:
            yield Fault("matches", None, f"match {number} was given to a job, but has no plan.json")
        return
    if plan.problem is not None:
        yield Fault("matches", None, f"{plan.path} {plan.problem}")
        return
    players = {*match.members.values(), *match.archive}
    for side in ("hosts", "agents"):
        listed = [(player["name"], player["checkpoint"]) for player in plan.data[side]]
        learned = {int(name): place for name, place in listed if place is not None}
        if learned and learned.keys() != players:
            yield Fault(
                "matches",
                None,
                f"match {number} was called of {sorted(players)}, but {plan.path} lists "
                f"{sorted(learned)}",
            )
        for trial, place in learned.items():
            expected = ledger.trials[trial].steps if trial in ledger.trials else None
            if not place.startswith(f"trials/{trial}/") or _step_of(place) != expected:
                yield Fault("matches", trial, f"{plan.path} lets {shown(place)} play for it")
            elif match.decision is None and not disk.holds(place):
                yield Fault("matches", trial, f"match {number} needs {place}, which is missing")
    yield from _games(match, plan.data, files.games)


def _games(match: MatchEntry, plan: Mapping[str, Any], games: StudyFile) -> Findings:
    decision = match.decision
    if games.exists:
        shape = [len(plan["splits"]), len(plan["hosts"]), len(plan["agents"]), plan["num_games"]]
        if games.problem is not None or not is_same(
            games.data, {"moves": shape, "finished": shape}
        ):
            # While a match is open, a damaged file counts as none, and it is played again.
            yield Fault(
                "matches",
                None,
                f"{games.path} {games.problem or 'has the shapes ' + shown(games.data)}, but "
                f"plan.json asks for {shape}",
            )
    elif decision is not None and (match.ended or decision["children"]):
        yield Fault(
            "matches", None, f"match {match.number} was decided, but {games.path} is missing"
        )

"""How events change what is known of a population."""

from collections.abc import Iterable

from hpsearch.population.operator_record import OperatorRecord
from hpsearch.study.events import Event
from hpsearch.study.records import Ended, Match, PlannedTrial, PopulationRecord


def started(population: PopulationRecord) -> None:
    """A driver was started: what failed before may have been mended meanwhile."""
    if population.match is not None:
        population.match.failures = 0


def asked(population: PopulationRecord, trial: int, origin: PlannedTrial) -> None:
    """A planned trial has been asked for."""
    population.planned = [planned for planned in population.planned if planned.key != origin.key]
    population.newest[origin.member] = trial
    if origin.trains:
        population.closing, population.is_closed = 0, False


def told(
    population: PopulationRecord,
    trial: int,
    origin: PlannedTrial,
    event: Event,
    *,
    seconds: float,
    has_finished: bool,
) -> None:
    """A member's interval has ended, after so many seconds of training."""
    population.open[origin.member] = Ended(seconds, event.at)
    population.late.discard(origin.member)
    birth = event.data.get("birth")
    # A copy that does not train would only take the place of another network.
    is_of_use = origin.trains or birth is None or birth["adopted"]
    if has_finished and is_of_use:
        population.finished[origin.member] = trial
    if birth is not None and birth["chance"] is not None:  # of a copy nothing is learned
        record = population.operators.get(birth["operator"], OperatorRecord(0, 0))
        population.operators[birth["operator"]] = record.with_child(accepted=birth["adopted"])


def called(population: PopulationRecord, event: Event, training: set[int]) -> None:
    """Those who have ended an interval are to be judged, without those who are training."""
    data = event.data
    members = {int(member): trial for member, trial in data["members"].items()}
    match = Match(data["match"], members, tuple(data["ended"]), tuple(data["archive"]))
    population.matches[match.number] = match
    _close(population, match.ended)
    population.late = training


def given(population: PopulationRecord, match: int, job: str, at: float) -> None:
    """A job has been given a match to play."""
    population.matches[match].job, population.matches[match].given_at = job, at


def left(population: PopulationRecord, match: int, *, is_failure: bool) -> None:
    """The job of a match has ended, whether or not it played."""
    over = population.matches[match]
    if not over.is_over:  # else a pilot that played it has gone on training
        over.job = None
        over.failures += is_failure


def bred(population: PopulationRecord, event: Event) -> None:
    """It is decided what comes next: at the beginning, and after each match."""
    population.has_begun = True
    coming = [PlannedTrial.of(child) for child in event.data["children"]]
    population.planned += coming
    _close(population, [origin.member for origin in coming])
    number = event.data["match"]
    if number is not None:
        match = population.matches[number]
        match.champion = event.data["champion"]
        match.strengths = {
            int(trial): strength for trial, strength in event.data["strengths"].items()
        }
        match.intervals = {int(trial): bounds for trial, bounds in event.data["intervals"].items()}
        match.game = event.data["game"]
        match.answers = event.data["answers"]
        if match.champion is not None:
            _over(population, match, match.champion)


def _over(population: PopulationRecord, match: Match, champion: int) -> None:
    """A match has been judged, and does not change any more."""
    match.job = None
    population.num_judged += 1
    if champion in population.archive:
        population.archive.remove(champion)
    population.archive.append(champion)
    if match.answers:
        answering = match.answers[0]["trial"]
        population.answers.pop(answering, None)
        population.answers[answering] = match.answers


def closing(population: PopulationRecord, event: Event) -> None:
    """A generation of the closing is planned; one without children is the last."""
    population.closing, population.is_closed = event.data["number"], event.data["is_last"]
    children = [PlannedTrial.of(child) for child in event.data["children"]]
    if children:
        # The others rest, and the next match plans anew for them; who never began still may.
        newcomers = [
            origin for origin in population.planned if origin.member not in population.newest
        ]
        population.planned = children + newcomers


def _close(population: PopulationRecord, members: Iterable[int]) -> None:
    for member in members:
        population.open.pop(member, None)

"""The breeder: plans the first trials, calls matches, and has them judged.

A match is called by an event before it is played, and what it decides is one event with the trials
to come. A driver that dies in between leaves a match that the next one has played, or judges: the
same games give the same plan.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from hpsearch.cluster.match_dir import MatchGames
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import CorruptError, DiskError
from hpsearch.population.options import Closing, PopulationOptions, Synchronous
from hpsearch.study.breeding.generation import Judge
from hpsearch.study.breeding.initial_trials import beginning
from hpsearch.study.breeding.matches import MatchRoster, is_due
from hpsearch.study.jobs import Jobs
from hpsearch.study.observe import BUSY_SECONDS
from hpsearch.study.pilots import Pilots
from hpsearch.study.recorder import EventRecorder, Limits
from hpsearch.study.records import Match, PlannedTrial, PopulationRecord, Trial
from hpsearch.study.spec import Study
from hpsearch.study.state import FAILED, StudyState
from hpsearch.trainers.config import read_config

MAX_FAILURES = 3
"""jobs that may end without having played a match, before the study fails"""


class Breeder:
    """Decides what the trials of a population are."""

    def __init__(
        self,
        study: Study,
        options: PopulationOptions,
        folder: StudyDir,
        judge: Judge,
        recorder: EventRecorder,
        jobs: Jobs,
        pilots: Pilots,
        limits: Limits,
        clock: Callable[[], float],
    ) -> None:
        """Take what the study says and allows, who judges matches, and who has them played."""
        self._study = study
        self._options = options
        self._folder = folder
        self._recorder = recorder
        self._jobs = jobs
        self._pilots = pilots
        self._limits = limits
        self._clock = clock
        self._judge = judge
        (base,) = study.bases.values()
        self._config = read_config(base, source="base")

    @property
    def _state(self) -> StudyState:
        return self._recorder.state

    @property
    def _population(self) -> PopulationRecord:
        return self._state.population

    def plan(self) -> None:
        """Plan the first trials; judge the match that was played; call one that is due."""
        if not self._population.has_begun:
            self._begin(range(self._options.members))
        match = self._population.match
        if match is not None:
            self._decide(match)
            self._give_up_silent(match)
        if self._population.match is None:
            if self._is_due():
                self._call(self._resting())
            elif self.closes:
                self._close()
            elif self._is_unanswered():
                self._call([])

    @property
    def will_go_on(self) -> bool:
        """Whether members train or will: a pilot that is idle now will be needed."""
        population = self._population
        to_come = population.planned and self._limits.num_allowed()
        return bool(population.match or population.open or to_come or self._state.unfinished())

    def submit(self, free_jobs: int) -> None:
        """Have the match played, if one waits: by a pilot that is idle, or else by a free job.

        After `MAX_FAILURES` jobs that ended without having played it, the study fails; a match
        that judges no member is given up instead.
        """
        match = self._population.match
        if match is None or not match.waits:
            return
        if match.failures >= MAX_FAILURES and not match.ended:
            self._recorder.record("bred", data=self._judge.unplayed(match, self._population))
            return
        if match.failures >= MAX_FAILURES:
            message = (
                f"match {match.number} was lost {match.failures} times; its jobs' logs are in "
                f"{self._folder.jobs}, and the same command tries again"
            )
            self._recorder.record("ended", data={"status": FAILED, "message": message})
            return
        before = self._population.archive
        champion = self._state.trials[before[-1]] if before else None
        seed = self._study.spec.seed
        plan = self._programme(match).plan(match, self._config, seed, champion)
        self._folder.match(match.number).write_plan(plan)
        if not self._pilots.give_match(match.number) and free_jobs > 0:
            self._jobs.submit_match(match.number)

    # Matches.

    def _is_due(self) -> bool:
        """Return whether those who have ended their interval should be judged now."""
        population, rules = self._population, self._options.generations
        if not population.open:
            return False
        if not isinstance(rules, Synchronous):
            return not self._awaits_untrained()  # those are judged together
        if population.planned and self._limits.num_allowed():
            return False  # a member that waits for a free job is not late
        # Who was late for the match before is not waited for again.
        unfinished = self._state.unfinished()
        waited_for = [trial for trial in unfinished if trial.member not in population.late]
        return is_due(rules, population.open.values(), waited_for, self._clock())

    def _awaits_untrained(self) -> bool:
        """Return whether children of the closing have not ended, or not begun."""
        unfinished = (trial.origin for trial in self._state.unfinished())
        return bool(self._population.untrained) or any(
            origin is not None and not origin.trains for origin in unfinished
        )

    @property
    def closes(self) -> bool:
        """Whether a generation of the closing comes next: no member trains, or may, any more."""
        population = self._population
        if self._options.closing is None or population.is_closed or not population.matches:
            return False
        may_train = bool(self._state.unfinished()) or self._limits.allow_another()
        are_judged = not (population.match or population.open or population.untrained)
        return are_judged and not may_train and self._limits.allow_gpu_hours()

    def _close(self) -> None:
        """Plan a generation of the closing; it is over where one would have no children."""
        closing, number = self._options.closing, self._population.closing + 1
        assert closing is not None, "it is what closes"
        children = self._untrained(closing)
        closed = {
            "number": number,
            "is_last": not children or number >= closing.generations,
            "children": [asdict(origin) for origin in children],
        }
        self._recorder.record("closing", data=closed)

    def _untrained(self, closing: Closing) -> list[PlannedTrial]:
        """Return the children of a generation of the closing, by the games of the last match."""
        population = self._population
        match = population.matches[len(population.matches)]
        games = self._games(match)
        if games is None:
            return []  # gone or damaged since
        programme, known = self._programme(match), self._state.trials
        return self._judge.close(closing, match, programme, games, known, population)

    def _is_unanswered(self) -> bool:
        """Return whether all is over, but no opponent has trained against the champion yet.

        A match more has it done. No interval has ended, so it replaces no member; but it may name
        another champion, until one is named a second time.
        """
        if self._options.matches.best_response is None or self.will_go_on:
            return False
        if not self._limits.allow_gpu_hours():
            return False  # no job would play it
        champions = [match.champion for match in self._population.matches.values()]
        return bool(champions) and champions[-1] not in champions[:-1]

    def _resting(self) -> list[int]:
        """Return the members for which the next match decides what comes next.

        Nothing is planned for them, and they do not train: their intervals have ended, or they
        stayed as they were in the closing.
        """
        busy = {trial.member for trial in self._state.unfinished()}
        busy |= {origin.member for origin in self._population.planned}
        return sorted(self._population.newest.keys() - busy)

    def _call(self, ended: list[int]) -> None:
        """Call a match of all that can play; new members where none can."""
        population = self._population
        if not population.finished:
            self._begin(ended)
            return
        playing = set(population.finished.values())
        archive = [trial for trial in population.archive if trial not in playing]
        kept = archive[-self._options.matches.archive :] if self._options.matches.archive else []
        called = {
            "match": len(population.matches) + 1,
            "members": {
                str(member): trial for member, trial in sorted(population.finished.items())
            },
            "ended": ended,
            "archive": kept,
        }
        self._recorder.record("match_called", data=called)

    def _decide(self, match: Match) -> None:
        games = self._games(match)
        if games is not None:
            programme, known = self._programme(match), self._state.trials
            decided = self._judge.decide(match, programme, games, known, self._population)
            self._recorder.record("bred", data=decided | {"answers": self._answers(match)})

    def _give_up_silent(self, match: Match) -> None:
        """Give up the job of a match of which nothing was heard for long; another one plays it."""
        job = self._state.live.get(match.job or "")
        if match.is_over or job is None or job.began_at is None or job.is_silent:
            return
        heard = self._folder.match(match.number).last_sign()
        if self._clock() - max(job.began_at, match.given_at, heard) >= BUSY_SECONDS:
            self._recorder.record("match_silent", job=job.name)

    def _answers(self, match: Match) -> list[dict[str, Any]]:
        """Return how the champion before fared against responses, by which nothing is decided."""
        try:
            return [asdict(answer) for answer in self._folder.match(match.number).read_answers()]
        except (CorruptError, DiskError):
            return []

    def _games(self, match: Match) -> MatchGames | None:
        """Return the games of a match, None while they have not been played whole."""
        files = self._folder.match(match.number)
        try:
            games = files.read_games()
            return games if games is None or games.moves.shape == files.read_plan().shape else None
        except (CorruptError, DiskError):
            return None

    def _programme(self, match: Match) -> MatchRoster:
        return MatchRoster(
            members=self._trials([trial for _, trial in sorted(match.members.items())]),
            archive=self._trials(match.archive),
            roles=tuple(self._config.learning()),
            matches=self._options.matches,
        )

    def _trials(self, numbers: Sequence[int]) -> tuple[Trial, ...]:
        return tuple(self._state.trials[number] for number in numbers)

    def _begin(self, members: Sequence[int]) -> None:
        """Plan the first trials of members."""
        begun = [
            beginning(member, self._study, self._options, self._population) for member in members
        ]
        children = [asdict(origin) for origin in begun]
        self._recorder.record("bred", data={"match": None, "children": children})

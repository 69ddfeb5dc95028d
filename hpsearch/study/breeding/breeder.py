"""The breeder: plans the first trials, calls matches, and has them judged.

A match is called by an event before it is played, and decided by one event with the trials to come.
A driver that dies in between leaves a match that the next one judges alike by the same games.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import asdict
from functools import cached_property
from math import ceil

from hpsearch.errors import CorruptError, DiskError
from hpsearch.population.options import PopulationOptions, Synchronous
from hpsearch.programs.config import ProgramConfig, TrialConfig, read_trial_config
from hpsearch.study.breeding.generation import Judge, MatchRoster, PlayedMatch, learned_roles
from hpsearch.study.jobs import Jobs, Pilots
from hpsearch.study.observe import BUSY_SECONDS
from hpsearch.study.recorder import DriverContext, DriverPart, Limits
from hpsearch.study.records import Ended, Match, PopulationRecord, Trial
from hpsearch.study.state import FAILED

MAX_FAILURES = 3  # jobs that may end without having played a match, before the study fails
OWN_ERROR = re.compile(r"^hpsearch\.[\w.]+: ")
"""the name of an error's class, before its sentence, at the end of what a job printed"""
ROUNDING = 1e-9  # 0.28 * 25 is 7.000000000000001


class Breeder(DriverPart):
    def __init__(
        self,
        context: DriverContext,
        options: PopulationOptions,
        jobs: Jobs,
        pilots: Pilots,
        limits: Limits,
    ) -> None:
        super().__init__(context)
        self._options = options
        self._jobs = jobs
        self._pilots = pilots
        self._limits = limits
        self._judge = Judge(self._study, options, self._trials)

    @cached_property
    def _config(self) -> TrialConfig:
        (base,) = self._study.bases.values()
        return read_trial_config(base, source="base")

    @property
    def _population(self) -> PopulationRecord:
        return self.state.population

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
            elif self.is_closing_due:
                self._close()
            elif self._is_unanswered():
                self._call([])

    @property
    def will_go_on(self) -> bool:
        """Whether members train or will: a pilot that is idle now will be needed."""
        population = self._population
        to_come = population.planned and self._limits.num_allowed()
        return bool(population.match or population.open or to_come or self.state.unfinished())

    def submit(self, free_jobs: int) -> None:
        """Have a match played by an idle pilot or a free job, at most MAX_FAILURES times."""
        match, config = self._population.match, self._config
        if match is None or not match.waits or isinstance(config, ProgramConfig):
            return
        if match.failures >= MAX_FAILURES and not match.ended:
            self._recorder.record("bred", data=self._judge.unplayed(match, self._population))
            return
        if match.failures >= MAX_FAILURES:
            played = [job.name for job in self.state.jobs.values() if job.match == match.number]
            said = (OWN_ERROR.sub("", line) for line in self.last_words(played[-1])[-1:])
            words = "".join(f", and said: {line}" for line in said)
            message = (
                f"match {match.number} was lost {match.failures} times{words}; its jobs' logs are "
                f"in {self._folder.jobs}, and the same command tries again"
            )
            self._recorder.record("ended", data={"status": FAILED, "message": message})
            return
        before = self._population.archive
        champion = self.state.trials[before[-1]] if before else None
        seed = self._study.spec.seed
        plan = self._roster(match).plan(match, config, seed, champion)
        self._folder.match(match.number).plan.write(plan)
        if not self._pilots.give_match(match.number) and free_jobs > 0:
            self._jobs.submit_match(match.number)

    # Matches.

    def _is_due(self) -> bool:
        population, rules = self._population, self._options.generations
        if not population.open:
            return False
        unfinished = self.state.unfinished()
        if not isinstance(rules, Synchronous):
            # Children of the closing are judged together.
            return not population.untrained and all(trial.trains for trial in unfinished)
        if population.planned and self._limits.num_allowed():
            return False  # a member that waits for a free job is not late
        # Who was late for the match before is not waited for again.
        waited_for = [trial for trial in unfinished if trial.member not in population.late]
        return is_due(rules, population.open.values(), waited_for, self._clock())

    @property
    def is_closing_due(self) -> bool:
        """Whether a generation of the closing comes next: no member trains, or may, any more."""
        population = self._population
        if self._options.closing is None or population.is_closed or not population.matches:
            return False
        may_train = bool(self.state.unfinished()) or self._limits.allow_another()
        are_judged = not (population.match or population.open or population.untrained)
        return are_judged and not may_train and self._limits.allow_gpu_hours()

    def _close(self) -> None:
        """Plan a generation of the closing; it is over where one would have no children."""
        closing, population = self._options.closing, self._population
        assert closing is not None, "it is what closes"
        played = self._played(population.matches[len(population.matches)])
        # The last games may be gone or damaged by now.
        children = [] if played is None else self._judge.close(closing, played)
        number = population.closing + 1
        is_last = not children or number >= closing.generations
        planned = [asdict(origin) for origin in children]
        closed = {"number": number, "is_last": is_last, "children": planned}
        self._recorder.record("closing", data=closed)

    def _is_unanswered(self) -> bool:
        """Return whether all is over, but no opponent has trained against the champion yet.

        One more match has it done. No interval has ended, so it replaces no member; but it may name
        another champion, until one is named a second time.
        """
        if self._options.matches.best_response is None or self.will_go_on:
            return False
        if not self._limits.allow_gpu_hours():
            return False  # no job would play it
        champions = [match.champion for match in self._population.matches.values()]
        return bool(champions) and champions[-1] not in champions[:-1]

    def _resting(self) -> list[int]:
        """Return the members for which the next match decides: ended, or idle in the closing."""
        busy = {trial.member for trial in self.state.unfinished()}
        busy |= {origin.member for origin in self._population.planned}
        return sorted(self._population.newest.keys() - busy)

    def _call(self, ended: list[int]) -> None:
        """Call a match of all that can play; new members where none can."""
        population = self._population
        if not population.finished:
            self._begin(ended)
            return
        members = {str(member): trial for member, trial in sorted(population.finished.items())}
        archive = [trial for trial in population.archive if trial not in members.values()]
        kept = archive[-self._options.matches.archive :] if self._options.matches.archive else []
        number = len(population.matches) + 1
        called = {"match": number, "members": members, "ended": ended, "archive": kept}
        self._recorder.record("match_called", data=called)

    def _decide(self, match: Match) -> None:
        played = self._played(match)
        if played is not None:
            # How the champion before fared against responses; nothing is decided by it.
            known = self._folder.match(match.number).answers.try_read()
            answers = [] if known is None else [asdict(answer) for answer in known.answers]
            decided = self._judge.decide(played) | {"answers": answers}
            self._recorder.record("bred", data=decided)

    def _played(self, match: Match) -> PlayedMatch | None:
        """Return the match with its games, None before they are there; programs play none."""
        roster = self._roster(match)
        if isinstance(self._config, ProgramConfig):
            return PlayedMatch(match, roster, None, self.state.trials, self._population)
        files = self._folder.match(match.number)
        try:
            games = files.read_games()
            if games is None or games.moves.shape != files.plan.required().shape:
                return None
        except (CorruptError, DiskError):
            return None
        return PlayedMatch(match, roster, games, self.state.trials, self._population)

    def _give_up_silent(self, match: Match) -> None:
        """Give up the job of a match of which nothing was heard for long; another one plays it."""
        job = self.state.live.get(match.job or "")
        if match.is_over or job is None or job.began_at is None or job.is_silent:
            return
        last_sign = self._folder.match(match.number).last_sign()
        if self._clock() - max(job.began_at, match.given_at, last_sign) >= BUSY_SECONDS:
            self._recorder.record("match_silent", job=job.name)

    def _roster(self, match: Match) -> MatchRoster:
        known, members = self.state.trials, sorted(match.members.items())
        return MatchRoster(
            members=tuple(known[trial] for _, trial in members),
            archive=tuple(known[trial] for trial in match.archive),
            roles=learned_roles(self._config),
            matches=self._options.matches,
        )

    def _begin(self, members: Iterable[int]) -> None:
        planned = (self._judge.initial_trial(member, self._population) for member in members)
        children = [asdict(origin) for origin in planned]
        self._recorder.record("bred", data={"match": None, "children": children})


def is_due(
    rules: Synchronous, ended: Collection[Ended], waited_for: Collection[Trial], now: float
) -> bool:
    """Return whether those who have ended their interval should be judged without the others.

    The others, ``waited_for``, are given up when all of them are late. One that trains is late if
    it has trained for so many minutes more than the quorum took. One that does not is late when so
    many minutes have passed since the quorum was there, and it was asked for: a wait for a machine
    is no training, but a job that never begins must not hold up a generation either.
    """
    if not waited_for:
        return True
    quorum = ceil(rules.quorum * (len(waited_for) + len(ended)) - ROUNDING)
    if len(ended) < quorum:
        return False
    more = rules.minutes * 60
    took = sorted(ending.seconds for ending in ended)[quorum - 1]
    quorum_at = sorted(ending.at for ending in ended)[quorum - 1]
    return all(
        now - max(quorum_at, trial.asked_at) >= more
        if trial.began_at is None
        else trial.seconds_trained(now) >= took + more
        for trial in waited_for
    )

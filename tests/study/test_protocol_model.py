"""Two drivers of one study that are suspended, overtaken and killed anywhere: lease, announcement,
submission, told values and fences, as a state machine.

Hypothesis chooses what happens next: a driver begins, does a little, stands still while time passes
and its lease with it, or dies; a job ends an attempt, crashes, or goes on unseen. After each step
the invariants are read with plain SQL and from files. docs/protocol holds the same as TLA+.
"""

import json
import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from drives import STATES, Clock, new_study, stored_trials
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    INVARIANT_MARKER,
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from puppets import (
    HALF_LEASE,
    PATIENCE_SECONDS,
    PLACES,
    Cluster,
    Puppet,
    World,
    drive_to_the_end,
    strings,
)
from sqlalchemy import update
from tried import tried

from hpsearch.cluster.study_dir import StudyDir
from hpsearch.study import events as events_module
from hpsearch.study.database import Database, LeaseRow
from hpsearch.study.events import Lease, Leases
from hpsearch.study.jobs import Jobs
from hpsearch.study.recorder import LEASE_SECONDS, EventRecorder
from hpsearch.study.spec import Study
from hpsearch.study.storage import open_storage

NUM_TRIALS, NUM_JOBS, MAX_DRIVERS = 3, 2, 2
MAX_POINTS = 60
"""that a driver passes on its way to a place"""
PICK = st.integers(0, 9)


class Template:
    """A database with all tables and no study, and a study file: made once, then copied."""

    folder: Path | None = None

    @classmethod
    def copy_to(cls, folder: Path) -> Study:
        study = new_study(
            folder,
            budget={"trials": NUM_TRIALS},
            sampler={"name": "random"},
            executor={"name": "local", "jobs": NUM_JOBS, "members_per_job": 2},
            max_failures=100,
        )
        if cls.folder is None:
            cls.folder = Path(tempfile.mkdtemp(prefix="protocol-"))
            database = Database.open(f"sqlite:///{cls.folder}/study.db")
            database.migrate()
            database.close()
            open_storage(database.url).close()
        shutil.copy(cls.folder / "study.db", folder / "study.db")
        return study


class Protocol(RuleBasedStateMachine):
    """At most two drivers, one cluster, one clock."""

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        study = Template.copy_to(folder)
        self.files = StudyDir(folder / "runs" / study.spec.name)
        self.world = World(study, Clock(), Cluster(folder=self.files))
        self._stack.enter_context(strings(self.world))
        self._puppets: list[Puppet] = []
        self._attempt_in_control: dict[int, int] = {}

    @property
    def drivers(self) -> list[Puppet]:
        """Those that live, the older one first."""
        return [puppet for puppet in self._puppets if not puppet.is_over]

    # What happens.

    @precondition(lambda self: len(self.drivers) < MAX_DRIVERS)
    @rule(place=st.sampled_from(PLACES))
    def start(self, place: str) -> None:
        """Begin another driver, which perhaps finds that the lease is taken."""
        self._puppets.append(Puppet(self.world, f"host-{len(self._puppets)}"))
        self.drive(len(self.drivers) - 1, place, 1)

    @precondition(lambda self: len(self.drivers) == 1)
    @rule(place=st.sampled_from(PLACES))
    def overtake(self, place: str) -> None:
        """Let the driver stand still until another one has its lease, and comes some way."""
        self.wait(LEASE_SECONDS)
        self.start(place)

    @precondition(lambda self: self.drivers)
    @rule(pick=PICK, place=st.sampled_from(PLACES), times=st.integers(1, 3))
    def drive(self, pick: int, place: str, times: int) -> None:
        """Let a driver go on until it stands at a place, the next time or a later one."""
        puppet = self._pick(pick)
        for _ in range(times):
            puppet.step()
            for _ in range(MAX_POINTS):
                if puppet.at != place:
                    puppet.step()

    @precondition(lambda self: self.drivers)
    @rule(pick=PICK, is_known=st.booleans())
    def kill(self, pick: int, is_known: bool) -> None:
        """Let a driver die; hosts that do not know of it must wait until its lease expires."""
        self._pick(pick).kill(is_known=is_known)

    def _pick(self, pick: int) -> Puppet:
        return self.drivers[pick % len(self.drivers)]

    @rule(seconds=st.sampled_from([1.0, PATIENCE_SECONDS, HALF_LEASE, LEASE_SECONDS]))
    def wait(self, seconds: float) -> None:
        """Let time pass; a driver that is about to write what it has checked does so first."""
        for puppet in self.drivers:
            while puppet.is_guarded and not puppet.is_over:
                if self.world.clock.now + seconds - puppet.since < HALF_LEASE:
                    break
                puppet.step()
        self.world.clock.now += seconds

    @precondition(lambda self: self.world.cluster.live or self.world.cluster.gone)
    @rule(pick=PICK)
    def work(self, pick: int) -> None:
        """Let a job end an attempt, seen or unseen."""
        names = sorted(self.world.cluster.live.keys() | self.world.cluster.gone.keys())
        self.world.cluster.work(names[pick % len(names)])

    @precondition(lambda self: self.world.cluster.live)
    @rule(pick=PICK, is_zombie=st.booleans())
    def crash(self, pick: int, is_zombie: bool) -> None:
        """Let a job end without a word, or vanish and go on."""
        names = sorted(self.world.cluster.live)
        self.world.cluster.end(names[pick % len(names)], is_zombie=is_zombie)

    # What must hold.

    @invariant()
    def nothing_was_seen_that_must_not_happen(self) -> None:
        """Above all: no event of a driver that has lost its lease is written."""
        assert not self.world.faults, self.world.faults

    @invariant()
    def at_most_one_lease_is_valid(self) -> None:
        now = self.world.clock.now
        leases = [puppet.lease for puppet in self.drivers if puppet.lease is not None]
        assert sum(lease.expires_at > now for lease in leases) <= 1, leases
        assert len({lease.token for lease in leases}) == len(leases), leases

    @invariant()
    def each_trial_is_told_at_most_once(self) -> None:
        told = Counter(trial for kind, trial, _, _ in self._events() if kind == "told")
        assert max(told.values(), default=0) <= 1, told

    @invariant()
    def a_told_value_is_the_newest_attempts(self) -> None:
        """And Optuna's tables say the same."""
        tokens: dict[int, str] = {}
        optuna = self._optuna_values()
        for kind, trial, _, data in self._events():
            if kind == "announced":
                tokens |= {trial["trial"]: trial["token"] for trial in data["trials"]}
            if kind == "told":
                assert optuna.get(trial) == (STATES[data["state"]].name, data["value"]), trial
            if kind == "told" and data["state"] == "finished":
                written = self.world.cluster.written.get((trial, tokens[trial]))
                assert written == data["value"], trial

    @invariant()
    def a_job_is_submitted_at_most_once_and_after_its_announcement(self) -> None:
        submitted = Counter(self.world.cluster.submitted)
        announced = Counter(job for kind, _, job, _ in self._events() if kind == "announced")
        assert max(submitted.values(), default=0) <= 1, submitted
        assert max(announced.values(), default=0) <= 1, announced
        assert submitted.keys() <= announced.keys()

    @invariant()
    def control_files_never_go_back_to_an_earlier_attempt(self) -> None:
        attempts = {
            trial["token"]: trial["attempt"]
            for kind, _, _, data in self._events()
            if kind == "announced"
            for trial in data["trials"]
        }
        for number in range(NUM_TRIALS):
            control = self.files.trial(number).control.read()
            if control is not None:
                assert control.token in attempts, "written before it was announced"
                attempt = attempts[control.token]
                assert attempt >= self._attempt_in_control.get(number, 0), number
                self._attempt_in_control[number] = attempt

    @invariant()
    def the_budget_holds(self) -> None:
        asked = [trial for kind, trial, _, _ in self._events() if kind == "asked"]
        assert asked == list(range(len(asked)))
        assert len(asked) <= NUM_TRIALS
        assert len(self._optuna_values()) <= NUM_TRIALS
        live: set[str] = set()
        for kind, _, job, _ in self._events():
            live = live | {job} if kind == "announced" else live
            live = live - {job} if kind == "job_ended" else live
            assert len(live) <= NUM_JOBS

    def teardown(self) -> None:
        """A driver that comes when all others are gone ends the study: nothing was lost."""
        try:
            for puppet in self.drivers:
                puppet.kill(is_known=False)
            if not self.world.faults:
                self._end()
        finally:
            self._stack.close()

    def _end(self) -> None:
        self.world.clock.now += LEASE_SECONDS
        drive_to_the_end(self.world)
        for check in (
            self.nothing_was_seen_that_must_not_happen,
            self.a_told_value_is_the_newest_attempts,
            self.a_job_is_submitted_at_most_once_and_after_its_announcement,
            self.control_files_never_go_back_to_an_earlier_attempt,
            self.the_budget_holds,
        ):
            check()
        told = [trial for kind, trial, _, _ in self._events() if kind == "told"]
        assert sorted(told) == list(range(NUM_TRIALS))
        trials = stored_trials(self.world.study)
        assert len(trials) == NUM_TRIALS
        assert all(trial.state.is_finished() for trial in trials)

    def _events(self) -> list[tuple[str, int, str, dict[str, Any]]]:
        rows = self.world.query("SELECT kind, trial, job, data FROM hpsearch_events ORDER BY id")
        return [(*row[:3], json.loads(row[3])) for row in rows]

    def _optuna_values(self) -> dict[int, tuple[str, float | None]]:
        """Return state and value of Optuna's trials, as its tables hold them."""
        return {
            number: (state, value)
            for number, state, value in self.world.query(
                "SELECT t.number, t.state, v.value FROM trials t "
                "LEFT JOIN trial_values v ON v.trial_id = t.trial_id"
            )
        }


INVARIANTS = {name for name, value in vars(Protocol).items() if hasattr(value, INVARIANT_MARKER)}


def run(num_examples: int, num_steps: int, **options: Any) -> None:
    run_state_machine_as_test(
        Protocol,
        settings=settings(
            max_examples=num_examples,
            stateful_step_count=num_steps,
            deadline=None,
            database=None,
            print_blob=True,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
            **options,
        ),
    )


@pytest.mark.slow
def test_two_drivers_that_are_suspended_and_killed() -> None:
    run(num_examples=10, num_steps=30, phases=[Phase.generate])  # to shrink takes minutes


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("num_examples", tried([10, 30], slow=[10]))
def test_two_drivers_in_many_ways(num_examples: int) -> None:
    """Other choices every time; a failure prints what repeats it."""
    run(num_examples=num_examples, num_steps=60, derandomize=False)


# What it found.


def test_an_overtaken_driver_creates_no_trial() -> None:
    """It was suspended amid a suggestion, and would have created a trial beyond the budget."""
    machine = Protocol()
    try:
        machine.start("keep")
        machine.overtake("release")
        assert machine.drivers[0].at == "keep"
        machine.drive(0, "release", 1)
    finally:
        machine.teardown()


def test_what_optuna_was_told_stands() -> None:
    """A driver told that a trial had failed and died before it could record that; then the trial's
    job, which had been out of sight, wrote a result after all. TLC found this."""
    machine = Protocol()
    try:
        machine.start("look")
        driver = machine.drivers[0]
        for _ in range(20):
            if driver.at == "end":
                break
            for name in sorted(machine.world.cluster.live):
                machine.world.cluster.end(name, is_zombie=True)
            machine.drive(0, "end", 1)
        assert driver.at == "end"
        machine.kill(0, is_known=True)
        for name in sorted(machine.world.cluster.gone):
            machine.world.cluster.work(name)
            machine.world.cluster.work(name)
    finally:
        machine.teardown()


# Whether it would find anything: faults that are planted.


def events_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(events_module, "check_lease", lambda session, lease: None)


def files_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EventRecorder, "keep_lease", lambda self: None)
    patch.setattr(EventRecorder, "renew_lease", lambda self: None)


def trials_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EventRecorder, "check_lease", lambda self, session: None)


def a_lease_is_taken_before_it_expires(patch: pytest.MonkeyPatch) -> None:
    acquire = Leases.acquire

    def acquired(leases: Leases, study_id: int, **options: Any) -> Lease:
        held = leases.current(study_id)
        if held is not None:
            leases.release(held)
        return acquire(leases, study_id, **options)

    patch.setattr(Leases, "acquire", acquired)


def every_lease_has_the_same_token(patch: pytest.MonkeyPatch) -> None:
    acquire = Leases.acquire

    def acquired(leases: Leases, study_id: int, **options: Any) -> Lease:
        lease = acquire(leases, study_id, **options)
        same = update(LeaseRow).values(token=1)
        leases._database.transaction(lambda session: session.execute(same))
        return replace(lease, token=1)

    patch.setattr(Leases, "acquire", acquired)


def what_is_not_confirmed_is_submitted_again(patch: pytest.MonkeyPatch) -> None:
    follow = Jobs.follow

    def followed(jobs: Jobs, seen: Any) -> None:
        open_ones = [job.name for job in jobs.state.live_jobs() if job.id is None]
        for name in open_ones:
            if (jobs._folder.job(name).root / "job.json").exists():
                jobs._executor.submit([jobs._folder.job(name)])
        follow(jobs, seen)

    patch.setattr(Jobs, "follow", followed)


@pytest.mark.exhaustive  # each takes minutes
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "fault",
    [
        events_are_not_fenced,
        files_are_not_fenced,
        trials_are_not_fenced,
        a_lease_is_taken_before_it_expires,
        every_lease_has_the_same_token,
        what_is_not_confirmed_is_submitted_again,
    ],
)
def test_a_planted_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fault(patch)
        with pytest.raises(AssertionError) as caught:
            run(num_examples=400, num_steps=40, phases=[Phase.generate])
    names = {frame.name for frame in traceback.extract_tb(caught.value.__traceback__)}
    assert names & INVARIANTS, names

"""An executor without processes: jobs write what the real worker writes, a round at each look.

`tests/contract/test_executors.py` holds it against the real one.
"""

import hashlib
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from virtual_job import Teaching, resumed_steps, simulated_games

from hpsearch.cluster.executor import JobStatus
from hpsearch.cluster.failures import NAN
from hpsearch.cluster.job_trials import TrialQueue
from hpsearch.cluster.member import (
    Member,
    steps_until_next,
    steps_until_together,
)
from hpsearch.cluster.records import (
    DonatedCheckpoint,
    Exploit,
    JobHeartbeat,
    JobPlan,
    MemberHeartbeat,
    Start,
)
from hpsearch.cluster.study_dir import JobDir
from hpsearch.schema import to_plain, value_at
from hpsearch.trainers.checkpoint_name import MANIFEST, STATE, manifest_sha256, name_of
from hpsearch.trainers.config import TrainerConfig, shape_key
from hpsearch.trainers.evaluation import Evaluation
from hpsearch.trainers.metrics import metric_names
from hpsearch.trainers.rho import Rho

TENSORS = "tensors.safetensors"
Curve = Callable[[TrainerConfig, int], float]
"""what a trial measures at a step"""


def smooth_curve(config: TrainerConfig, step: int) -> float:
    """Return a value that grows with the steps, best at lr = 0.001 and gamma = 0.9."""
    host: Any = config.host
    far = abs(host.optim.args.lr - 1e-3) * 100 + abs(host.gamma - 0.9)
    return round(step / config.steps / (1 + far), 6)


@dataclass(frozen=True)
class Fault:
    """What goes wrong with an attempt once it has reached a step."""

    kind: str
    """vanish, zombie, nan, error, half (a result cut off) or wrong (a result of another form)"""
    step: int = 0


@dataclass
class FakeJob:
    """A job as its executor sees it; `left` is what would still train."""

    job: JobDir
    plan: JobPlan
    queue: TrialQueue[Member]
    left: list[Member] = field(default_factory=list)
    step: dict[int, int] = field(default_factory=dict)
    began: bool = False
    lives: bool = True
    interrupted: bool = False
    rows: int = 0
    """trials that train at once at most"""
    zombies: list[Member] = field(default_factory=list)
    """attempts whose node is out of sight; they write their results when others have begun"""


class FakeExecutor:
    """Jobs that train without learning; each look lets every job do one round.

    Attributes:
        submitted: names of the jobs that were started, in their order.
        looks: what `look` was asked, by the names of the jobs.
        most_alive: jobs that lived at once at most.
    """

    patience = 0.0
    num_calls = 0

    def __init__(
        self,
        curve: Curve = smooth_curve,
        *,
        faults: Mapping[tuple[int, int], Fault] | None = None,
        rounds_per_look: int = 1,
        twice: bool = False,
        max_batch: int = 1,
        num_threads: int = 1,
        gpus_per_job: float = 0.0,
        pilot_seconds: float = 0.0,
        teaching: Teaching = lambda config, first: 0.0,
        lost_matches: Collection[int] = (),
        max_jobs: int | None = None,
    ) -> None:
        """``faults`` are by trial and attempt; ``twice`` adds each line of a curve twice.

        ``teaching`` decides matches; of their jobs, those in ``lost_matches``, from 1, play none.
        """
        self._teaching = teaching
        self._lost_matches = lost_matches
        self.matches_begun = 0
        self.max_batch = max_batch
        self.num_threads, self.ranks = num_threads, 1
        self.gpus_per_job = gpus_per_job
        self.max_jobs = max_jobs
        self.pilot_seconds = pilot_seconds
        self._curve = curve
        self._faults = dict(faults or {})
        self._rounds_per_look = rounds_per_look
        self._twice = twice
        self._jobs: dict[str, FakeJob] = {}
        self.submitted: list[str] = []
        self.looks: list[tuple[str, ...]] = []
        self.most_alive = 0

    def submit(self, jobs: Sequence[JobDir]) -> dict[str, str]:
        """Start the jobs; their first round comes with the next look."""
        for job in jobs:
            plan = job.plan.required()
            self._jobs[f"fake-{job.name}"] = FakeJob(job, plan, TrialQueue(job, plan, Member.open))
            self.submitted.append(job.name)
        self.most_alive = max(self.most_alive, len(self.live()))
        return {job.name: f"fake-{job.name}" for job in jobs}

    def look(self, jobs: Sequence[tuple[JobDir, str | None]]) -> dict[str, JobStatus]:
        """Let the jobs do some rounds and return how they are."""
        self.looks.append(tuple(job.name for job, _ in jobs))
        for _ in range(self._rounds_per_look):
            self.advance()
        names = [job.name for job, _ in jobs if f"fake-{job.name}" in self._jobs]
        return {name: self._status(f"fake-{name}") for name in names}

    def cancel_strays(self) -> None:
        """Do nothing: there are none."""

    def interrupt(self, jobs: Sequence[tuple[JobDir, str]]) -> None:
        """Let the jobs leave at their next round."""
        for _, job_id in jobs:
            if self._lives(job_id):
                self._jobs[job_id].interrupted = True

    def cancel(self, jobs: Sequence[tuple[JobDir, str]]) -> None:
        """End the jobs at once."""
        for _, job_id in jobs:
            if self._lives(job_id):
                self._jobs[job_id].lives = False
                self._jobs[job_id].left.clear()

    def log(self, job: JobDir, job_id: str) -> Path:
        """Return a file that tests may write."""
        return job.root / "fake.log"

    def _status(self, job_id: str) -> JobStatus:
        return JobStatus(job_id, "running" if self._lives(job_id) else "ended")

    def live(self) -> list[str]:
        """Return the names of the jobs that live."""
        return [known.job.name for known in self._jobs.values() if known.lives]

    def advance(self) -> None:
        """Let every living job do one round: up to the next evaluation, checkpoint or end."""
        for known in self._jobs.values():
            for member in list(known.zombies):
                self._come_back(known, member)
            if known.lives:
                self._round(known)
                known.lives = known.lives and (bool(known.left) or self._waits(known))

    def _lives(self, job_id: str) -> bool:
        return job_id in self._jobs and self._jobs[job_id].lives

    def _round(self, known: FakeJob) -> None:
        if not known.began:
            self._take(known)
            return
        if known.interrupted:
            self._leave(known)
            return
        if not known.left:
            self._take_more(known)
            return
        self._exchange(known)
        stride = self._stride(known)
        for member in known.left:
            known.step[member.assignment.trial] += stride
        self._obey(known)
        for member in known.left:
            self._evaluate(known, member)
        self._end_round(known)
        self._refill(known)

    def _play(self, known: FakeJob, number: int) -> None:
        self.matches_begun += 1
        if self.matches_begun in self._lost_matches:
            known.lives = False
            return
        match = known.job.study.match(number)
        match.write_games(simulated_games(known.job.study, match.plan.required(), self._teaching))

    def _refill(self, known: FakeJob) -> None:
        """Let others take the rows of those that have ended, where they are measured together."""
        if not known.plan.refills:
            return
        known.queue.look()
        while known.left and len(known.left) < known.rows:
            shape = shape_key(known.left[0].config)
            member = known.queue.take_one(
                shape, lambda other: self._steps_until_refill(known, other) == 0
            )
            if member is None:
                return
            self._begin(known, [member])

    def _steps_until_refill(self, known: FakeJob, member: Member) -> int:
        oldest = known.left[0]
        step, interval = known.step[oldest.assignment.trial], oldest.config.evaluation.interval
        return steps_until_together(step, _newest(member), interval)

    def _end_round(self, known: FakeJob) -> None:
        for write in (self._finish, self._fail):
            for member in list(known.left):
                if member in known.left:  # the fault of a neighbour takes the whole job with it
                    write(known, member)
        _beat(known)

    def _waits(self, known: FakeJob) -> bool:
        """Return whether a job without trials stays for more."""
        known.queue.look()
        queue = known.queue
        return not known.interrupted and (queue.matches or not queue.is_over)

    def _take_more(self, known: FakeJob) -> None:
        known.queue.look()
        match = known.queue.take_match()
        if match is not None:
            self._play(known, match)
            return
        self._take(known)

    def _take(self, known: FakeJob) -> None:
        is_first, waiting = not known.began, bool(known.queue.waiting)
        members = known.queue.take()
        # As the worker: one whose trials can all not be read, or were stopped, ends.
        known.lives = bool(members or known.queue.matches) or not (is_first or waiting)
        known.began, known.rows = True, max(len(members), known.rows if known.plan.refills else 0)
        self._begin(known, members)

    def _begin(self, known: FakeJob, members: list[Member]) -> None:
        known.left += members
        saved = [_saved(member) for member in members]
        steps = resumed_steps(members, saved, in_step=not known.plan.refills)
        for member, step in zip(members, steps, strict=True):
            first = member.lineage.first_step if step is None else step
            known.step[member.assignment.trial] = first
            if step is None and member.lineage.parents:
                _save(member, first)
            member.trial.forget_metrics_after(first)
            member.attempt.start.write(Start(first))
        self._end_round(known)

    def _stride(self, known: FakeJob) -> int:
        """Return the steps to the nearest one at which something is due for any member."""
        steps = [(known.step[member.assignment.trial], member.config) for member in known.left]
        strides = [
            due - step % due
            for step, config in steps
            for due in (config.evaluation.interval, config.checkpoint.interval, config.steps)
        ]
        strides += [
            member.island.steps
            - (known.step[member.assignment.trial] - member.lineage.first_step)
            % member.island.steps
            for member in known.left
            if member.island is not None
        ]
        if len(known.left) < known.rows:
            oldest, config = steps[0]
            firsts = map(_newest, known.queue.waiting_with(shape_key(config)))
            joining = steps_until_next(oldest, firsts, config.evaluation.interval)
            strides += [] if joining is None else [joining]
        return min(strides)

    def _exchange(self, known: FakeJob) -> None:
        """Where a local generation ends, let the last member become a copy of the first."""
        source, taken = known.left[0], known.left[-1]
        step, own = (known.step[member.assignment.trial] for member in (source, taken))
        age = step - source.lineage.first_step
        if source is taken or source.island is None or age % source.island.steps or not age:
            return
        if step >= source.config.steps:
            return
        _save(source, step)
        sha256 = manifest_sha256(_checkpoints(source) / name_of(step))
        assert sha256 is not None
        given, got = source.trial.read_exchanges(), taken.trial.read_exchanges()
        plain = to_plain(source.config)
        before = {path: value_at(plain, path) for path in source.island.parameters}
        if given.takeovers:
            before = given.takeovers[-1].params
        ranges = source.island.parameters
        after = {path: max(value * 0.5, ranges[path].low) for path, value in before.items()}
        changes = {path: (before[path], after[path]) for path in before}
        copied = Exploit(own, source.assignment.trial, step, sha256, changes, after)
        source.trial.exchanges.write(
            given.before(step).with_donation(DonatedCheckpoint(step, sha256))
        )
        taken.trial.exchanges.write(got.before(own).with_exploit(copied))

    def _obey(self, known: FakeJob) -> None:
        for member in list(known.left):
            if member.obey(known.step[member.assignment.trial]):
                known.left.remove(member)

    def _evaluate(self, known: FakeJob, member: Member) -> None:
        step = known.step[member.assignment.trial]
        if step % member.config.evaluation.interval == 0:
            for _ in range(2 if self._twice else 1):
                member.report(step, Evaluation(self._metrics(member, step), {}, {}))
        if step % member.config.checkpoint.interval == 0 or step == member.config.steps:
            _save(member, step)

    def _finish(self, known: FakeJob, member: Member) -> None:
        step = known.step[member.assignment.trial]
        if step >= member.config.steps and self._fault(member, step) is None:
            member.end("finished", step, metrics=_plain(self._metrics(member, step)))
            known.left.remove(member)

    def _leave(self, known: FakeJob) -> None:
        for member in known.left:
            _save(member, known.step[member.assignment.trial])
            member.end("interrupted", known.step[member.assignment.trial])
        known.left.clear()

    def _fault(self, member: Member, step: int) -> Fault | None:
        fault = self._faults.get((member.assignment.trial, member.assignment.attempt))
        return fault if fault is not None and step >= fault.step else None

    def _fail(self, known: FakeJob, member: Member) -> None:
        step = known.step[member.assignment.trial]
        fault = self._fault(member, step)
        match fault and fault.kind:
            case "nan":
                member.end("failed", step, kind=NAN, message="the weights became NaN")
                known.left.remove(member)
            case "error":
                for remaining in known.left:
                    remaining.fail(
                        RuntimeError("no such layer"), known.step[remaining.assignment.trial]
                    )
                known.left.clear()
            case "vanish" | "half" | "wrong" | "zombie":
                self._vanish(known, member, step, fault.kind if fault else "")

    def _vanish(self, known: FakeJob, member: Member, step: int, kind: str) -> None:
        path = member.attempt.root / "result.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "half":
            path.write_text('{"token": "' + member.assignment.token)
        elif kind == "wrong":
            path.write_text('{"status": "finished", "value": 7}')
        elif kind == "zombie":
            known.zombies = list(known.left)
        if step > 0:
            _beat(known)
        known.left.clear()
        known.lives = False

    def _come_back(self, known: FakeJob, member: Member) -> None:
        """Write the result of an attempt that was given up, once it has been fenced off."""
        control = member.trial.control.read()
        if control is None or control.token != member.assignment.token:
            metrics = {name: Rho(99.0, 99.0, 99.0, 0.0, 1) for name in _names(member)}
            member.end("finished", member.config.steps, metrics=_plain(metrics))
            known.zombies.remove(member)

    def _metrics(self, member: Member, step: int) -> dict[str, Rho]:
        value = self._curve(member.config, step)
        return {name: Rho(value, value - 0.01, value + 0.01, 0.0, 20) for name in _names(member)}


def _plain(metrics: Mapping[str, Rho]) -> dict[str, dict[str, float]]:
    return {name: asdict(rho) for name, rho in metrics.items()}


def plain_metrics(value: float) -> dict[str, float]:
    """Return what the fake measures, as it stands in a file."""
    return asdict(Rho(value, value - 0.01, value + 0.01, 0.0, 20))


def _names(member: Member) -> tuple[str, ...]:
    return tuple(metric_names(member.config.measured_against()))


def _beat(known: FakeJob) -> None:
    members = [
        MemberHeartbeat.at(
            member.assignment, known.step[member.assignment.trial], _newest(member), None
        )
        for member in known.left
    ]
    if members:
        beat = JobHeartbeat(time.time(), "fake", 1, False, 1.0, tuple(members))
        known.job.heartbeat.replace(beat)


def _checkpoints(member: Member) -> Path:
    return member.trial.checkpoints


def _save(member: Member, step: int) -> None:
    folder = _checkpoints(member) / name_of(step)
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        "step": step,
        "config": to_plain(member.config),
        "parents": _parents(member, step),
        "kind": "periodic",
    }
    (folder / STATE).write_text(json.dumps(state))
    (folder / TENSORS).write_text(f"trial {member.assignment.trial} at {step}")
    sums = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in (TENSORS, STATE)
    }
    (folder / MANIFEST).write_text(json.dumps(sums))


def _parents(member: Member, step: int) -> list[str]:
    """Return what the checkpoint descends from, as a real one says it."""
    takeovers = member.trial.read_exchanges().before(step).takeovers
    if takeovers:
        return [takeovers[-1].sha256]
    return [manifest_sha256(path) or "" for path in member.parents]


def _saved(member: Member) -> list[int]:
    return [int(path.name.partition("-")[2]) for path in _checkpoints(member).glob("step-*")]


def _newest(member: Member) -> int:
    return max(_saved(member), default=member.lineage.first_step)

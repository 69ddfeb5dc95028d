"""How a study is opened: database, lease, Optuna study and folder, put together into a driver.

And what needs none: whether a driver would find nothing to do, and requests that are only recorded.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import optuna
from optuna.exceptions import ExperimentalWarning

from hpsearch.cluster.executor import Executor
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConflictError, HpsearchError
from hpsearch.files import write_json
from hpsearch.study import requests
from hpsearch.study.database import Database, StudyRecords, StudyRow
from hpsearch.study.driver import Driver
from hpsearch.study.events import Event, Lease, Leases
from hpsearch.study.memory import RareCollections
from hpsearch.study.recorder import LEASE_SECONDS, DriverContext, EventRecorder
from hpsearch.study.requests import Request, is_dead, own_name
from hpsearch.study.samplers import blind, build_pruner, build_sampler
from hpsearch.study.spec import Study, note_given_total
from hpsearch.study.state import BUSY, FAILED, FINISHED, PAUSED, RUNNING, STOPPED, STOPPING
from hpsearch.study.storage import MirroredStorage, open_storage
from hpsearch.study.stored_spec import command_note, spec_hash, spec_json
from hpsearch.study.trials import Trials
from hpsearch.study.url import storage_url
from hpsearch.study.view import StudyView, open_view, trial_line


def view_if_over(study: Study, folder: StudyDir) -> StudyView | None:
    """Return the view of a study in which a driver would find nothing to do; None of others.

    So no scheduler need be asked for it. A total of trials that was given for it is kept, as a
    driver would.
    """
    if not folder.spec.exists():
        return None
    try:
        view = open_view(study.spec.name, folder.root.parent)
    except HpsearchError:  # a driver says what is wrong, or mends it
        return None
    state, is_awaited = view.state, view.is_driven or bool(requests.waiting(folder))
    too_many = state.num_failures() > study.spec.max_failures
    is_over = state.status == FINISHED or (state.status == FAILED and too_many)
    is_same = view.study.path == study.path.absolute() and spec_json(view.study) == spec_json(study)
    if not (is_over and is_same) or is_awaited or state.live_jobs():
        return None
    note_given_total(study, folder)
    return view


@contextmanager
def open_driver(
    study: Study,
    runs: Path,
    executor: Executor,
    *,
    on_event: Callable[[Event], None],
    clock: Callable[[], float] = time.time,
) -> Iterator[Driver]:
    """Give a driver that holds the study, made if it is new; ConflictError if another holds it.

    ``on_event`` also hears, in a note, that programs are run by another command from now on. A
    study that is not whole must have begun: its stored text is kept, and its driver may only cancel
    it.
    """
    url = storage_url(study.spec.name, study.spec.storage)
    with (
        RareCollections() as collections,
        closing(Database.open(url)) as database,
        closing(open_storage(url)) as storage,
    ):
        row = (
            _register(study, runs, database, storage, clock())
            if study.is_whole
            else _registered(database, study)
        )
        lease = _acquire(Leases(database), row.id, clock())
        if study.is_whole:
            StudyRecords(database).set_spec(row.id, spec_json(study))
        line = partial(trial_line, study)
        recorder = EventRecorder(database, lease, clock, on_event, line)
        storage.write_behind(recorder.check_lease)
        with closing(recorder):
            if (note := command_note(row.spec, study)) is not None:
                recorder.note(note)
            folder = StudyDir((runs / study.spec.name).absolute())
            where = {"file": str(study.path.absolute()), "storage": study.spec.storage}
            write_json(folder.spec, {"name": study.spec.name, **where})
            note_given_total(study, folder)
            trials = Trials(study, _optuna_study(study, storage), storage)
            context = DriverContext(study, folder, trials, recorder, executor, clock)
            yield Driver(context, collections)


def record_request(study: Study, asked: Request, on_event: Callable[[Event], None]) -> None:
    """Pause or stop a study that has no driver and needs none for it; ConflictError if it has one.

    Its sampler, operators and executor may be of packages that are not here. A study in which
    nothing has begun is stopped at once; of another one a driver must finish what has begun.
    """
    with closing(Database.open(storage_url(study.spec.name, study.spec.storage))) as database:
        row = _registered(database, study)
        lease = _acquire(Leases(database), row.id, time.time())
        line = partial(trial_line, study)
        with closing(EventRecorder(database, lease, time.time, on_event, line)) as recorder:
            state = recorder.state
            if asked.id in state.requests or state.status not in (*BUSY, PAUSED):
                return  # a driver has heard it meanwhile, or ended the study
            recorder.record("requested", data={"id": asked.id, "verb": asked.verb, "trials": []})
            if state.status == STOPPING and not state.goes_on:
                recorder.record("ended", data={"status": STOPPED})


def _registered(database: Database, study: Study) -> StudyRow:
    """Return a study that has begun, as it stands in our tables."""
    database.migrate()
    row = StudyRecords(database).get(study.spec.name)
    assert row is not None, "the study was read from there"
    return row


def _register(
    study: Study, runs: Path, database: Database, storage: MirroredStorage, now: float
) -> StudyRow:
    """Return the study as it stands in our tables, where it is entered if it is new."""
    database.migrate()
    records, name, folder = StudyRecords(database), study.spec.name, runs / study.spec.name
    if records.get(name) is None:
        if name in optuna.get_all_study_names(storage):
            raise ConflictError(
                f"the database holds an Optuna study {name!r} that hpsearch did not make; "
                "give the study another name"
            )
        if StudyDir(folder).trials.exists():  # new trials would go on from those
            raise ConflictError(
                f"{folder} holds the trials of a study that is not in this database; give "
                "storage the database that it was started with, or move the folder away"
            )
    spec, digest = spec_json(study), spec_hash(study)
    return records.create_or_get(name=name, spec=spec, spec_hash=digest, state=RUNNING, now=now)


def _acquire(leases: Leases, study_id: int, now: float) -> Lease:
    """Take the lease; a holder that is known to be dead need not be waited for."""
    held = leases.current(study_id)
    if held is not None and is_dead(held.holder):
        leases.release(held)
    return leases.acquire(study_id, holder=own_name(), now=now, ttl=LEASE_SECONDS)


def _optuna_study(study: Study, storage: MirroredStorage) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    spec, objectives = study.spec, study.spec.objectives
    sampler = spec.sampler if spec.population is None else blind(spec.sampler)
    opened = optuna.create_study(
        storage=storage,
        study_name=spec.name,
        directions=[objective.goal for objective in objectives],
        sampler=build_sampler(sampler, spec.seed, study.space),
        pruner=build_pruner(spec.pruner),
        load_if_exists=True,
    )
    with warnings.catch_warnings():
        # Experimental since Optuna 3.2; the dashboard shows the names.
        warnings.filterwarnings("ignore", ".*set_metric_names", ExperimentalWarning)
        opened.set_metric_names([objective.metric for objective in objectives])
    return opened

"""Opening a study: database, lease, Optuna study and folder, put together into a driver."""

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
from hpsearch.errors import ConflictError
from hpsearch.files import write_json
from hpsearch.study.database import Database, StudyRecords
from hpsearch.study.driver import Driver
from hpsearch.study.events import Event, Lease, Leases
from hpsearch.study.recorder import LEASE_SECONDS, DriverContext, EventRecorder
from hpsearch.study.requests import is_dead, note_given_total, own_name
from hpsearch.study.samplers import blind, build_pruner, build_sampler
from hpsearch.study.spec import Study, spec_hash, spec_json
from hpsearch.study.state import RUNNING
from hpsearch.study.storage import MirroredStorage, open_storage
from hpsearch.study.trial_list import trial_line
from hpsearch.study.trials import Trials
from hpsearch.study.url import storage_url


@contextmanager
def open_driver(
    study: Study,
    runs: Path,
    executor: Executor,
    *,
    on_event: Callable[[Event], None],
    clock: Callable[[], float] = time.time,
) -> Iterator[Driver]:
    """Give a driver that holds the study while the block runs; the study is made if it is new.

    A ConflictError if the name belongs to another study, or another driver holds it; a StorageError
    or DiskError if the database cannot be used, or a file cannot be written.
    """
    url = storage_url(study.spec.name, study.spec.storage)
    with closing(Database.open(url)) as database, closing(open_storage(url)) as storage:
        study_id = _register(study, runs, database, storage, clock())
        lease = _acquire(Leases(database), study_id, clock())
        StudyRecords(database).set_spec(study_id, spec_json(study))
        line = partial(trial_line, study)
        recorder = EventRecorder(database, lease, clock, on_event, line)
        storage.write_behind(recorder.check_lease)
        with closing(recorder):
            folder = _make_folder(study, runs)
            trials = Trials(study, _optuna_study(study, storage), storage)
            yield Driver(DriverContext(study, folder, trials, recorder, executor, clock))


def _register(
    study: Study, runs: Path, database: Database, storage: MirroredStorage, now: float
) -> int:
    """Return the study's id in our tables, where it is entered if it is new."""
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
    spec, spec_sum = spec_json(study), spec_hash(study)
    return records.create_or_get(
        name=name, spec=spec, spec_hash=spec_sum, state=RUNNING, now=now
    ).id


def _acquire(leases: Leases, study_id: int, now: float) -> Lease:
    """Take the lease; a holder that is known to be dead need not be waited for."""
    held = leases.current(study_id)
    if held is not None and is_dead(held.holder):
        leases.release(held)
    return leases.acquire(study_id, holder=own_name(), now=now, ttl=LEASE_SECONDS)


def _make_folder(study: Study, runs: Path) -> StudyDir:
    folder = StudyDir((runs / study.spec.name).absolute())
    where = {"file": str(study.path.absolute()), "storage": study.spec.storage}
    write_json(folder.spec, {"name": study.spec.name, **where})
    note_given_total(study, folder)
    return folder


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

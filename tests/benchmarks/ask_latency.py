"""Time one ask of a large study: our storage beside Optuna's own, in the same run.

    python tests/benchmarks/ask_latency.py [--postgresql] [--asks 3]

Question: how long does a driver wait for a trial when 2,000 trials are finished and 16,000 run?

Method: a study of ten parameters and ten values of each learning curve is written into a new
database row by row. Then each implementation asks in turn, with the sampler that a study file gets
by default, or with the one of Optuna that this is made of. An ask is what the driver does:
`study.ask()` and the suggestion of all parameters, the writes and what they read back included.
Before the first ask, each reads all trials once, which is not counted. Ours asks 500 times, as a
round of a large cluster does, for each ask of Optuna's own, and writes 200 trials together, which
counts for the last of them; so the mean includes its share of that, and of the fit, which the first
ask of a round makes. Then the other samplers ask, ours alone, gp in a study of fewer trials.
--postgresql starts a server of its own for a second database.

Each row appended to reports/benchmarks/ask_latency.csv says when and on what it was measured.
"""

import argparse
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path

import optuna
import sqlalchemy
from optuna.distributions import distribution_to_json
from optuna.samplers import BaseSampler, TPESampler
from optuna.storages import BaseStorage, get_storage
from optuna.study import Study, StudyDirection

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "benchmarks")]
from rows import append, commit, processor  # noqa: E402
from servers import start_postgresql  # noqa: E402

from hpsearch.parameters import (  # noqa: E402
    CategoricalParameter,
    FloatParameter,
    IntParameter,
)
from hpsearch.study.driver import ASKED_AT_ONCE  # noqa: E402
from hpsearch.study.options import (  # noqa: E402
    CMAESOptions,
    GPOptions,
    GridOptions,
    ListedOptions,
    QMCOptions,
    RandomOptions,
    Sampler,
    TPEOptions,
)
from hpsearch.study.samplers import build_sampler  # noqa: E402
from hpsearch.study.space import SearchSpace  # noqa: E402
from hpsearch.study.storage import open_storage  # noqa: E402

NAME = "large"
LARGE = 2_000, 16_000
"""trials finished and running"""
GP_TRIALS = 500, 16
"""the same for sampler gp, whose time grows with their cube: `hpsearch validate` warns of more"""
NUM_REPORTED = 10
OURS_PER_ASK = 500
ROWS_AT_ONCE = 5_000
CSV = TESTS.parent / "reports/benchmarks/ask_latency.csv"
SPACE = SearchSpace(
    {f"x{i}": FloatParameter(1e-3, 1.0, log=bool(i % 2)) for i in range(6)}
    | {f"n{i}": IntParameter(1, 64) for i in range(2)}
    | {f"c{i}": CategoricalParameter(("a", "b", "c")) for i in range(2)}
)
GRID = SearchSpace(
    {f"x{i}": FloatParameter(0.0, 1.0, step=0.25) for i in range(6)}
    | {name: own for name, own in SPACE.parameters.items() if not name.startswith("x")}
)
"""the same parameters, but with a finite number of values"""


def listed() -> ListedOptions:
    """Return a list of configurations of the space."""
    rng, parameters = random.Random(1), SPACE.parameters.items()
    stored = ({name: own.quantile(rng.random()) for name, own in parameters} for _ in range(1_000))
    return ListedOptions("listed", tuple(map(SPACE.decode, stored)))


OTHERS: tuple[tuple[Sampler, SearchSpace, int], ...] = (
    (RandomOptions("random"), SPACE, 500),
    (QMCOptions("qmc"), SPACE, 500),
    (GridOptions("grid"), GRID, 500),
    (listed(), SPACE, 500),
    (CMAESOptions("cmaes"), SPACE, 20),
)
"""the other samplers that a study may name, what they search, and how often each is asked"""


def main() -> None:
    """Measure on SQLite, and on PostgreSQL if asked to; append the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--postgresql", action="store_true", help="measure on PostgreSQL too")
    parser.add_argument("--asks", type=int, default=3, help="asks of Optuna's own storage")
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    kinds = ["sqlite", "postgresql"] if arguments.postgresql else ["sqlite"]
    for kind in kinds:
        with tempfile.TemporaryDirectory() as name, database(kind, Path(name)) as (url, version):
            fill(url, *LARGE)
            for implementation, seconds in measure(url, arguments.asks).items():
                report(row(version, "tpe", implementation, LARGE, seconds))
            for options, space, asks in OTHERS:
                seconds = ask_ours(url, options, space, asks)
                report(row(version, options.name, "hpsearch", LARGE, seconds))
        with tempfile.TemporaryDirectory() as name, database(kind, Path(name)) as (url, version):
            fill(url, *GP_TRIALS)
            seconds = ask_ours(url, GPOptions("gp"), SPACE, 1)
            report(row(version, "gp", "hpsearch", GP_TRIALS, seconds))


def report(measurement: dict[str, object]) -> None:
    """Append a row and print it."""
    append(CSV, [measurement])
    print(measurement, flush=True)


@contextmanager
def database(kind: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Give the URL of an empty database, of SQLite in a folder, and what it runs on."""
    if kind == "sqlite":
        version = sqlalchemy.create_engine("sqlite://").dialect.dbapi.sqlite_version
        yield f"sqlite:///{folder}/study.db", f"SQLite {version}"
        return
    server = start_postgresql()
    try:
        (version,) = server.execute("SHOW server_version")[0]
        yield server.url, f"PostgreSQL {str(version).split()[0]}"
    finally:
        server.close()


def fill(url: str, num_finished: int, num_running: int) -> None:
    """Write the trials row by row, because creating them one by one takes minutes."""
    storage = open_storage(url)
    study_id = storage.create_new_study([StudyDirection.MAXIMIZE], NAME)
    storage.close()
    engine = sqlalchemy.create_engine(url)
    tables = sqlalchemy.MetaData()
    tables.reflect(engine)
    with engine.begin() as connection:
        for name, rows in rows_of_trials(study_id, num_finished, num_running).items():
            for begin in range(0, len(rows), ROWS_AT_ONCE):
                insert = tables.tables[name].insert()
                connection.execute(insert, rows[begin : begin + ROWS_AT_ONCE])
        if engine.dialect.name == "postgresql":
            last = "SELECT setval('trials_trial_id_seq', (SELECT max(trial_id) FROM trials))"
            connection.exec_driver_sql(last)
            connection.exec_driver_sql("ANALYZE")
    engine.dispose()


def rows_of_trials(
    study_id: int, num_finished: int, num_running: int
) -> dict[str, list[dict[str, object]]]:
    """Return the rows of Optuna's tables, by table, in an order that the keys allow."""
    rng, now = random.Random(0), datetime.now()
    distributions = SPACE.distributions()
    texts = {
        name: distribution_to_json(distribution) for name, distribution in distributions.items()
    }
    rows: dict[str, list[dict[str, object]]] = {
        name: [] for name in ("trials", "trial_params", "trial_values", "trial_intermediate_values")
    }
    for number in range(num_finished + num_running):
        finished = number < num_finished
        key = {"trial_id": number + 1}
        state = {"state": "COMPLETE" if finished else "RUNNING", "datetime_start": now}
        rows["trials"].append(key | {"number": number, "study_id": study_id} | state)
        for name, distribution in distributions.items():
            value = distribution.to_internal_repr(SPACE.parameters[name].quantile(rng.random()))
            param = {"param_name": name, "param_value": value, "distribution_json": texts[name]}
            rows["trial_params"].append(key | param)
        if finished:
            value = {"objective": 0, "value": rng.random(), "value_type": "FINITE"}
            rows["trial_values"].append(key | value)
        for step in range(NUM_REPORTED):
            value = {"intermediate_value": rng.random(), "intermediate_value_type": "FINITE"}
            rows["trial_intermediate_values"].append(key | {"step": step} | value)
    return rows


def measure(url: str, asks: int) -> dict[str, list[float]]:
    """Return the seconds of each ask, by implementation; the two take turns."""
    seconds: dict[str, list[float]] = {"hpsearch": [], "optuna": []}
    for _ in range(asks):
        # Opened each time, because the other has written the same study since.
        seconds["hpsearch"] += ask_ours(url, TPEOptions(), SPACE, OURS_PER_ASK)
        seconds["optuna"] += ask_optunas(url)
        print({name: f"{statistics.mean(numbers):.4f}" for name, numbers in seconds.items()})
    return seconds


def ask_ours(url: str, options: Sampler, space: SearchSpace, asks: int) -> list[float]:
    """Return the seconds of each ask of a round, by a sampler of these options."""
    with closing(open_storage(url)) as storage:
        storage.write_behind()
        study = opened(storage, build_sampler(options, 1, space))
        study_id = storage.get_study_id_from_name(NAME)
        seconds = []
        for number in range(1, asks + 1):
            is_last = number % ASKED_AT_ONCE == 0 or number == asks
            write = partial(storage.keep, study_id) if is_last else lambda: None
            seconds.append(time_of_ask(study, space, write))
        return seconds


def ask_optunas(url: str) -> list[float]:
    """Return the seconds of one ask."""
    storage = get_storage(url)
    seconds = time_of_ask(opened(storage, optunas_sampler()), SPACE, lambda: None)
    storage.remove_session()
    return [seconds]


def optunas_sampler() -> BaseSampler:
    """Return Optuna's TPE with the options that ours has by default."""
    return TPESampler(multivariate=True, constant_liar=True, seed=1)


def opened(storage: BaseStorage, sampler: BaseSampler) -> Study:
    """Return the study, all trials of which the storage has read."""
    study = optuna.load_study(study_name=NAME, storage=storage, sampler=sampler)
    study.get_trials(deepcopy=False)
    return study


def time_of_ask(study: Study, space: SearchSpace, write: Callable[[], object]) -> float:
    """Return the seconds until a new trial has all its parameters and is written."""
    began = time.perf_counter()
    space.suggest(study.ask())
    write()
    return time.perf_counter() - began


def row(
    storage: str,
    sampler: str,
    implementation: str,
    trials: tuple[int, int],
    seconds: list[float],
) -> dict[str, object]:
    """Return a row of the table; ``trials`` are finished and running."""
    versions = f"optuna {optuna.__version__}, SQLAlchemy {sqlalchemy.__version__}"
    return {
        "date": datetime.now().date().isoformat(),
        "commit": commit(),
        "machine": f"{processor()}, Python {platform.python_version()}",
        "versions": versions,
        "storage": storage,
        "sampler": sampler,
        "implementation": implementation,
        "finished": trials[0],
        "running": trials[1],
        "asks": len(seconds),
        "mean_s": f"{statistics.mean(seconds):.4f}",
        "median_s": f"{statistics.median(seconds):.3f}",
        "max_s": f"{max(seconds):.3f}",
    }


if __name__ == "__main__":
    main()

"""One ask of a large study, by our storage and by Optuna's own; see ask_latency.py."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import ask_latency
import optuna
from measuring import Case, Contender
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage, get_storage
from optuna.study import Study
from setting import Setting

from hpsearch.study.options import TPEOptions
from hpsearch.study.samplers import build_sampler
from hpsearch.study.storage import open_storage


class Asker:
    """Asks a storage that has read all trials."""

    def __init__(self, open_it: Callable[[], BaseStorage], sampler: BaseSampler) -> None:
        """Take how the storage is opened, and what suggests."""
        self._open, self._sampler = open_it, sampler
        self._study: Study | None = None

    def read(self) -> None:
        """Open the storage anew, because the other one has written since."""
        self.close()
        self._study = ask_latency.opened(self._open(), self._sampler)

    def close(self) -> None:
        """Let go of the storage."""
        if self._study is not None:
            self._study._storage.remove_session()

    def ask(self) -> int:
        """Ask for a trial with all its parameters."""
        assert self._study is not None
        ask_latency.SPACE.suggest(self._study.ask())
        return 1


def ask(setting: Setting) -> Iterator[dict[str, object]]:
    """Measure asks of a study on SQLite."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    finished, running = setting.pick(full=(2_000, 16_000), quick=(5, 20))
    with (
        tempfile.TemporaryDirectory() as folder,
        ask_latency.database("sqlite", Path(folder)) as (url, version),
    ):
        ask_latency.fill(url, finished, running)
        sampler = build_sampler(TPEOptions(), 1, ask_latency.SPACE)
        theirs = Asker(lambda: get_storage(url), ask_latency.optunas_sampler())
        ours = Asker(lambda: open_storage(url), sampler)
        case = Case(
            name="ask",
            sizes=f"{finished} finished and {running} running trials, TPE, {version}",
            unit="ask",
            contenders={
                f"optuna {optuna.__version__}": Contender(theirs.ask, theirs.read, calls=1),
                "hpsearch": Contender(ours.ask, ours.read, calls=ask_latency.OURS_PER_ASK),
            },
            baselines=(f"optuna {optuna.__version__}",),
            goal="20 ms",
        )
        yield from setting.time([case])
        theirs.close()
        ours.close()

"""One ask of a large study, by our storage and by Optuna's own; see ask_latency.py."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
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

    def __init__(
        self,
        open_it: Callable[[], AbstractContextManager[BaseStorage]],
        sampler: BaseSampler,
        asks: int,
    ) -> None:
        """Take how the storage is opened, what suggests, and how many asks are a run."""
        self._open, self._sampler, self._asks = open_it, sampler, asks
        self._opened = ExitStack()
        self._study: Study | None = None

    def read(self) -> None:
        """Open the storage anew, because the other one has written since."""
        self.close()
        storage = self._opened.enter_context(self._open())
        self._study = ask_latency.opened(storage, self._sampler)

    def close(self) -> None:
        """Let go of the storage."""
        self._opened.close()

    def ask(self) -> int:
        """Ask for trials with all their parameters."""
        assert self._study is not None
        for _ in range(self._asks):
            ask_latency.SPACE.suggest(self._study.ask())
        return self._asks


@contextmanager
def optunas_storage(url: str) -> Iterator[BaseStorage]:
    """Give the storage that Optuna opens by itself."""
    storage = get_storage(url)
    yield storage
    storage.remove_session()


def ask(setting: Setting) -> Iterator[dict[str, object]]:
    """Measure asks of a study on SQLite."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    finished, running, ours_a_run = setting.pick(
        full=(2_000, 16_000, ask_latency.OURS_PER_ASK), quick=(5, 20, 2)
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        ask_latency.database("sqlite", Path(folder)) as (url, version),
    ):
        ask_latency.fill(url, finished, running)
        sampler = build_sampler(TPEOptions(), 1, ask_latency.SPACE)
        theirs = Asker(lambda: optunas_storage(url), ask_latency.optunas_sampler(), 1)
        ours = Asker(lambda: closing(open_storage(url)), sampler, ours_a_run)
        case = Case(
            name="ask",
            sizes=f"{finished} finished and {running} running trials, TPE, {version}",
            unit="ask",
            contenders={
                f"optuna {optuna.__version__}": Contender(theirs.ask, theirs.read, calls=1),
                "hpsearch": Contender(ours.ask, ours.read, calls=1),
            },
            baselines=(f"optuna {optuna.__version__}",),
            same_work=False,
            goal="20 ms",
        )
        yield from setting.time([case])
        theirs.close()
        ours.close()

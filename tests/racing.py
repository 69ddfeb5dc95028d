"""Opens new databases as another process does at the same time; without torch, to start quickly."""

import multiprocessing
import threading

from hpsearch.study.database import Database
from hpsearch.study.storage import open_storage


def open_at_once(
    urls: list[str], barrier: threading.Barrier, outcomes: "multiprocessing.Queue[str]"
) -> None:
    for url in urls:
        barrier.wait(timeout=60)
        try:
            database = Database.open(url)
            open_storage(url).close()
            database.migrate()
            database.close()
            outcomes.put("done")
        except Exception as error:
            outcomes.put(repr(error))

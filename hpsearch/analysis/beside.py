"""Run a function in a second process, as Python code in one process uses one core."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def called_beside(
    function: Callable[..., T], *arguments: object, otherwise: Callable[[], T]
) -> Iterator[Callable[[], T]]:
    """Call a module's function in a second process while the block runs.

    That process needs some seconds to load what the function needs. Ctrl-C reaches this process
    alone, and the second one ends with the block. For the main thread, as signals are set.

    Args:
        function: found by its module and name in the second process.
        arguments: plain data.
        otherwise: called here where the second process ended without a result, for example when
            memory ran out.

    Yields:
        A function that waits for the result, and raises what the function raised.
    """
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, function, arguments), daemon=True)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # which a new process inherits
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, before)
    sender.close()

    @cache
    def result() -> T:
        try:
            value, error = receiver.recv()
        except (EOFError, OSError):
            return otherwise()
        if error is not None:
            raise error
        returned: T = value
        return returned

    try:
        yield result
    finally:
        process.terminate()
        process.join()
        receiver.close()


def _send(
    sender: Connection, function: Callable[..., object], arguments: tuple[object, ...]
) -> None:
    try:
        sender.send((function(*arguments), None))
    except Exception as error:
        sender.send((None, error))

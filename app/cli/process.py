"""How a command runs that goes on until it is told to stop."""

import asyncio
import gc
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

import uvloop

T = TypeVar("T")

_YOUNG: Final = 20_000
"""Objects that are made before the collector looks at the young ones. A request makes thousands; Python's own
700 has it look several times during each."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """What the work gives, on an event loop of its own."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def on_stop(stop: Callable[[], None]) -> None:
    """Calls `stop` at every SIGTERM and SIGINT from now on."""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)


def settle() -> None:
    """Keeps what stands since the start out of the garbage collector's sight: it never goes away."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, 20, 50)

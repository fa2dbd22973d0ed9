"""Arguments of nearly a megabyte, from the caller over the model to the approver and the tool, beside short ones."""

import statistics
from typing import Final

from bench.caller import Caller
from bench.growing.callers import decide, new_thread, seconds_of, start, timed
from bench.growing.table import Table, megabytes, milliseconds
from bench.postgres import Postgres
from bench.service import serving

_SIZES: Final = (1_000, 100_000, 1_000_000)
_SAMPLES: Final = 10
_WAITING: Final = 50


async def long_arguments(server: Postgres) -> list[Table]:
    """Latency by the size of what is shown to the approver, and memory with a page of such pauses."""
    url = await server.make("arguments")
    table = Table(
        title=f"Long arguments, p50 ms; the list is of {_WAITING} pauses",
        head=[
            "bytes",
            "start → pause",
            "GET the pause",
            "decide → end",
            "GET /pauses",
            "memory, MB",
        ],
    )
    for size in _SIZES:
        log = server.folder / f"arguments-{size}.log"
        async with (
            serving("arguments", url, "arguments", log=log) as service,
            Caller.connected(service.port) as caller,
        ):
            row = [milliseconds(each) for each in await _latencies(caller, "x" * size)]
            memory = megabytes(service.process.memory_info().rss)
            table.rows.append([f"{size:,}", *row, memory])
    return [table]


async def _latencies(caller: Caller, text: str) -> list[float]:
    starting: list[float] = []
    showing: list[float] = []
    deciding: list[float] = []
    for _ in range(_SAMPLES):
        thread_id = await new_thread(caller)
        paused, took = await timed(start(caller, thread_id, "errands", text))
        starting.append(took)
        showing.append(await seconds_of(caller.get(f"/pauses/{paused.pause_id}", status=200)))
        deciding.append(await seconds_of(decide(caller, paused)))
    waiting = [
        await start(caller, await new_thread(caller), "errands", text) for _ in range(_WAITING)
    ]
    page = "/pauses?status=open&limit=50"
    listing = [await seconds_of(caller.get(page, status=200)) for _ in range(3)]
    for paused in waiting:
        await decide(caller, paused)
    return [statistics.median(each) for each in (starting, showing, deciding, listing)]

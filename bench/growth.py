"""Measures what grows: paused runs, a thread, a run, arguments, branches, streams; large beside small, in one run.

    python -m bench.growth [--only paused,threads,arguments,branches,streams] [--runs 100000]

Everything is made through the service, over HTTP. Where times are compared they were taken in turn, so that what
else the machine does falls on both alike; processor times are of the service and of its part of Postgres. A hundred
thousand paused runs take about ten minutes to make on two cores that are free.
"""

import argparse
import os
import platform
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import uvloop

from bench.growing.arguments import long_arguments
from bench.growing.branches import many_branches
from bench.growing.paused import paused_runs
from bench.growing.streams import idle_streams
from bench.growing.table import Table
from bench.growing.thread import long_threads
from bench.postgres import Postgres, temporary_postgres

_Section: TypeAlias = Callable[[Postgres], Awaitable[list[Table]]]
_SECTIONS: Final = ("threads", "arguments", "branches", "streams", "paused")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Which sections, and how many paused runs."""

    only: Sequence[str]
    runs: int

    @classmethod
    def read(cls) -> "Options":
        parser = argparse.ArgumentParser(prog="python -m bench.growth")
        parser.add_argument("--only", default=",".join(_SECTIONS), help="which, with commas")
        parser.add_argument("--runs", type=int, default=100_000, help="paused ones")
        given = parser.parse_args()
        only = given.only.split(",")
        if unknown := set(only) - set(_SECTIONS):
            parser.error(f"there is no section {', '.join(sorted(unknown))}")
        return cls(only=only, runs=given.runs)


async def main(options: Options) -> None:
    """Measures, and prints each section as it is done."""
    sections: Mapping[str, _Section] = {
        "threads": long_threads,
        "arguments": long_arguments,
        "branches": many_branches,
        "streams": idle_streams,
        "paused": lambda server: paused_runs(server, options.runs),
    }
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(
        f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, {os.cpu_count()} cores, load {load}"
    )
    for name in options.only:
        async with temporary_postgres() as server:
            for table in await sections[name](server):
                print(f"\n{table.written()}", flush=True)


if __name__ == "__main__":
    uvloop.run(main(Options.read()))

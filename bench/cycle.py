"""Measures a cycle (make a thread, run to its pause, resume to its end) beside the floors, in one run.

    python -m bench.cycle [--rounds 5] [--clients 1,8,32] [--cycles 96]

All share one embedded Postgres with its default durability, each in a database of its own. The rounds are
interleaved, so that what else the machine does falls on all alike; figures are medians of the rounds, and
ratios are taken within a round. This process is the client; a floor's client is the floor itself.
"""

import argparse
import os
import platform
import statistics
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psutil
import uvloop

from bench.floors import in_memory, on_postgres
from bench.measure import Round, StatementLog, Subject, Traffic, run_round
from bench.postgres import Postgres, temporary_postgres
from bench.receiver import Receiver
from bench.service import serving

_WARM_UP = 32  # cycles
_COUNTED = 20  # cycles whose statements are counted


@dataclass(frozen=True, kw_only=True)
class Options:
    """How much is measured."""

    rounds: int
    clients: Sequence[int]
    cycles: int

    @classmethod
    def read(cls) -> "Options":
        parser = argparse.ArgumentParser(prog="python -m bench.cycle")
        parser.add_argument("--rounds", type=int, default=5)
        parser.add_argument("--clients", default="1,8,32", help="how many at once, with commas")
        parser.add_argument("--cycles", type=int, default=96, help="in a round, all clients")
        given = parser.parse_args()
        clients = [int(each) for each in given.clients.split(",")]
        return cls(rounds=given.rounds, clients=clients, cycles=given.cycles)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A subject with so many clients: its rounds, in the order in which they were run."""

    subject: str
    clients: int
    rounds: list[Round]
    traffic: Traffic


async def main(options: Options) -> None:
    """Measures, and prints the tables."""
    async with temporary_postgres() as server, _subjects(server) as subjects:
        log = StatementLog(server.url, server.log)
        measured = await _measure(options, subjects, server.process, log)
    _print_head(options)
    _print_figures(measured)
    _print_ratios(measured)


@asynccontextmanager
async def _subjects(server: Postgres) -> AsyncGenerator[list[Subject]]:
    """All that are compared; the second is what the others are held against."""
    bare_url, quiet_url, telling_url = [
        await server.make(database) for database in ("bare", "quiet", "telling")
    ]
    async with (
        on_postgres(bare_url, "bare") as bare,
        Receiver.listening() as receiver,
        serving("Signoff", quiet_url, "quiet", log=server.folder / "quiet.log") as quiet,
        serving(
            "Signoff, webhooks",
            telling_url,
            "telling",
            log=server.folder / "telling.log",
            receiver=receiver,
        ) as telling,
    ):
        yield [in_memory(), bare, quiet, telling]


async def _measure(
    options: Options, subjects: Sequence[Subject], postgres: psutil.Process, log: StatementLog
) -> list[Measured]:
    traffic: dict[str, Traffic] = {}
    for subject in subjects:
        await run_round(subject, postgres, clients=max(options.clients), cycles=_WARM_UP)
        traffic[subject.name] = await log.traffic_of(subject, cycles=_COUNTED)
    measured = [
        Measured(subject=each.name, clients=clients, rounds=[], traffic=traffic[each.name])
        for clients in options.clients
        for each in subjects
    ]
    by_name = {each.name: each for each in subjects}
    for _ in range(options.rounds):
        for each in measured:
            subject = by_name[each.subject]
            each.rounds.append(
                await run_round(subject, postgres, clients=each.clients, cycles=options.cycles)
            )
    return measured


def _print_head(options: Options) -> None:
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load}; "
        f"medians of {options.rounds} rounds of {options.cycles} cycles\n"
    )


def _print_figures(measured: Sequence[Measured]) -> None:
    print(f"{'':42}{'pause ms':>14}{'resume ms':>14}{'CPU ms a cycle':>18}")
    print(
        f"{'':24}{'clients':>8}{'cycles/s':>10}{'p50':>7}{'p95':>7}{'p50':>7}{'p95':>7}"
        f"{'own':>9}{'Postgres':>9}{'statements':>12}{'commits':>9}"
    )
    for each in measured:
        pauses = [cycle.pause * 1000 for round_ in each.rounds for cycle in round_.cycles]
        resumes = [cycle.resume * 1000 for round_ in each.rounds for cycle in round_.cycles]
        print(
            f"{each.subject:24}{each.clients:8}{_median(each, _rate):10.0f}"
            f"{_part(pauses, 50):7.1f}{_part(pauses, 95):7.1f}"
            f"{_part(resumes, 50):7.1f}{_part(resumes, 95):7.1f}"
            f"{_median(each, _cpu) * 1000:9.1f}{_median(each, _postgres_cpu) * 1000:9.1f}"
            f"{each.traffic.statements:12.1f}{each.traffic.commits:9.1f}"
        )


def _print_ratios(measured: Sequence[Measured]) -> None:
    floor_name = measured[1].subject
    floors = {each.clients: each for each in measured if each.subject == floor_name}
    columns = {
        "cycles/s": _rate,
        "pause p50": _pause_p50,
        "resume p50": _resume_p50,
        "own CPU": _cpu,
        "all CPU": _all_cpu,
    }
    print(f"\ntimes “{floor_name}”".ljust(25) + f"{'clients':>8}", end="")
    print("".join(f"{name:>12}" for name in columns) + f"{'statements':>12}")
    for each in measured:
        floor = floors[each.clients]
        ratios = [_ratio(each, floor, figure) for figure in columns.values()]
        ratios.append(each.traffic.statements / floor.traffic.statements)
        print(f"{each.subject:24}{each.clients:8}" + "".join(f"{ratio:12.2f}" for ratio in ratios))


_Figure = Callable[[Round], float]


def _ratio(each: Measured, floor: Measured, figure: _Figure) -> float:
    """The median of the rounds' own ratios."""
    pairs = zip(each.rounds, floor.rounds, strict=True)
    return statistics.median(figure(mine) / figure(other) for mine, other in pairs)


def _median(each: Measured, figure: _Figure) -> float:
    return statistics.median(figure(round_) for round_ in each.rounds)


def _part(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def _rate(round_: Round) -> float:
    return round_.rate


def _cpu(round_: Round) -> float:
    return round_.cpu


def _postgres_cpu(round_: Round) -> float:
    return round_.postgres_cpu


def _all_cpu(round_: Round) -> float:
    return round_.cpu + round_.postgres_cpu


def _pause_p50(round_: Round) -> float:
    return statistics.median(cycle.pause for cycle in round_.cycles)


def _resume_p50(round_: Round) -> float:
    return statistics.median(cycle.resume for cycle in round_.cycles)


if __name__ == "__main__":
    uvloop.run(main(Options.read()))

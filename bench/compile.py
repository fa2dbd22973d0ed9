"""Measures what a long workflow costs before it runs: building, compiling and memory, by its number of steps.

python -m bench.compile [--steps 1,50,200]
"""

import argparse
import statistics
import time
import tracemalloc
from collections.abc import Callable

from app.authoring import Confirm, Step, StepContext, Workflow
from app.channels import InboxChannel
from app.engine.program import Program

_ROUNDS = 5
_EDITORS = InboxChannel("editors")


async def work(context: StepContext, value: str) -> str:
    return value


def workflow(steps: int) -> Workflow:
    """A workflow of so many function steps; every tenth asks before it begins."""
    return Workflow(
        "long",
        version="1.0.0",
        input=str,
        steps=[
            Step(f"step {at}", work, before=() if at % 10 else Confirm("Go on?", channel=_EDITORS))
            for at in range(steps)
        ],
        channels=[_EDITORS],
    )


def _milliseconds(run: Callable[[], object]) -> float:
    took: list[float] = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        run()
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


def _kilobytes(make: Callable[[], object]) -> float:
    tracemalloc.start()
    kept = make()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return size / 1024


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.compile")
    parser.add_argument("--steps", default="1,50,200", help="how many, with commas")
    print("steps   build ms   compile ms   compiled kB")
    for steps in (int(each) for each in parser.parse_args().steps.split(",")):
        built = workflow(steps)
        build, compile_ = (
            _milliseconds(lambda n=steps: workflow(n)),
            _milliseconds(lambda w=built: Program(w)),
        )
        print(
            f"{steps:5}   {build:8.1f}   {compile_:10.1f}   {_kilobytes(lambda w=built: Program(w)):11.0f}"
        )


if __name__ == "__main__":
    main()

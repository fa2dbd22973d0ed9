"""The outputs of earlier steps by name: the same ones whenever and by whichever process they are read."""

import pytest

from app.authoring import Confirm, Loop, Parallel, Step, StepContext, Steps
from app.authoring.shape import adapter_of
from app.domain.json import Json
from app.engine.outputs import Outputs
from tests.engine_runs import approvers, run
from tests.step_trees import Ran, gathers, line_of, mark

PATHS = [
    "w/x",
    "w/x/x",
    "w/fork",
    "w/fork/a",
    "w/fork/a/x",
    "w/fork/b",
    "w/fork/b/x",
    "w/fork/a/y",
    "w/loop/x",
]


def seen(given: dict[str, Json], reader: str, *branches: str) -> dict[str, Json]:
    types = {path: adapter_of(str) for path in PATHS}
    return dict(Outputs(given, types, reader=reader, branches=branches))


@pytest.mark.parametrize("turned", [False, True])
def test_a_name_stands_for_the_closest_whatever_was_stored_first(turned: bool) -> None:
    rows: list[tuple[str, Json]] = [
        ("w/x", "outermost"),
        ("w/x/x", "inner"),
        ("w/fork/a/x", "in a"),
        ("w/fork/b/x", "in b"),
    ]
    given = dict(reversed(rows) if turned else rows)
    assert seen(given, "w/last")["x"] == "outermost"
    assert seen(given, "w/x/last")["x"] == "inner"
    assert seen(given, "w/fork/a/last", "w/fork/a")["x"] == "in a"
    assert seen(given, "w/fork/last")["x"] == "in b", "the last in the workflow"


def test_the_last_iteration_counts_and_within_a_loop_its_own() -> None:
    given: dict[str, Json] = {f"w/loop[{n}]/x": f"{n}" for n in (10, 9, 2)}
    assert seen(given, "w/last")["x"] == "10"
    assert seen(given, "w/loop[2]/y")["x"] == "2"
    assert seen(given, "w/loop[11]/y")["x"] == "10"


def test_what_sibling_branches_give_is_not_there_and_what_earlier_forks_gave_is() -> None:
    given: dict[str, Json] = {
        "w/fork~1/b": "now",
        "w/fork~1/b/x": "now",
        "w/fork~1/a[0]/y": "own",
        "w/fork/b/x": "in the attempt before",
    }
    assert seen(given, "w/fork~1/a[1]/y", "w/fork~1/a") == {
        "y": "own",
        "x": "in the attempt before",
    }
    assert set(seen(given, "w/last")) == {"b", "x", "y"}


async def test_outputs_are_the_same_after_a_restart() -> None:
    ran: Ran = []
    read: list[dict[str, str]] = []

    def look(context: StepContext, text: str) -> str:
        read.append({name: context.outputs[name] for name in sorted(context.outputs)})
        return text

    gate = Confirm("Go on?", channel=approvers)
    branches = [Steps(name, [mark("same", ran), mark(f"{name}1", ran)]) for name in "ab"]
    steps = [
        Loop("loop", steps=[mark("again", ran)], max_iterations=2),
        Parallel("fork", list(branches)),
        gathers(ran, "joined"),
        Step("look", look),
        Step("look again", look, before=gate),
    ]
    paused = await run(line_of(*steps))
    await paused.restarted().approve()
    first, second = read
    assert second.pop("look") == first["joined"]
    assert second == first

"""What is said of a workflow that is a graph before it runs."""

from datetime import timedelta
from typing import TypedDict

from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from rich.console import Console

from app.authoring import Approval, Workflow
from app.channels import InboxChannel
from app.cli.outline import outline

desk = InboxChannel("desk")


class Letter(TypedDict):
    text: str


def ask(state: Letter) -> Letter:
    return {"text": interrupt(state["text"])}


graph = StateGraph(Letter).add_node("ask", ask).add_edge(START, "ask").compile()
letters = Workflow.from_graph(
    "letters",
    graph,
    version="1",
    channels=[desk],
    asks=Approval(
        "Look at it", expires_after=timedelta(hours=8), approvers=["group:clerks"], quorum=2
    ),
)


def test_a_graph_is_described_with_the_terms_of_what_it_asks() -> None:
    described = letters.description()
    (asked,) = described["steps"][0]["asks"]
    assert (asked["channel"], asked["approvers"], asked["quorum"]) == ("desk", ["group:clerks"], 2)
    assert (asked["expires_after_seconds"], asked["message"]) == (8 * 3600, "Look at it")
    (stop,) = described["stops"]
    assert stop == {"path": "letters/graph", "level": "executor", "tool": None, **asked}


def test_an_outline_says_that_a_graph_stops_where_it_interrupts_and_under_which_terms() -> None:
    screen = Console(width=160)
    with screen.capture() as captured:
        screen.print(outline(letters.description()))
    lines = [" ".join(line.strip("│├└─ ").split()) for line in captured.get().splitlines()]
    assert (
        "stops where the graph interrupts → desk · “Look at it” · 2 have to agree · "
        "by group:clerks · within 8 h, else reject"
    ) in lines
    assert "letters/graph where the graph interrupts → desk" in lines
    assert not any("nowhere" in line for line in lines)

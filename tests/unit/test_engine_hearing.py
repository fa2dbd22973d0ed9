"""What those hear who listen to an agent's model: its text while it is written, and no secret."""

from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from app.authoring import (
    Agent,
    Guards,
    Parallel,
    Reply,
    ScriptedModel,
    Sensitive,
    Step,
    Workflow,
    call_tool,
    call_tools,
    reply_with,
    tool,
)
from app.engine.audience import Delta
from tests.engine_runs import EngineRun, run


class Audience:
    """Somebody who listens, and keeps what was heard."""

    def __init__(self) -> None:
        self.listens = True
        self.deltas: list[Delta] = []

    def hear(self, delta: Delta) -> None:
        self.deltas.append(delta)

    def text(self, turn: int = 0, agent: str = "clerk") -> str:
        """What one turn came to, put together as a client would."""
        text = ""
        for delta in self.deltas:
            if (delta.turn, delta.agent) == (turn, agent):
                text = text[: delta.offset] + delta.text
        return text


@tool
def look_up(name: str) -> str:
    """Looks somebody up."""
    return f"{name} is known"


@tool
def open_safe(code: Annotated[str, Sensitive]) -> str:
    """Opens the safe."""
    return "open"


class Request(BaseModel):
    text: str
    password: Annotated[str, Sensitive] = "hunter2"


def agent(*replies: Reply, name: str = "clerk", **options: Any) -> Agent:
    options = {"tools": [look_up], "prompt": "Work.", "model": ScriptedModel(replies)} | options
    return Agent(name, **options)


def workflow(*steps: Any, input: Any = str, **options: Any) -> Workflow:
    return Workflow("office", version="1.0.0", input=input, steps=list(steps), **options)


async def heard_in(office: Workflow, input: Any = "work") -> tuple[Audience, EngineRun]:
    audience = Audience()
    return audience, await run(office, input, audience=audience)


async def test_every_turns_text_is_heard_piece_by_piece_under_its_agent() -> None:
    asks = Reply(text="I shall look.", calls=call_tool(look_up, "ann").calls)
    audience, done = await heard_in(workflow(agent(asks, reply_with("Ann is known."))))
    assert done.output == "Ann is known."
    assert audience.text(0) == "I shall look."
    assert audience.text(1) == "Ann is known."
    assert {(each.path, each.agent) for each in audience.deltas} == {("office/clerk", "clerk")}
    assert [each.offset for each in audience.deltas if each.turn == 1] == [0, 3, 6]


async def test_where_nobody_listens_nothing_is_said() -> None:
    audience = Audience()
    audience.listens = False
    await run(workflow(agent(reply_with("Done."))), audience=audience)
    assert audience.deltas == []


async def test_arguments_of_calls_are_not_heard() -> None:
    audience, _ = await heard_in(workflow(agent(call_tool(look_up, "ann"), reply_with("Done."))))
    assert [each.text for each in audience.deltas] == ["Done."]


@pytest.mark.parametrize(
    ("password", "said", "heard"),
    [
        ("hunter2", "It is hunter2, I think.", "It is ***, I think."),
        ("two words", "Say two words now", "Say *** now"),
        ("two words", "Say two", "Say two"),
        ("two words", "Say two wor", "Say two wor"),
        ('a"b', '{"password": "a\\"b"}', '{"password": "***"}'),
        ("ab", "ab", "ab"),  # so short that it stands in any text
    ],
)
async def test_a_secret_of_the_input_is_not_heard(password: str, said: str, heard: str) -> None:
    audience, _ = await heard_in(
        workflow(agent(reply_with(said)), input=Request), {"text": "x", "password": password}
    )
    assert audience.text() == heard


async def test_what_an_agent_says_before_it_writes_it_into_a_sensitive_argument_is_not_heard() -> (
    None
):
    asks = Reply(text="I try 4711 now.", calls=call_tool(open_safe, "4711").calls)
    audience, _ = await heard_in(
        workflow(agent(asks, reply_with("4711 was right."), tools=[open_safe]))
    )
    assert (audience.text(0), audience.text(1)) == ("I try *** now.", "*** was right.")


async def test_beside_sensitive_arguments_that_cannot_be_read_nothing_is_heard() -> None:
    asks = call_tools(reply_with("I try 4711."), call_tool("open_safe", '{"code": 4711'))
    audience, _ = await heard_in(workflow(agent(asks, reply_with("Well."), tools=[open_safe])))
    assert (audience.text(0), audience.text(1)) == ("", "Well.")


class Secret(BaseModel):
    text: Annotated[str, Sensitive]


async def test_an_answer_that_is_sensitive_is_not_heard() -> None:
    audience, done = await heard_in(workflow(agent(reply_with("4711")), output=Secret))
    assert done.output == {"text": "4711"}
    assert audience.deltas == []


async def test_a_secret_of_an_agent_before_is_not_heard_of_the_next_in_a_branch_either() -> None:
    first = agent(
        call_tool(open_safe, "4711"), reply_with("It was 4711."), name="first", tools=[open_safe]
    )
    second = agent(reply_with("So 4711 it is."), name="second", tools=[])
    audience, done = await heard_in(
        workflow(
            first,
            Step("middle", agent(reply_with("Oh, 4711."), name="middle", tools=[])),
            Parallel("both", [Step("one", second)]),
        )
    )
    assert audience.text(agent="middle") == "Oh, ***."
    assert audience.text(agent="second") == "So *** it is."
    assert done.steps["office/both/one"].shown_output == "So *** it is."


def nothing_rude(answer: str) -> None: ...


@pytest.mark.parametrize("where", ["answer", "output"])
async def test_what_a_guardrail_has_to_read_first_is_heard_by_nobody(where: str) -> None:
    guards = Guards(output=[nothing_rude] if where == "output" else [])
    clerk = Agent(
        "clerk",
        prompt="",
        model=ScriptedModel([reply_with("Rude words.")]),
        before_answer=[nothing_rude] if where == "answer" else [],
    )
    served = Workflow("work", version="1", input=str, steps=[clerk], guards=guards)
    audience = Audience()
    assert (await run(served, audience=audience)).output == "Rude words."
    assert audience.deltas == []

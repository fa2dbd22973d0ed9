"""What an agent remembers of the finished runs of its thread."""

from typing import Any

from app.authoring import (
    Agent,
    ModelRequest,
    Reply,
    ScriptedModel,
    Workflow,
    call_tool,
    reply_with,
    tool,
)
from app.channels import InboxChannel
from tests.service import Api, rejection
from tests.serving import service

desk = InboxChannel("desk")


@tool(channel=desk)
async def sign(text: str) -> str:
    """Signs."""
    return f"signed {text}"


def answer(request: ModelRequest) -> Reply:
    """Signs what it is told to, fails at "fail", else says all that it has read, in a line."""
    last = request.messages[-1]
    if last.text.startswith("sign"):
        return call_tool(sign, text=last.text)
    if last.text == "fail":
        raise RuntimeError
    read = [each.text for each in request.messages if each.role in ("user", "tool")]
    return reply_with(" | ".join(read))


def remembering(runs: int) -> Workflow:
    clerk = Agent("clerk", prompt="Help.", model=ScriptedModel(answer), tools=[sign])
    return Workflow("work", version="1", input=str, steps=[clerk], channels=[desk], history=runs)


async def said(api: Api, text: str, thread: str = "one") -> Any:
    return (await api.started("work", text, thread=thread))["output"]


async def test_an_agent_remembers_as_many_finished_runs_as_it_is_told_to(database_url: str) -> None:
    async with service(database_url, [remembering(2)]) as served:
        api = Api(served.client)
        assert await said(api, "a") == "a"
        assert await said(api, "b") == "a | b"
        assert await said(api, "c") == "a | b | c"
        assert await said(api, "d") == "b | c | d"
        assert await said(api, "e", thread="another") == "e"


async def test_what_failed_is_not_remembered_and_what_was_rejected_has_its_answer(
    database_url: str,
) -> None:
    async with service(database_url, [remembering(5)]) as served:
        api = Api(served.client)
        failed = await api.started("work", "fail", thread="one")
        assert failed["status"] == "failed"
        paused = await api.started("work", "sign it", thread="one")
        run = await api.decided(paused["pause"], rejection())
        refused = "Tool error: the call was rejected by alice"
        assert run["output"] == f"sign it | {refused}"
        assert await said(api, "next") == f"sign it | {refused} | next"


async def test_without_history_every_run_is_the_first(database_url: str) -> None:
    async with service(database_url, [remembering(0)]) as served:
        api = Api(served.client)
        assert await said(api, "a") == "a"
        assert await said(api, "b") == "b"

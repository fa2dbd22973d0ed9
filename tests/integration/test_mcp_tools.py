"""Tools of MCP servers in the hands of agents: real servers, over HTTP and as processes."""

import asyncio
import logging
import sys
from collections.abc import Callable, Generator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from app.authoring import (
    Approval,
    AuthoringError,
    Block,
    McpServer,
    Replace,
    Reply,
    ToolCall,
    Workflow,
    call_tool,
    call_tools,
)
from app.domain.decision import Action, InvalidDecision, Value, Verdict
from tests.engine_runs import EngineRun, approvers, run, script, workflow
from tests.logged import Lines, logged
from tests.mcp_server import NOTES, HelpDesk, help_desk

STDIO = [sys.executable, "-m", "tests.mcp_server"]
Json = dict[str, Any]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Generator[HelpDesk]:
    with help_desk(tmp_path_factory.mktemp("desk")) as running:
        yield running


@pytest.fixture(scope="module")
def tickets(desk: HelpDesk) -> McpServer:
    return McpServer("tickets", url=desk.url)


def work(*tools: Any, calls: Reply, **options: Any) -> Workflow:
    return workflow(*tools, model=script(calls), **options)


async def read(*tools: Any, calls: Reply) -> str:
    """What the model reads of the calls."""
    return (await run(work(*tools, calls=calls))).output


async def test_a_structured_result_is_read_as_json_and_a_wrapped_one_as_what_is_in_it(
    tickets: McpServer,
) -> None:
    find, close = tickets.tool("find"), tickets.tool("close")
    calls = call_tools(call_tool(find, id=7), call_tool(close, id=7))
    assert await read(find, close, calls=calls) == (
        '{"id":7,"title":"It rains in","tags":["roof"]}\nclosed 7 as solved'
    )


async def test_of_several_blocks_the_texts_are_read_and_the_others_named(
    tickets: McpServer,
) -> None:
    show = tickets.tool("show")
    assert await read(show, calls=call_tool(show)) == (
        "two pictures\n\n[image/png, which is no text]\n\n[plan: file:///plan.pdf]"
    )


async def test_what_a_server_says_of_a_failure_is_a_tool_error(tickets: McpServer) -> None:
    fail = tickets.tool("fail")
    said = await read(fail, calls=call_tool(fail, why="no such ticket"))
    assert said.startswith("Tool error: ")
    assert "no such ticket" in said


async def test_arguments_that_do_not_fit_the_schema_never_reach_the_server(
    tickets: McpServer, desk: HelpDesk
) -> None:
    find, close = tickets.tools("find", "close", channel=approvers)
    before = desk.notes
    calls = call_tools(
        call_tool(find, id=0),
        call_tool(find, number=1),
        call_tool(close, id=1, reason="lost"),
        call_tool(close, id="one"),
    )
    assert (await read(find, close, calls=calls)).splitlines() == [
        "Tool error: invalid arguments: /id: must satisfy minimum: 1",
        "Tool error: invalid arguments: /id: is required",
        "Tool error: invalid arguments: /reason: is not one of the options",
        "Tool error: invalid arguments: /id: must be of type integer",
    ]
    assert desk.notes == before


async def test_a_gated_call_waits_shows_its_schema_and_runs_once_with_its_defaults(
    tickets: McpServer, desk: HelpDesk
) -> None:
    close = tickets.tool("close", channel=approvers, approval=Approval("Close it?"))
    going = await run(work(close, calls=call_tool(close, id=9001)))
    assert going.ask.shown["message"] == "Close it?"
    assert going.shown_call["arguments"] == {"id": 9001, "reason": "solved"}
    assert going.shown_call["arguments_schema"]["properties"]["reason"]["enum"] == [
        "solved",
        "spam",
    ]
    assert not [note for note in desk.notes if "9001" in note]

    assert (await going.restarted().approve()).output == "closed 9001 as solved"
    (note,) = [note for note in desk.notes if "9001" in note]
    assert note == f"close 9001 solved {going.run.run_id}:work/assistant:0.0"


async def test_a_rejected_call_never_reaches_the_server(tickets: McpServer, desk: HelpDesk) -> None:
    close = tickets.tool("close", channel=approvers)
    going = await run(work(close, calls=call_tool(close, id=9002)))
    await going.reject("keep it")
    assert going.output == "Tool error: the call was rejected by alice: keep it"
    assert not [note for note in desk.notes if "9002" in note]


async def test_an_override_is_checked_by_the_schema_of_the_server(tickets: McpServer) -> None:
    close = tickets.tool("close", channel=approvers)
    going = await run(work(close, calls=call_tool(close, id=1)))
    for wrong, pointer in [
        ({"id": "one"}, "/override_arguments/id"),
        ({"reason": "spam"}, "/override_arguments/id"),
        ({"id": 1, "why": "?"}, "/override_arguments/why"),
    ]:
        with pytest.raises(InvalidDecision) as refused:
            await going.settle(Verdict(approved=True, override_arguments=wrong))
        assert [field.pointer for field in refused.value.fields] == [pointer]
    await going.approve(override_arguments={"id": 2, "reason": "spam"})
    assert going.output.startswith("closed 2 as spam\n\n[alice changed the arguments")


async def test_an_approval_may_depend_on_the_arguments(tickets: McpServer) -> None:
    def is_spam(call: Any) -> bool:
        return call.reason == "spam"

    close = tickets.tool("close", channel=approvers, approval=Approval(when=is_spam))
    calls = call_tools(call_tool(close, id=1), call_tool(close, id=2, reason="spam"))
    going = await run(work(close, calls=calls))
    assert going.shown_call["arguments"]["id"] == 2
    await going.approve()
    assert going.output == "closed 1 as solved\nclosed 2 as spam"


async def test_guardrails_block_and_replace_calls_of_a_server(tickets: McpServer) -> None:
    def careful(call: ToolCall) -> Block | Replace | None:
        if call.arguments["reason"] == "spam":
            return Block("nothing is spam")
        return Replace({**call.arguments, "id": 100})

    close = tickets.tool("close", before_call=[careful])
    calls = call_tools(call_tool(close, id=1), call_tool(close, id=2, reason="spam"))
    assert await read(close, calls=calls) == (
        "closed 100 as solved\nTool error: blocked by careful: nothing is spam"
    )


async def test_sensitive_arguments_are_shown_to_nobody_and_reach_the_server(
    tickets: McpServer, desk: HelpDesk
) -> None:
    secrets = ["card", "/payer/iban", "/copies/*/iban"]
    pay = tickets.tool("pay", channel=approvers, sensitive=secrets)
    given: Json = {
        "card": "4111-1111",
        "payer": {"iban": "DE-secret", "name": "ann"},
        "cents": 500,
        "copies": [{"iban": "FR-secret", "name": "bob"}],
    }
    going = await run(work(pay, calls=call_tool(pay, **given)))
    shown = going.shown_call
    assert shown["arguments"]["card"] == "***"
    assert shown["arguments"]["payer"] == {"iban": "***", "name": "ann"}
    assert shown["arguments"]["copies"] == [{"iban": "***", "name": "bob"}]
    assert shown["sensitive_paths"] == ["/card", "/copies/*/iban", "/payer/iban"]

    await going.approve(override_arguments={"payer": {"iban": "***", "name": "bob"}, "cents": 400})
    assert desk.notes[-1] == "pay 4111-1111 DE-secret 400"
    assert "DE-secret" not in str(going.events)


async def test_a_person_fills_in_arguments_of_a_server(tickets: McpServer) -> None:
    pay = tickets.tool("pay", channel=approvers, fill=["card", "payer"])
    going = await run(work(pay, calls=call_tool(pay, cents=5)))
    assert going.shown_call["arguments"] == {"cents": 5}
    asked = going.ask.shown["response_schema"]["properties"]["value"]
    assert sorted(asked["properties"]) == ["card", "payer"]
    with pytest.raises(InvalidDecision) as refused:
        await going.settle(Value(value={"card": "4111", "payer": {"iban": "DE"}}))
    assert [field.pointer for field in refused.value.fields] == ["/value/payer/name"]
    await going.fill({"card": "4111", "payer": {"iban": "DE", "name": "ann"}})
    assert going.output == "paid 5 by ann with 4111"


async def test_a_call_that_is_in_doubt_after_a_crash_is_asked_about(tickets: McpServer) -> None:
    hang = tickets.tool("hang", channel=approvers, on_crash="ask")
    going = await run(work(hang, calls=call_tool(hang)))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):  # the process is gone before the server answers
            await going.approve()
    await going.restarted().go()
    assert going.ask.kind == "unknown_outcome"
    with pytest.raises(InvalidDecision):
        await going.settle(Action(action="use_value", value=7))
    await going.decide(Action(action="use_value", value="done by hand"))
    assert going.output == "done by hand"


async def test_a_server_that_does_not_answer_in_time_is_a_tool_error(tickets: McpServer) -> None:
    hang = tickets.tool("hang", timeout=timedelta(seconds=0.3))
    assert await read(hang, calls=call_tool(hang)) == "Tool error: timed out after 0:00:00.300000"


async def test_a_server_that_is_a_process_is_started_for_the_call(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    server = McpServer("local", command=STDIO, environment={NOTES: str(notes)})
    close = server.tool("close")
    assert await read(close, calls=call_tool(close, id=3)) == "closed 3 as solved"
    assert len(notes.read_text().splitlines()) == 1


async def test_what_a_process_writes_beside_the_protocol_is_debug_lines_of_the_log_alone(
    capfd: pytest.CaptureFixture[str],
) -> None:
    talks = "import sys; print('x' * 3000, file=sys.stderr); print('bye', file=sys.stderr)"
    server = McpServer("loud", command=[sys.executable, "-c", talks])
    with logged(logging.DEBUG) as lines, pytest.raises(AuthoringError):
        server.tools()
    async with asyncio.timeout(10):
        while "bye" not in (said := _said(lines)):  # noqa: ASYNC110 - a thread tells no event
            await asyncio.sleep(0.01)
    assert [len(each) for each in said[:2]] == [2000, 1000]
    assert capfd.readouterr().err == ""


async def test_what_a_process_writes_is_nowhere_at_the_level_that_operators_run() -> None:
    talks = [sys.executable, "-c", "import sys; print('card 4711', file=sys.stderr)"]
    with logged() as lines, pytest.raises(AuthoringError):
        McpServer("loud", command=talks).tools()
    assert _said(lines) == []


def _said(lines: Lines) -> list[str]:
    return [each["line"] for each in lines.told if each["event"] == "server said"]


async def test_a_server_that_goes_away_in_the_middle_or_before_is_a_tool_error(
    tmp_path: Path,
) -> None:
    with help_desk(tmp_path) as leaving:
        die, find = McpServer("tickets", url=leaving.url).tools("die", "find")
        in_the_middle = await read(die, calls=call_tool(die))
        before = await read(find, calls=call_tool(find, id=1))
    assert in_the_middle.startswith("Tool error: ")
    assert before.startswith("Tool error: ")


def test_a_changed_schema_or_one_tool_more_is_another_fingerprint(
    tickets: McpServer, desk: HelpDesk
) -> None:
    def fingerprint(*tools: Any) -> str:
        calls = call_tool("close", {"id": 1})
        return EngineRun(work(*tools, calls=calls)).program.fingerprint

    asked_again = McpServer("tickets", url=desk.url)
    assert fingerprint(tickets.tool("close")) == fingerprint(asked_again.tool("close"))
    assert fingerprint(tickets.tool("close")) != fingerprint(tickets.tool("pay", rename="close"))
    assert fingerprint(*tickets.tools("close", "find")) != fingerprint(tickets.tool("close"))


def test_a_tool_has_another_name_for_models_where_its_own_is_none(tickets: McpServer) -> None:
    with pytest.raises(AuthoringError, match=r"'tickets\.count' is not a name"):
        work(tickets.tool("tickets.count"), calls=Reply(text="done"))
    assert tickets.tool("tickets.count", rename="count_tickets").name == "count_tickets"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: McpServer("x").tools(), "needs url= or command="),
        (lambda: McpServer("x", url="http://a", command=["b"]).tools(), "and not both"),
        (lambda: McpServer("x", url="file:///a").tools(), "begins with https://"),
        (lambda: McpServer("x", command="npx server").tools(), "as a list"),
        (lambda: McpServer("x", command=["b"], headers={"a": "b"}).tools(), "headers="),
        (lambda: McpServer("x", url="http://a", environment={"a": "b"}).tools(), "environment="),
        (lambda: McpServer("x", url="http://127.0.0.1:9/mcp").tools(), "cannot be asked"),
        (lambda: McpServer("x", command=["no-such-program"]).tools(), "cannot be asked"),
        (
            lambda: McpServer("x", command=["sleep", "9"], timeout=timedelta(seconds=0.2)).tools(),
            "did not answer within 0.2 seconds",
        ),
    ],
    ids=[
        *("nothing", "both", "scheme", "text", "idle headers", "idle environment"),
        *("nobody there", "no program", "silence"),
    ],
)
def test_a_server_that_cannot_be_asked_is_a_mistake_that_says_what_to_do(
    wrong: Callable[[], object], says: str
) -> None:
    with pytest.raises(AuthoringError, match=says) as mistake:
        wrong()
    assert "The MCP server 'x'" in mistake.value.message


def test_what_a_server_does_not_have_is_named_with_what_it_has(tickets: McpServer) -> None:
    with pytest.raises(AuthoringError, match="has no tool 'shut'; it has: find, close, pay"):
        tickets.tools("find", "shut")
    with pytest.raises(AuthoringError, match="takes nothing at sensitive='/payer/pin'"):
        tickets.tool("pay", sensitive=["/payer/pin"])

"""A gated call stops the run before it runs, once, with everything an approver needs to see."""

from typing import Any

from pydantic import BaseModel

from app.authoring import (
    Approval,
    AskRequest,
    Channel,
    ModelRequest,
    Reply,
    ScriptedModel,
    Tool,
    call_tool,
    call_tools,
    reply_with,
    tool,
)
from app.channels import AutoApproveChannel, AutoRejectChannel
from app.domain.decision import Decision, Value, Verdict
from app.domain.event import EventType
from app.domain.ledger import LedgerKind
from app.domain.pause import PauseKind, PauseLevel
from tests.engine_runs import EngineRun, approvers, run, script, workflow


class Letter(BaseModel):
    to: str
    body: str = "Hello"


class Desk:
    """The tools of these tests, and what they did."""

    def __init__(self, channel: Channel = approvers) -> None:
        self.done: list[str] = []

        @tool(channel=channel)
        async def send(letter: Letter) -> str:
            """Sends a letter."""
            self.done.append(f"send {letter.to}")
            return f"sent to {letter.to}"

        @tool
        async def look(at: str) -> str:
            """Looks at something."""
            self.done.append(f"look {at}")
            return f"saw {at}"

        self.send = send
        self.look = look

    @property
    def tools(self) -> tuple[Tool[..., Any], ...]:
        return (self.send, self.look)


def letter(to: str) -> Reply:
    return call_tool("send", {"to": to})


async def test_a_turn_without_a_gated_tool_never_pauses() -> None:
    desk = Desk()
    ended = await run(workflow(*desk.tools, model=script(call_tool(desk.look, at="the sea"))))
    assert ended.output == "saw the sea"


async def test_a_gated_call_pauses_the_run_before_the_tool_runs() -> None:
    desk = Desk()
    paused = await run(workflow(*desk.tools, model=script(letter("bob"))))
    assert paused.ask.kind is PauseKind.APPROVAL
    assert paused.ask.level is PauseLevel.EXECUTOR
    assert paused.ask.policy.channel == "approvers"
    assert desk.done == []


async def test_a_pause_shows_agent_step_call_arguments_and_schema() -> None:
    desk = Desk()
    paused = await run(
        workflow(*desk.tools, model=script(call_tool("send", {"to": "bob"}, provider_id="abc")))
    )
    shown = paused.ask.shown
    assert shown["agent"] == "assistant"
    assert shown["step"] == {
        "name": "assistant", "path": "work/assistant", "index": 0, "type": "agent",
    }  # fmt: skip
    assert shown["call"] == {
        "id": f"{paused.run.run_id}:work/assistant:0.0",
        "provider_call_id": "abc",
        "tool": "send",
        "description": "Sends a letter.",
        "arguments": {"to": "bob", "body": "Hello"},
        "arguments_schema": desk.send.arguments_schema,
        "sensitive_paths": [],
    }
    assert shown["position"] == {"index": 0, "of": 1}
    assert shown["message"] == "May assistant call send?"
    assert paused.ask.place == "work/assistant#0.0"


async def test_an_approval_may_bring_its_own_message() -> None:
    @tool(channel=approvers, approval=Approval("Is this letter kind?"))
    async def send(to: str) -> str:
        return to

    paused = await run(workflow(send, model=script(call_tool(send, to="bob"))))
    assert paused.ask.shown["message"] == "Is this letter kind?"


async def test_two_gated_calls_are_asked_one_after_the_other_in_call_order() -> None:
    desk = Desk()
    model = script(call_tools(letter("bob"), call_tool(desk.look, at="it"), letter("eve")))
    paused = await run(workflow(*desk.tools, model=model))
    assert paused.shown_call["arguments"]["to"] == "bob"
    assert paused.ask.shown["position"] == {"index": 0, "of": 2}
    first = paused.shown_call["id"]

    await paused.approve()
    assert paused.shown_call["arguments"]["to"] == "eve"
    assert paused.ask.shown["position"] == {"index": 1, "of": 2}
    assert paused.shown_call["id"] != first
    assert desk.done == [], "nothing of the turn runs before the last decision"

    await paused.approve()
    assert sorted(desk.done) == ["look it", "send bob", "send eve"]
    assert paused.output == "sent to bob\nsaw it\nsent to eve"


async def test_the_model_is_asked_once_a_turn_however_often_the_run_pauses() -> None:
    turns: list[int] = []
    desk = Desk()

    def answer(request: ModelRequest) -> Reply:
        turns.append(request.turn)
        if request.turn == 0:
            return call_tools(letter("bob"), letter("eve"))
        return reply_with("done")

    paused = await run(workflow(*desk.tools, model=ScriptedModel(answer)))
    await paused.restarted().approve()
    await paused.restarted().approve()
    assert turns == [0, 1]
    models = [entry for entry in paused.ledger if entry.kind is LedgerKind.MODEL]
    assert [entry.place for entry in models] == ["work/assistant#0", "work/assistant#1"]


async def test_going_on_without_a_decision_asks_the_same_question_again() -> None:
    desk = Desk()
    paused = await run(workflow(*desk.tools, model=script(letter("bob"))))
    asked = paused.ask
    await paused.restarted().go()
    assert paused.ask.place == asked.place
    assert paused.ask.interrupt_id == asked.interrupt_id
    assert paused.ask.digest == asked.digest
    assert paused.places == [asked.place]


async def test_two_identical_calls_of_one_turn_are_two_pauses() -> None:
    desk = Desk()
    paused = await run(
        workflow(*desk.tools, model=script(call_tools(letter("bob"), letter("bob"))))
    )
    await paused.approve()
    await paused.reject()
    assert len(set(paused.places)) == 2
    assert desk.done == ["send bob"]


async def test_a_call_id_that_a_provider_repeats_is_asked_run_and_answered_each_time() -> None:
    desk = Desk()
    again = call_tool("send", {"to": "eve"}, provider_id="functions.send:0")
    model = script(
        call_tools(call_tool("send", {"to": "bob"}, provider_id="functions.send:0"), again), again
    )
    paused = await run(workflow(*desk.tools, model=model, history=1))
    for _ in range(3):
        assert paused.shown_call["provider_call_id"] == "functions.send:0"
        await paused.approve()
    assert desk.done == ["send bob", "send eve", "send eve"]
    assert len({ask.shown["call"]["id"] for ask in paused.asks}) == 3
    proposed = [call["id"] for each in paused.said() for call in each.get("calls", [])]
    answered = [each["call_id"] for each in paused.said() if "call_id" in each]
    assert proposed == answered
    assert len(set(proposed)) == 3
    assert proposed[0] == "functions.send:0", "the first keeps the provider's"


async def test_a_call_id_of_an_earlier_run_is_not_taken_again() -> None:
    desk = Desk()
    served = workflow(
        *desk.tools, model=script(call_tool("look", {"at": "it"}, provider_id="c1")), history=5
    )
    first = await run(served)
    second = await run(served, history={"assistant": list(first.said())})
    (call,) = [call for each in second.said() for call in each.get("calls", [])]
    assert call["id"] != "c1"


async def test_a_missing_call_id_is_assigned() -> None:
    desk = Desk()
    ended = await run(
        workflow(*desk.tools, model=script(call_tool("look", {"at": "it"})), history=1)
    )
    _, proposal, answer, _ = ended.said()
    assert proposal.get("calls", [])[0]["id"].startswith("call_")
    assert answer.get("call_id") == proposal.get("calls", [])[0]["id"]


async def test_a_channel_that_approves_by_itself_never_pauses_and_leaves_a_decided_pause() -> None:
    auto = AutoApproveChannel("auto")
    desk = Desk(auto)
    ended = await run(workflow(*desk.tools, model=script(letter("bob")), channels=[auto]))
    assert ended.output == "sent to bob"
    (ask,) = ended.decided_at_once
    assert ask.settled is not None
    assert ask.settled.answer.by == "auto"
    assert ask.settled.answer.via == "channel"
    assert ask.shown["call"]["arguments"] == {"to": "bob", "body": "Hello"}


async def test_a_channel_that_rejects_by_itself_is_read_by_the_model() -> None:
    auto = AutoRejectChannel("auto")
    desk = Desk(auto)
    ended = await run(workflow(*desk.tools, model=script(letter("bob")), channels=[auto]))
    assert ended.output == "Tool error: the call was rejected by auto"
    assert desk.done == []


class Rule(Channel):
    """Decides as it is told to."""

    def __init__(self, decision: Decision | Exception | None) -> None:
        super().__init__("rule")
        self.decision = decision
        self.asked: list[AskRequest] = []

    def decide(self, request: AskRequest) -> Decision | None:
        self.asked.append(request)
        if isinstance(self.decision, Exception):
            raise self.decision
        return self.decision


async def test_a_channel_of_ones_own_sees_what_is_asked() -> None:
    rule = Rule(Verdict(approved=True, override_arguments={"to": "eve"}))
    desk = Desk(rule)
    ended = await run(
        workflow(*desk.tools, model=script(letter("bob")), channels=[rule]),
        requested_by="carol",
        metadata={"ticket": 7},
    )
    (request,) = rule.asked
    assert request.tool == "send"
    assert request.arguments == {"to": "bob", "body": "Hello"}
    assert (request.requested_by, request.metadata) == ("carol", {"ticket": 7})
    assert desk.done == ["send eve"]
    assert ended.output.startswith("sent to eve")


async def test_where_an_automatic_channel_fails_a_person_is_asked(caplog: Any) -> None:
    for wrong in (
        RuntimeError("broken"),
        Value(value=1),
        Verdict(approved=True, override_output=1),
    ):
        rule = Rule(wrong)
        desk = Desk(rule)
        paused = await run(workflow(*desk.tools, model=script(letter("bob")), channels=[rule]))
        assert paused.ask.kind is PauseKind.APPROVAL
        assert desk.done == []
    assert len(caplog.records) == 3


async def test_a_condition_is_looked_at_once_and_its_result_is_kept() -> None:
    looked: list[int] = []

    def is_large(amount: int) -> bool:
        looked.append(amount)
        return amount > 10

    @tool(channel=approvers, approval=Approval(when=is_large))
    async def pay(amount: int) -> str:
        return f"paid {amount}"

    paid = await run(
        workflow(pay, model=script(call_tools(call_tool(pay, amount=5), call_tool(pay, amount=50))))
    )
    assert paid.shown_call["arguments"] == {"amount": 50}
    await paid.restarted().approve()
    assert paid.output == "paid 5\npaid 50"
    assert looked == [5, 50]


async def test_a_condition_that_crashes_asks() -> None:
    def broken(amount: int) -> bool:
        raise RuntimeError(amount)

    @tool(channel=approvers, approval=Approval(when=broken))
    async def pay(amount: int) -> str:
        return f"paid {amount}"

    paused = await run(workflow(pay, model=script(call_tool(pay, amount=5))))
    assert paused.ask.kind is PauseKind.APPROVAL


async def test_whoever_watches_reads_the_course_of_the_run_without_its_contents() -> None:
    desk = Desk()
    paused: EngineRun = await run(workflow(*desk.tools, model=script(letter("bob"))))
    await paused.approve()
    assert [event.type for event in paused.events] == [
        EventType.STEP_STARTED,
        EventType.MODEL_ANSWERED,
        EventType.TOOL_STARTED,
        EventType.TOOL_FINISHED,
        EventType.MODEL_ANSWERED,
        EventType.STEP_COMPLETED,
    ]
    assert "bob" not in repr(paused.events)

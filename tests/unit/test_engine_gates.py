"""The asks before a step: what a decision, a rejection and a deadline do, and that nothing runs without."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel, Field

from app.authoring import (
    Agent,
    AskInput,
    Condition,
    Confirm,
    ModelRequest,
    Parallel,
    Reply,
    Review,
    ScriptedModel,
    Step,
    StepContext,
    Workflow,
    reply_with,
)
from app.channels import AutoApproveChannel, AutoRejectChannel
from app.domain.decision import Action, Decline, InvalidDecision, Value, Verdict
from app.domain.event import EventType
from app.domain.pause import PauseKind, PauseLevel
from app.domain.step import StepStatus
from app.engine.program import Program
from tests.engine_runs import EngineRun, approvers, run
from tests.step_trees import Ran, line_of, mark, no, publisher, yes

SOON = timedelta(hours=1)


class Tone(BaseModel):
    tone: str
    most: int = Field(gt=0)


def gated(ran: Ran, *gates: Any) -> Workflow:
    """Three steps, the second of which waits at the gates."""
    return line_of(mark("a", ran), mark("b", ran, before=list(gates)), mark("c", ran))


# ── Confirm ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_confirm_shows_what_is_asked_and_nothing_has_run() -> None:
    ran: Ran = []
    paused = await run(gated(ran, Confirm("Begin?", channel=approvers)))
    ask = paused.ask
    assert ran == ["a"]
    assert (ask.kind, ask.level, ask.place) == (
        PauseKind.CONFIRMATION,
        PauseLevel.STEP,
        "work/b#before0",
    )
    assert ask.shown["message"] == "Begin?"
    assert ask.shown["allowed"] == ["verdict"]
    assert ask.shown["step"] == {
        "name": "b", "path": "work/b", "index": 1, "type": "function",
    }  # fmt: skip
    assert ask.shown["response_schema"]["required"] == ["approved"]


async def test_an_approved_step_runs_once() -> None:
    ran: Ran = []
    paused = await run(gated(ran, Confirm("Begin?", channel=approvers)))
    await paused.restarted().go()
    await paused.restarted().approve()
    assert paused.output == "work>a>b>c"
    assert ran == ["a", "b", "c"]
    assert len(paused.asks) == 1


@pytest.mark.parametrize("how", ["reject", "expire"])
async def test_a_rejected_step_is_left_out_and_the_next_sees_the_output_before_it(how: str) -> None:
    ran: Ran = []
    gate = Confirm("Begin?", channel=approvers, on_reject="skip", expires_after=SOON)
    paused = await run(gated(ran, gate))
    await getattr(paused.restarted(), how)()
    assert paused.output == "work>a>c"
    assert ran == ["a", "c"]
    assert paused.steps["work/b"].status is StepStatus.SKIPPED
    assert [event.type for event in paused.events].count(EventType.STEP_SKIPPED) == 1


async def test_a_rejection_ends_the_run_as_cancelled_unless_said_otherwise() -> None:
    ran: Ran = []
    paused = await run(gated(ran, Confirm("Begin?", channel=approvers)))
    await paused.restarted().reject("too early")
    assert paused.stop_reason == "rejected by alice: too early"
    assert ran == ["a"]


async def test_a_rejection_fails_the_run_where_the_ask_says_so() -> None:
    ran: Ran = []
    paused = await run(gated(ran, Confirm("Begin?", channel=approvers, on_reject="fail")))
    await paused.restarted().reject()
    assert (paused.error.code, paused.error.step) == ("rejected", "work/b")
    assert paused.error.message == "rejected by alice"
    assert paused.steps["work/b"].status is StepStatus.FAILED
    assert ran == ["a"]


async def test_a_deadline_rejects_unless_said_otherwise() -> None:
    paused = await run(gated([], Confirm("Begin?", channel=approvers, expires_after=SOON)))
    assert paused.ask.policy.expires_after == SOON
    await paused.restarted().expire()
    assert paused.stop_reason == "rejected by system:deadline"


@pytest.mark.parametrize("on_reject", ["cancel", "skip", "fail"])
async def test_a_deadline_fails_the_run_whatever_a_rejection_would_do(on_reject: Any) -> None:
    ran: Ran = []
    gate = Confirm(
        "Begin?", channel=approvers, on_reject=on_reject, expires_after=SOON, on_expire="fail"
    )
    paused = await run(gated(ran, gate))
    await paused.restarted().expire()
    assert (paused.error.code, paused.error.step) == ("pause_expired", "work/b")
    assert ran == ["a"]


async def test_a_deadline_can_approve() -> None:
    gate = Confirm("Begin?", channel=approvers, expires_after=SOON, on_expire="approve")
    paused = await run(gated([], gate))
    await paused.restarted().expire()
    assert paused.output == "work>a>b>c"


async def test_a_gate_that_waits_for_ever_says_so_in_its_policy() -> None:
    gate = Confirm("Begin?", channel=approvers, expires_after=SOON, on_expire="wait")
    paused = await run(gated([], gate))
    assert paused.ask.policy.on_expire == "wait"
    await paused.restarted().approve()
    assert paused.output == "work>a>b>c"


# ── A gated condition ────────────────────────────────────────────────────────────────────────────


def condition(ran: Ran, **options: Any) -> Workflow:
    then, otherwise = [mark("then", ran)], [mark("otherwise", ran)]
    return line_of(Condition("choice", then=then, otherwise=otherwise, **options), mark("c", ran))


def instead(on_reject: Any) -> Confirm:
    return Confirm("Shall we?", channel=approvers, on_reject=on_reject, expires_after=SOON)


async def test_a_confirm_in_the_place_of_when_takes_then_where_it_is_approved() -> None:
    paused = await run(condition([], before=instead("else")))
    assert paused.ask.shown["branch"] is None
    await paused.restarted().approve()
    assert paused.output == "work>then>c"


@pytest.mark.parametrize("how", ["reject", "expire"])
async def test_a_confirm_in_the_place_of_when_takes_otherwise_where_it_is_rejected(
    how: str,
) -> None:
    paused = await run(condition([], before=instead("else")))
    await getattr(paused.restarted(), how)()
    assert paused.output == "work>otherwise>c"


@pytest.mark.parametrize(("look", "branch"), [(yes, "then"), (no, "otherwise")])
async def test_when_decides_after_an_approval_and_the_pause_says_which_branch_it_would_be(
    look: Any, branch: str
) -> None:
    paused = await run(condition([], when=look, before=instead("skip")))
    assert paused.ask.shown["branch"] == branch
    await paused.restarted().approve()
    assert paused.output == f"work>{branch}>c"


async def test_a_rejection_with_else_takes_otherwise_whatever_when_says() -> None:
    paused = await run(condition([], when=yes, before=instead("else")))
    await paused.restarted().reject()
    assert paused.output == "work>otherwise>c"


@pytest.mark.parametrize("look", [None, yes])
async def test_a_rejected_condition_stays_rejected_when_its_output_is_made_again(look: Any) -> None:
    ran: Ran = []
    review = Review("Good?", channel=approvers)
    paused = await run(condition(ran, when=look, before=instead("else"), after=review))
    await paused.restarted().reject()
    await paused.restarted().reject()
    await paused.restarted().approve()
    assert paused.output == "work>otherwise>c"
    assert ran == ["otherwise", "otherwise", "c"]


async def test_a_rejected_condition_is_left_out_as_a_whole() -> None:
    ran: Ran = []
    paused = await run(condition(ran, when=yes, before=instead("skip")))
    await paused.restarted().reject()
    assert paused.output == "work>c"
    assert ran == ["c"]


async def test_a_condition_whose_deadline_fails_the_run_does_not_take_otherwise() -> None:
    gate = Confirm(
        "Shall we?", channel=approvers, on_reject="else", expires_after=SOON, on_expire="fail"
    )
    paused = await run(condition([], before=gate))
    await paused.restarted().expire()
    assert paused.error.code == "pause_expired"


async def test_a_when_that_raises_says_no_branch_and_fails_once_it_is_due() -> None:
    def broken(text: str) -> bool:
        raise RuntimeError("no idea")

    paused = await run(condition([], when=broken, before=instead("skip")))
    assert paused.ask.shown["branch"] is None
    await paused.restarted().approve()
    assert (paused.error.code, paused.error.step) == ("step_failed", "work/choice")


# ── AskInput ─────────────────────────────────────────────────────────────────────────────────────


def asking(ran: Ran, seen: list[Any], **gate: Any) -> Workflow:
    """A step that reads what was filled in, between two that do not."""

    def write(context: StepContext, text: str) -> str:
        ran.append("write")
        seen.append(context.input(Tone))
        return f"{text}>{context.input(Tone).tone}"

    def after(context: StepContext, text: str) -> str:
        ran.append("after")
        seen.append(list(context.inputs))
        return text

    ask = AskInput("Which tone?", Tone, channel=approvers, **gate)
    return line_of(mark("a", ran), Step("write", write, before=ask), Step("after", after))


async def test_an_ask_for_input_shows_the_schema_of_the_model() -> None:
    ask = (await run(asking([], []))).ask
    assert (ask.kind, ask.level) == (PauseKind.INPUT, PauseLevel.STEP)
    assert ask.shown["allowed"] == ["value", "decline"]
    value = ask.shown["response_schema"]["properties"]["value"]
    assert set(value["properties"]) == {"tone", "most"}


async def test_a_step_reads_what_was_filled_in_and_no_other_step_does() -> None:
    seen: list[Any] = []
    paused = await run(asking([], seen))
    await paused.restarted().fill({"tone": "plain", "most": 3})
    assert paused.output == "work>a>plain"
    assert seen == [Tone(tone="plain", most=3), []]


async def test_what_was_filled_in_does_not_reach_another_run() -> None:
    seen: list[Any] = []
    program = Program(asking([], seen))
    first, second = EngineRun(program), EngineRun(program)
    await first.go()
    await second.go()
    await first.fill({"tone": "plain", "most": 3})
    await second.fill({"tone": "playful", "most": 5})
    assert [first.output, second.output] == ["work>a>plain", "work>a>playful"]


async def test_all_wrong_fields_are_told_in_one_answer_and_the_pause_stays_open() -> None:
    ran: Ran = []
    paused = await run(asking(ran, []))
    with pytest.raises(InvalidDecision) as refused:
        await paused.fill({"tone": 3, "most": -1})
    assert {each.pointer for each in refused.value.fields} == {"/value/tone", "/value/most"}
    with pytest.raises(InvalidDecision) as refused:
        await paused.fill({"most": 1})
    assert [each.pointer for each in refused.value.fields] == ["/value/tone"]
    assert ran == ["a"]
    await paused.fill({"tone": "plain", "most": 3})
    assert paused.output == "work>a>plain"


async def test_fields_that_the_model_does_not_have_are_refused() -> None:
    paused = await run(asking([], []))
    with pytest.raises(InvalidDecision) as refused:
        await paused.fill({"tone": "plain", "most": 3, "colour": "red"})
    assert [each.pointer for each in refused.value.fields] == ["/value/colour"]


@pytest.mark.parametrize(
    "decision",
    [Verdict(approved=True), Action(action="skip"), Value(value=None), Value(value=[])],
    ids=["verdict", "action", "null", "list"],
)
async def test_an_ask_for_input_takes_values_and_refusals_only(decision: Any) -> None:
    paused = await run(asking([], []))
    with pytest.raises(InvalidDecision):
        await paused.settle(decision)


@pytest.mark.parametrize("refusal", [Decline(), Verdict(approved=False)], ids=["decline", "no"])
async def test_declined_input_cancels_the_run_unless_said_otherwise(refusal: Any) -> None:
    ran: Ran = []
    paused = await run(asking(ran, []))
    await paused.restarted().decide(refusal)
    assert paused.stop_reason == "rejected by alice"
    assert ran == ["a"]


async def test_declined_input_leaves_the_step_out_where_the_ask_says_so() -> None:
    seen: list[Any] = []
    paused = await run(asking([], seen, on_reject="skip"))
    await paused.restarted().decide(Decline())
    assert paused.output == "work>a"
    assert seen == [[]]


async def test_declined_input_fails_the_run_where_the_ask_says_so() -> None:
    paused = await run(asking([], [], on_reject="fail"))
    await paused.restarted().decide(Decline(feedback="no idea"))
    assert paused.error.code == "rejected"
    assert paused.error.message == "rejected by alice: no idea"


async def test_input_that_nobody_gave_in_time_is_declined() -> None:
    paused = await run(asking([], [], expires_after=SOON, on_reject="skip"))
    await paused.restarted().expire()
    assert paused.output == "work>a"


async def test_input_that_nobody_gave_in_time_fails_the_run_where_the_ask_says_so() -> None:
    paused = await run(asking([], [], expires_after=SOON, on_reject="skip", on_expire="fail"))
    await paused.restarted().expire()
    assert paused.error.code == "pause_expired"


async def test_an_agent_reads_what_was_filled_in_below_its_work() -> None:
    read: list[str] = []

    def answer(request: ModelRequest) -> Reply:
        read.append(request.messages[-1].text)
        return reply_with("done")

    agent = Agent("writer", prompt="", model=ScriptedModel(answer))
    ask = AskInput("Which tone?", Tone, channel=approvers)
    paused = await run(line_of(Step("writer", agent, before=ask)))
    await paused.restarted().fill({"tone": "plain", "most": 3})
    assert read == ['work\n\nTone: {"tone":"plain","most":3}']
    assert paused.output == "done"


# ── Several gates ────────────────────────────────────────────────────────────────────────────────


async def test_gates_of_one_step_are_asked_in_order() -> None:
    def write(context: StepContext, text: str) -> str:
        return f"{text}>{context.input(Tone).tone}"

    gates = [
        Confirm("Begin?", channel=approvers),
        AskInput("Which tone?", Tone, channel=approvers),
        Confirm("Really?", channel=approvers),
    ]
    paused = await run(line_of(Step("write", write, before=gates)))
    await paused.restarted().approve()
    await paused.restarted().fill({"tone": "plain", "most": 3})
    assert paused.ask.shown["message"] == "Really?"
    await paused.restarted().approve()
    assert paused.output == "work>plain"
    assert paused.places == ["work/write#before0", "work/write#before1", "work/write#before2"]


async def test_the_rejection_of_one_gate_spares_the_others_of_its_step() -> None:
    ran: Ran = []
    gates = [
        Confirm("One?", channel=approvers, on_reject="skip"),
        Confirm("Two?", channel=approvers, on_reject="fail"),
    ]
    paused = await run(gated(ran, *gates))
    await paused.restarted().reject()
    assert paused.output == "work>a>c"
    assert len(paused.asks) == 1


@pytest.mark.parametrize("first", ["approve", "reject"])
async def test_two_gated_steps_in_a_row_both_ask(first: str) -> None:
    ran: Ran = []
    gate = Confirm("Begin?", channel=approvers, on_reject="skip")
    paused = await run(
        line_of(mark("a", ran, before=gate), mark("b", ran, before=gate), mark("c", ran))
    )
    await getattr(paused.restarted(), first)()
    assert paused.ask.place == "work/b#before0"
    await paused.restarted().approve()
    assert paused.output == ("work>a>b>c" if first == "approve" else "work>b>c")


async def test_two_asks_for_input_in_a_row_both_ask_also_when_the_first_was_declined() -> None:
    def write(context: StepContext, text: str) -> str:
        return f"{text}>{context.input(Tone).tone}"

    ask = AskInput("Which tone?", Tone, channel=approvers, on_reject="skip")
    paused = await run(line_of(Step("one", write, before=ask), Step("two", write, before=ask)))
    await paused.restarted().decide(Decline())
    await paused.restarted().fill({"tone": "plain", "most": 3})
    assert paused.output == "work>plain"
    assert paused.places == ["work/one#before0", "work/two#before0"]


# ── Gates of agents, and channels that decide at once ────────────────────────────────────────────


async def test_an_agent_behind_a_gate_asks_its_model_only_once_it_may() -> None:
    ran: Ran = []
    gate = Confirm("Begin?", channel=approvers, on_reject="skip")
    served = line_of(Step("publisher", publisher(ran), before=gate), mark("c", ran))
    paused = await run(served)
    assert paused.ledger == []
    await paused.restarted().approve()
    assert paused.ask.kind is PauseKind.APPROVAL
    await paused.restarted().approve()
    assert paused.output == "work>publisher>c"
    rejected = await run(served)
    await rejected.restarted().reject()
    assert rejected.output == "work>c"
    assert rejected.ledger == []


@pytest.mark.parametrize(
    ("channel", "output"),
    [(AutoApproveChannel("auto"), "work>a>b>c"), (AutoRejectChannel("auto"), "work>a>c")],
    ids=["approve", "reject"],
)
async def test_a_channel_that_decides_at_once_shows_nobody_a_pause_and_leaves_one_decided(
    channel: Any, output: str
) -> None:
    ran: Ran = []
    gate = Confirm("Begin?", channel=channel, on_reject="skip")
    served = Workflow(
        "work",
        version="1",
        input=str,
        steps=[mark("a", ran), mark("b", ran, before=gate), mark("c", ran)],
        channels=[channel],
    )
    ended = await run(served)
    assert ended.output == output
    (decided,) = ended.decided_at_once
    assert decided.place == "work/b#before0"
    assert decided.settled is not None
    assert decided.settled.answer.by == "auto"


async def test_a_gate_cannot_be_decided_by_another_shape() -> None:
    paused = await run(gated([], Confirm("Begin?", channel=approvers)))
    for decision in (Value(value=True), Action(action="approve")):
        with pytest.raises(InvalidDecision):
            await paused.settle(decision)


async def test_a_gate_in_one_branch_leaves_its_sibling_alone() -> None:
    ran: Ran = []
    gate = Confirm("Begin?", channel=approvers, on_reject="skip")
    paused = await run(line_of(Parallel("both", [mark("a", ran, before=gate), mark("b", ran)])))
    assert ran == ["b"]
    await paused.restarted().reject()
    assert paused.output == {"b": "work>b"}
    assert ran == ["b"]

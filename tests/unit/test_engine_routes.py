"""Which way a run goes: chosen by a person, by a function, by a model."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from app.authoring import (
    Agent,
    Choose,
    Confirm,
    ModelRequest,
    ModelRouter,
    Parallel,
    Question,
    Reply,
    Router,
    ScriptedModel,
    Step,
    ToolContext,
    Workflow,
    call_tool,
    reply_with,
    tool,
)
from app.channels import AutoApproveChannel
from app.domain.decision import Action, Decline, InvalidDecision, Value, Verdict
from app.domain.json import Json
from app.domain.pause import PauseKind, PauseLevel
from app.domain.step import StepStatus
from tests.engine_runs import EngineRun, approvers, run
from tests.step_trees import Ran, gathers, line_of, mark, publisher

SOON = timedelta(hours=1)


def routed(ran: Ran, select: Any, **gates: Any) -> Workflow:
    """Three ways, between two steps."""
    ways = [mark(name, ran) for name in ("left", "right", "up")]
    router = Router("way", choices=ways, select=select, **gates)
    return line_of(mark("a", ran), router, mark("c", ran))


# ── Choose ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_choice_shows_the_choices_with_their_descriptions() -> None:
    ways = [Step("left", mark("x", []).run, description="To the left"), mark("right", [])]
    choose = Choose("Which way?", channel=approvers)
    ask = (await run(line_of(Router("way", choices=ways, select=choose)))).ask
    assert (ask.kind, ask.level, ask.place) == (PauseKind.ROUTE, PauseLevel.STEP, "work/way#route")
    assert ask.shown["choices"] == [
        {"name": "left", "description": "To the left"},
        {"name": "right", "description": None},
    ]
    assert ask.shown["allowed"] == ["value", "decline"]
    assert ask.shown["response_schema"]["properties"]["value"] == {
        "type": "array", "items": {"enum": ["left", "right"]}, "minItems": 1, "maxItems": 1,
    }  # fmt: skip


async def test_the_chosen_way_is_taken_and_no_other() -> None:
    ran: Ran = []
    paused = await run(routed(ran, Choose("Which way?", channel=approvers)))
    await paused.restarted().go()
    await paused.restarted().fill(["right"])
    assert paused.output == "work>a>right>c"
    assert ran == ["a", "right", "c"]
    assert len(paused.asks) == 1


async def test_several_ways_run_in_the_order_given_each_seeing_the_one_before() -> None:
    ran: Ran = []
    paused = await run(routed(ran, Choose("Which ways?", channel=approvers, multiple=True)))
    await paused.restarted().fill(["up", "left"])
    assert paused.output == "work>a>up>left>c"
    assert ran == ["a", "up", "left", "c"]


@pytest.mark.parametrize(
    "value",
    [[], ["down"], ["left", "left"], ["left", 3], "left", None, {"left": True}, [["left"]]],
    ids=repr,
)
async def test_only_known_choices_at_least_one_and_none_twice(value: Json) -> None:
    paused = await run(routed([], Choose("Which ways?", channel=approvers, multiple=True)))
    with pytest.raises(InvalidDecision) as refused:
        await paused.fill(value)
    assert {each.pointer.split("/")[1] for each in refused.value.fields} == {"value"}
    await paused.fill(["left"])
    assert paused.output == "work>a>left>c"


async def test_only_one_way_unless_several_may_be_chosen() -> None:
    paused = await run(routed([], Choose("Which way?", channel=approvers)))
    with pytest.raises(InvalidDecision):
        await paused.settle(Value(value=["left", "up"]))


@pytest.mark.parametrize("decision", [Verdict(approved=True), Action(action="left")])
async def test_a_choice_takes_names_and_refusals_only(decision: Any) -> None:
    paused = await run(routed([], Choose("Which way?", channel=approvers)))
    with pytest.raises(InvalidDecision):
        await paused.settle(decision)


async def test_a_declined_choice_cancels_the_run_unless_said_otherwise() -> None:
    ran: Ran = []
    paused = await run(routed(ran, Choose("Which way?", channel=approvers)))
    await paused.restarted().decide(Decline(feedback="none"))
    assert paused.stop_reason == "rejected by alice: none"
    assert ran == ["a"]


@pytest.mark.parametrize("how", ["decline", "expire"])
async def test_a_declined_choice_leaves_the_router_out_where_the_ask_says_so(how: str) -> None:
    choose = Choose("Which way?", channel=approvers, on_reject="skip", expires_after=SOON)
    paused = await run(routed([], choose))
    paused.restarted()
    await (paused.expire() if how == "expire" else paused.decide(Decline()))
    assert paused.output == "work>a>c"
    assert paused.steps["work/way"].status is StepStatus.SKIPPED


async def test_a_declined_choice_fails_the_run_where_the_ask_says_so() -> None:
    paused = await run(routed([], Choose("Which way?", channel=approvers, on_reject="fail")))
    await paused.restarted().decide(Decline())
    assert (paused.error.code, paused.error.step) == ("rejected", "work/way")


async def test_a_choice_that_nobody_made_in_time_fails_the_run_where_the_ask_says_so() -> None:
    choose = Choose(
        "Which way?", channel=approvers, on_reject="skip", expires_after=SOON, on_expire="fail"
    )
    paused = await run(routed([], choose))
    await paused.restarted().expire()
    assert (paused.error.code, paused.error.step) == ("pause_expired", "work/way")


async def test_a_gated_router_asks_whether_before_it_asks_where() -> None:
    gate = Confirm("Go on?", channel=approvers, on_reject="skip")
    paused = await run(routed([], Choose("Which way?", channel=approvers), before=gate))
    assert paused.ask.kind is PauseKind.CONFIRMATION
    await paused.restarted().approve()
    assert paused.ask.kind is PauseKind.ROUTE
    await paused.restarted().fill(["left"])
    assert paused.output == "work>a>left>c"


async def test_the_ways_ask_for_themselves() -> None:
    ran: Ran = []
    gate = Confirm("Sure?", channel=approvers, on_reject="skip")
    ways = [mark("left", ran, before=gate), mark("right", ran, before=gate)]
    choose = Choose("Which ways?", channel=approvers, multiple=True)
    paused = await run(line_of(Router("way", choices=ways, select=choose), mark("c", ran)))
    await paused.restarted().fill(["right", "left"])
    assert paused.ask.place == "work/way/right#before0"
    await paused.restarted().reject()
    assert paused.ask.place == "work/way/left#before0"
    await paused.restarted().approve()
    assert paused.output == "work>left>c"


async def test_two_choices_in_a_row_both_ask_also_when_the_first_was_declined() -> None:
    ran: Ran = []
    choose = Choose("Which way?", channel=approvers, on_reject="skip")
    routers = [
        Router(name, choices=[mark(f"{name}1", ran), mark(f"{name}2", ran)], select=choose)
        for name in ("one", "two")
    ]
    paused = await run(line_of(*routers))
    await paused.restarted().decide(Decline())
    assert paused.ask.place == "work/two#route"
    await paused.restarted().fill(["two2"])
    assert paused.output == "work>two2"


# ── A function ───────────────────────────────────────────────────────────────────────────────────


async def test_a_function_names_one_way_or_a_list_of_them() -> None:
    def one(text: str) -> str:
        return "right"

    async def several(text: str) -> Sequence[str]:
        return ["up", "right"]

    assert (await run(routed([], one))).output == "work>a>right>c"
    assert (await run(routed([], several))).output == "work>a>up>right>c"


@pytest.mark.parametrize("found", ["down", [], ["left", "left"], None, 3], ids=repr)
async def test_a_function_that_names_no_way_fails_the_run_at_the_router(found: Any) -> None:
    def select(text: str) -> Any:
        return found

    failed = await run(routed([], select))
    assert (failed.error.code, failed.error.step) == ("step_failed", "work/way")
    assert failed.steps["work/way"].status is StepStatus.FAILED


async def test_a_function_that_raises_fails_the_run_at_the_router() -> None:
    def select(text: str) -> str:
        raise RuntimeError("lost")

    failed = await run(routed([], select))
    assert (failed.error.message, failed.error.step) == ("lost", "work/way")


# ── A model ──────────────────────────────────────────────────────────────────────────────────────


def model_saying(*answers: str, requests: list[ModelRequest] | None = None) -> ScriptedModel:
    def answer(request: ModelRequest) -> Reply:
        if requests is not None:
            requests.append(request)
        return reply_with(answers[min(request.turn, len(answers) - 1)])

    return ScriptedModel(answer)


async def test_a_model_picks_by_name_and_description() -> None:
    requests: list[ModelRequest] = []
    ways = [Step("left", mark("left", []).run, description="To the left"), mark("right", [])]
    router = ModelRouter(model=model_saying("left", requests=requests), prompt="Which way?")
    ended = await run(line_of(Router("way", choices=ways, select=router), mark("c", [])))
    assert ended.output == "work>left>c"
    system, work = requests[0].messages
    assert "Which way?" in system.text
    assert "- left: To the left\n- right" in system.text
    assert work.text == "work"
    assert [entry.place for entry in ended.ledger] == ["work/way#route.0"]


async def test_a_model_that_names_no_way_is_asked_again_and_then_fails_the_run() -> None:
    ended = await run(routed([], ModelRouter(model=model_saying("hm", '"up".'), prompt="Where?")))
    assert ended.output == "work>a>up>c"
    failed = await run(routed([], ModelRouter(model=model_saying("hm"), prompt="Where?")))
    assert (failed.error.code, failed.error.step) == ("model_error", "work/way")
    assert len(failed.ledger) == 3


def after_decision(ran: Ran, requests: list[ModelRequest], first: Any, **options: Any) -> Workflow:
    """An agent, a model that would send it on, and a way that is taken after a decision."""
    select = ModelRouter(
        model=model_saying("more", requests=requests), prompt="More?", after_decision="stop"
    )
    ways = [mark("more", ran), mark("stop", ran)]
    return line_of(first, Router("way", choices=ways, select=select), **options)


@pytest.mark.parametrize("how", ["approve", "reject"])
async def test_after_a_decided_approval_the_model_is_not_asked(how: str) -> None:
    requests: list[ModelRequest] = []
    paused = await run(after_decision([], requests, publisher([])))
    await getattr(paused.restarted(), how)()
    assert str(paused.output).endswith(">stop")
    assert requests == []
    assert paused.ended.stop_reason == "the agent answered after the approval decision"


async def test_where_nobody_decided_the_model_is_asked() -> None:
    requests: list[ModelRequest] = []
    ended = await run(after_decision([], requests, mark("a", [])))
    assert ended.output == "work>a>more"
    assert len(requests) == 1
    assert ended.ended.stop_reason is None


async def test_a_question_is_no_decision_that_spares_the_model() -> None:
    @tool
    async def enquire(context: ToolContext) -> str:
        """Asks."""
        return await context.pause(Question("Colour?", answer=str, channel=approvers))

    def answer(request: ModelRequest) -> Reply:
        last = request.messages[-1]
        return reply_with(last.text) if last.role == "tool" else call_tool(enquire)

    requests: list[ModelRequest] = []
    agent = Agent("clerk", prompt="", model=ScriptedModel(answer), tools=[enquire])
    paused = await run(after_decision([], requests, agent))
    await paused.restarted().fill("red")
    assert paused.output == "red>more"
    assert len(requests) == 1


async def test_a_confirmed_step_is_no_decision_that_spares_the_model() -> None:
    requests: list[ModelRequest] = []
    gate = Confirm("Begin?", channel=approvers)
    paused = await run(after_decision([], requests, mark("a", [], before=gate)))
    await paused.restarted().approve()
    assert paused.output == "work>a>more"


async def test_an_approval_in_a_branch_spares_the_model_behind_the_branches() -> None:
    requests: list[ModelRequest] = []
    fork = Parallel("fork", [Step("publisher", publisher([])), mark("b", [])])
    select = ModelRouter(
        model=model_saying("more", requests=requests), prompt="More?", after_decision="stop"
    )
    ways = [gathers([], "more"), gathers([], "stop")]
    paused = await run(line_of(fork, Router("way", choices=ways, select=select)))
    await paused.restarted().approve()
    assert paused.output == "(publisher=work>publisher|b=work>b)>stop"
    assert requests == []


async def test_an_approval_before_the_branches_spares_a_model_in_one_of_them() -> None:
    requests: list[ModelRequest] = []
    ran: Ran = []
    select = ModelRouter(
        model=model_saying("more", requests=requests), prompt="More?", after_decision="stop"
    )
    router = Router("way", choices=[mark("more", ran), mark("stop", ran)], select=select)
    paused = await run(line_of(publisher(ran), Parallel("fork", [router, mark("b", ran)])))
    await paused.restarted().approve()
    assert paused.output == {"way": "work>publisher>stop", "b": "work>publisher>b"}


async def test_a_decision_spares_the_model_once() -> None:
    requests: list[ModelRequest] = []
    select = ModelRouter(
        model=model_saying("more", requests=requests), prompt="More?", after_decision="stop"
    )
    routers = [
        Router(name, choices=[mark("more", []), mark("stop", [])], select=select)
        for name in ("one", "two")
    ]
    paused = await run(line_of(publisher([]), *routers))
    await paused.restarted().approve()
    assert paused.output == "work>publisher>stop>more"
    assert len(requests) == 1


async def test_an_approval_by_a_channel_spares_the_model_as_a_persons_does() -> None:
    auto = AutoApproveChannel("auto")

    @tool(channel=auto)
    async def publish(body: str) -> str:
        """Publishes."""
        return body

    def answer(request: ModelRequest) -> Reply:
        last = request.messages[-1]
        return reply_with(last.text) if last.role == "tool" else call_tool(publish, body="x")

    requests: list[ModelRequest] = []
    agent = Agent("clerk", prompt="", model=ScriptedModel(answer), tools=[publish])
    ended: EngineRun = await run(after_decision([], requests, agent, channels=[auto]))
    assert ended.output == "x>stop"
    assert requests == []

"""The asks after a step: is its output good, and what becomes of a failure."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from app.authoring import (
    Agent,
    AskError,
    AskInput,
    Confirm,
    Loop,
    ModelRequest,
    Reply,
    Review,
    ScriptedModel,
    Step,
    StepContext,
    Steps,
    Workflow,
    reply_with,
)
from app.channels import AutoApproveChannel
from app.domain.decision import Action, InvalidDecision, Value, Verdict
from app.domain.event import EventType
from app.domain.pause import PauseKind, PauseLevel
from app.domain.step import StepStatus
from tests.engine_runs import EngineRun, approvers, run
from tests.step_trees import Ran, line_of, mark

SOON = timedelta(hours=1)


class Article(BaseModel):
    title: str
    words: int = 0


def drafting(ran: Ran, seen: list[Any] | None = None, **review: Any) -> Workflow:
    """A reviewed step that writes better each time, and one that comes after it."""

    def draft(context: StepContext, text: str) -> Article:
        ran.append("draft")
        if seen is not None:
            seen.append((context.feedback, context.previous_output))
        return Article(title=text, words=len([each for each in ran if each == "draft"]))

    def use(context: StepContext, article: Article) -> str:
        ran.append("use")
        return f"{article.title} {article.words}"

    review = {"channel": approvers, **review}
    return line_of(Step("draft", draft, after=Review("Good?", **review)), Step("use", use))


# ── Review ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_review_shows_the_output_before_anything_comes_after_it() -> None:
    ran: Ran = []
    ask = (await run(drafting(ran))).ask
    assert ran == ["draft"]
    assert (ask.kind, ask.level, ask.place) == (
        PauseKind.REVIEW,
        PauseLevel.STEP,
        "work/draft#review",
    )
    assert ask.shown["output"] == {"title": "work", "words": 1}
    assert ask.shown["allowed"] == ["verdict", "override_output"]
    override = ask.shown["response_schema"]["properties"]["override_output"]
    assert set(override["properties"]) == {"title", "words"}


async def test_an_approved_output_stands_and_is_not_made_again() -> None:
    ran: Ran = []
    paused = await run(drafting(ran))
    await paused.restarted().go()
    await paused.restarted().approve()
    assert paused.output == "work 1"
    assert ran == ["draft", "use"]
    assert len(paused.asks) == 1


async def test_an_overridden_output_is_what_everybody_after_it_sees() -> None:
    ran: Ran = []
    paused = await run(drafting(ran))
    await paused.restarted().approve(override_output={"title": "better", "words": 7})
    assert paused.output == "better 7"
    assert paused.steps["work/draft"].output == {"title": "better", "words": 7}
    assert paused.asks[0].shown["output"] == {"title": "work", "words": 1}, "the original stays"
    assert paused.settled[0].shown["override_output"] == {"title": "better", "words": 7}


async def test_an_override_touches_no_other_steps_output() -> None:
    ran: Ran = []

    def read(context: StepContext, text: str) -> list[str]:
        return [context.outputs["a"], context.outputs["b"]]

    review = Review("Good?", channel=approvers)
    steps = [mark("a", ran), mark("b", ran, after=review), Step("read", read)]
    paused = await run(line_of(*steps))
    await paused.restarted().approve(override_output="mine")
    assert paused.output == ["work>a", "mine"]
    assert paused.steps["work/a"].output == "work>a"


@pytest.mark.parametrize(
    ("override", "pointers"),
    [
        ({"words": "many"}, {"/override_output/title", "/override_output/words"}),
        ({"title": "t", "colour": "red"}, {"/override_output/colour"}),
        ("words", {"/override_output"}),
    ],
)
async def test_an_override_that_does_not_fit_is_refused_with_every_wrong_field(
    override: Any, pointers: set[str]
) -> None:
    paused = await run(drafting([]))
    with pytest.raises(InvalidDecision) as refused:
        await paused.approve(override_output=override)
    assert {each.pointer for each in refused.value.fields} == pointers
    await paused.approve()
    assert paused.output == "work 1"


async def test_a_rejection_takes_no_override() -> None:
    paused = await run(drafting([]))
    with pytest.raises(InvalidDecision) as refused:
        await paused.settle(Verdict(approved=False, override_output={"title": "x"}))
    assert [each.pointer for each in refused.value.fields] == ["/override_output"]


async def test_a_rejected_output_is_made_again_with_the_feedback_and_what_was_rejected() -> None:
    ran: Ran = []
    seen: list[Any] = []
    paused = await run(drafting(ran, seen))
    await paused.restarted().reject("longer")
    await paused.restarted().reject()
    await paused.restarted().approve()
    assert paused.output == "work 3"
    assert seen == [
        (None, None),
        ("longer", Article(title="work", words=1)),
        (None, Article(title="work", words=2)),
    ]
    assert paused.places == ["work/draft#review", "work/draft~1#review", "work/draft~2#review"]
    assert paused.steps["work/draft"].attempts == 3


async def test_rejections_are_bounded_and_then_the_run_is_cancelled() -> None:
    ran: Ran = []
    paused = await run(drafting(ran, max_retries=2))
    for _ in range(3):
        await paused.restarted().reject("no")
    assert paused.stop_reason == "rejected by alice: no"
    assert ran == ["draft"] * 3


async def test_three_rejections_lead_to_a_fourth_draft_unless_said_otherwise() -> None:
    ran: Ran = []
    paused = await run(drafting(ran))
    for _ in range(3):
        await paused.restarted().reject()
    await paused.restarted().approve()
    assert paused.output == "work 4"


async def test_a_dropped_output_is_nowhere_and_the_next_step_sees_the_one_before() -> None:
    ran: Ran = []

    def names(context: StepContext, text: str) -> list[str]:
        return [text, *sorted(context.outputs)]

    review = Review("Good?", channel=approvers, on_reject="skip")
    steps = [mark("a", ran), mark("b", ran, after=review), Step("names", names)]
    paused = await run(line_of(*steps))
    await paused.restarted().reject()
    assert paused.output == ["work>a", "a"]
    assert ran == ["a", "b"]
    assert paused.steps["work/b"].status is StepStatus.SKIPPED
    assert paused.steps["work/b"].output is None


async def test_a_rejection_cancels_the_run_where_the_review_says_so() -> None:
    paused = await run(drafting([], on_reject="cancel"))
    await paused.restarted().reject("bad")
    assert paused.stop_reason == "rejected by alice: bad"


async def test_a_rejection_fails_the_run_where_the_review_says_so() -> None:
    paused = await run(drafting([], on_reject="fail"))
    await paused.restarted().reject()
    assert (paused.error.code, paused.error.step) == ("rejected", "work/draft")


async def test_a_deadline_rejects_a_review_and_so_the_step_runs_again() -> None:
    ran: Ran = []
    paused = await run(drafting(ran, expires_after=SOON, max_retries=1))
    await paused.restarted().expire()
    assert ran == ["draft", "draft"]
    await paused.restarted().expire()
    assert paused.stop_reason == "rejected by system:deadline"


@pytest.mark.parametrize("on_reject", ["retry", "skip", "cancel", "fail"])
async def test_a_deadline_can_fail_a_review_whatever_a_rejection_would_do(on_reject: Any) -> None:
    review = Review(
        "Good?", channel=approvers, on_reject=on_reject, expires_after=SOON, on_expire="fail"
    )
    ran: Ran = []
    paused = await run(line_of(mark("a", ran, after=review), mark("b", ran)))
    await paused.restarted().expire()
    assert (paused.error.code, paused.error.step) == ("pause_expired", "work/a")
    assert ran == ["a"]


async def test_a_deadline_can_approve_a_review() -> None:
    paused = await run(drafting([], expires_after=SOON, on_expire="approve"))
    await paused.restarted().expire()
    assert paused.output == "work 1"


def is_long(article: Article) -> bool:
    return article.words > 1


def broken(article: Article) -> bool:
    raise RuntimeError("no idea")


async def test_an_output_that_needs_no_look_is_not_asked_about() -> None:
    ended = await run(drafting([], when=is_long))
    assert ended.output == "work 1"
    assert ended.asks == []


async def test_a_look_that_crashes_asks() -> None:
    paused = await run(drafting([], when=broken))
    assert paused.ask.kind is PauseKind.REVIEW
    await paused.approve()
    assert paused.output == "work 1"


async def test_a_review_takes_a_verdict_and_nothing_else() -> None:
    paused = await run(drafting([]))
    for decision in (Value(value="x"), Action(action="retry")):
        with pytest.raises(InvalidDecision):
            await paused.settle(decision)


async def test_two_reviews_in_a_row_both_ask_also_when_the_first_output_was_dropped() -> None:
    ran: Ran = []
    review = Review("Good?", channel=approvers, on_reject="skip")
    steps = [mark(name, ran, after=review) for name in "ab"]
    paused = await run(line_of(*steps))
    await paused.restarted().reject()
    assert paused.ask.place == "work/b#review"
    await paused.restarted().approve()
    assert paused.output == "work>b"


async def test_what_was_filled_in_is_kept_for_the_next_attempt_and_not_asked_again() -> None:
    ran: Ran = []
    words: list[int] = []

    def write(context: StepContext, text: str) -> str:
        words.append(context.input(Article).words)
        return f"{text}!"

    step = Step(
        "write",
        write,
        before=[
            Confirm("Begin?", channel=approvers),
            AskInput("What about?", Article, channel=approvers),
        ],
        after=Review("Good?", channel=approvers),
    )
    paused = await run(line_of(step, mark("b", ran)))
    await paused.restarted().approve()
    await paused.restarted().fill({"title": "t", "words": 5})
    await paused.restarted().reject()
    await paused.restarted().approve()
    assert words == [5, 5]
    assert [ask.kind.value for ask in paused.asks] == [
        "confirmation",
        "input",
        "review",
        "review",
    ]


async def test_a_reviewed_container_is_run_again_as_a_whole_on_what_it_was_given() -> None:
    ran: Ran = []
    seen: list[Any] = []

    def look(context: StepContext, text: str) -> str:
        seen.append((context.feedback, context.previous_output))
        return text

    group = Steps(
        "group",
        [
            Step("look", look),
            mark("a", ran, before=Confirm("Begin?", channel=approvers)),
            mark("b", ran),
        ],
        after=Review("Good?", channel=approvers),
    )
    paused = await run(line_of(group, mark("c", ran)))
    await paused.restarted().approve()
    await paused.restarted().reject("again")
    await paused.restarted().approve()
    await paused.restarted().approve()
    assert paused.output == "work>a>b>c"
    assert ran == ["a", "b", "a", "b", "c"]
    assert seen == [(None, None), ("again", "work>a>b")]
    assert paused.places == [
        "work/group/a#before0",
        "work/group#review",
        "work/group~1/a#before0",
        "work/group~1#review",
    ]
    assert paused.steps["work/group"].attempts == 2


def writer(read: list[str]) -> Agent:
    def answer(request: ModelRequest) -> Reply:
        read.append(request.messages[-1].text)
        return reply_with(f"draft {len(read)}")

    return Agent("writer", prompt="", model=ScriptedModel(answer))


async def test_an_agent_reads_its_rejected_answer_and_the_feedback() -> None:
    read: list[str] = []
    step = Step("writer", writer(read), after=Review("Good?", channel=approvers))
    paused = await run(line_of(step, mark("b", [])))
    await paused.restarted().reject("longer")
    await paused.restarted().approve()
    assert read == [
        "work",
        "work\n\nYour previous answer was rejected: draft 1\n\nFeedback: longer",
    ]
    assert paused.output == "draft 2>b"
    assert [entry.place for entry in paused.ledger] == ["work/writer#0", "work/writer~1#0"]


async def test_an_agent_in_a_loop_reads_what_was_rejected_of_the_whole_iteration() -> None:
    read: list[str] = []

    def wrap(context: StepContext, text: str) -> Article:
        return Article(title=text, words=1)

    def unwrap(context: StepContext, value: Article | str) -> str:
        return value if isinstance(value, str) else f"again {value.title}"

    loop = Loop(
        "loop",
        steps=[Step("unwrap", unwrap), Step("writer", writer(read)), Step("wrap", wrap)],
        max_iterations=3,
        after_each=Review("Good?", channel=approvers),
    )
    paused = await run(line_of(loop))
    await paused.restarted().reject("longer")
    await paused.restarted().approve()
    assert read == [
        "work",
        "again draft 1\n\n"
        'Your previous answer was rejected: {"title":"draft 1","words":1}\n\n'
        "Feedback: longer",
    ]
    assert paused.output == {"title": "draft 2", "words": 1}


async def test_a_channel_can_review_at_once() -> None:
    auto = AutoApproveChannel("auto")
    step = mark("a", [], after=Review("Good?", channel=auto))
    ended = await run(Workflow("work", version="1", input=str, steps=[step], channels=[auto]))
    assert ended.output == "work>a"
    assert [ask.kind for ask in ended.decided_at_once] == [PauseKind.REVIEW]


# ── Failures ─────────────────────────────────────────────────────────────────────────────────────


def failing(ran: Ran, *, times: int, on_error: Any, **more: Any) -> Workflow:
    """A step that raises a few times, between two others."""

    def risky(context: StepContext, text: str) -> str:
        ran.append("risky")
        if ran.count("risky") <= times:
            raise RuntimeError(f"no luck {ran.count('risky')}")
        return f"{text}>risky"

    step = Step("risky", risky, on_error=on_error, **more)
    return line_of(mark("a", ran), step, mark("c", ran))


WHAT_NOW = AskError("What now?", channel=approvers)


async def test_a_failure_that_is_asked_about_says_what_failed_and_what_can_be_done() -> None:
    paused = await run(failing([], times=1, on_error=WHAT_NOW))
    ask = paused.ask
    assert (ask.kind, ask.level, ask.place) == (
        PauseKind.ERROR,
        PauseLevel.STEP,
        "work/risky#error",
    )
    assert ask.shown["error"] == {
        "code": "step_failed", "message": "no luck 1", "step": "work/risky",
    }  # fmt: skip
    assert ask.shown["allowed"] == ["action"]
    assert ask.shown["options"] == ["retry", "skip", "fail"]
    assert paused.steps["work/risky"].status is StepStatus.FAILED


async def test_a_failed_step_is_tried_again_on_what_it_was_given() -> None:
    ran: Ran = []
    paused = await run(failing(ran, times=2, on_error=WHAT_NOW))
    await paused.restarted().go()
    await paused.restarted().act("retry")
    await paused.restarted().act("retry")
    assert paused.output == "work>a>risky>c"
    assert ran == ["a", "risky", "risky", "risky", "c"]
    assert paused.places == ["work/risky#error", "work/risky~1#error"]
    assert paused.steps["work/risky"].attempts == 3
    assert [event.type for event in paused.events].count(EventType.STEP_FAILED) == 2


async def test_attempts_are_bounded_and_then_only_the_other_actions_are_taken() -> None:
    ask = AskError("What now?", channel=approvers, max_retries=1)
    paused = await run(failing([], times=9, on_error=ask))
    await paused.restarted().act("retry")
    assert paused.ask.shown["options"] == ["skip", "fail"]
    with pytest.raises(InvalidDecision) as refused:
        await paused.settle(Action(action="retry"))
    assert [each.pointer for each in refused.value.fields] == ["/action"]
    await paused.restarted().act("skip")
    assert paused.output == "work>a>c"


async def test_a_failed_step_is_left_out() -> None:
    ran: Ran = []
    paused = await run(failing(ran, times=1, on_error=WHAT_NOW))
    await paused.restarted().act("skip")
    assert paused.output == "work>a>c"
    assert ran == ["a", "risky", "c"]
    assert paused.steps["work/risky"].status is StepStatus.SKIPPED


async def test_a_failed_step_fails_the_run_with_its_own_error() -> None:
    paused = await run(failing([], times=9, on_error=WHAT_NOW))
    await paused.restarted().act("retry")
    await paused.restarted().act("fail")
    assert (paused.error.code, paused.error.message) == ("step_failed", "no luck 2")
    assert paused.error.step == "work/risky"
    assert paused.steps["work/risky"].status is StepStatus.FAILED
    assert paused.steps["work/risky"].attempts == 2


@pytest.mark.parametrize(
    ("on_expire", "output"), [("fail", None), ("skip", "work>a>c")], ids=["fail", "skip"]
)
async def test_a_deadline_decides_about_a_failure_as_its_ask_says(
    on_expire: Any, output: str | None
) -> None:
    ask = AskError("What now?", channel=approvers, expires_after=SOON, on_expire=on_expire)
    paused = await run(failing([], times=9, on_error=ask))
    await paused.restarted().expire()
    if output:
        assert paused.output == output
    else:
        assert (paused.error.code, paused.error.message) == ("step_failed", "no luck 1")


async def test_a_failing_step_fails_the_run_unless_said_otherwise() -> None:
    paused = await run(failing([], times=1, on_error="fail"))
    assert paused.error.code == "step_failed"


async def test_a_failing_step_is_left_out_where_the_writer_says_so() -> None:
    ran: Ran = []
    ended = await run(failing(ran, times=1, on_error="skip"))
    assert ended.output == "work>a>c"
    assert ended.steps["work/risky"].status is StepStatus.SKIPPED
    assert ended.asks == []


async def test_what_comes_next_says_whether_a_failed_step_can_be_left_out() -> None:
    def make(context: StepContext, text: str) -> Article:
        raise RuntimeError("no paper")

    def use(context: StepContext, article: Article) -> str:
        return article.title

    served = line_of(Step("make", make, on_error=WHAT_NOW), Step("use", use))
    paused = await run(served)
    assert paused.ask.shown["options"] == ["retry", "fail"]
    with pytest.raises(InvalidDecision):
        await paused.settle(Action(action="skip"))


@pytest.mark.parametrize(
    "decision", [Verdict(approved=True), Value(value="retry"), Action(action="panic")]
)
async def test_a_failure_takes_known_actions_only(decision: Any) -> None:
    paused = await run(failing([], times=1, on_error=WHAT_NOW))
    with pytest.raises(InvalidDecision):
        await paused.settle(decision)


async def test_a_rejected_gate_is_no_failure_that_is_asked_about() -> None:
    gate = Confirm("Begin?", channel=approvers, on_reject="fail")
    paused = await run(failing([], times=0, on_error=WHAT_NOW, before=gate))
    await paused.restarted().reject()
    assert paused.error.code == "rejected"


async def test_a_retried_step_is_still_reviewed_and_its_review_still_bounded() -> None:
    ran: Ran = []
    review = Review("Good?", channel=approvers, max_retries=1)
    paused = await run(failing(ran, times=1, on_error=WHAT_NOW, after=review))
    await paused.restarted().act("retry")
    assert paused.ask.kind is PauseKind.REVIEW
    await paused.restarted().reject()
    await paused.restarted().approve()
    assert paused.output == "work>a>risky>c"
    assert paused.places == ["work/risky#error", "work/risky~1#review", "work/risky~2#review"]


async def test_an_agent_whose_model_fails_can_be_tried_again() -> None:
    asked: list[int] = []

    def answer(request: ModelRequest) -> Reply:
        asked.append(request.turn)
        if len(asked) == 1:
            raise RuntimeError("overloaded")
        return reply_with("done")

    agent = Agent("writer", prompt="", model=ScriptedModel(answer), retries=0)
    paused = await run(line_of(Step("writer", agent, on_error=WHAT_NOW), mark("b", [])))
    assert paused.ask.shown["error"]["code"] == "model_error"
    await paused.restarted().act("retry")
    assert paused.output == "done>b"


async def test_two_failures_in_a_row_both_ask_also_when_the_first_was_left_out() -> None:
    def broken(context: StepContext, text: str) -> str:
        raise RuntimeError("broken")

    steps = [Step(name, broken, on_error=WHAT_NOW) for name in "ab"]
    paused = await run(line_of(*steps, mark("c", [])))
    await paused.restarted().act("skip")
    assert paused.ask.place == "work/b#error"
    await paused.restarted().act("skip")
    assert paused.output == "work>c"


async def test_a_failed_attempt_is_not_noted_twice_by_its_own_question() -> None:
    paused: EngineRun = await run(failing([], times=9, on_error=WHAT_NOW))
    await paused.restarted().go()
    await paused.restarted().act("fail")
    assert [event.type for event in paused.events].count(EventType.STEP_FAILED) == 1

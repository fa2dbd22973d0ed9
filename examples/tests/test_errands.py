"""How a workflow of one agent is tested: what it asks, and what comes of each decision."""

import pytest

from app.authoring import call_tool, reply_with
from app.domain.decision import InvalidDecision
from app.testing import Signoff, assert_called, assert_finished, assert_paused
from examples.errands import Done, EmailDraft, Errand, assistant, errands, send_email


async def test_an_email_waits_for_its_approval(signoff: Signoff) -> None:
    run = await signoff.execute(errands, Errand(text="hello"))
    assert_paused(run, at="assistant", kind="approval")
    assert_called(run, [])  # nothing was sent


async def test_an_approved_email_is_sent_once(signoff: Signoff) -> None:
    run = await signoff.execute(errands, Errand(text="hello"))
    run = await signoff.resume(run, approved=True)
    assert_called(run, [send_email])
    assert_finished(run)


async def test_the_assistant_reads_who_turned_its_email_down_and_why(signoff: Signoff) -> None:
    run = await signoff.execute(errands, Errand(text="hello"))
    run = await signoff.resume(run, approved=False, by="maria", feedback="too short")
    assert_called(run, [])
    assert_finished(run, Done(text="Tool error: the call was rejected by maria: too short"))


async def test_what_the_approver_changed_is_what_is_sent(signoff: Signoff) -> None:
    signoff.model(assistant).answers([
        call_tool(send_email, EmailDraft(to="boss@example.com", body="hi")),
        reply_with("done"),
    ])  # fmt: skip
    run = await signoff.execute(errands, Errand(text="greet the boss"))
    run = await signoff.resume(
        run, approved=True, override_arguments=EmailDraft(to="team@example.com", body="hi")
    )
    assert run.pauses[0]["decision"]["override_arguments"]["to"] == "team@example.com"
    assert_finished(run, Done(text="done"))


async def test_a_decision_that_does_not_fit_decides_nothing(signoff: Signoff) -> None:
    run = await signoff.execute(errands, Errand(text="hello"))
    with pytest.raises(InvalidDecision):
        await signoff.resume(run, approved=True, override_arguments={"to": 7})
    run = await signoff.resume(run, approved=True)
    assert_called(run, [send_email])


async def test_the_assistant_remembers_the_run_before(signoff: Signoff) -> None:
    signoff.model(assistant).answers(lambda request: reply_with(request.messages[1].text))
    first = await signoff.execute(errands, Errand(text="my name is Ada"))
    second = await signoff.execute(
        errands, Errand(text="what is my name?"), thread_id=first.thread_id
    )
    assert_finished(second, Done(text="my name is Ada"))

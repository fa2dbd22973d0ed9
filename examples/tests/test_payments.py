"""How a workflow that moves money is tested: votes, questions, filled-in arguments, work of others, refusals."""

from decimal import Decimal

import pytest

from app.authoring import call_tool, reply_with
from app.lifecycle.deciders import AlreadyVoted
from app.testing import Run, Signoff, assert_called, assert_finished, assert_paused
from examples.payments import (
    Complaint,
    Refund,
    call_customer,
    cashier,
    find_order,
    payments,
    refund,
    set_payout_account,
)


async def complained(signoff: Signoff) -> Run:
    """A run whose refund waits for the first of its two approvals."""
    run = await signoff.execute(payments, Complaint(text="It broke."))
    assert_paused(run, at="refund", kind="approval")
    return run


async def test_a_large_refund_takes_two_who_agree(signoff: Signoff) -> None:
    run = await signoff.resume(await complained(signoff), approved=True, by="ann")
    assert_paused(run, at="refund", kind="approval")
    with pytest.raises(AlreadyVoted):
        await signoff.resume(run, approved=True, by="ann")
    run = await signoff.resume(run, approved=True, by="bob")
    assert_paused(run, at="set_payout_account", kind="input")  # the next question
    assert_called(run, [])


async def test_one_who_disagrees_is_enough(signoff: Signoff) -> None:
    run = await signoff.resume(await complained(signoff), approved=True, by="ann")
    run = await signoff.resume(run, approved=False, by="bob", feedback="not broken")
    run = await signoff.resume(run, value={"iban": "DE89370400440532013000"})
    assert_called(run, [find_order, set_payout_account])
    assert "the call was rejected by bob: not broken" in run.output


async def test_a_person_fills_in_the_iban_and_the_refund_asks_which_account(
    signoff: Signoff,
) -> None:
    run = await signoff.resume(await complained(signoff), approved=True, by="ann")
    run = await signoff.resume(run, approved=True, by="bob")
    run = await signoff.resume(run, value={"iban": "DE89370400440532013000"})
    assert_paused(run, at="refund", kind="interactive")
    run = await signoff.resume(run, value="reserve")
    assert_called(run, [find_order, refund, set_payout_account])
    assert "refunded 120.00 from reserve" in run.output
    assert "C-1 is paid out to DE89" in run.output


async def test_a_small_refund_asks_nobody_to_approve_it(signoff: Signoff) -> None:
    signoff.model(cashier).answers(
        [call_tool(refund, Refund(order="A-1", amount=Decimal(20))), reply_with("done")]
    )
    run = await signoff.execute(payments, Complaint(text="It is scratched."))
    assert_paused(run, at="refund", kind="interactive")
    assert_finished(await signoff.resume(run, value="main"), "done")


async def test_a_round_sum_is_put_before_nobody(signoff: Signoff) -> None:
    signoff.model(cashier).answers(
        [call_tool(refund, Refund(order="A-1", amount=Decimal(3000))), reply_with("sorry")]
    )
    run = await signoff.execute(payments, Complaint(text="Give me 3000."))
    assert_called(run, [])
    assert_finished(run, "sorry")


async def test_a_person_reports_what_the_customer_said(signoff: Signoff) -> None:
    signoff.model(cashier).answers(
        lambda request: reply_with(request.messages[-1].text)
        if request.turn
        else call_tool(call_customer, customer="C-1", reason="to say sorry")
    )
    run = await signoff.execute(payments, Complaint(text="Call me."))
    assert_paused(run, at="call_customer", kind="external_result")
    assert_finished(await signoff.resume(run, value="They are happy."), "They are happy.")

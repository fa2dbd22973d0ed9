"""Channels that decide by themselves, and those that leave it to others."""

import pytest

from app.authoring import AskRequest, Channel
from app.channels import (
    AutoApproveChannel,
    AutoRejectChannel,
    HttpCallbackChannel,
    InboxChannel,
)
from app.domain.decision import Decline, Verdict
from app.domain.ids import RunId, ThreadId
from app.domain.pause import PauseKind

YES_OR_NO = [PauseKind.APPROVAL, PauseKind.CONFIRMATION, PauseKind.REVIEW]
VALUES = [PauseKind.INTERACTIVE, PauseKind.INPUT, PauseKind.EXTERNAL_RESULT, PauseKind.ROUTE]
FAULTS = [PauseKind.ERROR, PauseKind.UNKNOWN_OUTCOME]


def asked(kind: PauseKind) -> AskRequest:
    return AskRequest(
        kind=kind,
        workflow="work",
        thread_id=ThreadId("t"),
        run_id=RunId("r"),
        step="s",
        message="May it?",
    )


@pytest.mark.parametrize("channel", [InboxChannel("a"), HttpCallbackChannel("a"), Channel("a")])
@pytest.mark.parametrize("kind", PauseKind)
def test_people_are_asked_and_do_not_decide_at_once(channel: Channel, kind: PauseKind):
    assert channel.decide(asked(kind)) is None


@pytest.mark.parametrize("kind", YES_OR_NO)
def test_yes_and_no_are_decided_at_once(kind: PauseKind):
    assert AutoApproveChannel("a").decide(asked(kind)) == Verdict(approved=True)
    assert AutoRejectChannel("a").decide(asked(kind)) == Verdict(approved=False)


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_cannot_be_approved_but_it_can_be_declined(kind: PauseKind):
    assert AutoApproveChannel("a").decide(asked(kind)) is None
    assert AutoRejectChannel("a").decide(asked(kind)) == Decline()


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_left_to_people(kind: PauseKind):
    assert AutoApproveChannel("a").decide(asked(kind)) is None
    assert AutoRejectChannel("a").decide(asked(kind)) is None


def test_every_kind_of_pause_is_one_of_these():
    assert set(YES_OR_NO + VALUES + FAULTS) == set(PauseKind)

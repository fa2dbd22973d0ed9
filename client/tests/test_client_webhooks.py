"""What a receiver believes, beside the public verifier and the service's own signatures."""

import base64
import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
import standardwebhooks

from app.channels.signing import parse_secret, sign
from signoff_client import BadNotice, Webhook

NEW, OLD, OTHER = (f"whsec_{base64.b64encode(os.urandom(24)).decode()}" for _ in range(3))
DATA = {
    "event_sequence": 4,
    "thread_id": "t",
    "run_id": "r",
    "workflow": {"name": "errands", "version": "1"},
    "run_status": "completed",
    "pause": None,
    "run": None,
    "reply": None,
    "something_newer": 1,
}
BODY = json.dumps(
    {"type": "run.completed", "timestamp": "2026-01-02T03:04:05Z", "data": DATA}
).encode()


def headers(
    *secrets: str, body: bytes = BODY, at: float | None = None, id: str = "dlv_1"
) -> dict[str, str]:
    sent_at = int(time.time() if at is None else at)
    return {
        "Webhook-Id": id,
        "Webhook-Timestamp": str(sent_at),
        "Webhook-Signature": sign([parse_secret(each) for each in secrets], id, sent_at, body),
    }


def test_a_notice_that_the_service_signs_is_believed() -> None:
    notice = Webhook(NEW).verify(BODY, headers(NEW))
    assert (notice.id, notice.type, notice.data.run_status) == (
        "dlv_1",
        "run.completed",
        "completed",
    )


def test_it_believes_what_the_public_signer_signs() -> None:
    signer, at = standardwebhooks.Webhook(NEW), time.time()
    from_public = {
        **headers(NEW, at=at),
        "Webhook-Signature": signer.sign(
            "dlv_1", datetime.fromtimestamp(int(at), UTC), BODY.decode()
        ),
    }
    assert Webhook(NEW).verify(BODY, from_public).id == "dlv_1"


def test_while_a_secret_changes_either_is_enough_on_either_side() -> None:
    assert Webhook(NEW, OLD).verify(BODY, headers(OLD))
    assert Webhook(NEW).verify(BODY, headers(OLD, NEW))


def test_signatures_of_other_versions_are_passed_over() -> None:
    told = headers(NEW)
    told["Webhook-Signature"] = f"v1a,AAAA {told['Webhook-Signature']}"
    assert Webhook(NEW).verify(BODY, told)


Change = Callable[[dict[str, str]], tuple[bytes, dict[str, str]]]


CHANGES: dict[str, Change] = {
    "another body": lambda told: (BODY + b" ", told),
    "another id": lambda told: (BODY, {**told, "Webhook-Id": "dlv_2"}),
    "another secret": lambda _: (BODY, headers(OTHER)),
    "no signature": lambda told: (BODY, {**told, "Webhook-Signature": ""}),
    "no base64": lambda told: (BODY, {**told, "Webhook-Signature": "v1,é"}),
    "no text": lambda told: (BODY, {**told, "Webhook-Signature": "v1,\udcff"}),
    "no text of an id": lambda told: (BODY, {**told, "Webhook-Id": "dlv_\udcff"}),
    "no time": lambda told: (BODY, {**told, "Webhook-Timestamp": "soon"}),
    "no day": lambda told: (BODY, {**told, "Webhook-Timestamp": "9" * 5000}),
    "too old": lambda _: (BODY, headers(NEW, at=time.time() - 400)),
    "too early": lambda _: (BODY, headers(NEW, at=time.time() + 400)),
    "no headers": lambda _: (BODY, {}),
    "no notice": lambda _: (b"[]", headers(NEW, body=b"[]")),
    "no json": lambda _: (b"{", headers(NEW, body=b"{")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_not_to_be_believed_is_refused(change: str) -> None:
    body, told = CHANGES[change](headers(NEW))
    with pytest.raises(BadNotice):
        Webhook(NEW).verify(body, told)


def test_how_old_a_notice_may_be_is_the_receivers_affair() -> None:
    old = headers(NEW, at=time.time() - 400)
    assert Webhook(NEW, tolerance=timedelta(minutes=10)).verify(BODY, old)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_%%%", "c2VjcmV0c2VjcmV0"])
def test_a_secret_that_is_none_is_told_when_it_is_given_and_not_shown(secret: str) -> None:
    with pytest.raises(ValueError, match="whsec_ and base64") as refused:
        Webhook(secret)
    assert not secret[6:] or secret not in str(refused.value)


def test_there_is_no_verifying_without_a_secret() -> None:
    with pytest.raises(ValueError, match="needs a secret"):
        Webhook()

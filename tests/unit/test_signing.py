"""Signatures that any receiver which knows Standard Webhooks can verify."""

import base64
import os
import time

import pytest
import standardwebhooks
from hypothesis import given
from hypothesis import strategies as st

from app.channels.signing import BadSecret, parse_secret, parse_secrets, sign


def new_secret() -> str:
    return "whsec_" + base64.b64encode(os.urandom(32)).decode()


def headers(webhook_id: str, sent_at: int, signature: str) -> dict[str, str]:
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(sent_at),
        "webhook-signature": signature,
    }


@given(text=st.text())
def test_the_public_package_verifies_any_body(text: str) -> None:
    secret, sent_at, body = new_secret(), int(time.time()), text.encode(errors="replace")

    signature = sign([parse_secret(secret)], "msg_1", sent_at, body)

    verifier = standardwebhooks.Webhook(secret)
    verifier.verify(body, headers("msg_1", sent_at, signature), json_parse=False)


def test_during_a_rotation_both_secrets_verify_and_a_third_does_not() -> None:
    old, new, foreign = new_secret(), new_secret(), new_secret()
    sent_at = int(time.time())

    signature = sign(parse_secrets([new, old]), "msg_1", sent_at, b"{}")

    assert signature.count("v1,") == 2
    for secret in (old, new):
        standardwebhooks.Webhook(secret).verify(b"{}", headers("msg_1", sent_at, signature))
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(foreign).verify(b"{}", headers("msg_1", sent_at, signature))


def test_id_time_and_body_are_all_bound_by_the_signature() -> None:
    secret, sent_at = new_secret(), int(time.time())
    verifier = standardwebhooks.Webhook(secret)

    signature = sign([parse_secret(secret)], "msg_1", sent_at, b"{}")

    for webhook_id, at, body in [
        ("msg_2", sent_at, b"{}"),
        ("msg_1", sent_at + 1, b"{}"),
        ("msg_1", sent_at, b"{ }"),
    ]:
        with pytest.raises(standardwebhooks.WebhookVerificationError):
            verifier.verify(body, headers(webhook_id, at, signature))


def test_the_signature_of_a_known_message_is_the_published_one() -> None:
    secret = parse_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")

    signature = sign([secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')

    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "begins with whsec_"),
        ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "begins with whsec_"),
        ("whsec_", "holds 0 bytes"),
        ("whsec_c2hvcnQ=", "holds 5 bytes"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", "not base64"),
        ("whsec_MfKQ9r8G KYqrTwjUPD8ILPZIo2LaLaSw", "not base64"),
        ("whsec_ümlautümlautümlautümlaut", "not base64"),
    ],
)
def test_a_wrong_secret_is_refused_and_not_shown(text: str, says: str) -> None:
    with pytest.raises(BadSecret, match=says) as refusal:
        parse_secret(text)

    assert text.removeprefix("whsec_") not in str(refusal.value) or text in ("", "whsec_")


def test_of_several_secrets_the_wrong_one_is_named_by_its_position() -> None:
    with pytest.raises(BadSecret, match="Secret 2: "):
        parse_secrets([new_secret(), "whsec_?"])


def test_a_secret_shows_its_key_nowhere() -> None:
    secret = parse_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")

    assert repr(secret) == "SigningSecret()"

"""Reply tokens: what they say, and that nobody else can make one."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.channels.reply_token import Grant, is_reply_token, make_token, read_token
from app.channels.signing import SigningSecret
from app.domain.ids import PauseId, TenantId

NEW, OLD, FOREIGN = (SigningSecret(key=os.urandom(32)) for _ in range(3))


def grant(channel: str = "finance", tenant: str = "default", pause: str = "pau_1") -> Grant:
    return Grant(tenant=TenantId(tenant), channel=channel, pause_id=PauseId(pause))


@given(st.text(), st.text(), st.text())
def test_a_token_says_what_it_was_made_for(channel: str, tenant: str, pause: str) -> None:
    made = make_token(NEW, grant(channel, tenant, pause))
    assert read_token([NEW], made) == grant(channel, tenant, pause)
    assert is_reply_token(made)


def test_the_same_grant_has_the_same_token_and_another_one_another() -> None:
    assert make_token(NEW, grant()) == make_token(NEW, grant())
    others = [grant("sales"), grant(tenant="other"), grant(pause="pau_2")]
    assert len({make_token(NEW, each) for each in [grant(), *others]}) == 4


def test_while_secrets_change_the_tokens_of_both_are_believed() -> None:
    assert read_token([NEW, OLD], make_token(OLD, grant())) == grant()
    assert read_token([NEW, OLD], make_token(FOREIGN, grant())) is None


def test_what_one_token_says_does_not_go_with_the_code_of_another() -> None:
    one, other = make_token(NEW, grant()), make_token(NEW, grant(pause="pau_2"))
    said, code = one.partition(".")[0], other.partition(".")[2]
    assert read_token([NEW], f"{said}.{code}") is None


@pytest.mark.parametrize(
    "token",
    ["reply_", "reply_.", "reply_x", "reply_W10.", "reply_W10.%%%%", "reply_€.€", "reply_a.b.c"],
)
def test_what_is_no_token_grants_nothing(token: str) -> None:
    assert read_token([NEW], token) is None

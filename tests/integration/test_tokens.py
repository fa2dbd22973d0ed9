"""JWT of an issuer: whose are good, whom they make known, and how its keys change."""

import base64
import hmac
import json
import time
from collections.abc import Mapping

import pytest
from joserfc.jwk import OctKey, RSAKey

from app.api.tokens import IssuerUnavailable, Tokens
from app.domain.principal import Flaw, Holder, Lapsed, Scope
from examples.errands import errands
from tests.issuers import ALGORITHMS, FIRST, SECOND, Publisher, issuer, token
from tests.keyring import bearer
from tests.serving import paused, service


def signed_with_what_is_public(key: RSAKey) -> str:
    """A token whose shared secret is the published key, as a careless verifier would take it."""
    signed = f"{encoded({'alg': 'HS256', 'kid': key.kid})}.{token().split('.')[1]}"
    signature = hmac.digest(key.as_pem(private=False), signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def encoded(header: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(header).encode()).decode().rstrip("=")


async def test_a_token_makes_its_holder_known(database_url: str) -> None:
    async with Publisher(FIRST).publishing() as published:
        tokens = Tokens(issuer(published.url))
        async with service(database_url, [errands], is_open=False, tokens=tokens) as served:
            client = served.client
            client.headers.update(bearer(token({"scope": "runs:read runs:write"})))
            run = await paused(client)
            assert run["requested_by"] == "ann"
            assert (await client.get("/deliveries")).status_code == 403
            client.headers.update(bearer(token({"exp": int(time.time()) - 60})))
            assert (await client.get("/threads")).status_code == 401
            published.is_away = True
        async with service(
            database_url, [errands], is_open=False, tokens=Tokens(issuer(published.url))
        ) as served:
            answer = await served.client.get("/threads", headers=bearer(token()))
            assert (answer.status_code, answer.json()["code"]) == (503, "issuer_unavailable")


async def test_claims_are_read_as_the_settings_say() -> None:
    async with Publisher(FIRST).publishing() as published:
        plain = await Tokens(issuer(published.url)).holder_of(token())
        assert isinstance(plain, Holder)
        principal = plain.principal
        assert (principal.tenant, principal.name, principal.credential) == (
            "default",
            "ann",
            "jwt:ann",
        )
        assert principal.groups == {"finance"}
        assert principal.scopes == {Scope.RUNS_READ, Scope.DECISIONS_WRITE}
        mapped = Tokens(
            issuer(
                published.url,
                name_claim="email",
                tenant_claim="org",
                groups_claim="roles",
                scopes_claim="permissions",
                scopes=frozenset({Scope.RUNS_READ}),
            )
        )
        claims = {
            "email": "ann@example.com",
            "org": "acme",
            "roles": ["a b"],
            "permissions": ["audit"],
        }
        found = await mapped.holder_of(token(claims))
        assert isinstance(found, Holder)
        principal = found.principal
        assert (principal.tenant, principal.name, principal.credential) == (
            "acme",
            "ann@example.com",
            "jwt:ann",
        )
        assert principal.groups == {"a b"}
        assert principal.scopes == {Scope.RUNS_READ, Scope.AUDIT}
        for missing in ({"org": None}, {"org": 7}, {"org": "a b"}, {"email": None}, {"email": ""}):
            assert await mapped.holder_of(token(claims | missing)) is None


async def test_a_token_that_is_not_for_this_service_is_refused() -> None:
    now = int(time.time())
    async with Publisher(FIRST).publishing() as published:
        tokens = Tokens(issuer(published.url))
        for wrong in (
            {"iss": "https://evil.example.com"},
            {"iss": None},
            {"aud": "other"},
            {"aud": ["other", "another"]},
            {"aud": None},
            {"exp": None},
            {"exp": "soon"},
            {"nbf": now + 60},
            {"iat": now + 60},
            {"sub": None},
            {"sub": "channel:finance"},
            {"sub": "system:deadline"},
            {"sub": "ann\nbob"},
            {"sub": ["ann"]},
        ):
            assert await tokens.holder_of(token(wrong)) is None, wrong
        late = await tokens.holder_of(token({"exp": now - 31}))
        assert isinstance(late, Lapsed)
        assert (late.principal.name, late.flaw) == ("ann", Flaw.EXPIRED)
        for wrong in ({"iss": "https://eve.example.com"}, {"aud": "other"}, {"sub": None}):
            assert await tokens.holder_of(token({"exp": now - 31, **wrong})) is None, wrong
        for good in ({"aud": ["other", "signoff"]}, {"exp": now - 20}, {"nbf": now + 20}):
            assert isinstance(await tokens.holder_of(token(good)), Holder), good


async def test_algorithms_cannot_be_mixed_up() -> None:
    other = RSAKey.generate_key(2048, {"kid": "first"})
    async with Publisher(FIRST, SECOND).publishing() as published:
        tokens = Tokens(issuer(published.url))
        good = token()
        head, body, signature = good.split(".")
        none = f"{encoded({'alg': 'none', 'kid': 'first'})}.{body}."
        for forged in (
            token(key=other),
            signed_with_what_is_public(FIRST),
            none,
            f"{none}x",
            f"{head}.{body}.",
            f"{head}.{body}.{signature[:-4]}AAAA",
            f"{head}.{token({'sub': 'eve'}).split('.')[1]}.{signature}",
            token(kid="second"),
            token(alg="RS512"),
            token(kid="unknown"),
            "a.b.c",
            ".".join(["e30"] * 3),
        ):
            assert await tokens.holder_of(forged) is None, forged
        assert isinstance(await tokens.holder_of(good), Holder)
        assert isinstance(await tokens.holder_of(token(key=SECOND, alg="ES256")), Holder)
        assert published.asked == 1  # strangers do not make it ask


async def test_a_shared_secret_among_the_published_keys_is_no_key() -> None:
    secret = OctKey.generate_key(256, {"kid": "shared"})
    async with Publisher(FIRST).publishing() as published:
        published.keys = [FIRST, secret]
        tokens = Tokens(issuer(published.url, algorithms=(*ALGORITHMS, "HS256")))
        assert await tokens.holder_of(token(key=secret, alg="HS256")) is None


async def test_keys_are_rotated() -> None:
    async with Publisher(FIRST).publishing() as published:
        tokens = Tokens(issuer(published.url), look_again=0)
        assert isinstance(await tokens.holder_of(token()), Holder)
        published.keys = [SECOND]
        assert isinstance(await tokens.holder_of(token(key=SECOND, alg="ES256")), Holder)
        assert await tokens.holder_of(token()) is None
        published.is_away = True
        assert isinstance(await tokens.holder_of(token(key=SECOND, alg="ES256")), Holder)


async def test_without_keys_nobody_is_known() -> None:
    async with Publisher(FIRST).publishing() as published:
        published.is_away = True
        with pytest.raises(IssuerUnavailable):
            await Tokens(issuer(published.url)).holder_of(token())

"""Signing in on the page: a key becomes a cookie that no script reads, and that no other page can use."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from http.cookies import Morsel, SimpleCookie

import httpx
import pytest

from app.api.auth import REMEMBERED_SECONDS
from app.api.tokens import Tokens
from app.domain.ids import DEFAULT_TENANT
from app.lifecycle import api_keys
from app.lifecycle.sessions import LONGEST
from examples.errands import errands
from tests.described import is_described
from tests.issuers import FIRST, Publisher, issuer, token
from tests.keyring import APPROVER, bearer, holding, key
from tests.serving import Service, decide, paused, service

OWN: Mapping[str, str] = {"X-Signoff-Inbox": "1"}
"""What the page sends with each request."""


@pytest.fixture
async def served(database_url: str) -> AsyncGenerator[Service]:
    async with service(database_url, [errands], is_open=False) as served:
        yield served


@asynccontextmanager
async def a_browser(client: httpx.AsyncClient) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of the same service that keeps cookies, as the page in a browser does."""
    async with httpx.AsyncClient(base_url=client.base_url, timeout=20, headers=OWN) as page:
        yield page


@pytest.fixture
async def page(served: Service) -> AsyncGenerator[httpx.AsyncClient]:
    async with a_browser(served.client) as page:
        yield page


async def signed_in(page: httpx.AsyncClient, credential: str, **headers: str) -> httpx.Response:
    answer = await page.post("/session", json={"credential": credential}, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer


def given(answer: httpx.Response) -> Morsel[str]:
    """The one cookie that came with an answer."""
    (morsel,) = SimpleCookie(answer.headers["set-cookie"]).values()
    return morsel


def refused(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


async def test_a_key_signs_in_and_decides_in_its_holders_name(
    served: Service, page: httpx.AsyncClient
) -> None:
    secret = await key(served.site.database, "ann")
    answer = await signed_in(page, secret)
    assert is_described(answer)
    assert answer.json()["name"] == "ann"
    assert answer.json()["is_open"] is False

    async with holding(served.client, await key(served.site.database, "bob")) as bob:
        run = await paused(bob)
    ended = (await decide(page, run, {"approved": True})).json()

    assert ended["status"] == "completed"
    assert ended["pauses"][0]["decision"]["by"] == "ann"


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites_and_is_not_the_key(
    served: Service, page: httpx.AsyncClient
) -> None:
    secret = await key(served.site.database, "ann")
    cookie = given(await signed_in(page, secret))

    assert secret not in cookie.value
    assert cookie["httponly"] is True
    assert cookie["samesite"] == "strict"
    assert cookie["path"] == "/"
    assert not cookie["domain"]
    assert int(cookie["max-age"]) == LONGEST.total_seconds()


async def test_over_tls_the_cookie_goes_over_tls_alone(
    served: Service, page: httpx.AsyncClient
) -> None:
    secret = await key(served.site.database, "ann")
    plain = given(await signed_in(page, secret))
    behind_a_proxy = given(await signed_in(page, secret, Origin="https://signoff.example"))

    assert (plain.key, bool(plain["secure"])) == ("signoff_session", False)
    assert behind_a_proxy.key == "__Host-signoff_session"
    assert behind_a_proxy["secure"] is True


async def test_the_secret_of_a_session_is_in_the_database_as_its_digest_alone(
    served: Service, page: httpx.AsyncClient
) -> None:
    cookie = given(await signed_in(page, await key(served.site.database, "ann")))

    (row,) = await served.site.database.fetch("select sessions::text as kept from sessions")
    assert cookie.value not in row["kept"]


@pytest.mark.parametrize("wrong", ["sgk_" + "x" * 43, "sgs_" + "x" * 43, "a.b.c", "nothing"])
async def test_what_is_no_good_credential_signs_nobody_in(
    page: httpx.AsyncClient, wrong: str
) -> None:
    answer = await page.post("/session", json={"credential": wrong})

    assert refused(answer) == (401, "invalid_credential")
    assert is_described(answer)
    assert "set-cookie" not in answer.headers
    assert wrong not in answer.text


async def test_a_session_begins_none_by_itself(served: Service, page: httpx.AsyncClient) -> None:
    cookie = given(await signed_in(page, await key(served.site.database, "ann")))

    again = await page.post("/session", json={"credential": cookie.value})
    as_a_key = await served.client.get("/session", headers=bearer(cookie.value))

    assert refused(again) == (401, "invalid_credential")
    assert refused(as_a_key) == (401, "invalid_credential")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {**OWN, "Sec-Fetch-Site": "cross-site"},
        {**OWN, "Sec-Fetch-Site": "same-site"},
    ],
)
async def test_the_cookie_counts_for_the_inboxes_own_page_alone(
    served: Service, page: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    """Not for a form, a picture, or a script of another site, which send it along."""
    cookie = given(await signed_in(page, await key(served.site.database, "ann")))
    run = await paused(page)
    forged = {"Cookie": f"{cookie.key}={cookie.value}", **headers}

    for answer in (
        await served.client.get("/pauses", headers=forged),
        await decide(served.client, run, {"approved": True}, headers=forged),
        await served.client.delete("/session", headers=forged),
        await served.client.post("/session", json={"credential": "x"}, headers=headers),
    ):
        assert refused(answer) == (403, "cross_site_request")
    assert (await page.get(f"/pauses/{run['pause']['id']}")).json()["status"] == "open"


async def test_cors_never_lets_another_origin_use_the_cookie(database_url: str) -> None:
    origin = "https://dashboards.example"
    async with service(database_url, [errands], is_open=False, cors_origins=[origin]) as served:
        asked = await served.client.options(
            "/pauses",
            headers={
                "Origin": origin,
                "Access-Control-Request-Method": "GET",
                "Access-Control-Request-Headers": "x-signoff-inbox",
            },
        )

    assert asked.status_code == 400
    assert "access-control-allow-credentials" not in asked.headers


async def test_a_key_in_the_header_counts_before_the_cookie(
    served: Service, page: httpx.AsyncClient
) -> None:
    await signed_in(page, await key(served.site.database, "ann"))
    bob = bearer(await key(served.site.database, "bob"))

    assert (await page.get("/session")).json()["name"] == "ann"
    assert (await page.get("/session", headers=bob)).json()["name"] == "bob"


async def test_who_asks_is_told_who_they_are(served: Service, page: httpx.AsyncClient) -> None:
    secret = await key(
        served.site.database, "ann", scopes=APPROVER, groups=["finance"], tenant="acme"
    )
    await signed_in(page, secret)
    answer = await page.get("/session")

    assert is_described(answer)
    assert answer.json() == {
        "name": "ann",
        "tenant": "acme",
        "groups": ["finance"],
        "scopes": ["decisions:write", "runs:read"],
        "is_open": False,
    }
    assert refused(await served.client.get("/session")) == (401, "unauthenticated")


async def test_whoever_signs_out_is_out_at_once_and_the_cookie_is_worth_nothing(
    served: Service, page: httpx.AsyncClient
) -> None:
    cookie = given(await signed_in(page, await key(served.site.database, "ann")))
    assert (await page.get("/pauses")).is_success

    out = await page.delete("/session")

    assert out.status_code == 204
    assert (given(out).key, given(out)["max-age"]) == (cookie.key, "0")
    stolen = {**OWN, "Cookie": f"{cookie.key}={cookie.value}"}
    assert refused(await served.client.get("/pauses", headers=stolen))[0] == 401
    assert (await page.delete("/session")).status_code == 204


async def test_a_session_ends_with_its_key(served: Service, page: httpx.AsyncClient) -> None:
    database = served.site.database
    await signed_in(page, await key(database, "ann"))
    assert (await page.get("/pauses")).is_success

    await api_keys.revoke(database, DEFAULT_TENANT, "ann")
    await asyncio.sleep(REMEMBERED_SECONDS)

    assert refused(await page.get("/pauses")) == (401, "invalid_credential")


async def test_a_session_is_no_longer_than_its_key(
    served: Service, page: httpx.AsyncClient
) -> None:
    brief = await key(served.site.database, "ann", expires_in=timedelta(seconds=2))
    cookie = given(await signed_in(page, brief))
    assert int(cookie["max-age"]) <= 2
    stolen = {**OWN, "Cookie": f"{cookie.key}={cookie.value}"}
    assert (await served.client.get("/pauses", headers=stolen)).is_success

    await asyncio.sleep(2)

    answer = await served.client.get("/pauses", headers=stolen)
    assert refused(answer) == (401, "invalid_credential")


async def test_sessions_that_have_ended_are_cleared_away_by_the_next_one(
    served: Service, page: httpx.AsyncClient
) -> None:
    database = served.site.database
    await signed_in(page, await key(database, "ann"))
    await database.fetch("update sessions set expires_at = clock_timestamp()")

    await signed_in(page, await key(database, "bob"))

    (row,) = await database.fetch("select name from sessions")
    assert row["name"] == "bob"


async def test_a_token_of_the_issuer_signs_in_too(database_url: str) -> None:
    async with Publisher(FIRST).publishing() as publisher:
        tokens = Tokens(issuer(publisher.url))
        async with (
            service(database_url, [errands], is_open=False, tokens=tokens) as served,
            a_browser(served.client) as page,
        ):
            await signed_in(page, token({"scope": "runs:read"}))
            assert (await page.get("/session")).json()["name"] == "ann"
            assert (await page.get("/pauses")).is_success


async def test_an_open_service_asks_nobody(database_url: str) -> None:
    async with (
        service(database_url, [errands]) as served,
        a_browser(served.client) as page,
    ):
        answer = await page.post("/session", json={"credential": "sgk_" + "x" * 43})
        assert refused(answer) == (409, "service_is_open")
        assert is_described(answer)
        foreign = {"Cookie": f"signoff_session=sgs_{'x' * 43}"}  # of another service on this host
        told = await served.client.get("/session", headers=foreign)
        assert (told.json()["name"], told.json()["is_open"]) == (None, True)


@pytest.mark.parametrize("junk", ["=;;", "signoff_session", "a=b; signoff_session=sgs_x", "\xff"])
async def test_cookies_of_others_are_passed_over(served: Service, junk: str) -> None:
    sent = [(b"cookie", junk.encode("latin-1"))]
    answer = await served.client.get("/pauses", headers=sent)

    assert refused(answer) == (401, "unauthenticated")

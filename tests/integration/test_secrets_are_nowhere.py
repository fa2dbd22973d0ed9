"""Keys and tokens, sent where they belong and where they do not: in no log line, metric, row or answer."""

import secrets
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import httpx
from joserfc.jwk import RSAKey

from app.api.tokens import Tokens
from app.authoring import Approval
from app.channels.reply_token import Grant, make_token
from app.channels.signing import SigningSecret
from app.domain.ids import DEFAULT_TENANT, PauseId
from app.domain.principal import Holder, Principal, Scope
from app.lifecycle import api_keys, sessions
from app.storage.tables import metadata
from tests.integration.test_tokens import FIRST, Publisher, issuer, token
from tests.integration.test_traces import Spans
from tests.keyring import bearer, holding, key
from tests.logged import Lines, logged
from tests.serving import Service, decide, paused, service
from tests.workflows.councils import Council, Notebook

Json = dict[str, Any]
Request = Mapping[str, Any]


ONE_OF_A_FORM = ("unknown key", "token", "reply token", "callback's secret")


@dataclass(frozen=True, kw_only=True)
class Told:
    """What was said to anybody, and what was kept."""

    lines: list[str] = field(default_factory=list[str])
    answers: list[str] = field(default_factory=list[str])
    metrics: str = ""
    traces: str = ""
    rows: dict[str, str] = field(default_factory=dict[str, str])

    def places_of(self, secret: str) -> set[str]:
        """Where a secret stands, in one form or another."""
        forms = (secret, secret.encode().hex(), secret.split(".")[-1])
        texts = {"metrics": self.metrics, "traces": self.traces, **self.rows}
        texts |= {f"log: {each}": each for each in self.lines}
        texts |= {f"answer: {each}": each for each in self.answers}
        return {name for name, text in texts.items() if any(form in text for form in forms)}


async def credentials(served: Service, run: Json) -> dict[str, str]:
    """One of every kind, good ones and bad ones."""
    database = served.site.database
    made = {
        "narrow key": await key(database, "nan", scopes=[Scope.DELIVERIES]),
        "revoked key": await key(database, "gus"),
        "expired key": await key(database, "eve", expires_in=timedelta(milliseconds=1)),
        "unknown key": "sgk_" + secrets.token_urlsafe(32),
        "token": token({"scope": "runs:read"}),
        "expired token": token({"exp": int(time.time()) - 60}),
        "forged token": token(key=RSAKey.generate_key(2048, {"kid": "first"})),
    }
    signed_in = Holder(principal=Principal(name="nan"), seconds_left=None)
    made["session"] = (await sessions.begin(database, signed_in)).secret
    await api_keys.revoke(database, DEFAULT_TENANT, "gus")
    grant = Grant(tenant=DEFAULT_TENANT, channel="team", pause_id=PauseId(run["pause"]["id"]))
    made["reply token"] = await served.site.replies.token(database, grant)
    made["forged reply token"] = make_token(SigningSecret(key=b"guessed"), grant)
    made["callback's secret"] = f"whsec_{secrets.token_hex(16)}"
    return made


def where_it_belongs(secret: str, run: Json) -> Iterator[Request]:
    """Requests with a credential in its header, or nearly."""
    routes = [
        ("GET", "/threads"),
        ("POST", "/threads"),
        ("GET", f"/threads/{run['thread_id']}/runs/{run['id']}"),
        ("POST", f"/threads/{run['thread_id']}/runs/{run['id']}/cancel"),
        ("GET", "/audit"),
        ("GET", "/metrics"),
        ("GET", f"/{secret}"),
        ("DELETE", f"/threads/{secret}"),
        ("PATCH", "/threads"),
    ]
    for method, url in routes:
        yield {"method": method, "url": url, "headers": bearer(secret)}
    for said in (secret, f"Basic {secret}", f"Bearer {secret} x", f"Bearer {secret}, {secret}"):
        yield {"method": "GET", "url": "/threads", "headers": {"Authorization": said}}


def where_it_does_not(secret: str, run: Json) -> Iterator[Request]:
    """Requests of somebody who is known, with a credential in any other place."""
    thread, pause = f"/threads/{run['thread_id']}", run["pause"]["id"]
    start = {"workflow": "council", "input": "x"}
    for url in (
        f"/threads?key={secret}",
        f"/threads?cursor={secret}",
        f"/threads/{secret}",
        f"/threads/{secret}/runs/{secret}",
        f"{thread}?access_token={secret}",
        f"{thread}/runs/{secret}/events",
        f"/pauses/{secret}",
        f"/pauses?thread_id={secret}",
        f"/deliveries/{secret}",
        f"/workflows/{secret}",
        f"/events?types={secret}",
        f"/audit?by={secret}",
        f"/audit?credential={secret}",
    ):
        yield {"method": "GET", "url": url}
    for name in (
        *("X-Request-ID", "X-Api-Key", "Cookie", "Prefer", "Last-Event-ID", "Accept"),
        *("User-Agent", "Idempotency-Key"),
    ):
        yield {"method": "GET", "url": f"{thread}/runs", "headers": {name: secret}}
        yield {"method": "POST", "url": "/threads", "headers": {name: secret}, "json": {}}
    for url, body in (
        ("/threads", {"id": secret}),
        ("/threads", {"id": f"t-{secret}"}),
        ("/threads", {"key": secret}),
        ("/threads", {secret: 1}),
        ("/threads", {"workflow": secret}),
        ("/threads", secret),
        (f"/threads/{secret}/runs", start),
        (f"/threads/{secret}/runs", start | {"if_not_exists": "create"}),
        (f"{thread}/runs", start | {"workflow": secret}),
        (f"{thread}/runs", start | {"if_paused": secret}),
        (f"{thread}/runs", start | {"callback": {"url": secret}}),
        (f"{thread}/runs", start | {"callback": {"url": f"https://{secret}@example.com/"}}),
        (f"{thread}/runs", start | {"callback": {"url": "https://example.com", "key": secret}}),
        (f"{thread}/resume", {"pause_id": secret, "decision": {"approved": True}}),
        (f"{thread}/resume", {"pause_id": pause, "decision": secret}),
        (f"{thread}/resume", {"pause_id": pause, "decision": {"approved": secret}}),
        (f"{thread}/resume", {"pause_id": pause, "decision": {"approved": True, "key": secret}}),
        (f"{thread}/resume", {"pause_id": pause, "decision": {"approved": True, secret: 1}}),
        (f"/pauses/{pause}/extend", {"expires_at": secret}),
        (f"/deliveries/{secret}/retry", {}),
    ):
        yield {"method": "POST", "url": url, "json": body}
    matched = {"If-Match": f'"{secret}"'}
    body = {"pause_id": pause, "decision": {"approved": True}}
    yield {"method": "POST", "url": f"{thread}/resume", "headers": matched, "json": body}


async def say(client: httpx.AsyncClient, request: Request) -> str:
    """The answer to a request, head and body."""
    answer = await client.request(**request)
    head = "\n".join(f"{name}: {value}" for name, value in answer.headers.items())
    return f"{request['method']} {answer.status_code}\n{head}\n{answer.text}"


async def rows(served: Service) -> dict[str, str]:
    """Every table as text."""
    kept: dict[str, str] = {}
    for table in metadata.sorted_tables:
        found = await served.site.database.fetch(f"select t::text as row from {table.name} t")
        kept[table.name] = "\n".join(each["row"] for each in found)
    return kept


@asynccontextmanager
async def desk(
    database_url: str, spans: Spans
) -> AsyncGenerator[tuple[Service, httpx.AsyncClient]]:
    """A service that asks for keys and knows an issuer, and a caller who may do everything."""
    async with AsyncExitStack() as ending:
        published = await ending.enter_async_context(Publisher(FIRST).publishing())
        council = Council(Approval(), channel=Notebook("team")).workflow
        served = await ending.enter_async_context(
            service(
                database_url,
                [council],
                is_open=False,
                tokens=Tokens(issuer(published.url)),
                tracer=spans.tracer,
            )
        )
        secret = await key(served.site.database, "cal")
        yield served, await ending.enter_async_context(holding(served.client, secret))


async def everything(
    served: Service, caller: httpx.AsyncClient, run: Json, made: Mapping[str, str], lines: Lines
) -> Told:
    answers = [
        await say(served.client, request)
        for secret in made.values()
        for request in where_it_belongs(secret, run)
    ]
    answers += [
        await say(caller, request)
        for name in ONE_OF_A_FORM
        for request in where_it_does_not(made[name], run)
    ]
    metrics = (await caller.get("/metrics")).text
    return Told(lines=lines.texts, answers=answers, metrics=metrics, rows=await rows(served))


async def test_no_credential_is_in_any_log_line_metric_row_or_answer(database_url: str) -> None:
    spans = Spans()
    async with desk(database_url, spans) as (served, caller):
        run = await paused(caller, "council")
        made = await credentials(served, run)
        with logged(quotes=True) as lines:
            told = await everything(served, caller, run, made, lines)
            callback = {"url": "https://127.0.0.1:9/", "secret": made["callback's secret"]}
            body = {"workflow": "council", "input": "x", "if_not_exists": "create"}
            started = await caller.post("/threads/called/runs", json=body | {"callback": callback})
            assert started.status_code == 201, started.text
            decided = await decide(
                served.client, run, {"approved": True}, headers=bearer(made["reply token"])
            )
            assert decided.status_code == 200, decided.text
        told.lines.extend(lines.texts)
        told.answers.extend([started.text, decided.text])
        kept = {f"after: {name}": text for name, text in (await rows(served)).items()}
    told.rows.update(kept)
    told = replace(told, traces=spans.text)
    assert "/threads/***" in told.traces
    assert len(told.lines) > 300
    assert any('"revoked"' in each for each in told.lines)
    found = {name: told.places_of(secret) for name, secret in made.items()}
    # A callback's secret is a true value: with the run, where the engine alone reads it.
    assert found.pop("callback's secret") == {"after: runs"}
    assert found == {name: set() for name in found}
    me = caller.headers["authorization"].removeprefix("Bearer ")
    assert told.places_of(me) == set()

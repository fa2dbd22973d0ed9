"""An issuer of tokens with keys of its own, which it publishes over HTTP."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from joserfc import jwt
from joserfc.jwk import ECKey, Key, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from app.api.tokens import Issuer
from app.domain.principal import Scope

ALGORITHMS = ("RS256", "ES256")
FIRST = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})
SECOND = ECKey.generate_key("P-256", {"kid": "second"})


class Publisher:
    """An issuer's keys, as it publishes them over HTTP."""

    def __init__(self, *keys: Key) -> None:
        self.keys: Sequence[Key] = keys
        self.asked = 0
        self.is_away = False
        self.url = ""

    async def _answer(self, _: Request) -> JSONResponse:
        self.asked += 1
        if self.is_away:
            return JSONResponse({}, status_code=500)
        return JSONResponse({"keys": [key.as_dict(private=False) for key in self.keys]})

    @asynccontextmanager
    async def publishing(self) -> AsyncGenerator["Publisher"]:
        web = Starlette(routes=[Route("/keys", self._answer)])
        config = uvicorn.Config(web, port=0, lifespan="off", log_config=None, access_log=False)
        server = uvicorn.Server(config)
        task = asyncio.create_task(server._serve())  # pyright: ignore[reportPrivateUsage]  # leaves the signals alone
        while not server.started:  # noqa: ASYNC110  # it has no event for it
            await asyncio.sleep(0.005)
        self.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/keys"
        try:
            yield self
        finally:
            server.should_exit = True
            await task


def issuer(url: str, **more: Any) -> Issuer:
    standard: dict[str, Any] = {
        "issuer": "https://id.example.com",
        "audience": "signoff",
        "jwks_url": url,
        "algorithms": ALGORITHMS,
        "leeway_seconds": 30,
        "name_claim": "sub",
        "tenant_claim": None,
        "groups_claim": "groups",
        "scopes_claim": "scope",
        "scopes": frozenset[Scope](),
    }
    return Issuer(**(standard | more))


def token(
    claims: Mapping[str, object] | None = None,
    *,
    key: Key = FIRST,
    alg: str = "RS256",
    **header: Any,
) -> str:
    said: dict[str, object] = {
        "iss": "https://id.example.com",
        "aud": "signoff",
        "sub": "ann",
        "exp": int(time.time()) + 300,
        "scope": "runs:read decisions:write openid",
        "groups": ["finance"],
        **(claims or {}),
    }
    kept = {name: value for name, value in said.items() if value is not None}
    return jwt.encode({"alg": alg, "kid": key.kid, **header}, kept, key, algorithms=[alg])

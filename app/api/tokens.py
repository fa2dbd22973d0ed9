"""JWT of an issuer that the service trusts: verified with the keys that it publishes, and read as a principal."""

import asyncio
import base64
import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import httpx
import orjson
from joserfc import jwt
from joserfc.errors import ExpiredTokenError, JoseError
from joserfc.jwk import JWKRegistry, Key
from joserfc.jws import JWSRegistry
from joserfc.jwt import JWTClaimsRegistry

from app.domain.ids import DEFAULT_TENANT, TenantId
from app.domain.principal import Flaw, Holder, Lapsed, Principal, Scope, wrong_name
from app.errors import SignoffError
from app.lifecycle.api_keys import is_plain

log = logging.getLogger(__name__)

FRESH_SECONDS: Final = 600.0
"""How long published keys are used without looking again: a withdrawn one is refused after that."""

STALE_SECONDS: Final = 3600.0
"""How long they are used while the issuer does not answer."""

LOOK_AGAIN_SECONDS: Final = 10.0
"""How soon an unknown key makes the service look again: strangers cannot make it ask all the time."""

_JWT: Final = re.compile(r"([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_LARGEST: Final = 1024 * 1024
_BROKEN: Final = (JoseError, ValueError, TypeError, KeyError, RecursionError)


class IssuerUnavailable(SignoffError):
    """The issuer's keys cannot be had, so nobody can be known by a token."""

    code = "issuer_unavailable"


@dataclass(frozen=True, kw_only=True)
class Issuer:
    """Whose tokens are good, and which claims say what. Without `tenant_claim` all are of the default tenant."""

    issuer: str
    audience: str
    jwks_url: str
    algorithms: tuple[str, ...]
    leeway_seconds: int
    name_claim: str
    tenant_claim: str | None
    groups_claim: str
    scopes_claim: str
    scopes: frozenset[Scope]


@dataclass(frozen=True, kw_only=True)
class _Published:
    """Keys by their ids, and when they were had."""

    keys: Mapping[str | None, Key]
    at: float

    @property
    def age(self) -> float:
        return time.monotonic() - self.at


def is_token(credential: str) -> bool:
    """Whether a credential has the form of a JWT."""
    return _JWT.fullmatch(credential) is not None


class Tokens:
    """Knows the holders of an issuer's tokens."""

    def __init__(self, issuer: Issuer, *, look_again: float = LOOK_AGAIN_SECONDS) -> None:
        self._issuer = issuer
        self._registry = JWSRegistry(algorithms=issuer.algorithms, strict_check_header=False)
        self._claims = JWTClaimsRegistry(
            leeway=issuer.leeway_seconds,
            iss={"essential": True, "value": issuer.issuer},
            aud={"essential": True, "value": issuer.audience},
            exp={"essential": True},
        )
        self._published: _Published | None = None
        self._look_again = look_again
        self._looked_at = float("-inf")
        self._looking = asyncio.Lock()

    async def holder_of(self, token: str) -> Holder | Lapsed | None:
        """Who holds a token, or held it until it expired; None if it is not good. Raises `IssuerUnavailable`."""
        try:
            algorithm, kid = _header(token)
            if algorithm not in self._issuer.algorithms:
                return None
            key = await self._key(kid)
            if key is None:
                return None
            decoded = jwt.decode(token, key, algorithms=[algorithm], registry=self._registry)
            return self._checked(decoded.claims)
        except _BROKEN:
            return None  # the reasons quote the token

    def _checked(self, claims: dict[str, Any]) -> Holder | Lapsed | None:
        try:
            self._claims.validate(claims)
        except ExpiredTokenError:
            self._claims.validate(claims | {"exp": int(time.time()) + 1})
            holder = self._holder(claims)
            return holder and Lapsed(principal=holder.principal, flaw=Flaw.EXPIRED)
        return self._holder(claims)

    def _holder(self, claims: Mapping[str, Any]) -> Holder | None:
        issuer = self._issuer
        name = claims.get(issuer.name_claim)
        tenant = claims.get(issuer.tenant_claim) if issuer.tenant_claim else DEFAULT_TENANT
        if not isinstance(name, str) or wrong_name(name):
            return None
        if not isinstance(tenant, str) or not is_plain(tenant):
            return None
        said = _listed(claims.get(issuer.scopes_claim))
        principal = Principal(
            tenant=TenantId(tenant),
            name=name,
            groups=frozenset(_listed(claims.get(issuer.groups_claim))),
            scopes=issuer.scopes | {scope for scope in Scope if scope in said},
            credential=f"jwt:{str(claims.get('sub') or name)[:200]}",
        )
        left = float(claims["exp"]) + issuer.leeway_seconds - time.time()
        return Holder(principal=principal, seconds_left=left)

    async def _key(self, kid: str | None) -> Key | None:
        """The published key of an id; looks again where it is unknown, or what is known has become old."""
        published = await self._known_for(kid)
        if kid is None and len(published.keys) == 1:
            return next(iter(published.keys.values()))
        return published.keys.get(kid)

    async def _known_for(self, kid: str | None) -> _Published:
        async with self._looking:
            if self._is_to_look(kid):
                self._looked_at = time.monotonic()
                self._published = await self._look() or self._published
            known = self._published
            if known is None or known.age > STALE_SECONDS:
                raise IssuerUnavailable("The issuer of the tokens cannot be reached: try again.")
            return known

    def _is_to_look(self, kid: str | None) -> bool:
        if time.monotonic() - self._looked_at < self._look_again:
            return False
        known = self._published
        is_unknown = known is None or (kid is not None and kid not in known.keys)
        return is_unknown or (known is not None and known.age > FRESH_SECONDS)

    async def _look(self) -> _Published | None:
        try:
            async with httpx.AsyncClient(timeout=5) as client:
                answer = await client.get(self._issuer.jwks_url)
            answer.raise_for_status()
            if len(answer.content) > _LARGEST:
                raise ValueError("too large")
            listed = orjson.loads(answer.content)["keys"]
        except (httpx.HTTPError, *_BROKEN) as error:
            log.warning("keys of the issuer not had", extra={"reason": type(error).__name__})
            return None
        keys = [key for each in listed if (key := _public_key(each)) is not None]
        return _Published(keys={key.kid: key for key in keys}, at=time.monotonic())


def _header(token: str) -> tuple[str, str | None]:
    """Algorithm and key id that a token names."""
    match = _JWT.fullmatch(token)
    raw = match[1] if match else ""
    header = orjson.loads(base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4)))
    algorithm, kid = header["alg"], header.get("kid")
    if not isinstance(algorithm, str) or not isinstance(kid, str | None):
        raise TypeError
    return algorithm, kid


def _public_key(raw: Any) -> Key | None:
    """A key that signatures can be checked with; secrets that are shared, and what is unknown, are not."""
    try:
        if raw["kty"] == "oct" or raw.get("use", "sig") != "sig":
            return None
        return JWKRegistry.import_key(raw)
    except _BROKEN:
        return None


def _listed(claim: object) -> list[str]:
    """A list of texts, or a text with spaces (RFC 8693)."""
    if isinstance(claim, str):
        return claim.split()
    if isinstance(claim, list):
        return [each for each in cast("list[object]", claim) if isinstance(each, str)]
    return []

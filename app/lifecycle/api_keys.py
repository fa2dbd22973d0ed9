"""API keys: 256 random bits that are shown once, and whose holder is known by their digest."""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Final

from app.domain.audit import Actor, AuditAction
from app.domain.ids import DEFAULT_TENANT, TenantId, new_key_id
from app.domain.json import Json
from app.domain.principal import (
    NOBODY,
    Holder,
    Lapsed,
    Principal,
    Scope,
    holding,
    wrong_name,
)
from app.errors import AuthoringError, NotFound
from app.storage import api_keys, audit
from app.storage.api_keys import ApiKey, ListedKey
from app.storage.api_keys import is_any as is_any
from app.storage.api_keys import listed as listed
from app.storage.database import Database

PREFIX: Final = "sgk_"
"""How a key begins, so that scanners of leaked secrets, and people, see what it is."""

CREDENTIAL: Final = "key:"
"""How the credential of a principal begins who is known by a key; its id follows."""

_KEY: Final = re.compile(re.escape(PREFIX) + r"[A-Za-z0-9_-]{43}")
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@:-]{0,127}")


_OPERATOR: Final = Actor(by=None, via="cli", origin=NOBODY)
"""Whoever has the command line has the database; who they are is known to their machine alone."""


class WrongKey(AuthoringError):
    """A key that cannot be made as it was asked for."""

    code = "wrong_key"


class KeyNotFound(NotFound):
    """There is no key of that name that could be revoked."""


@dataclass(frozen=True, kw_only=True)
class NewKey:
    """A key as an operator asks for it. Without `expires_in` it is good until it is revoked."""

    name: str
    tenant: TenantId = DEFAULT_TENANT
    groups: tuple[str, ...] = ()
    scopes: tuple[Scope, ...]
    expires_in: timedelta | None = None


@dataclass(frozen=True, kw_only=True)
class MadeKey:
    """A key with its secret, which nobody can be shown again."""

    secret: str
    listed: ListedKey


def is_key(credential: str) -> bool:
    """Whether a credential has the form of a key."""
    return _KEY.fullmatch(credential) is not None


def is_plain(text: str) -> bool:
    """Whether a text may name a tenant or a group."""
    return _PLAIN.fullmatch(text) is not None


async def create(database: Database, new: NewKey) -> MadeKey:
    """Makes a key. Raises `WrongKey`."""
    _check(new)
    secret = PREFIX + secrets.token_urlsafe(32)
    key = ApiKey(
        id=new_key_id(),
        tenant=new.tenant,
        name=new.name,
        groups=new.groups,
        scopes=new.scopes,
    )
    async with database.transaction() as both:
        made = await api_keys.create(both, key, digest=_digest(secret), expires_in=new.expires_in)
        said: dict[str, Json] = {
            "key": key.id,
            "name": key.name,
            "groups": list(key.groups),
            "scopes": list(key.scopes),
            "expires_at": made.expires_at and made.expires_at.isoformat(),
        }
        await audit.note(both, key.tenant, AuditAction.KEY_CREATED, _OPERATOR, said)
    return MadeKey(secret=secret, listed=made)


async def holder_of(database: Database, secret: str) -> Holder | Lapsed | None:
    """Who holds a key, or held it; None if there never was one."""
    found = await api_keys.find(database, _digest(secret))
    if found is None:
        return None
    key = found.key
    principal = Principal(
        tenant=key.tenant,
        name=key.name,
        groups=frozenset(key.groups),
        scopes=frozenset(scope for scope in Scope if scope in key.scopes),
        credential=f"{CREDENTIAL}{key.id}",
    )
    return holding(principal, is_revoked=found.is_revoked, seconds_left=found.seconds_left)


async def revoke(
    database: Database, tenant: TenantId, name: str, *, key_id: str | None = None
) -> Sequence[str]:
    """Revokes the keys of a name, or the one of that id. Raises `KeyNotFound`."""
    async with database.transaction() as both:
        revoked = await api_keys.revoke(both, tenant, name, key_id=key_id)
        if revoked:
            said: dict[str, Json] = {"keys": list(revoked), "name": name}
            await audit.note(both, tenant, AuditAction.KEY_REVOKED, _OPERATOR, said)
    if not revoked:
        raise KeyNotFound(f"Tenant {tenant!r} has no such key of {name!r} to be revoked.")
    return revoked


def _digest(secret: str) -> bytes:
    """Enough for 256 random bits: they cannot be guessed, however fast one can try."""
    return sha256(secret.encode()).digest()


def _check(new: NewKey) -> None:
    if wrong := wrong_name(new.name):
        raise WrongKey(f"The name {wrong}.")
    for what, text in [("tenant", new.tenant), *(("group", each) for each in new.groups)]:
        if not is_plain(text):
            raise WrongKey(
                f"The {what} {text!r} must be 1 to 128 of the letters A to Z, digits and '_.@:-', "
                "and begin with a letter or a digit."
            )
    if not new.scopes:
        raise WrongKey("A key without scopes could do nothing.")
    if new.expires_in is not None and new.expires_in <= timedelta():
        raise WrongKey("A key has to expire later than now.")

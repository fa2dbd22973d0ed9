"""Sessions: somebody has signed in on the page with a key or a token, and their browser holds the proof.

The proof is 256 random bits of which the database has the digest alone. It is as good as what was signed in with,
for a week at most, until whoever has it signs out.
"""

import re
import secrets
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Final

from app.domain.principal import Holder, Lapsed, Principal, Scope, holding
from app.lifecycle.api_keys import CREDENTIAL as KEY
from app.storage import sessions
from app.storage.database import Database
from app.storage.sessions import Session

LONGEST: Final = timedelta(days=7)
"""After which one has to sign in again, however long the key is good for."""

PREFIX: Final = "sgs_"
"""How the secret of a session begins."""

_SESSION: Final = re.compile(re.escape(PREFIX) + r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, kw_only=True)
class BegunSession:
    """A session with its secret, which is in no database."""

    secret: str
    seconds: float


def is_session(secret: str) -> bool:
    """Whether a text has the form of a session's secret."""
    return _SESSION.fullmatch(secret) is not None


async def begin(database: Database, holder: Holder) -> BegunSession:
    """Begins a session of whoever holds a key or a token, until that ends at the latest."""
    principal = holder.principal
    seconds = LONGEST.total_seconds()
    if holder.seconds_left is not None:
        seconds = min(seconds, holder.seconds_left)
    secret = PREFIX + secrets.token_urlsafe(32)
    await sessions.begin(database, _session(principal), digest=_digest(secret), seconds=seconds)
    return BegunSession(secret=secret, seconds=seconds)


async def holder_of(database: Database, secret: str) -> Holder | Lapsed | None:
    """Who holds a session, or held one that is not good any more; None if there is none."""
    found = await sessions.find(database, _digest(secret))
    if found is None:
        return None
    session = found.session
    principal = Principal(
        tenant=session.tenant,
        name=session.name,
        groups=frozenset(session.groups),
        scopes=frozenset(scope for scope in Scope if scope in session.scopes),
        credential=session.credential,
    )
    return holding(principal, is_revoked=found.is_revoked, seconds_left=found.seconds_left)


async def end(database: Database, secret: str) -> None:
    """Ends a session, wherever it may be held."""
    await sessions.end(database, _digest(secret))


def _session(principal: Principal) -> Session:
    is_of_key = principal.credential.startswith(KEY)
    return Session(
        key_id=principal.credential.removeprefix(KEY) if is_of_key else None,
        tenant=principal.tenant,
        name=principal.name or "",
        groups=tuple(sorted(principal.groups)),
        scopes=tuple(sorted(principal.scopes)),
        credential=principal.credential,
    )


def _digest(secret: str) -> bytes:
    """Enough for 256 random bits, as for keys."""
    return sha256(secret.encode()).digest()

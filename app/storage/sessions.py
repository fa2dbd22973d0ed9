"""Sessions of the page: begin, find by the digest of the secret, end. The secret itself is nowhere."""

from dataclasses import dataclass

from app.domain.ids import TenantId
from app.storage.database import Database

# Whoever begins one takes away those that have ended; nobody else has to.
_BEGIN = """
with gone as (delete from sessions where expires_at <= now())
insert into sessions (digest, key_id, tenant, name, groups, scopes, credential, expires_at)
values ($1, $2, $3, $4, $5, $6, $7, clock_timestamp() + make_interval(secs => $8))
"""

# One that began with a key is as good as that key. How long it is still good for is told in seconds: the clock of
# this process may be another one.
_FIND = """
select session.key_id, session.tenant, session.name, session.groups, session.scopes, session.credential,
       session.key_id is not null and (key.id is null or key.revoked_at is not null) as is_revoked,
       extract(epoch from least(session.expires_at, key.expires_at) - clock_timestamp())::float8 as seconds_left
from sessions session left join api_keys key on key.id = session.key_id
where session.digest = $1
"""

_END = "delete from sessions where digest = $1"


@dataclass(frozen=True, kw_only=True)
class Session:
    """Who has signed in. `key_id` is that of the key they did it with, if it was one."""

    key_id: str | None
    tenant: TenantId
    name: str
    groups: tuple[str, ...]
    scopes: tuple[str, ...]
    credential: str


@dataclass(frozen=True, kw_only=True)
class FoundSession:
    """A session, for how many seconds more it is good, and whether its key is revoked."""

    session: Session
    seconds_left: float
    is_revoked: bool


async def begin(database: Database, session: Session, *, digest: bytes, seconds: float) -> None:
    await database.fetch(
        _BEGIN,
        digest,
        session.key_id,
        session.tenant,
        session.name,
        list(session.groups),
        list(session.scopes),
        session.credential,
        seconds,
    )


async def find(database: Database, digest: bytes) -> FoundSession | None:
    """The session of a secret, good or not; none where it was ended or cleared away."""
    row = await database.fetch_row(_FIND, digest)
    if row is None:
        return None
    session = Session(
        key_id=row["key_id"],
        tenant=TenantId(row["tenant"]),
        name=row["name"],
        groups=tuple(row["groups"]),
        scopes=tuple(row["scopes"]),
        credential=row["credential"],
    )
    return FoundSession(
        session=session, seconds_left=row["seconds_left"], is_revoked=row["is_revoked"]
    )


async def end(database: Database, digest: bytes) -> None:
    """Ends it; one that is not there is ended already."""
    await database.fetch(_END, digest)

"""Who makes a request, where it comes from, and what they may do."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.domain.decision import MAX_BY, one_line
from app.domain.ids import DEFAULT_TENANT, PauseId, TenantId

OPEN: Final = "open"
"""The credential of whoever comes while the service is open."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """By what a request was known, and where it came from, as the audit keeps it."""

    credential: str | None = None
    client: str | None = None
    request_id: str | None = None


NOBODY: Final = Origin()
"""The origin of what the service does by itself."""


class Flaw(StrEnum):
    """What is wrong with a credential; told to the log and the audit, and not to who shows it."""

    MALFORMED = "malformed"  # nothing that could be a credential
    UNKNOWN = "unknown"
    FORGED = "forged"  # it names what there is, and was not made here
    REVOKED = "revoked"
    EXPIRED = "expired"


class Scope(StrEnum):
    """One thing that a credential lets its holder do; none of them implies another."""

    RUNS_READ = "runs:read"  # see threads, runs, pauses, events and workflows
    RUNS_WRITE = "runs:write"  # make and delete threads, start and cancel runs
    DECISIONS_WRITE = "decisions:write"  # decide, in one's own name
    DECISIONS_ACT_AS = "decisions:act_as"  # decide in the name of others
    DELIVERIES = "deliveries"  # see notices, and send dead ones again
    AUDIT = "audit"  # read the audit
    ADMIN = "admin"  # move deadlines, read the metrics


EVERYTHING: Final = frozenset(Scope)


@dataclass(frozen=True, kw_only=True)
class Principal:
    """A caller. `name` is None while the service is open: then a decision names its decider itself.

    `credential` says by what they are known, and never is the secret itself: `key:<id>`, `jwt:<subject>`,
    `reply:<pause>`, `open`. `only_pause` is the one that they may decide, where it is one. `client` is the network address that this request came from.
    """

    tenant: TenantId = DEFAULT_TENANT
    name: str | None = None
    groups: frozenset[str] = frozenset()
    scopes: frozenset[Scope] = EVERYTHING
    credential: str = OPEN
    only_pause: PauseId | None = None
    client: str | None = None
    request_id: str | None = None

    @property
    def origin(self) -> Origin:
        return Origin(credential=self.credential, client=self.client, request_id=self.request_id)

    def may(self, scope: Scope) -> bool:
        """Whether the credential has the scope."""
        return scope in self.scopes

    def is_one_of(self, approvers: list[str], by: str) -> bool:
        """Whether approvers of an ask name `by`, or a group of this principal, who sends it for them."""
        return by in approvers or any(f"group:{group}" in approvers for group in self.groups)


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Who holds a good credential, and for how many seconds more at most; None if for ever."""

    principal: Principal
    seconds_left: float | None


@dataclass(frozen=True, kw_only=True)
class Lapsed:
    """Whose credential it was, or says that it is, and why it is not good."""

    principal: Principal
    flaw: Flaw


def holding(
    principal: Principal, *, is_revoked: bool, seconds_left: float | None
) -> Holder | Lapsed:
    """Who holds a credential that is stored, as good as it is now; it is good for ever without `seconds_left`."""
    if is_revoked:
        return Lapsed(principal=principal, flaw=Flaw.REVOKED)
    if seconds_left is not None and seconds_left <= 0:
        return Lapsed(principal=principal, flaw=Flaw.EXPIRED)
    return Holder(principal=principal, seconds_left=seconds_left)


SYSTEM: Final = "system:"
CHANNEL: Final = "channel:"
RESERVED: Final = (SYSTEM, CHANNEL, "group:")
"""How names begin that nobody can have: they say something else where approvers and deciders are named."""


def wrong_name(name: str) -> str | None:
    """What is wrong with the name of a principal, if anything."""
    if not name or one_line(name, MAX_BY) != name:
        return f"must be one line of 1 to {MAX_BY} printable characters"
    if name.startswith(RESERVED):
        return f"must not begin with {', '.join(RESERVED)}: these are the service's own"
    return None

"""Who makes a request, and where it comes from."""

from dataclasses import dataclass
from typing import Final

from app.domain.ids import DEFAULT_TENANT, TenantId

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


@dataclass(frozen=True, kw_only=True)
class Principal:
    """A caller. `name` is None while the service is open: then a decision names its decider itself.

    `credential` says by what they are known, and never is the secret itself. `client` is the network address
    that this request came from.
    """

    tenant: TenantId = DEFAULT_TENANT
    name: str | None = None
    credential: str = OPEN
    client: str | None = None
    request_id: str | None = None

    @property
    def origin(self) -> Origin:
        return Origin(credential=self.credential, client=self.client, request_id=self.request_id)

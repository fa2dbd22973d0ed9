"""Who makes a request."""

from dataclasses import dataclass

from app.domain.ids import DEFAULT_TENANT, TenantId


@dataclass(frozen=True, kw_only=True)
class Principal:
    """A caller. `name` is None while the service is open: then a decision names its decider itself."""

    tenant: TenantId = DEFAULT_TENANT
    name: str | None = None

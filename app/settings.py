"""Settings, read once from the environment; a wrong one stops the start with one line.

`DATABASE_URL` and everything that begins with `SIGNOFF_`; nested ones by two underscores:
`SIGNOFF_CHANNELS__FINANCE__URL`.
"""

from decimal import Decimal
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError

from app.errors import AuthoringError

Algorithm: TypeAlias = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"
]
"""Signatures whose key cannot sign; a shared secret is none of them."""


class WrongSetting(AuthoringError):
    """A setting that cannot be used; the message names it and never shows a secret."""

    code = "wrong_setting"


class ChannelSettings(BaseModel):
    """Where a callback channel is told, and with which secrets its notices are signed."""

    url: str
    secrets: list[str] = []


class PriceSettings(BaseModel):
    """What a model costs, in US dollars for a million tokens."""

    input: Decimal = Field(ge=0)
    output: Decimal = Field(ge=0)
    cached_input: Decimal | None = Field(default=None, ge=0)


class JwtSettings(BaseModel):
    """Whose tokens are good, and which of their claims say what."""

    issuer: str = Field(min_length=1)
    audience: str = Field(min_length=1)
    jwks_url: str
    algorithms: list[Algorithm] = Field(default=["RS256", "ES256"], min_length=1)
    leeway_seconds: int = Field(default=30, ge=0, le=300)
    name_claim: str = "sub"
    tenant_claim: str | None = None
    groups_claim: str = "groups"
    scopes_claim: str = "scope"
    scopes: list[str] = []
    """What every token lets its holder do, beside what it says itself."""

    @field_validator("jwks_url")
    @classmethod
    def _safe(cls, url: str) -> str:
        """Whoever could change the keys on their way could be anybody."""
        parts = urlsplit(url)
        if parts.scheme != "https" and not (
            parts.scheme == "http" and is_loopback(parts.hostname or "")
        ):
            raise ValueError("must be an https URL")
        return url


class Settings(BaseSettings):
    """What an operator may set. Durations are in seconds."""

    model_config = SettingsConfigDict(
        env_prefix="SIGNOFF_", env_nested_delimiter="__", env_ignore_empty=True, extra="ignore"
    )

    database_url: str | None = Field(default=None, validation_alias="DATABASE_URL")
    database_pool_size: int = Field(default=10, ge=2, le=200)
    prepared_statements: bool = True
    """Off for a PgBouncer in transaction mode."""

    workflows: Annotated[list[str], NoDecode] = []
    data_dir: Path = Path(".signoff")
    auth: Literal["keys", "off"] | None = None
    jwt: JwtSettings | None = None
    base_url: str | None = None

    channels: dict[str, ChannelSettings] = {}
    secrets: list[str] = []
    """Sign the notices to callbacks that bring no secret of their own."""
    reply_secrets: list[str] = []
    """Make the tokens by which a channel decides; none: one that is kept in the database."""
    encryption_keys: list[str] = []
    """The first encrypts the true values that are stored; all of them decrypt."""
    allowed_networks: Annotated[list[str], NoDecode] = []

    trusted_proxies: Annotated[list[str], NoDecode] = []
    """Whose `X-Forwarded-For` says where a request comes from."""

    prices: dict[str, PriceSettings | Literal["reported"]] = {}
    """Of models, by `provider:name`; `reported` where the provider says with each answer what it cost."""

    lease_seconds: float = Field(default=10.0, ge=1.0, le=3600.0)
    drain_seconds: float = Field(default=30.0, ge=0.0, le=3600.0)
    retention_days: int | None = Field(default=None, ge=1, le=36_500)
    """After which events and notices of ended runs are deleted, and idempotency keys; none: never."""
    worker_concurrency: int = Field(default=32, ge=1, le=10_000)
    max_body_bytes: int = Field(default=1024 * 1024, ge=1024)
    max_header_bytes: int = Field(default=64 * 1024, ge=1024)
    requests_per_minute: int | None = Field(default=None, ge=1)
    runs_per_hour: int | None = Field(default=None, ge=1)
    requests_at_once: int | None = Field(default=None, ge=1)
    cors_origins: Annotated[list[str], NoDecode] = []
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = Field(default=None, ge=1, le=65535)
    """Where any process, a worker too, tells how it is, apart from the API."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"

    @field_validator(
        "workflows", "allowed_networks", "trusted_proxies", "cors_origins", mode="before"
    )
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """`a,b` as a list."""
        if isinstance(value, str):
            return [each.strip() for each in value.split(",") if each.strip()]
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, value: list[str]) -> list[str]:
        for each in value:
            ip_network(each)
        return value

    @classmethod
    def read(cls) -> "Settings":
        """The settings of the environment. Raises `WrongSetting`."""
        try:
            return cls()
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            raise WrongSetting(f"{_name(first['loc'])}: {first['msg']}") from None
        except SettingsError as error:
            raise WrongSetting(f"A setting cannot be read: {error}") from None

    def channel(self, name: str) -> ChannelSettings | None:
        """The settings of a channel, by its name in capitals and underscores."""
        return self.channels.get(variable_part(name).lower())


def variable_part(channel: str) -> str:
    """A channel's name as it stands in the name of an environment variable."""
    return "".join(letter if letter.isalnum() else "_" for letter in channel).upper()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens on `host`."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _name(location: tuple[int | str, ...]) -> str:
    parts = [str(part).upper() for part in location]
    return parts[0] if parts[:1] == ["DATABASE_URL"] else "SIGNOFF_" + "__".join(parts)

"""Checks the address that a run names for its own events, before anything is stored."""

from urllib.parse import urlsplit

from app.channels.signing import BadSecret, parse_secret
from app.domain.json import Json
from app.errors import FieldError, Invalid

MAX_URL = 2048
"""Characters of an address."""


def check_callback(url: str, secret: str | None) -> dict[str, Json]:
    """The callback as it is stored; raises `Invalid` with pointers into it. Messages quote nothing.

    Whether the address may be sent to is found out when it is sent to: names change what they stand for.
    """
    wrong: list[FieldError] = []
    if message := _wrong_url(url):
        wrong.append(FieldError(pointer="/url", message=message))
    if secret is not None:
        try:
            parse_secret(secret)
        except BadSecret as error:
            wrong.append(FieldError(pointer="/secret", message=error.message))
    if wrong:
        raise Invalid("The callback cannot be used.", fields=wrong)
    return {"url": url} | ({"secret": secret} if secret is not None else {})


def host_of(callback: Json) -> str | None:
    """Where a stored callback is told: its host and port; None if there is no callback."""
    return urlsplit(str(callback["url"])).netloc.lower() if callback else None


def _wrong_url(url: str) -> str | None:
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url:
        return f"must be a URL of at most {MAX_URL} printable ASCII characters"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "must be a URL"
    if parts.scheme not in ("https", "http") or not host:
        return "must be an https URL"
    if "@" in parts.netloc:
        return "must not have a name or a password before the host"
    return None

"""The cookie of a session, which counts for requests of the inbox's own page alone.

A browser sends cookies with whatever any page makes it ask. So the cookie counts only beside a header that a page
of another origin cannot send without being let to by CORS, which never is for requests with cookies; and not where
the browser itself says that another site asks.
"""

from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Final

from starlette.responses import Response
from starlette.types import Scope

from app.errors import Forbidden
from app.lifecycle.sessions import BegunSession, is_session

HEADER: Final = "X-Signoff-Inbox"
"""What the page sends along with every request; any value will do."""

_SECURE: Final = "__Host-signoff_session"
_PLAIN: Final = "signoff_session"
"""The name where there is no TLS; a browser takes one that begins with `__Host-` over TLS alone."""

_LONGEST: Final = 16 * 1024
_OWN: Final = ("same-origin", "none")


class CrossSite(Forbidden):
    """A request with the cookie of a session that does not come from the inbox's own page."""

    code = "cross_site_request"


def session_in(scope: Scope) -> str | None:
    """The secret of the session that a request shows, if one is there. Raises `CrossSite`."""
    secret = _shown(scope)
    if secret is not None:
        check_own(scope)
    return secret


def check_own(scope: Scope) -> None:
    """Raises `CrossSite` unless a request comes from a page of this service."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    if not _values(headers, HEADER):
        raise CrossSite(f"The cookie of a session counts only beside the header {HEADER}.")
    if any(site not in _OWN for site in _values(headers, "sec-fetch-site")):
        raise CrossSite("The cookie of a session counts for the inbox's own page alone.")


def give(response: Response, session: BegunSession, scope: Scope) -> None:
    """Has the browser keep a session: out of the reach of scripts, and sent from this site alone."""
    _set(response, scope, session.secret, int(session.seconds))


def take_back(response: Response, scope: Scope) -> None:
    """Has the browser forget its session."""
    _set(response, scope, "", 0)


def _set(response: Response, scope: Scope, value: str, seconds: int) -> None:
    is_secure = _is_secure(scope)
    response.set_cookie(
        _SECURE if is_secure else _PLAIN,
        value,
        max_age=seconds,
        path="/",
        httponly=True,
        samesite="strict",
        secure=is_secure,
    )


def _is_secure(scope: Scope) -> bool:
    """Whether the browser sees TLS; what ends it in front of the service need not say so."""
    origins = _values(scope["headers"], "origin")
    return scope["scheme"] == "https" or any(each.startswith("https://") for each in origins)


def _shown(scope: Scope) -> str | None:
    for text in _values(scope["headers"], "cookie"):
        for value in _kept(text[:_LONGEST]):
            if is_session(value):
                return value
    return None


def _kept(text: str) -> Iterable[str]:
    """What stands under the names of a session; the one over TLS first."""
    try:
        cookies = SimpleCookie(text)
    except CookieError:  # of somebody else, on this host
        return []
    return [cookies[name].value for name in (_SECURE, _PLAIN) if name in cookies]


def _values(headers: Iterable[tuple[bytes, bytes]], name: str) -> list[str]:
    wanted = name.lower().encode()
    return [value.decode("latin-1") for found, value in headers if found == wanted]

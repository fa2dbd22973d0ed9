"""Sends the page's files, with headers under which it loads and reaches nothing but its own service."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

FOLDER: Final = Path(__file__).parent / "files"
PAGE: Final = "inbox.html"

_MEDIA_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_POLICY: Final = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self' data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",  # text never becomes markup, whatever a script does
)
_HEADERS: Final = {
    "cache-control": "no-cache",  # a page and its modules are of one version
    "content-security-policy": "; ".join(_POLICY),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


@dataclass(frozen=True, kw_only=True)
class _File:
    """One file of the page as it is sent."""

    content: bytes
    media_type: str

    def response(self) -> Response:
        return Response(self.content, media_type=self.media_type, headers=_HEADERS)


def page() -> APIRouter:
    """The page at the root of the routes, and its files under it.

    The page speaks of its files as `inbox/…` and of the API as what stands beside it, relative to where
    it is read: it belongs under `/inbox`, behind whatever prefix.
    """
    files = {path.name: _read(path) for path in FOLDER.iterdir()}
    routes = APIRouter(include_in_schema=False)

    async def inbox() -> Response:
        return files[PAGE].response()

    async def inbox_with_a_slash() -> Response:
        return RedirectResponse("../inbox", status_code=308)

    async def inbox_file(name: str) -> Response:
        if name not in files:
            raise HTTPException(404)
        return files[name].response()

    for path, endpoint in (("", inbox), ("/", inbox_with_a_slash), ("/{name}", inbox_file)):
        routes.add_api_route(path, endpoint, methods=["GET", "HEAD"])
    return routes


def _read(path: Path) -> _File:
    return _File(content=path.read_bytes(), media_type=_MEDIA_TYPES[path.suffix])

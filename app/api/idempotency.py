"""The `Idempotency-Key` of a request, with the digest of what it asks for."""

from typing import Annotated

from fastapi import Depends, Header
from starlette.requests import Request

from app.api.auth import principal_in
from app.api.intake import body_of
from app.domain.json import sha256
from app.lifecycle.keys import Key

_Header = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description=(
            "A name of the caller's own for this request, 1 to 255 visible ASCII characters. The same key with "
            "the same request does nothing again and is answered with the same resource as it is by then."
        ),
        examples=["7f9c24e5-5b1f-4a57-8e1c-2d2e7a0f3b11"],
    ),
]


async def key(request: Request, idempotency_key: _Header = None) -> Key | None:
    """The key, if there is one.

    Each principal has names of their own: what others call their requests is nobody's business, and no name can
    be used up for somebody else. Kept is a digest, since people send secrets as names, too.
    """
    if idempotency_key is None:
        return None
    asked = [request.method, request.url.path, body_of(request.scope)]
    whose = [principal_in(request.scope).name, idempotency_key]
    return Key(key=sha256(whose), request=sha256(asked))


OnceOnly = Annotated[Key | None, Depends(key)]

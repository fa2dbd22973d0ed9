"""The OpenAPI document beside real answers."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import httpx
from jsonschema import Draft202012Validator

from app.api import document

Json = dict[str, Any]
DOCUMENT = cast("Json", json.loads(document()))


def operations() -> Iterator[tuple[str, str, Json]]:
    """Method, path and description of each."""
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def is_described(answer: httpx.Response) -> bool:
    """Whether status, headers and body are what the document says; raises where the body is not."""
    operation = operation_of(answer.request)
    response = cast("Json", operation["responses"][str(answer.status_code)])
    for name in ("location", "link", "retry-after", "preference-applied", "idempotency-replayed"):
        said = {each.lower() for each in response.get("headers", {})}
        assert name not in answer.headers or name in said or answer.status_code == 503, name
    ((media_type, content),) = response["content"].items()
    assert answer.headers["content-type"] == media_type
    schema: Mapping[str, Any] = {**content["schema"], "components": DOCUMENT["components"]}
    Draft202012Validator(schema).validate(answer.json())
    return True


def operation_of(request: httpx.Request) -> Json:
    for method, path, operation in operations():
        pattern = re.sub(r"\{\w+\}", "[^/]+", path)
        if method == request.method and re.fullmatch(pattern, request.url.path):
            return operation
    raise LookupError(f"{request.method} {request.url.path}")

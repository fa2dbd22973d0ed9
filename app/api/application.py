"""Puts the API together, and describes it."""

import json
from collections.abc import Sequence
from typing import Any, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from fastapi.telemetry import TelemetryConfig
from starlette.middleware.cors import CORSMiddleware

from app.api import (
    audit,
    deliveries,
    events,
    health,
    langgraph,
    pauses,
    problems,
    resume,
    root,
    runs,
    sessions,
    threads,
    webhooks,
    workflows,
)
from app.api.access import PROBES, Access
from app.api.aims import Aims
from app.api.auth import Authentication, SignIn, Unasked
from app.api.intake import Intake
from app.api.limits import NO_LIMITS, Limiting, Limits
from app.api.stream import HEARTBEAT_SECONDS
from app.api.stream import MEDIA_TYPE as EVENT_STREAM
from app.api.tokens import Tokens
from app.lifecycle.site import Site

API_VERSION = "0.1.0"
"""Of the contract, which the document describes."""

MAX_BODY_BYTES = 1024 * 1024
MAX_HEADER_BYTES = 64 * 1024

_ROUTES = (
    *(
        each.router
        for each in (
            *(threads, runs, resume, events, pauses, workflows, deliveries, audit, sessions),
            *(health, root),
        )
    ),
    *langgraph.ROUTERS,
)
_SENT = (
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "If-Match",
    "Last-Event-ID",
    "Prefer",
    "Traceparent",
    "Tracestate",
    "X-Api-Key",
    "X-Request-ID",
)
_READ = (
    "Content-Location",
    "Idempotency-Replayed",
    "Link",
    "Location",
    "Preference-Applied",
    "Retry-After",
    "X-Pagination-Next",
    "X-Request-ID",
)
_DESCRIPTION = """\
Runs agent workflows and stops them, durably, wherever a person has to decide.

Start a run in a thread; where it is `paused`, its `pause` says what is asked, and
`POST /threads/{thread_id}/resume` takes the decision. Times are UTC. Errors are RFC 9457 problems with a `code`.
"""


def application(
    site: Site,
    *,
    max_body_bytes: int = MAX_BODY_BYTES,
    max_header_bytes: int = MAX_HEADER_BYTES,
    limits: Limits = NO_LIMITS,
    cors_origins: Sequence[str] = (),
    tokens: Tokens | None = None,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
) -> FastAPI:
    """The API over a site. Browsers of `cors_origins` may use it, and of no others."""
    api = _api(site.traces.provider)
    api.state.site = site
    api.state.heartbeat_seconds = heartbeat_seconds
    api.state.sign_in = sign_in = SignIn(site, tokens)
    api.add_middleware(Intake, max_body_bytes=max_body_bytes, max_header_bytes=max_header_bytes)
    if limits != NO_LIMITS:
        api.add_middleware(Limiting, limits=limits)
    api.add_middleware(Authentication, site=site, sign_in=sign_in, aims=_aims())
    if cors_origins:
        api.add_middleware(
            CORSMiddleware,
            allow_origins=list(cors_origins),
            allow_methods=["GET", "POST", "PATCH", "DELETE"],
            allow_headers=_SENT,
            expose_headers=_READ,
        )
    api.add_middleware(Access, metrics=site.metrics)
    return api


def _aims() -> Aims:
    return Aims(
        route.path for each in _ROUTES for route in each.routes if isinstance(route, APIRoute)
    )


def watched(site: Site) -> FastAPI:
    """What tells how a process is, alone: for a port that only those who watch can reach."""
    told = FastAPI(openapi_url=None, redirect_slashes=False, telemetry=_telemetry(None))
    told.state.site = site
    told.include_router(health.router)
    told.add_middleware(Unasked)
    problems.install(told)
    return told


def document() -> str:
    """The API as an OpenAPI document, the same text on every call."""
    return json.dumps(_api().openapi(), indent=2, ensure_ascii=False) + "\n"


def _telemetry(provider: object | None) -> TelemetryConfig:
    """Spans of requests for a provider, and nothing else: a log of exceptions would say what they quote."""
    return TelemetryConfig(
        tracing=provider is not None,
        tracer_provider=cast("Any", provider),
        operation_spans=False,
        metrics=False,
        logs=False,
        auto_configure=False,
        exclude=lambda scope: scope["path"] in PROBES,
    )


def _api(traces: object | None = None) -> FastAPI:
    api = FastAPI(
        title="Signoff",
        version=API_VERSION,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=_telemetry(traces),
        generate_unique_id_function=_operation_id,
    )
    for routes in _ROUTES:
        api.include_router(routes)
    problems.install(api)
    api.openapi = lambda: _described(api)
    return api


def _operation_id(route: APIRoute) -> str:
    return route.name


def _described(api: FastAPI) -> dict[str, Any]:
    if api.openapi_schema is None:
        described = get_openapi(
            title=api.title,
            version=api.version,
            description=api.description,
            routes=api.routes,
            webhooks=webhooks.router.routes,
        )
        for path in described["paths"].values():
            for operation in path.values():
                _say_media_types(operation)
        api.openapi_schema = described
    return api.openapi_schema


def _say_media_types(operation: dict[str, Any]) -> None:
    """Errors have a media type of their own, which FastAPI's `responses` cannot say beside a model.

    A stream is text, which only whoever reads it event by event has as JSON.
    """
    for status, response in operation["responses"].items():
        if int(status) >= 400:
            (content,) = response["content"].values()
            response["content"] = {problems.MEDIA_TYPE: {"schema": _named(content["schema"])}}
        elif stream := response.get("content", {}).get(EVENT_STREAM):
            told = _named(stream["schema"])
            stream["schema"] = {
                "type": "string",
                "contentMediaType": EVENT_STREAM,
                "contentSchema": told,
            }


def _named(schema: dict[str, Any]) -> dict[str, Any]:
    """The reference alone: beside it FastAPI says of an event stream that it is a string."""
    return {"$ref": schema["$ref"]}

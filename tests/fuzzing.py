"""Requests that the OpenAPI document allows, and ones that it does not, sent to a service; its answers held against it."""

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from jsonschema import Draft202012Validator
from schemathesis import GenerationMode

from tests.described import DOCUMENT

Json = dict[str, Any]
_SLOW = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)


@dataclass(kw_only=True)
class Fuzz:
    """Who asks, and for what there is. `faults` are answers that are not as described; `statuses` counts all.

    `keys` are credentials, None for nobody's; `ids` are values of path parameters for which there is something.
    """

    client: httpx.Client
    keys: Sequence[str | None]
    ids: Mapping[str, str]
    faults: list[str] = field(default_factory=list[str])
    statuses: Counter[int] = field(default_factory=Counter[int])

    def run(self, examples: int, *, number: int = 0) -> None:
        """Some requests to every operation; the same `number` makes the same ones."""
        for operation in _operations():
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                with suppress(Unsatisfiable):  # it takes nothing that could be wrong
                    self._ask(operation.as_strategy(generation_mode=mode), examples, number)

    def _ask(self, cases: st.SearchStrategy[Any], examples: int, number: int) -> None:
        @seed(number)
        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            suppress_health_check=_SLOW,
        )
        @given(cases, st.randoms(use_true_random=False))
        def one(case: Any, chance: random.Random) -> None:
            self._send(case, chance)

        one()

    def _send(self, case: Any, chance: random.Random) -> None:
        given: dict[str, Any] = case.path_parameters or {}
        for name in sorted(given.keys() & self.ids.keys()):
            if chance.random() < 0.7:
                given[name] = self.ids[name]
        asked = case.as_transport_kwargs(base_url=str(self.client.base_url).rstrip("/"))
        with suppress(httpx.LocalProtocolError, httpx.InvalidURL, UnicodeError, ValueError):
            self._check(case, _request(self.client, asked, chance.choice(self.keys)))

    def _check(self, case: Any, request: httpx.Request) -> None:
        answer = self.client.send(request, stream=True)
        try:
            is_stream = answer.headers.get("content-type", "").startswith("text/event-stream")
            body = b"" if is_stream else answer.read()
        finally:
            answer.close()
        self.statuses[answer.status_code] += 1
        if wrong := _wrong(case, request, answer, body):
            said = (request.content[:500], dict(request.headers), body[:500])
            self.faults.append(f"{request.method} {request.url}: {wrong}: {said}")


def _operations() -> Iterator[Any]:
    schema: Any = schemathesis.openapi.from_dict(DOCUMENT)
    for found in schema.get_all_operations():
        yield found.ok()


def _request(client: httpx.Client, asked: Json, key: str | None) -> httpx.Request:
    headers = {
        name: value
        for name, value in asked.pop("headers").items()
        if name.lower() not in ("authorization", "connection", "accept-encoding", "host")
    }
    if key:
        headers["Authorization"] = f"Bearer {key}"
    if "data" in asked:
        asked["content"] = asked.pop("data")
    known = {name: asked[name] for name in ("params", "json", "content") if asked.get(name)}
    return client.build_request(asked["method"], asked["url"], headers=headers, **known)


def _wrong(case: Any, request: httpx.Request, answer: httpx.Response, body: bytes) -> str | None:
    """What of an answer is not as described."""
    status = answer.status_code
    if status >= 500:
        return f"{status}"
    if status >= 400 and answer.headers.get("content-type") != "application/problem+json":
        return f"{status} is no problem"
    if not _reaches(case.operation.path, request):
        return None
    described = case.operation.definition.raw["responses"].get(str(status))
    if described is None:
        return f"{status} is not described"
    return _misfit(described, answer, body)


def _reaches(path: str, request: httpx.Request) -> bool:
    """Whether a request comes to an operation, and not, with a slash in an id, to another one."""
    pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))
    return re.fullmatch(pattern, request.url.path) is not None


def _misfit(described: Json, answer: httpx.Response, body: bytes) -> str | None:
    media_type = answer.headers.get("content-type", "").partition(";")[0]
    content = described.get("content", {})
    if not content:
        return "it has a body" if body else None
    if media_type not in content:
        return f"{media_type} is not described"
    if not media_type.endswith("json"):
        return None
    schema = {**content[media_type]["schema"], "components": DOCUMENT["components"]}
    wrong = next(Draft202012Validator(schema).iter_errors(answer.json()), None)
    return wrong and f"{wrong.json_path}: {wrong.message[:200]}"

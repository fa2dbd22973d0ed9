"""The client and the OpenAPI document say the same."""

import inspect
import json
import re
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast, get_args

import pytest
from pydantic import BaseModel

from signoff_client import AsyncSignoffClient, SignoffClient, models, operations
from signoff_client import following as streams
from signoff_client.following import Following
from signoff_client.models import Answered, Pause, Run
from signoff_client.operations import Caller
from signoff_client.plans import Request
from signoff_client.problems import Problem

ROOT = Path(__file__).parents[2]
DOCUMENT: dict[str, Any] = json.loads((ROOT / "openapi" / "openapi.json").read_text())
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
CALLER = Caller(by="maria", retries=0)

PAUSE = Pause.model_construct(id="p", thread_id="t", run_id="r", kind="approval", digest="d")
RUN = Run.model_construct(id="r", thread_id="t")
MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ARGUMENTS: dict[str, Any] = {
    "pause": PAUSE,
    "run": RUN,
    "expires_at": MOMENT,
    "since": MOMENT,
    "until": MOMENT,
    "types": ["pause.*"],
    "names": "left",
    "wait": 3,
    "timeout": 3,
    "metadata": {"a": 1},
    "decision": {"approved": True},
    "callback": {"url": "https://example.com"},
    "if_not_exists": "create",
    "if_paused": "supersede",
}
OPERATIONS = {
    name: each
    for name, each in inspect.getmembers(operations, inspect.isfunction)
    if each.__module__ == operations.__name__ and not name.startswith("_")
}
NOT_FOR_CALLERS = {
    *("begin_session", "end_session"),  # of browsers
    *("livez", "readyz", "metrics"),  # of those who watch
}


def request_of(name: str) -> Request:
    """The first request of an operation that is given everything it takes."""
    parameters = list(inspect.signature(OPERATIONS[name]).parameters.values())[1:]
    takes = [each for each in parameters if each.kind is not each.VAR_KEYWORD]
    several = [ARGUMENTS[each.name] for each in takes if each.kind is each.VAR_POSITIONAL]
    single = [each for each in takes if each.kind is not each.VAR_POSITIONAL]
    bound = {each.name: ARGUMENTS.get(each.name, "x") for each in single if not several}
    made = OPERATIONS[name](CALLER, *([PAUSE, *several] if several else []), **bound)
    if isinstance(made, Following):
        return made.request
    return next(cast("Any", made if isinstance(made, Generator) else made(None)))


def described(request: Request) -> dict[str, Any]:
    for path, methods in DOCUMENT["paths"].items():
        pattern = re.sub(r"\{\w+\}", "[^/]+", path)
        if re.fullmatch(pattern, request.url) and request.method.lower() in methods:
            return methods[request.method.lower()]
    raise LookupError(f"{request.method} {request.url}")


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_what_the_client_sends_is_in_the_document(name: str) -> None:
    request = request_of(name)
    operation = described(request)

    known = {each["name"].lower() for each in operation.get("parameters", ())}
    assert set(request.query) <= known
    assert set(request.headers) - {"accept", "content-type"} <= known
    sent = request.content and json.loads(request.content)
    taken = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if sent:
        assert taken
        (schema,) = _references(taken["schema"])
        assert set(sent) <= set(schema["properties"])


def test_everything_that_callers_and_approvers_can_do_is_in_the_client() -> None:
    wanted = {
        operation["operationId"]
        for methods in DOCUMENT["paths"].values()
        for operation in methods.values()
        if "langgraph" not in operation.get("tags", ())
    }
    known = {described(request_of(name))["operationId"] for name in OPERATIONS}
    assert known == wanted - NOT_FOR_CALLERS


def test_both_clients_do_the_same() -> None:
    def methods_of(client: type) -> set[str]:
        return {name for name in vars(client) if not name.startswith("_")} - {"close", "aclose"}

    assert methods_of(SignoffClient) == methods_of(AsyncSignoffClient)
    assert set(OPERATIONS) <= methods_of(SignoffClient)


MODELS: dict[str, type[BaseModel]] = {
    name: each
    for name, each in inspect.getmembers(models, inspect.isclass)
    if issubclass(each, Answered) and name in SCHEMAS
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_the_members_of_its_schema(name: str) -> None:
    model, schema = MODELS[name], SCHEMAS[name]
    own = {"id"} if model is models.Notice else set[str]()  # from a header
    assert set(model.model_fields) - own == set(schema["properties"])
    needed = {name for name, each in model.model_fields.items() if each.is_required()} - own
    assert needed <= set(schema.get("required", ()))


@pytest.mark.parametrize(
    ("words", "schema"),
    [
        (models.RunStatus, "RunStatus"),
        (models.StepStatus, "StepStatus"),
        (models.PauseKind, "PauseKind"),
        (models.PauseLevel, "PauseLevel"),
        (models.PauseStatus, "PauseStatus"),
        (models.DeliveryStatus, "DeliveryStatus"),
        (models.AuditAction, "AuditAction"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_the_client_has_all_words_of_a_choice(words: Any, schema: str) -> None:
    literal, _ = get_args(words)
    assert set(get_args(literal)) == set(SCHEMAS[schema]["enum"])


def test_every_type_of_event_has_a_class() -> None:
    for type, reference in SCHEMAS["Event"]["discriminator"]["mapping"].items():
        name = reference.rpartition("/")[2]
        event = getattr(streams, name)
        assert type in get_args(event.model_fields["type"].annotation)
        data = SCHEMAS[SCHEMAS[name]["properties"]["data"]["$ref"].rpartition("/")[2]]
        assert set(event.model_fields) - {"id", "type", "timestamp"} == set(data["properties"])


def test_every_code_that_the_page_of_errors_lists_has_an_exception_of_its_own() -> None:
    page = (ROOT / "docs" / "http.md").read_text()
    table = page.partition("| status | codes |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", table)) - {"Retry-After"} <= set(Problem.by_code)


def _references(schema: dict[str, Any]) -> list[dict[str, Any]]:
    if "$ref" in schema:
        return [SCHEMAS[schema["$ref"].rpartition("/")[2]]]
    return [one for each in schema.get("anyOf", ()) for one in _references(each)]

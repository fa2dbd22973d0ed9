"""Routes of assistants: the workflows that are served here. They are made by writers, and by nobody here."""

from itertools import pairwise
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.api.answers import JsonResponse
from app.api.auth import LANGGRAPH, Reader
from app.api.documented import answers
from app.api.ids import AssistantPath
from app.api.langgraph import answered, sent
from app.api.langgraph.names import assistant_id, workflow_of
from app.api.langgraph.shapes import picked
from app.api.served import Served
from app.lifecycle import read
from app.lifecycle.read import View
from app.lifecycle.site import Site

router = APIRouter(prefix=LANGGRAPH, tags=["langgraph"])


@router.get("/info", responses=answers({200: (answered.LangGraphInfo, "What it is.", ())}))
async def langgraph_info(request: Request, caller: Reader) -> Response:
    """Says what this server can do; clients look whether it is there."""
    return JsonResponse({"version": request.app.version, "strict_resume": True, "flags": _FLAGS})


_FLAGS = {"assistants": True, "crons": False, "langsmith": False}


@router.post(
    "/assistants/search",
    responses=answers({200: (answered.LangGraphAssistants, "Those found.", ())}, takes_body=True),
)
async def langgraph_search_assistants(
    site: Served, caller: Reader, body: sent.LangGraphAssistantSearch
) -> Response:
    """Looks for assistants."""
    found = _found(site, body)
    found.sort(key=lambda each: str(each[body.sort_by]), reverse=body.sort_order == "desc")
    page = found[body.offset : body.offset + body.limit]
    more = len(found) > body.offset + body.limit
    headers = {"X-Pagination-Next": str(body.offset + body.limit)} if more else {}
    return JsonResponse([picked(each, body.select) for each in page], headers=headers)


@router.post(
    "/assistants/count",
    responses=answers({200: (answered.LangGraphCount, "The number.", ())}, takes_body=True),
)
async def langgraph_count_assistants(
    site: Served, caller: Reader, body: sent.LangGraphAssistantCount
) -> Response:
    """Counts assistants."""
    return JsonResponse(len(_found(site, body)))


@router.get(
    "/assistants/{assistant_id}",
    responses=answers({200: (answered.LangGraphAssistant, "The assistant.", ())}, 404),
)
async def langgraph_get_assistant(
    site: Served, caller: Reader, assistant_id: AssistantPath
) -> Response:
    """Gives one assistant."""
    name = workflow_of(site, assistant_id)
    return JsonResponse(next(each for each in _assistants(site) if each["name"] == name))


@router.get(
    "/assistants/{assistant_id}/schemas",
    responses=answers({200: (answered.LangGraphSchemas, "The schemas.", ())}, 404),
)
async def langgraph_get_assistant_schemas(
    site: Served, caller: Reader, assistant_id: AssistantPath
) -> Response:
    """Gives the schemas of what an assistant takes and gives."""
    described = read.workflow(site, workflow_of(site, assistant_id))
    unknown = dict.fromkeys(("state_schema", "config_schema", "context_schema"))
    schemas = {name: described[name] for name in ("input_schema", "output_schema")}
    return JsonResponse({"graph_id": described["name"], **schemas, **unknown})


@router.get(
    "/assistants/{assistant_id}/graph",
    responses=answers({200: (answered.LangGraphGraph, "The graph.", ())}, 404),
)
async def langgraph_get_assistant_graph(
    site: Served, caller: Reader, assistant_id: AssistantPath
) -> Response:
    """Draws the steps of an assistant, one after the other."""
    steps = read.workflow(site, workflow_of(site, assistant_id))["steps"]
    nodes = [_node("__start__"), *(_step(each) for each in steps), _node("__end__")]
    ids = [each["id"] for each in nodes]
    edges = [{"source": one, "target": two} for one, two in pairwise(ids)]
    return JsonResponse({"nodes": nodes, "edges": edges})


def _node(id: str) -> dict[str, Any]:
    return {"id": id, "type": "schema", "data": id}


def _step(step: View) -> dict[str, Any]:
    shown = {"id": [step["path"]], "name": step["name"]}
    return {
        "id": step["name"],
        "type": "runnable",
        "data": shown,
        "metadata": {"type": step["type"]},
    }


def _found(site: Site, wanted: sent.LangGraphAssistantCount) -> list[View]:
    return [each for each in _assistants(site) if _fits(each, wanted)]


def _fits(assistant: View, wanted: sent.LangGraphAssistantCount) -> bool:
    metadata = assistant["metadata"].items()
    return (
        wanted.graph_id in (None, assistant["graph_id"])
        and (wanted.name or "").lower() in assistant["name"].lower()
        and all(each in metadata for each in (wanted.metadata or {}).items())
    )


def _assistants(site: Site) -> list[View]:
    return [_assistant(each) for each in read.workflows(site)]


def _assistant(workflow: View) -> View:
    return {
        "assistant_id": assistant_id(workflow["name"]),
        "graph_id": workflow["name"],
        "name": workflow["name"],
        "description": None,
        "config": {},
        "context": {},
        "metadata": {
            "created_by": "system",
            "version": workflow["version"],
            "fingerprint": workflow["fingerprint"],
        },
        "version": 1,
        "created_at": None,
        "updated_at": None,
    }

"""Routes of workflows: what can be started here."""

from fastapi import APIRouter
from starlette.responses import Response

from app.api import schemas
from app.api.answers import JsonResponse
from app.api.auth import Reader
from app.api.documented import answers
from app.api.ids import WorkflowPath
from app.api.served import Served
from app.lifecycle import read

router = APIRouter(tags=["workflows"])


@router.get("/workflows", responses=answers({200: (schemas.WorkflowList, "All of them.", ())}))
async def list_workflows(site: Served, caller: Reader) -> Response:
    """Lists the workflows that are served here."""
    return JsonResponse({"items": read.workflows(site), "next": None})


@router.get(
    "/workflows/{name}", responses=answers({200: (schemas.Workflow, "The workflow.", ())}, 404)
)
async def get_workflow(site: Served, caller: Reader, name: WorkflowPath) -> Response:
    """Describes a workflow: its steps, agents, tools, limits, channels, schemas, and a graph."""
    return JsonResponse(read.workflow(site, name))

"""What a run of LangGraph's protocol is asked to be: a new one, or a decision that lets one go on."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends
from starlette.requests import Request

from app.api.auth import Needs, principal_in
from app.api.langgraph.answering import decision_of
from app.api.langgraph.names import workflow_of
from app.api.langgraph.sent import LangGraphCommand, LangGraphNewRun
from app.api.limits import count_run
from app.api.problems import pointing_into
from app.domain.audit import API
from app.domain.decision import InvalidDecision
from app.domain.ids import PauseId, ThreadId, new_run_id
from app.domain.json import Json
from app.domain.principal import Principal, Scope
from app.domain.run import RunRef
from app.errors import FieldError, Invalid
from app.lifecycle import read
from app.lifecycle.decide import DecideRequest, PauseNotFound, decide_together
from app.lifecycle.follow import left_of
from app.lifecycle.keys import Key
from app.lifecycle.site import Site
from app.lifecycle.start import Accepted, StartRequest, start

STARTS: Final = Needs(Scope.RUNS_WRITE)
DECIDES: Final = Needs(Scope.DECISIONS_WRITE)
SECURITY: Final = {
    "security": [{"bearer": [Scope.RUNS_WRITE]}, {"bearer": [Scope.DECISIONS_WRITE]}]
}
"""One scope or the other, by what is asked for."""


async def _one_of_both(request: Request) -> Principal:
    principal = principal_in(request.scope)
    if principal.may(Scope.DECISIONS_WRITE):
        return principal
    return await STARTS(request)


StarterOrDecider = Annotated[Principal, Depends(_one_of_both)]


@dataclass(frozen=True, kw_only=True)
class Begun:
    """A run that was started, or goes on; what happens now has events after the number `after`."""

    run: RunRef
    is_new: bool
    is_replay: bool
    after: int = 0


async def begin(
    request: Request,
    site: Site,
    thread_id: ThreadId,
    body: LangGraphNewRun,
    key: Key | None,
    *,
    listens: bool = False,
) -> Begun:
    """Starts a run, or takes the decisions in the command. Raises what both use cases do, and `MissingScope`.

    Whoever `listens` will ask for what its models write, and would miss how the first answer begins.
    """
    workflow = workflow_of(site, body.assistant_id)
    if body.command is None:
        caller = await STARTS(request)
        count_run(request.scope)
        request_of_run = _start_request(caller, thread_id, workflow, body)
        return await _started(site, caller, request_of_run, key, listens=listens)
    caller = await DECIDES(request)
    if body.input not in (None, {}):
        raise _wrong("/input", "a run that goes on has its input")
    after = await _before(site, caller, thread_id, workflow, body.command, listens=listens)
    done = await _decided(site, caller, thread_id, body, key)
    return Begun(run=done.run, is_new=False, is_replay=done.is_replay, after=after)


def _start_request(
    caller: Principal, thread_id: ThreadId, workflow: str, body: LangGraphNewRun
) -> StartRequest:
    return StartRequest(
        thread_id=thread_id,
        workflow=workflow,
        input=body.input,
        metadata=body.metadata or {},
        creates=body.if_not_exists == "create",
        supersedes=body.multitask_strategy == "interrupt",
        requested_by=caller.name,
        origin=caller.origin,
    )


async def _started(
    site: Site, caller: Principal, request: StartRequest, key: Key | None, *, listens: bool
) -> Begun:
    run_id = new_run_id()
    if listens:
        site.followers.expect(run_id)
    done = await start(site, caller, request, run_id=run_id, key=key)
    return Begun(run=done.run, is_new=True, is_replay=done.is_replay)


async def _before(
    site: Site,
    caller: Principal,
    thread_id: ThreadId,
    workflow: str,
    command: LangGraphCommand,
    *,
    listens: bool,
) -> int:
    """The number of the last event before the decision: what was told until then is not told again.

    A pause of an older run is closed: what became of it, or that this is a repeat, is told by whoever decides.
    """
    run = (await read.thread_and_run(site, caller, thread_id))["run"]
    if run is None:
        raise PauseNotFound("There is no such pause in this thread.")
    is_meant = any(pause["id"] in command.resume for pause in run["pauses"])
    if is_meant and run["workflow"]["name"] != workflow:
        raise _wrong("/assistant_id", "the run that waits is of another one")
    if listens:
        site.followers.expect(run["id"])
    ref = RunRef(tenant=caller.tenant, thread_id=thread_id, run_id=run["id"])
    return (await left_of(site, ref, after=0)).newest


async def _decided(
    site: Site, caller: Principal, thread_id: ThreadId, body: LangGraphNewRun, key: Key | None
) -> Accepted:
    answers: dict[str, Json] = body.command.resume if body.command else {}
    requests = [
        DecideRequest(
            thread_id=thread_id,
            pause_id=PauseId(pause_id),
            decision=answer,
            via=API,
            form=decision_of,
            by=_decider(body.metadata),
        )
        for pause_id, answer in answers.items()
    ]
    try:
        return await decide_together(site, caller, requests, key=key)
    except InvalidDecision as error:
        which = error.values.get("pause_id", requests[0].pause_id)
        with pointing_into(f"/command/resume/{which}"):
            raise


def _decider(metadata: dict[str, Json] | None) -> str | None:
    """Who decides, where the answer itself does not say: LangChain's form has no place for it."""
    by = (metadata or {}).get("by")
    if not isinstance(by, str | None):
        raise _wrong("/metadata/by", "must be a text")
    return by


def _wrong(pointer: str, message: str) -> Invalid:
    wrong = FieldError(pointer=pointer, message=message)
    return Invalid("The request cannot be taken.", fields=[wrong])

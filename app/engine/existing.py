"""Runs a graph that was built for itself, unchanged: what it asks by `interrupt()` becomes pauses.

invoked ──► interrupts ──► each a question, or several ──► invoked with the answers that are whole ──► … ──► output

Its LangGraph thread may hold several open interrupts. An answer is handed over by the interrupt's id, once the
invocation that asked has returned, and only while that interrupt is pending; so none reaches the graph twice.
"""

import logging
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

import langsmith
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_TYPES  # what it restores
from langgraph.types import Command, Interrupt, StateSnapshot
from pydantic_core import to_jsonable_python

from app.authoring import AskRequest, Channel, GraphNode
from app.authoring.existing import MESSAGES
from app.authoring.shape import dump, load
from app.domain.decision import Decision, Decline, Value, Verdict
from app.domain.json import Json, check_json
from app.domain.masking import digest_of
from app.domain.pause import DEADLINE, Answer, Ask, PauseKind, PauseLevel, Settled
from app.engine import steps
from app.engine.drive import Drive, LineFailed, Waiting, expired
from app.engine.faults import reason_of
from app.engine.interrupts import APPROVE, EDIT, Asked, Part, asked_by
from app.engine.served import StepPlace
from app.engine.settling import Answering, Decider, OpenPause, check_value, settles_alone, wrong
from app.engine.writing_saver import WritingSaver

_log = logging.getLogger(__name__)
State: TypeAlias = Mapping[str, Any]


class ExistingRun:
    """One advance of a run of such a graph."""

    def __init__(
        self,
        node: GraphNode,
        place: StepPlace,
        channels: Mapping[str, Channel],
        drive: Drive,
        saver: BaseCheckpointSaver[Any],
    ) -> None:
        self._place = place
        self._policy = node.asks.policy(cast("Channel", node.asks.channel))
        self._message = node.asks.message
        self._channel = channels[self._policy.channel]
        self._node = node
        self._drive = drive
        self._saver = WritingSaver(saver, drive.journal)
        self._graph = cast("Any", node.graph).copy({"checkpointer": self._saver})
        self._answers = dict(drive.start.answers)
        self._config: RunnableConfig = {
            "configurable": {
                "thread_id": f"{drive.start.run.run_id}/{drive.start.line}",
                "signoff": self._told(),
            }
        }

    def _told(self) -> dict[str, Json]:
        """What nodes find about their run, in `config["configurable"]["signoff"]`."""
        start = self._drive.start
        return {
            "run_id": start.run.run_id,
            "thread_id": start.run.thread_id,
            "metadata": start.metadata,
            "requested_by": start.requested_by,
        }

    async def until_it_asks(self) -> Waiting | State:
        """Runs it until it waits for somebody, or to its end: then its state. Raises `LineFailed`."""
        if self._drive.start.fresh or await self._saver.aget_tuple(self._config) is None:
            steps.started(self._drive, self._place)
            given = self._input()
        else:
            asked = [asked_by(each) for each in await self._pending()]
            given = self._resumed_with(asked)
            if given is None and asked and self._known(asked):
                return Waiting(asks=())
        return await self._goes_on(given)

    async def _goes_on(self, given: Any) -> Waiting | State:
        handed: set[str] = set()
        while True:
            came = await self._invoked(given)
            if not came.interrupts:
                return self._ended(came.value)
            asked = [asked_by(each) for each in came.interrupts]
            self._check_state(came.value)
            asks = [ask for each in asked for ask in self._asks(each)]
            waiting = [ask for ask in asks if not self._decided_at_once(ask)]
            given = self._resumed_with([each for each in asked if each.id not in handed])
            if given is None:
                self._check_taken(asked)
                return Waiting(asks=tuple(waiting))
            handed |= given.resume.keys()

    def _check_taken(self, asked: Sequence[Asked]) -> None:
        """Raises `LineFailed` where the graph waits for nothing but what it was given already."""
        keys = {key for each in asked for key in each.keys()}  # noqa: SIM118 - no dictionary
        if keys <= self._answers.keys():
            message = "The graph did not take an answer that it had asked for."
            raise LineFailed("step_failed", message, step=self._place.path)

    def _check_state(self, state: Any) -> None:
        """Raises `LineFailed` where a state would not come back from its checkpoint as it is."""
        if (strange := next(_strange(state), None)) is not None:
            message = f"its state holds a {strange}, and only plain data is there after a pause"
            raise LineFailed("step_failed", message, step=self._place.path)

    async def _invoked(self, given: Any) -> Any:
        # Whatever the environment says: a trace would carry the state, and with it every secret.
        with langsmith.tracing_context(enabled=False, parent=False):
            try:
                return await self._graph.ainvoke(
                    given, self._config, durability="sync", version="v2"
                )
            except Exception as error:
                if self._saver.failure is not None:
                    raise self._saver.failure from error
                raise LineFailed("step_failed", reason_of(error), step=self._place.path) from error

    def _input(self) -> Any:
        value = self._drive.start.input
        if isinstance(value, str):
            return {MESSAGES: [{"role": "user", "content": value}]}
        return dump(self._node.input, load(self._node.input, value))

    def _ended(self, state: Any) -> State:
        """The output, as the graph's state is written in JSON."""
        try:
            value = self._output(state)
            steps.completed(self._drive, self._place, value)
        except Exception as error:
            raise LineFailed("invalid_output", reason_of(error), step=self._place.path) from error
        return {"value": value}

    def _output(self, state: Any) -> Json:
        if self._place.output_schema.get("type") == "string":
            return str(state[MESSAGES][-1].text)
        written = to_jsonable_python(state, by_alias=True)
        check_json(written)
        return dump(self._node.output, load(self._node.output, written))

    # ── Questions ────────────────────────────────────────────────────────────────────────────────

    async def _pending(self) -> list[Interrupt[Any]]:
        """What was asked last, by tasks that have not ended, wherever in it they are."""
        snapshot = await self._graph.aget_state(self._config, subgraphs=True)
        return list(_interrupts_of(snapshot))

    def _resumed_with(self, asked: Sequence[Asked]) -> Command[Any] | None:
        """What is answered of that as a whole; None where nothing is."""
        whole = {each.id: each.answered(self._taken(each)) for each in asked}
        resume = {id: said[0] for id, said in whole.items() if said is not None}
        return Command(resume=resume) if resume else None

    def _taken(self, asked: Asked) -> dict[str, Answer]:
        """The answers to it. Raises `LineFailed` where nobody gave one in time, and it cannot do without."""
        found: dict[str, Answer] = {}
        for key, part in zip(asked.keys(), asked.parts, strict=True):
            if (answer := self._answers.get(key)) is None:
                continue
            refuses = answer.action == "fail" or not part.takes(approved=answer.approved)
            if answer.via == DEADLINE and (refuses or part.kind is not PauseKind.APPROVAL):
                raise expired(self._place.path)
            found[key] = answer
        return found

    def _known(self, asked: Sequence[Asked]) -> bool:
        keys = {key for each in asked for key in each.keys()}  # noqa: SIM118 - no dictionary
        return keys <= (self._drive.start.open | self._answers.keys())

    def _asks(self, asked: Asked) -> Iterator[Ask]:
        """The questions of an interrupt that are not open and not answered yet."""
        for key, part in zip(asked.keys(), asked.parts, strict=True):
            if key not in self._drive.start.open and key not in self._answers:
                yield self._ask(key, part)

    def _ask(self, key: str, part: Part) -> Ask:
        salt = secrets.token_hex(16)
        is_call = part.tool is not None
        digest = digest_of(part.tool, part.arguments, {}, salt) if part.tool else None
        shown: dict[str, Json] = {
            "step": self._place.as_json(),
            "agent": None,
            "call": self._shown_call(key, part) if is_call else None,
            "position": {"index": part.index, "of": part.of},
            "message": self._message or part.message,
            "options": part.value.get("enum"),
            "choices": None,
            "output": None if is_call or isinstance(part.arguments, str) else part.arguments,
            "error": None,
            "branch": None,
            "allowed": part.allowed,
            "response_schema": part.response_schema(voted=self._policy.quorum > 1),
        }
        try:
            check_json(shown)
        except Exception as error:
            message = f"what it asks cannot be stored: {reason_of(error)}"
            raise LineFailed("step_failed", message, step=self._place.path) from error
        return Ask(
            place=f"{self._place.path}#{key}",
            line=self._drive.start.line,
            kind=part.kind,
            level=PauseLevel.EXECUTOR,
            policy=self._policy,
            shown=shown,
            secret={
                "arguments": part.arguments,
                "salt": salt,
                "schema": part.arguments_schema,
                "value": part.value,
                "may": sorted(part.may),
            },
            digest=digest,
            interrupt_id=key,
        )

    def _shown_call(self, key: str, part: Part) -> Json:
        return {
            "id": f"{self._drive.start.run.run_id}:{key}",
            "provider_call_id": part.call_id,
            "tool": part.tool,
            "description": "",
            "arguments": part.arguments,
            "arguments_schema": part.arguments_schema,
            "sensitive_paths": [],
        }

    def _decided_at_once(self, ask: Ask) -> bool:
        """Whether the channel decides by itself; then the answer is there."""
        try:
            settled = self._settled_at_once(ask)
        except Exception:  # noqa: BLE001 - a writer's channel can raise anything; then a person is asked
            extra = {"channel": self._channel.name, "place": ask.place}
            _log.exception("channel_could_not_decide", extra=extra)
            return False
        if settled is None:
            return False
        self._drive.journal.settle(replace(ask, settled=settled))
        self._answers[str(ask.interrupt_id)] = settled.answer
        return True

    def _settled_at_once(self, ask: Ask) -> Settled | None:
        if type(self._channel).decide is Channel.decide:
            return None
        decision = self._channel.decide(self._request(ask))
        if decision is None or not settles_alone(decision, self._policy):
            return None
        pause = OpenPause(kind=ask.kind, shown=ask.shown, secret=ask.secret, digest=ask.digest)
        return settle_interrupt(pause, decision, Decider(by=self._channel.name, via="channel"))

    def _request(self, ask: Ask) -> AskRequest:
        call: Any = ask.shown["call"] or {}
        start = self._drive.start
        return AskRequest(
            kind=ask.kind,
            workflow=self._place.workflow,
            thread_id=start.run.thread_id,
            run_id=start.run.run_id,
            step=self._place.path,
            message=str(ask.shown["message"]),
            tool=call.get("tool"),
            call_id=call.get("id"),
            arguments=call.get("arguments"),
            requested_by=start.requested_by,
            metadata=start.metadata,
        )


def _strange(value: Any) -> Iterator[str]:
    """The classes in a value that no checkpoint restores."""
    match value:
        case None | bool() | int() | float() | str() | bytes():
            return
        case dict():
            for each in cast("dict[Any, Any]", value).values():
                yield from _strange(each)
        case list() | tuple() | set() | frozenset():
            for each in cast("Sequence[Any]", value):
                yield from _strange(each)
        case _ if (type(value).__module__, type(value).__name__) not in SAFE_MSGPACK_TYPES:
            yield type(value).__name__
        case _:
            return


def _interrupts_of(snapshot: StateSnapshot) -> Iterator[Interrupt[Any]]:
    """Those of tasks without a result; of a graph in it its own, since the outer one's may be older."""
    for task in snapshot.tasks:
        if task.result is not None:
            continue
        if isinstance(task.state, StateSnapshot):
            yield from _interrupts_of(task.state)
        else:
            yield from task.interrupts


# ── Decisions ────────────────────────────────────────────────────────────────────────────────────


def settle_interrupt(pause: OpenPause, decision: Decision, decider: Decider) -> Settled:
    """The decision as an answer, if the graph takes it; raises `InvalidDecision`."""
    answering, secret = Answering.of(decision, decider), cast("dict[str, Any]", pause.secret)
    if pause.kind is not PauseKind.APPROVAL:
        return _value(decision, secret["value"], answering)
    may = frozenset(secret["may"])
    match decision:
        case Verdict(approved=True, override_arguments=edited) if edited is not None:
            if EDIT not in may:
                raise wrong("/override_arguments", "the arguments of this call cannot be changed")
            check_value(edited, secret["schema"], "/override_arguments")
            tool = str(cast("dict[str, Any]", pause.shown["call"])["tool"])
            return answering.edited(edited, digest_of(tool, edited, {}, secret["salt"]))
        case Verdict(approved=True):
            if APPROVE not in may:
                raise wrong("/approved", "this call is not approved as it is")
            return answering.verdict(approved=True)
        case Verdict(approved=False) | Decline():
            if "reject" not in may:
                raise wrong("/approved", "this call cannot be rejected")
            return answering.verdict(approved=False)
        case _:
            raise wrong("/approved", "this pause takes a verdict: approved must be true or false")


def _value(decision: Decision, schema: dict[str, Any], answering: Answering) -> Settled:
    match decision:
        case Value(value=value):
            check_value(value, schema, "/value")
            return answering.value(value, shown=value)
        case _:
            raise wrong("/value", "the graph waits for a value, and cannot go on without one")

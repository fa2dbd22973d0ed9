"""An agent as a graph: it asks its model, asks people, runs tools, and asks its model again.

model ──► pause ──► tool, each call a task ──► model ──► … ──► the answer
  │        │ ▲
  │        └─┘ one question at a time
  └──► tool, each call a task
"""

import asyncio
import re
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from itertools import chain
from typing import Any, cast

from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, Send, interrupt
from pydantic import ValidationError

from app.authoring import AgentStep, Retry
from app.authoring.shape import dump, load
from app.domain.json import Json
from app.domain.message import Message
from app.domain.pause import DEADLINE, Answer
from app.engine import booking, steps
from app.engine.answers import Looks, spoken
from app.engine.asking import ask_for, place_of
from app.engine.calls import (
    Turn,
    approval_was_decided,
    check_digest,
    checked,
    decided,
    decided_at_once,
    first_asking,
    open_calls,
    proposed_calls,
    results,
    seen,
    to_run,
    with_outcomes,
)
from app.engine.drive import (
    Drive,
    LineFailed,
    drive_of,
    expired,
    model_failed,
    over_budget,
    step_outside,
)
from app.engine.faults import printable, reason_of
from app.engine.guarding import failing
from app.engine.hearing import Hearing, hearing
from app.engine.judging import Judge
from app.engine.models import Finish, Model, ModelAnswer, ModelError, ModelRequest
from app.engine.running import began, run_call
from app.engine.scrubbing import secrets_said
from app.engine.served import Seat
from app.engine.state import AgentState, Answered, Handed, HeldAnswer, OpenCall, SentCall, Work
from app.engine.step_settling import inputs_of
from app.errors import SignoffError

Graph = CompiledStateGraph[Any, Any, Any, Any]
Next = Command[Any]


def agent_graph(
    seat: Seat,
    step: AgentStep,
    model: Model,
    *,
    judges: Sequence[Judge] = (),
    remembers: bool,
    alone: bool = False,
    catches: bool = False,
) -> Graph:
    """Compiles an agent.

    With `remembers`, what was said in its visit comes out beside its answer. `alone` where the agent is its
    whole line, and notes its own beginning and end. `catches` where a failure comes out instead of an answer.
    """
    agent = _Agent(
        seat, step, model, judges=judges, remembers=remembers, alone=alone, catches=catches
    )

    async def ask_model(state: AgentState, runtime: Runtime[Drive]) -> Next:
        return await agent.at(state.get("handed")).model(state, drive_of(runtime))

    async def ask_people(state: AgentState, runtime: Runtime[Drive]) -> Next:
        return await agent.at(state.get("handed")).pause(state, drive_of(runtime))

    async def run_tool(state: SentCall, runtime: Runtime[Drive]) -> dict[str, Json]:
        return await agent.at(state["handed"]).tool(state, drive_of(runtime))

    graph = StateGraph(AgentState, context_schema=Drive, input_schema=Work, output_schema=Answered)
    graph.add_node("model", ask_model, destinations=("model", "pause", "tool"))
    graph.add_node("pause", ask_people, destinations=("model", "pause", "tool"))
    graph.add_node("tool", run_tool, input_schema=SentCall)
    graph.add_edge(START, "model")
    graph.add_edge("tool", "model")
    return cast("Graph", graph.compile())


class _Agent:
    """The nodes of one agent's graph, at one place. Nothing in here changes once it is made."""

    def __init__(
        self,
        seat: Seat,
        step: AgentStep,
        model: Model,
        *,
        judges: Sequence[Judge],
        remembers: bool,
        alone: bool,
        catches: bool,
    ) -> None:
        self._seat = seat
        self._step = step
        self._model = model
        self._looks = Looks(seat=seat, step=step, judges=judges)
        self._remembers = remembers
        self._alone = alone
        self._catches = catches
        self._tools = [tool.spec for tool in seat.tools.values()]
        self._system = _system_prompt(seat, step)

    def at(self, handed: Handed | None) -> "_Agent":
        """The agent where it stands now, in this iteration and this attempt of the steps around it."""
        if handed is None or handed["place"] == self._seat.place.path:
            return self
        moved = copy(self)
        moved._seat = replace(self._seat, place=self._seat.place.at(handed["place"]))
        return moved

    async def model(self, state: AgentState, drive: Drive) -> Next:
        """One turn of the model, or a look at what it said; a failure comes out where somebody waits for it."""
        try:
            if self._seat.agent.limits.time is None:
                return await self._turn(state, drive, None)
            return await self._timed(state, drive, self._seat.agent.limits.time)
        except LineFailed as failure:
            if not self._catches:
                raise
            return Command(update={"failure": failure.error.as_json()})

    async def _timed(self, state: AgentState, drive: Drive, limit: timedelta) -> Next:
        """A turn within the time that the agent has left; that of people is not counted."""
        lap, worked = drive.lap(), state.get("worked")
        worked = 0.0 if worked is None else worked + lap
        left = limit.total_seconds() - worked
        if left <= 0:
            raise self._over("time", limit)
        onward = await self._turn(state, drive, left)
        update = cast("dict[str, Json]", onward.update) | {"worked": worked + drive.lap()}
        return Command(goto=onward.goto, update=update)

    async def _turn(self, state: AgentState, drive: Drive, left: float | None) -> Next:
        """Hands the model the results of its calls, and takes its answer; goes on where calls are left."""
        drive.check()
        step_outside()
        calls = with_outcomes(self._seat, state.get("calls", []), state.get("outcomes", {}))
        if any(call["place"] in drive.ran for call in calls):
            drive.journal.write_soon()
        if any(call.get("unchecked") for call in calls):
            return await self._checked(calls, state, drive)
        if to_run(calls):
            return self._onward(await decided_at_once(self._seat, calls, drive), state, calls)
        if any(call.get("unseen") for call in calls):
            return await self._seen(calls, drive)
        if (held := state.get("answer")) is not None:
            return await self._looked_at(held, state, drive)
        messages = [
            *(state.get("messages") or self._first_messages(state, drive)),
            *results(self._seat, calls),
        ]
        turn = self._turn_of(state, drive)
        if drive.is_spent:
            return self._stopped(turn, messages, state, drive)
        answer = await self._ask(
            turn, messages, drive, left, self._heard(turn, messages, state, drive)
        )
        if answer.calls:
            return await self._proposed(turn, state, messages, answer, drive)
        messages.append(_said(answer, []))
        return self._answered(turn, messages, answer, state, drive)

    def _heard(
        self, turn: Turn, messages: Sequence[Message], state: AgentState, drive: Drive
    ) -> Hearing | None:
        """Whoever may listen while the model writes: nobody where a guardrail has to read it first."""
        if self._seat.is_unheard:
            return None
        known = state.get("secrets", {}).values()
        return hearing(self._seat, turn.turn, drive, known, messages)

    def _turn_of(self, state: AgentState, drive: Drive, back: int = 0) -> Turn:
        return Turn(
            run_id=drive.start.run.run_id,
            path=self._seat.place.path,
            turn=state.get("turn", 0) - back,
        )

    def _first_messages(self, state: AgentState, drive: Drive) -> list[Message]:
        """The work, as the agent reads it."""
        if self._alone:
            steps.started(drive, self._seat.place)
        try:
            work = self._read(load(self._step.input, state.get("value")), state.get("handed"))
        except ValidationError as error:
            message = reason_of(error)
            raise LineFailed("invalid_input", message, step=self._seat.place.path) from error
        return [Message(role="user", text=work)]

    def _read(self, value: Any, handed: Handed | None) -> str:
        if handed is None:
            return self._step.read(value)
        return self._step.read(
            value,
            inputs=inputs_of(self._step, handed["inputs"]),
            feedback=handed["feedback"],
            previous_output=handed["previous"],
        )

    async def _ask(
        self,
        turn: Turn,
        messages: Sequence[Message],
        drive: Drive,
        left: float | None,
        heard: Hearing | None,
    ) -> ModelAnswer:
        agent = self._seat.agent
        if turn.turn >= agent.limits.most_model_calls:
            raise self._over("model_calls", agent.limits.most_model_calls)
        await drive.journal.barrier()
        earlier = drive.start.history.get(agent.name, ())
        request = ModelRequest(
            agent=agent.name,
            turn=turn.turn,
            messages=[*self._system, *earlier, *messages],
            tools=self._tools,
        )
        asking = asyncio.timeout(left)
        try:
            async with asking:
                answer = await self._model.ask(request, heard)
        except ModelError as error:
            if error.usage is not None:
                booking.model_used(drive, turn.place, agent.name, error.model, error.usage)
            raise model_failed(error, turn.path) from error
        except SignoffError as error:
            raise LineFailed(error.code, error.message, step=turn.path) from error
        except TimeoutError as error:
            raise self._over("time", agent.limits.time) from error
        booking.model_answered(drive, self._seat, turn, answer)
        if heard is not None:
            heard.ends(answer)
        if answer.finish is Finish.REFUSED and agent.output is not None:
            raise model_failed(ModelError(answer.model, "refused to answer"), turn.path)
        return answer

    async def _proposed(
        self,
        turn: Turn,
        state: AgentState,
        messages: list[Message],
        answer: ModelAnswer,
        drive: Drive,
    ) -> Next:
        """Opens the calls of an answer; none is asked about or run before all are read."""
        limit, called = self._seat.agent.limits.most_tool_calls, state.get("called", 0)
        if called + len(answer.calls) > limit:
            raise self._over("tool_calls", limit)
        earlier = drive.start.history.get(self._seat.agent.name, ())
        opened = open_calls(self._seat, turn, answer.calls, [*earlier, *messages])
        messages.append(_said(answer, opened))
        update: dict[str, Any] = {
            "messages": messages,
            "turn": turn.turn + 1,
            "called": called + len(opened),
        }
        if any(call.get("unchecked") for call in opened):
            return Command(goto="model", update=update | {"calls": opened, "outcomes": None})
        onward = await self._opened(opened, state, drive)
        return Command(goto=onward.goto, update=cast("dict[str, Json]", onward.update) | update)

    async def _checked(self, calls: list[OpenCall], state: AgentState, drive: Drive) -> Next:
        """Has guardrails look at the calls of the turn, before the first question."""
        await drive.journal.barrier()
        opened = await checked(self._seat, calls)
        drive.journal.keep()
        return await self._opened(opened, state, drive)

    async def _opened(self, opened: list[OpenCall], state: AgentState, drive: Drive) -> Next:
        """Goes on with calls of which it is known what they wait for."""
        calls = await decided_at_once(self._seat, opened, drive)
        for call in calls:
            if "result" in call:
                booking.call_settled(drive, self._seat, call)
        return self._onward(calls, state, opened)

    async def _seen(self, calls: list[OpenCall], drive: Drive) -> Next:
        """Has guardrails look at the results of the turn, before the model reads them."""
        await drive.journal.barrier()
        looked_at = await seen(self._seat, calls)
        drive.journal.keep()
        return Command(goto="model", update={"calls": looked_at, "outcomes": None})

    def _onward(self, calls: list[OpenCall], state: AgentState, before: list[OpenCall]) -> Next:
        """Where the open turn goes: to the next question, else to what may run, else back to the model."""
        update: dict[str, Any] = {"calls": calls, "outcomes": None}
        if approval_was_decided(before, calls):
            update["decided"] = True
        if first_asking(calls) is not None:
            return Command(goto="pause", update=update)
        handed = state.get("handed")
        sent = [Send("tool", SentCall(call=call, handed=handed)) for call in to_run(calls)]
        return Command(goto=sent or "model", update=update)

    def _answered(
        self,
        turn: Turn,
        messages: list[Message],
        answer: ModelAnswer,
        state: AgentState,
        drive: Drive,
    ) -> Next:
        """Takes an answer, if it can be read; holds it where something has to look at it."""
        spoken = {"messages": messages, "turn": turn.turn + 1, "calls": [], "outcomes": None}
        try:
            said = self._read_answer(answer.text)
        except ValidationError as error:
            remark = f"That is not the JSON that was asked for: {reason_of(error)}"
            again = [*messages, Message(role="user", text=remark)]
            return Command(goto="model", update=spoken | {"messages": again})
        if len(self._looks):
            held = HeldAnswer(said=dump(self._step.said, said), looks=0)
            return Command(goto="model", update=spoken | {"answer": held})
        return self._finished(turn, messages, said, state, drive)

    def _read_answer(self, text: str) -> Any:
        """What the agent said; JSON without the fence that models like to put around it."""
        if self._seat.agent.output is None:
            return text
        fenced = _FENCED.fullmatch(text)
        return self._step.said.validate_json(fenced[1] if fenced else text)

    def _finished(
        self,
        turn: Turn,
        messages: list[Message],
        said: Any,
        state: AgentState,
        drive: Drive,
    ) -> Next:
        """Leaves with an answer."""
        try:
            value = dump(self._step.output, self._step.answer(said))
        except Exception as error:
            raise LineFailed("invalid_output", reason_of(error), step=turn.path) from error
        written = secrets_said(messages, self._seat.tools)
        if self._alone:
            steps.completed(drive, self._seat.place, value, self._secrets(messages, state))
        return Command(update={"value": value} | self._remembered(turn, messages, written))

    def _secrets(self, messages: Sequence[Message], state: AgentState) -> list[str]:
        """The sensitive values that the visit has come upon."""
        given = state.get("secrets", {}).values()
        return sorted({*secrets_said(messages, self._seat.tools), *chain.from_iterable(given)})

    async def _looked_at(self, held: HeldAnswer, state: AgentState, drive: Drive) -> Next:
        """The next look at an answer: it goes on, or is sent back."""
        turn, messages = self._turn_of(state, drive, back=1), state.get("messages", [])
        number, said = held["looks"], held["said"]
        if drive.is_spent and self._looks.asks_a_model(number):
            return self._stopped(turn, messages, state, drive)
        await drive.journal.barrier()
        with failing(turn.path, frozenset(self._secrets(messages, state))):
            found = await self._looks.look(number, said, messages[0]["text"], turn, drive)
        drive.journal.keep()
        if isinstance(found, Retry):
            return self._sent_back(found, messages, state)
        if found != said:
            messages = [*messages[:-1], _said_instead(messages[-1], spoken(found))]
        if number + 1 == len(self._looks):
            said = load(self._step.said, found)
            return self._finished(turn, messages, said, state, drive)
        update = {"messages": messages, "answer": HeldAnswer(said=found, looks=number + 1)}
        return Command(goto="model", update=update)

    def _sent_back(self, retry: Retry, messages: list[Message], state: AgentState) -> Next:
        sent_back, limit = state.get("sent_back", 0), self._seat.agent.limits.most_judge_retries
        if sent_back >= limit:
            raise self._over("judge_retries", limit)
        remark = f"Your answer was sent back: {printable(str(retry.feedback))}"
        again = [*messages, Message(role="user", text=remark)]
        update = {"messages": again, "answer": None, "sent_back": sent_back + 1}
        return Command(goto="model", update=update)

    def _stopped(
        self, turn: Turn, messages: list[Message], state: AgentState, drive: Drive
    ) -> Next:
        """Leaves without another call of a model, since the run may cost no more."""
        if self._seat.agent.output is not None:
            raise over_budget(drive.budget, turn.path)
        last = messages[-1]
        stopped = [*messages, Message(role="assistant", text=OUT_OF_BUDGET)]
        if last["role"] == "assistant":
            stopped = [*messages[:-1], _said_instead(last, OUT_OF_BUDGET)]
        onward = self._finished(turn, stopped, OUT_OF_BUDGET, state, drive)
        return Command(
            update=cast("dict[str, Json]", onward.update) | {"stop_reason": OUT_OF_BUDGET}
        )

    def _remembered(
        self, turn: Turn, messages: list[Message], secrets: list[str]
    ) -> dict[str, Json]:
        """What outlives the visit."""
        update: dict[str, Json] = {"secrets": {turn.path: secrets}} if secrets else {}
        if self._remembers:
            update["said"] = {turn.path: {"agent": self._seat.agent.name, "messages": messages}}
        return update

    async def pause(self, state: AgentState, drive: Drive) -> Next:
        """Asks the next question of the open turn. It runs twice: to ask, and to take the answer."""
        calls = state.get("calls", [])
        asking = cast("OpenCall", first_asking(calls))
        drive.asking = partial(ask_for, self._seat, asking, drive.start.line)
        resumed = interrupt({"place": place_of(asking)})
        answer = Answer.from_json(resumed["value"])
        if answer.action == "fail" and answer.via == DEADLINE:
            raise expired(self._seat.place.path)
        step_outside()
        answered = await decided(self._seat, asking, answer)
        if self._seat.agent.on_decision:
            drive.journal.keep()
        settled = [answered if call is asking else call for call in calls]
        settled = await decided_at_once(self._seat, settled, drive)
        for before, after in zip(calls, settled, strict=True):
            if "result" in after and "result" not in before:
                booking.call_settled(drive, self._seat, after)
        onward = self._onward(settled, state, calls)
        given = self._seat.tool(asking["tool"]).secrets(answer.arguments)
        if not given:
            return onward
        secrets = {"secrets": {place_of(asking): sorted(given)}}
        return Command(goto=onward.goto, update=cast("dict[str, Json]", onward.update) | secrets)

    async def tool(self, state: SentCall, drive: Drive) -> dict[str, Json]:
        """Runs one call, beside the others of its turn."""
        drive.check()
        step_outside()
        call = state["call"]
        tool = self._seat.tool(call["tool"])
        check_digest(tool, call)
        if tool.tool.on_crash == "ask" and not await began(call, drive):
            return {"outcomes": {str(call["index"]): {"in_doubt": True}}}
        booking.call_started(drive, self._seat, call)
        costs: dict[str, Decimal] = {}
        if drive.is_followed:
            drive.journal.write_soon()  # so that it is told before the call has ended
        drive.journal.in_flight += 1
        try:
            await drive.journal.barrier()
            ran = await run_call(self._seat, call, drive, costs)
        finally:
            drive.journal.in_flight -= 1
            booking.costs_reported(drive, self._seat, call, costs)
        drive.ran.add(call["place"])
        if "result" in ran.outcome:
            booking.call_finished(drive, self._seat, call, failed=ran.failed)
        return {"outcomes": {str(call["index"]): ran.outcome}}

    def _over(self, what: str, limit: int | timedelta | None) -> LineFailed:
        name = self._seat.agent.name
        return LineFailed(
            "limit_exceeded",
            f"The agent {name!r} has reached its limit of {limit} {what.replace('_', ' ')}.",
            step=self._seat.place.path,
            details={"key": f"agents.{name}.limits.{what}"},
        )


def _system_prompt(seat: Seat, step: AgentStep) -> list[Message]:
    prompt = seat.agent.prompt
    if seat.agent.output is not None:
        schema = step.output.json_schema()
        prompt += f"\n\nGive your answer as JSON, and nothing else, of this JSON Schema:\n{schema}"
    return [Message(role="system", text=prompt)]


def _said(answer: ModelAnswer, calls: Sequence[OpenCall]) -> Message:
    message = Message(role="assistant", text=answer.text)
    if calls:
        message["calls"] = proposed_calls(calls, answer.calls)
    if answer.raw is not None:
        message["raw"] = answer.raw
    return message


def _said_instead(message: Message, text: str) -> Message:
    """The message with another text; what else the model sent along with its own belongs to that."""
    return Message(role=message["role"], text=text)


OUT_OF_BUDGET = "stopped: run budget exhausted"
"""The answer of an agent that may not ask its model again, and why its run stopped."""

_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.DOTALL)

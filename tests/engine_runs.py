"""Drives a workflow as the lifecycle does, on LangGraph's own saver in memory, and keeps what came of it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import ERROR

from app.authoring import Agent, Channel, ModelRequest, Reply, ScriptedModel, Tool, Workflow
from app.domain.decision import Action, Decision, Value, Verdict
from app.domain.event import Event
from app.domain.facts import Facts
from app.domain.ids import DEFAULT_TENANT, CallId, new_run_id, new_thread_id
from app.domain.json import Json
from app.domain.ledger import LedgerEntry, LedgerKind, Spent
from app.domain.message import Message
from app.domain.pause import Answer, Ask, Settled
from app.domain.run import RunRef
from app.domain.step import StepRecord, StepStatus
from app.engine.drive import Cancelled, Ended, Failed, LineStart, Outcome, Waiting
from app.engine.journal import Journal
from app.engine.program import Program
from app.engine.settling import OpenPause
from app.lifecycle.expire import outcome_of

approvers = Channel("approvers")

AGENT_OPTIONS = {
    *("limits", "output", "before_tool_call", "on_decision", "after_tool_call", "before_answer"),
    "judges",
}


def workflow(*tools: Tool[..., Any], model: ScriptedModel, **options: Any) -> Workflow:
    """A workflow of one agent that takes a text and gives one."""
    agent_options = {key: options.pop(key) for key in AGENT_OPTIONS if key in options}
    agent = Agent("assistant", prompt="Help.", model=model, tools=tools, **agent_options)
    channels = options.pop("channels", [approvers])
    return Workflow("work", version="1", input=str, steps=[agent], channels=channels, **options)


def script(first: Reply, *more: Reply) -> ScriptedModel:
    """A model that gives these replies, then repeats what its tools said, a line each."""
    replies = (first, *more)

    def answer(request: ModelRequest) -> Reply:
        if request.turn < len(replies):
            return replies[request.turn]
        return Reply(text="\n".join(each.text for each in request.messages if each.role == "tool"))

    return ScriptedModel(answer)


class Store(InMemorySaver):
    """The saver of the tests: it loads plain data and nothing else, and says which tasks have ended."""

    def __init__(self) -> None:
        super().__init__(serde=JsonPlusSerializer(allowed_msgpack_modules=None))
        self.on_writes: Callable[[str], Awaitable[None]] | None = None

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await super().aput_writes(config, writes, task_id, task_path)
        if self.on_writes is not None and all(channel != ERROR for channel, _ in writes):
            await self.on_writes(task_id)


class EngineRun:
    """One run: every fact it wrote, every question it asked, and how it stands."""

    def __init__(self, served: Workflow | Program, input: Json = "work", **start: Any) -> None:
        self.program = served if isinstance(served, Program) else Program(served)
        self.saver = Store()
        self.run = RunRef(tenant=DEFAULT_TENANT, thread_id=new_thread_id(), run_id=new_run_id())
        self.input = input
        self.start = start
        self.answers: dict[str, Answer] = {}
        self.step_results: dict[tuple[CallId, str], Json] = {}
        self.outputs: dict[str, Json] = {}
        self.asks: list[Ask] = []
        self.news = asyncio.Event()
        self.settled: list[Settled] = []
        self.facts: list[Facts] = []
        self.writes = 0
        self.outcome: Outcome | None = None
        self.before_write: Callable[[], None] = lambda: None
        self.before_step_result: Callable[[], None] = lambda: None

    async def go(self) -> "EngineRun":
        """Drives it until it asks or ends, as a fresh worker would: nothing but what is stored is known."""
        journal = Journal(self._write, spent=self.spent)
        self.journal = journal
        self.saver.on_writes = self._task_ended
        start = LineStart(
            run=self.run,
            input=self.input,
            answers=dict(self.answers),
            step_results=dict(self.step_results),
            outputs=dict(self.outputs),
            open=frozenset(str(ask.interrupt_id) for ask in self.waiting),
            save_step_result=self._save_step_result,
            **self.start,
        )
        self.outcome = await self.program.drive(start, saver=self.saver, journal=journal, desk=self)
        if isinstance(self.outcome, Waiting):
            self._keep(journal.take())
            await self.open(self.outcome.asks)
        else:
            self._keep(journal.take_all())
        return self

    async def open(self, asks: Sequence[Ask]) -> None:
        """Opens what is asked, once."""
        new = [ask for ask in asks if ask.place not in self.places]
        self.asks += new

    async def decided(self) -> Mapping[str, Answer]:
        """The answers that came while the run was driven."""
        await self.news.wait()
        self.news.clear()
        return dict(self.answers)

    async def decide(self, decision: Decision, by: str = "alice") -> "EngineRun":
        """Answers the open question and goes on."""
        await self.answer(self.ask, decision, by)
        return await self.go()

    async def answer(self, ask: Ask, decision: Decision, by: str = "alice") -> None:
        """Stores the decision of a question; whoever drives the run hears of it."""
        settled = await self.settle(decision, by, ask)
        self.settled.append(settled)
        self.answers[str(ask.interrupt_id)] = settled.answer
        self.news.set()

    async def settle(
        self, decision: Decision, by: str = "alice", about: Ask | None = None
    ) -> Settled:
        """Checks a decision of a question, the only open one where none is named, without taking it."""
        ask = about or self.ask
        pause = OpenPause(
            kind=ask.kind, level=ask.level, shown=ask.shown, secret=ask.secret, digest=ask.digest
        )
        return await self.program.settle(pause, decision, by=by, via="api")

    async def expire(self) -> "EngineRun":
        """Lets the deadline of the open question pass and goes on."""
        settled = outcome_of(self.ask.policy.on_expire, self.ask.digest)
        self.answers[str(self.ask.interrupt_id)] = settled.answer
        return await self.go()

    async def override(self, output: Json) -> "EngineRun":
        return await self.decide(Verdict(approved=True, override_output=output))

    async def settle_override(self, output: Json) -> Settled:
        return await self.settle(Verdict(approved=True, override_output=output))

    async def fill(self, value: Json, feedback: str | None = None) -> "EngineRun":
        return await self.decide(Value(value=value, feedback=feedback))

    async def act(self, action: str) -> "EngineRun":
        return await self.decide(Action(action=action))

    async def approve(self, **options: Any) -> "EngineRun":
        return await self.decide(Verdict(approved=True, **options))

    async def reject(self, feedback: str | None = None) -> "EngineRun":
        return await self.decide(Verdict(approved=False, feedback=feedback))

    def restarted(self) -> "EngineRun":
        """The same run in a new process."""
        self.program = Program(self.program.workflow)
        return self

    @property
    def ask(self) -> Ask:
        """The open question."""
        assert isinstance(self.outcome, Waiting), self.outcome
        (ask,) = self.waiting
        return ask

    @property
    def waiting(self) -> list[Ask]:
        """The open questions."""
        return [ask for ask in self.asks if ask.interrupt_id not in self.answers]

    def asked_at(self, place: str) -> Ask:
        """The open question at a place."""
        (ask,) = [each for each in self.waiting if each.place == place]
        return ask

    @property
    def shown_call(self) -> dict[str, Any]:
        return self.ask.shown["call"]

    @property
    def ended(self) -> Ended:
        assert isinstance(self.outcome, Ended), self.outcome
        return self.outcome

    @property
    def output(self) -> Json:
        return self.ended.output

    @property
    def error(self) -> Any:
        assert isinstance(self.outcome, Failed), self.outcome
        return self.outcome.error

    @property
    def stop_reason(self) -> str:
        """Why the run was cancelled."""
        assert isinstance(self.outcome, Cancelled), self.outcome
        return self.outcome.stop_reason

    @property
    def places(self) -> list[str]:
        return [ask.place for ask in self.asks]

    @property
    def events(self) -> list[Event]:
        return [event for facts in self.facts for event in facts.events]

    @property
    def ledger(self) -> list[LedgerEntry]:
        return [entry for facts in self.facts for entry in facts.ledger]

    @property
    def steps(self) -> dict[str, StepRecord]:
        return {step.path: step for facts in self.facts for step in facts.steps}

    @property
    def decided_at_once(self) -> list[Ask]:
        return [ask for facts in self.facts for ask in facts.settled]

    @property
    def spent(self) -> Spent:
        """What the ledger says, in which an entry counts once."""
        entries = {entry.place: entry for entry in self.ledger}.values()
        return Spent(
            cost=sum((entry.cost for entry in entries), Decimal(0)),
            reports=frozenset(e.place for e in entries if e.kind is LedgerKind.REPORT),
        )

    def said(self) -> Sequence[Message]:
        """What was said in the run; the workflow must keep history."""
        return self.ended.history[0].messages

    async def _task_ended(self, task: str) -> None:
        self.journal.kept(task)

    async def _write(self) -> None:
        self.before_write()
        self.writes += 1
        self._keep(self.journal.take())

    def _keep(self, facts: Facts) -> None:
        self.facts.append(facts)
        for step in facts.steps:
            self.outputs.pop(step.path, None)
            if step.status is StepStatus.COMPLETED:
                self.outputs[step.path] = step.output

    async def _save_step_result(self, call_id: CallId, name: str, value: Json) -> None:
        self.before_step_result()
        self.step_results[call_id, name] = value


async def run(workflow: Workflow, input: Json = "work", **start: Any) -> EngineRun:
    """Starts a run and drives it until it asks or ends."""
    return await EngineRun(workflow, input, **start).go()

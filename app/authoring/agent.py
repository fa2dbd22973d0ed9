"""Agents: a model with a prompt and tools."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from app.authoring.guardrails import (
    AnswerGuard,
    CallGuard,
    DecisionGuard,
    ResultGuard,
    wrong_guardrails,
)
from app.authoring.limits import DEFAULT_LIMITS, Limits
from app.authoring.mistakes import (
    Mistake,
    as_list,
    repeated,
    spoken_name,
    wrong_count,
    wrong_duration,
    wrong_text,
)
from app.authoring.model import ChatModel, Reply, ScriptedModel
from app.authoring.model_judge import Judge, ModelJudge
from app.authoring.shape import why_not_json
from app.authoring.tool import Tool
from app.authoring.tool_mistakes import wrong_tool


@dataclass(frozen=True, eq=False)
class Agent:
    """A model with a prompt and tools, that works on what it is given until it answers.

    `model` is `"provider:name"`, a LangChain chat model, or a `ScriptedModel`. `timeout` and
    `retries` are those of one model call. With `output`, the answer is JSON of that model; without,
    it is text, and is put into the only string field of what is expected next.

    `before_tool_call`, `on_decision`, `after_tool_call` and `before_answer` are guardrails, looked
    at in their order; those of a tool come before those of its agent. `judges` look at an answer
    after them, and may send it back.
    """

    name: str
    _: KW_ONLY
    prompt: str
    model: str | ScriptedModel | ChatModel
    description: str = ""
    tools: Sequence[Tool[..., Any]] = ()
    limits: Limits = DEFAULT_LIMITS
    before_tool_call: Sequence[CallGuard] = ()
    on_decision: Sequence[DecisionGuard] = ()
    after_tool_call: Sequence[ResultGuard] = ()
    before_answer: Sequence[AnswerGuard] = ()
    judges: Sequence[Judge] = ()
    output: type[BaseModel] | None = None
    timeout: timedelta = timedelta(minutes=2)
    retries: int = 2

    def tool(self, name: str) -> Tool[..., Any] | None:
        """The tool of that name, if the agent has it."""
        return next((each for each in self.tools if each.name == name), None)

    def own_tools(self) -> list[Tool[..., Any]]:
        """Those of its tools that are tools."""
        return _tools_among(self.tools)

    def mistakes(self) -> Iterator[Mistake]:
        """What is wrong with it and its tools, taken by themselves."""
        place = f"agent {self.name!r}"
        for wrong in self._own_mistakes():
            yield Mistake(place=place, message=wrong)
        for each in _tools_among(self.tools):
            for wrong in wrong_tool(each):
                yield Mistake(place=f"{place}, tool {each.name!r}", message=wrong)

    def _own_mistakes(self) -> Iterator[str]:
        wrong = spoken_name(self.name)
        if wrong:
            yield wrong
        yield from wrong_text("description", self.description)
        yield from wrong_text("prompt", self.prompt)
        yield from wrong_model(self.model)
        yield from _mistakes_of_tools(self.tools)
        yield from _mistakes_of_limits(self.limits)
        yield from self._mistakes_of_guardrails()
        yield from _mistakes_of_judges(self.judges, self.limits)
        yield from _mistakes_of_output(self.output)
        yield from wrong_duration("timeout", self.timeout, optional=False)
        yield from wrong_count("retries", self.retries)

    def _mistakes_of_guardrails(self) -> Iterator[str]:
        yield from wrong_guardrails("before_tool_call", self.before_tool_call, "the call")
        yield from wrong_guardrails("on_decision", self.on_decision, "the call", "its decision")
        yield from wrong_guardrails(
            "after_tool_call", self.after_tool_call, "the call", "its result"
        )
        yield from wrong_guardrails("before_answer", self.before_answer, "the answer")
        for name in ("before_tool_call", "after_tool_call"):
            if getattr(self, name) and not self.tools:
                yield f"{name}= could never fire: the agent has no tools"
        if self.on_decision and all(each.gate is None for each in self.own_tools()):
            yield "on_decision= could never fire: no call of its tools waits for an approval"


def _tools_among(tools: object) -> list[Tool[..., Any]]:
    return [each for each in as_list(tools) or [] if isinstance(each, Tool)]


def _mistakes_of_tools(tools: object) -> Iterator[str]:
    listed = as_list(tools)
    if listed is None:
        yield "tools= must be a list"
    for each in listed or []:
        if not isinstance(each, Tool):
            yield f"{each!r} is not a tool: decorate the function with @tool"
    for name in repeated(each.name for each in _tools_among(tools)):
        yield f"two of its tools have the name {name!r}"


def _mistakes_of_limits(limits: object) -> Iterator[str]:
    if isinstance(limits, Limits):
        yield from limits.mistakes_of_agent()
    else:
        yield "limits= must be Limits(...)"


def _mistakes_of_judges(judges: object, limits: object) -> Iterator[str]:
    listed = as_list(judges)
    if listed is None:
        yield "judges= must be a list"
        return
    if isinstance(limits, Limits) and limits.judge_retries is not None and not listed:
        yield "limits: judge_retries= could never matter without judges="
    functions = [each for each in listed if not isinstance(each, ModelJudge)]
    yield from wrong_guardrails("judges", functions, "the answer")
    for judge in (each for each in listed if isinstance(each, ModelJudge)):
        yield from (f"judge {judge.name!r}: {wrong}" for wrong in _mistakes_of_judge(judge))


def _mistakes_of_judge(judge: ModelJudge) -> Iterator[str]:
    wrong = spoken_name(judge.name)
    if wrong:
        yield wrong
    yield from wrong_text("prompt", judge.prompt)
    yield from wrong_model(judge.model)
    yield from wrong_duration("timeout", judge.timeout, optional=False)
    yield from wrong_count("retries", judge.retries)


def _mistakes_of_output(output: object) -> Iterator[str]:
    if output is None:
        return
    if not (isinstance(output, type) and issubclass(output, BaseModel)):
        yield "output= must be a pydantic model"
        return
    why = why_not_json(output)
    if why:
        yield f"output= cannot be read from JSON: {why}"


def wrong_model(model: object) -> Iterator[str]:
    """What is wrong with the model of an agent or a router."""
    match model:
        case str():
            provider, _, name = model.partition(":")
            if not provider.strip() or not name.strip():
                yield f"model {model!r} must be written as 'provider:name'"
        case ScriptedModel():
            if not callable(model.script):
                yield from _mistakes_of_script(model.script)
        case ChatModel():
            return
        case _:
            yield "model= must be 'provider:name', a LangChain chat model or a ScriptedModel"


def _mistakes_of_script(script: Sequence[object]) -> Iterator[str]:
    if not script:
        yield "its scripted model has no replies"
    for each in script:
        if not isinstance(each, Reply):
            yield f"its scripted model has {each!r}, which is not a Reply"

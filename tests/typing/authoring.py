"""What the strict type checker knows about workflows; nothing here is run."""

# pyright: reportUnnecessaryTypeIgnoreComment=true, reportUnusedFunction=false
from typing import Any, assert_type

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel

from app.authoring import (
    Agent,
    Approval,
    AskError,
    AskInput,
    Block,
    CallDecision,
    Choose,
    Condition,
    Confirm,
    External,
    Loop,
    ModelJudge,
    ModelRouter,
    Parallel,
    Question,
    Replace,
    Retry,
    Review,
    Router,
    Step,
    StepContext,
    Steps,
    Tool,
    ToolCall,
    ToolContext,
    Workflow,
    ask_user,
    call_tool,
    get_user_input,
    tool,
)
from app.channels import InboxChannel

people = InboxChannel("people")


class Draft(BaseModel):
    to: str


class Other(BaseModel):
    to: str


@tool(channel=people, approval=Approval("Send it?"))
async def send(context: ToolContext, draft: Draft) -> int:
    account = await context.pause(Question("Which account?", options=["a", "b"], channel=people))
    assert_type(account, str)
    assert_type(await context.pause(Question("Who?", options=["a"], multiple=True)), list[str])
    assert_type(await context.pause(Question("How many?", answer=int)), int)
    assert_type(await context.pause(Question("Which?", answer=list[Draft])), list[Draft])
    assert_type(await context.pause(Question("What?")), Any)
    assert_type(await context.step("once", lambda: "x"), str)
    assert_type(await context.step("once", twice), int)
    return 1


async def twice() -> int:
    return 2


@tool
async def find(order: str, most: int = 1) -> dict[str, str]:
    return {order: str(most)}


@tool
def add(one: int, other: int) -> int:
    return one + other


@tool(channel=people)
def add_gated(context: ToolContext, one: int) -> int:
    return one


@tool(channel=people, fill=["iban"])
async def pay_out(context: ToolContext, customer: str, iban: str) -> float:
    return 1.0


@tool(external=External("Ring them up.", channel=people))
def phone(who: str) -> bool:
    raise NotImplementedError


assert_type(pay_out, Tool[..., float])
call_tool(pay_out, customer="c")
call_tool(phone, who="a")
call_tool(phone, whom="a")  # pyright: ignore[reportCallIssue]


def looks(call: ToolCall) -> Block | None:
    return Block("no") if call.tool == "x" else None


async def looks_later(call: ToolCall) -> Replace:
    return Replace(call.arguments)


def decides(call: ToolCall, decision: CallDecision) -> Block | None:
    return None if decision.approved else Block("no")


def reads(call: ToolCall, result: str) -> Replace | None:
    return Replace(result.upper())


def judges(answer: str) -> Retry | None:
    return Retry("again")


Agent(
    "guarded",
    prompt="",
    model="openai:x",
    tools=[send],
    before_tool_call=[looks, looks_later],
    on_decision=[decides],
    after_tool_call=[reads],
    judges=[judges, ModelJudge("critic", model="openai:x", prompt="Good?")],
)
Agent("guarded", prompt="", model="openai:x", before_tool_call=[judges])  # pyright: ignore[reportArgumentType]
Agent("guarded", prompt="", model="openai:x", after_tool_call=[looks])  # pyright: ignore[reportArgumentType]
Agent("guarded", prompt="", model="openai:x", judges=[decides])  # pyright: ignore[reportArgumentType]


@tool
def nothing() -> None:
    return None


async def uses_the_types_of_tools(context: ToolContext) -> None:
    assert_type(await send.call(context, Draft(to="a")), int)
    assert_type(await find.call(context, find.parameters()), dict[str, str])
    assert_type(await add.call(context, add.parameters()), int)
    assert_type(await add_gated.call(context, add.parameters()), int)
    assert_type(nothing.read_result(None), None)
    tools: list[Tool[..., Any]] = [send, find, add, add_gated, nothing]
    del tools


def calls_are_typed_by_their_tool() -> None:
    call_tool(send, Draft(to="a"))
    call_tool(send, draft=Draft(to="a"))
    call_tool(send, Draft(to="a"), provider_id="1")
    call_tool(find, "A-1", most=2)
    call_tool(find, order="A-1", provider_id="1")
    call_tool(nothing)
    call_tool("send", {"to": "a"})
    call_tool("send", "{not json", provider_id="1")
    call_tool(send, Other(to="a"))  # pyright: ignore[reportCallIssue, reportArgumentType]
    call_tool(find, order=1)  # pyright: ignore[reportArgumentType]
    call_tool(find)  # pyright: ignore[reportCallIssue]
    call_tool(find, order="a", unknown=1)  # pyright: ignore[reportCallIssue]


def asks_are_typed() -> None:
    Approval("Really?", on_expire="skip")  # pyright: ignore[reportArgumentType]
    Question("Which?", options=["a"], answer=int)  # pyright: ignore[reportCallIssue]
    Question("Which?", on_expire="approve")  # pyright: ignore[reportArgumentType]
    Question("Which?", multiple=True)  # pyright: ignore[reportCallIssue]


def a_langchain_model_is_a_model(model: BaseChatModel) -> None:
    Agent("a", prompt="", model=model)
    Agent("a", prompt="", model="openai:gpt-5-mini")
    Agent("a", prompt="", model=7)  # pyright: ignore[reportArgumentType]


async def research(context: StepContext, draft: Draft) -> str:
    return draft.to


def sync_step(context: StepContext, text: str) -> int:
    return len(text)


def steps_are_functions_of_context_and_value() -> None:
    Workflow("w", version="1", input=Draft, steps=[research, sync_step])
    Workflow("w", version="1", input=Draft, steps=[twice])  # pyright: ignore[reportArgumentType]
    Workflow("w", version="1", input=Draft, steps=["no"])  # pyright: ignore[reportArgumentType]


def step_options_are_typed() -> None:
    Step("s", research, before=Confirm("Go?"), after=Review("Good?"), on_error=AskError("Now?"))
    Step("s", research, before=[Confirm("Go?", on_reject="skip"), AskInput("Which?", Draft)])
    Step("s", research, before=Review("Good?"))  # pyright: ignore[reportArgumentType]
    Step("s", research, on_error="retry")  # pyright: ignore[reportArgumentType]
    Confirm("Go?", on_reject="retry")  # pyright: ignore[reportArgumentType]
    Confirm("Go?", on_expire="skip")  # pyright: ignore[reportArgumentType]
    AskInput("Which?", Draft, on_reject="else")  # pyright: ignore[reportArgumentType]
    AskInput("Which?", Draft, on_expire="approve")  # pyright: ignore[reportArgumentType]
    AskInput("Which?", str)  # pyright: ignore[reportArgumentType]
    Choose("Which?", on_reject="retry")  # pyright: ignore[reportArgumentType]
    Review("Good?", on_reject="else")  # pyright: ignore[reportArgumentType]
    AskError("Now?", on_expire="reject")  # pyright: ignore[reportArgumentType]
    AskError("Now?", on_reject="skip")  # pyright: ignore[reportCallIssue]


def is_short(draft: Draft) -> bool:
    return len(draft.to) < 9


def names(draft: Draft) -> list[str]:
    return [draft.to]


def containers_take_steps_of_every_kind() -> None:
    inner = Workflow("inner", version="1", input=Draft, steps=[research])
    steps = Steps("a", [research, inner, Step("b", inner)])
    condition = Condition("c", when=is_short, then=[steps], otherwise=[research])
    router = Router("d", choices=[condition, steps], select=names)
    Router("d", choices=[research], select=Choose("Which?"))
    Router("d", choices=[research], select=ModelRouter(model="openai:gpt-5-mini", prompt="Pick."))
    Router("d", choices=[research], select=Confirm("Go?"))  # pyright: ignore[reportArgumentType]
    Router("d", choices=[research], select=is_short)  # pyright: ignore[reportArgumentType]
    loop = Loop("e", steps=[router], until=is_short, max_iterations=3, after_each=Review("Good?"))
    Loop("e", steps=[research])  # pyright: ignore[reportCallIssue]
    parallel = Parallel("f", [loop, research])
    Workflow("w", version="1", input=Draft, steps=[parallel, steps, condition, router, loop, inner])


async def reads_its_input(context: StepContext, value: str) -> Draft:
    assert_type(context.input(Draft), Draft)
    assert_type(context.feedback, str | None)
    return context.input(Draft)


@tool(channel=people, fill=["account"])
async def pay(order: str, account: str) -> str:
    return order


def a_filled_tool_is_called_by_name_without_what_is_filled_in() -> None:
    call_tool("pay", {"order": "A-1"})
    tools: list[Tool[..., Any]] = [pay, ask_user, get_user_input]
    del tools

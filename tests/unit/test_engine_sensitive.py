"""A sensitive value reaches the tool, and nothing that people or receivers read."""

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, SecretStr

from app.authoring import (
    AskError,
    AskInput,
    AskRequest,
    Channel,
    ModelRequest,
    Question,
    Reply,
    Review,
    ScriptedModel,
    Sensitive,
    Step,
    StepContext,
    ToolContext,
    Workflow,
    call_tool,
    reply_with,
    tool,
)
from app.domain.decision import Action, InvalidDecision, Value, Verdict
from app.engine.program import InvalidInput, Program
from tests.engine_runs import EngineRun, approvers, run, script, workflow

SECRET = "hunter2"


class Login(BaseModel):
    name: str
    password: Annotated[str, Sensitive]


class Accounts(BaseModel):
    main: Login
    others: list[Login] = []
    pins: Annotated[list[int] | None, Sensitive] = None


used: list[Accounts] = []


@tool(channel=approvers)
async def log_in(accounts: Accounts) -> str:
    used.append(accounts)
    return "fine"


def proposal() -> Reply:
    login = {"name": "bob", "password": SECRET}
    return call_tool("log_in", {"main": login, "others": [login], "pins": [4711]})


async def paused() -> EngineRun:
    used.clear()
    return await run(workflow(log_in, model=script(proposal())))


async def test_a_pause_shows_sensitive_values_masked_nested_and_in_lists() -> None:
    asked = await paused()
    masked = {"name": "bob", "password": "***"}
    assert asked.shown_call["arguments"] == {"main": masked, "others": [masked], "pins": "***"}
    assert asked.shown_call["sensitive_paths"] == ["/main/password", "/others/*/password", "/pins"]
    await asked.restarted().approve()
    assert used[0].main.password == SECRET
    assert used[0].pins == [4711]


async def test_nothing_that_is_read_holds_a_sensitive_value() -> None:
    asked = await paused()
    await asked.approve(
        override_arguments={"main": {"name": "eve", "password": SECRET}, "pins": "***"}
    )
    read = [asked.asks[0].shown, asked.settled[0].shown, asked.events, asked.ledger, asked.outcome]
    assert SECRET not in repr(read)
    assert "4711" not in repr(read)
    assert used[0].main.password == SECRET
    assert used[0].pins == [4711]


async def test_a_sensitive_value_that_is_absent_or_masked_in_an_override_keeps_its_value() -> None:
    asked = await paused()
    await asked.restarted().approve(
        override_arguments={
            "main": {"name": "eve"},
            "others": [{"name": "eve", "password": "***"}],
        }
    )
    assert used[0].main == Login(name="eve", password=SECRET)
    assert used[0].others == [Login(name="eve", password=SECRET)]
    assert used[0].pins == [4711]


async def test_a_digest_lets_nobody_test_guesses() -> None:
    one, other = await paused(), await paused()
    assert one.shown_call["arguments"] == other.shown_call["arguments"]
    assert one.ask.digest != other.ask.digest


async def test_an_error_that_quotes_a_sensitive_argument_is_read_without_it() -> None:
    @tool
    async def log_in(name: str, password: Annotated[str, Sensitive]) -> str:
        raise ValueError(f"{password} is wrong for {name}")

    call = call_tool("log_in", {"name": "bob", "password": SECRET})
    ended = await run(workflow(log_in, model=script(call)))
    assert ended.output == "Tool error: *** is wrong for bob"


async def test_a_result_with_a_sensitive_part_is_read_masked() -> None:
    @tool
    async def create() -> Login:
        return Login(name="bob", password=SECRET)

    ended = await run(workflow(create, model=script(call_tool(create))))
    assert ended.output == '{"name":"bob","password":"***"}'


async def test_a_refused_override_does_not_quote_a_sensitive_value() -> None:
    class Pin(BaseModel):
        pin: Annotated[int, Sensitive]

    @tool(channel=approvers)
    async def open_door(pin: Pin) -> str:
        return "open"

    asked = await run(workflow(open_door, model=script(call_tool("open_door", {"pin": 1}))))
    with pytest.raises(InvalidDecision) as refused:
        await asked.settle(Verdict(approved=True, override_arguments={"pin": SECRET}))
    assert [field.pointer for field in refused.value.fields] == ["/override_arguments/pin"]
    assert SECRET not in f"{refused.value.message} {refused.value.fields}"


async def test_a_secret_of_pydantics_own_kind_reaches_the_tool_whole() -> None:
    @tool(channel=approvers)
    async def log_in(password: SecretStr) -> str:
        return password.get_secret_value()[::-1]

    asked = await run(workflow(log_in, model=script(call_tool("log_in", {"password": SECRET}))))
    await asked.restarted().approve()
    assert asked.output == SECRET[::-1]


class Order(BaseModel):
    item: str
    token: Annotated[str, Sensitive]


def test_an_input_is_shown_masked_and_refused_without_being_quoted() -> None:
    async def keep(context: StepContext, order: Order) -> Order:
        return order

    program = Program(Workflow("shop", version="1", input=Order, steps=[keep]))
    checked = program.check_input({"item": "tea", "token": SECRET})
    assert checked.true == {"item": "tea", "token": SECRET}
    assert checked.shown == {"item": "tea", "token": "***"}
    for wrong, pointers in (
        ({"item": 1, "token": [SECRET]}, ["/input/item", "/input/token"]),
        ({"token": SECRET}, ["/input/item"]),
        (SECRET, ["/input"]),
        ({"item": "a\0", "token": SECRET}, ["/input/item"]),
    ):
        with pytest.raises(InvalidInput) as refused:
            program.check_input(wrong)
        assert [field.pointer for field in refused.value.fields] == pointers
        assert SECRET not in f"{refused.value.message} {refused.value.fields}"


async def test_an_output_is_shown_masked_and_handed_on_whole() -> None:
    seen: list[str] = []

    async def keep(context: StepContext, order: Order) -> Order:
        return order

    async def use(context: StepContext, order: Order) -> Order:
        seen.append(order.token)
        return order

    served = Workflow("shop", version="1", input=Order, steps=[keep, use])
    ended = await run(served, {"item": "tea", "token": SECRET})
    assert seen == [SECRET]
    assert ended.ended.shown_output == {"item": "tea", "token": "***"}
    assert ended.steps["shop/keep"].shown_output == {"item": "tea", "token": "***"}


async def test_a_step_that_fails_does_not_tell_a_sensitive_input() -> None:
    async def broken(context: StepContext, order: Order) -> str:
        raise ValueError(f"bad token {order.token}")

    served = Workflow("shop", version="1", input=Order, steps=[broken])
    failed = await run(served, {"item": "tea", "token": SECRET})
    assert failed.error.message == "bad token ***"


async def test_a_sensitive_answer_is_kept_masked() -> None:
    heard: list[Login] = []

    @tool
    async def ask(context: ToolContext) -> str:
        heard.append(await context.pause(Question("Which login?", answer=Login)))
        return "thanks"

    asked = await run(workflow(ask, model=script(call_tool(ask))))
    await asked.restarted().decide(Value(value={"name": "bob", "password": SECRET}))
    assert heard[0].password == SECRET
    assert asked.settled[0].shown["value"] == {"name": "bob", "password": "***"}


async def test_an_automatic_channel_sees_no_sensitive_value() -> None:
    seen: list[Any] = []

    class Rule(Channel):
        def decide(self, request: AskRequest) -> Verdict:
            seen.append(request)
            return Verdict(approved=True)

    rule = Rule("rule")

    @tool(channel=rule)
    async def log_in(login: Login) -> str:
        return "fine"

    model = script(call_tool(log_in, Login(name="bob", password=SECRET)))
    ended = await run(workflow(log_in, model=model, channels=[rule]))
    assert ended.output == "fine"
    assert SECRET not in repr(seen)


async def test_a_model_that_echoes_a_sensitive_argument_does_not_tell_it_to_people() -> None:
    def answer(request: ModelRequest) -> Reply:
        if request.turn == 0:
            return proposal()
        return reply_with(f"Logged in with {SECRET}.")

    asked = await run(workflow(log_in, model=ScriptedModel(answer)))
    await asked.approve()
    assert asked.ended.shown_output == "Logged in with ***."
    assert asked.steps["work/assistant"].shown_output == "Logged in with ***."


async def ask_for_login(context: StepContext, value: str) -> Login:
    return context.input(Login)


async def fail_with(context: StepContext, login: Login) -> Login:
    raise PermissionError(f"cannot log in with {login.password}")


async def test_what_was_filled_in_or_put_right_is_struck_out_of_a_later_failure() -> None:
    steps = [
        Step(
            "ask",
            ask_for_login,
            before=AskInput("Which login?", Login, channel=approvers),
            after=Review("Is it right?", channel=approvers),
        ),
        Step("try", fail_with, on_error=AskError("What now?", channel=approvers)),
    ]
    served = Workflow("door", version="1", input=str, steps=steps, channels=[approvers])
    begun = await run(served, "work")
    await begun.decide(Value(value={"name": "bob", "password": SECRET}))
    right = Verdict(approved=True, override_output={"name": "bob", "password": "swordfish"})
    await begun.restarted().decide(right)
    assert begun.ask.shown["error"]["message"] == "cannot log in with ***"
    await begun.restarted().decide(Action(action="fail"))
    assert begun.error.message == "cannot log in with ***"
    shown = repr([(each.steps, each.events) for each in begun.facts if each.steps])
    assert "swordfish" not in repr([ask.shown for ask in begun.asks])
    assert "shown_output={'name': 'bob', 'password': '***'}" in shown

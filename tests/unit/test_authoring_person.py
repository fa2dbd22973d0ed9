"""The tools with which a model asks a person: options and types are enforced."""

from typing import Any

import pytest
from pydantic import ValidationError

from app.authoring import Question, ToolContext, ask_user, get_user_input
from app.authoring.tool_mistakes import wrong_tool
from app.domain.ids import CallId, RunId, ThreadId
from app.domain.json import Json


class Host:
    """Answers with what it was given."""

    def __init__(self, answer: Json) -> None:
        self.answer = answer
        self.asked: list[Question[Any]] = []

    async def pause(self, question: Question[Any]) -> Json:
        self.asked.append(question)
        return self.answer

    async def step(self, name: str, work: Any) -> Json:
        raise NotImplementedError

    def report_cost(self, usd: Any) -> None:
        raise NotImplementedError


async def called(tool: Any, arguments: Json, answer: Json) -> tuple[Any, Question[Any]]:
    host = Host(answer)
    context = ToolContext(
        call_id=CallId("c"), run_id=RunId("r"), thread_id=ThreadId("t"), host=host
    )
    result = await tool.call(context, tool.read_arguments(arguments))
    (question,) = host.asked
    return result, question


@pytest.mark.parametrize("tool", [ask_user, get_user_input])
def test_they_say_what_they_do_and_wait_for_nobody_before_they_run(tool: Any):
    assert "person" in tool.description
    assert tool.asked() == []
    assert list(wrong_tool(tool)) == []


async def test_a_question_without_options_takes_a_text():
    result, question = await called(ask_user, {"question": "Who?"}, "Ann")
    assert (result, question.message) == ("Ann", "Who?")
    assert question.response_schema == {"type": "string"}
    with pytest.raises(ValidationError):
        question.read(1)


async def test_options_are_closed():
    result, question = await called(ask_user, {"question": "Who?", "options": ["a", "b"]}, "b")
    assert (result, question.options) == ("b", ("a", "b"))
    with pytest.raises(ValidationError):
        question.read("c")


async def test_several_options_may_be_chosen_where_the_model_says_so():
    asked = {"question": "Who?", "options": ["a", "b", "c"], "multiple": True}
    result, question = await called(ask_user, asked, ["c", "a"])
    assert result == ["c", "a"]
    for wrong in ([], ["a", "a"], ["d"], "a"):
        with pytest.raises(ValidationError):
            question.read(wrong)


@pytest.mark.parametrize(
    "arguments",
    [
        {"question": ""},
        {"question": "  "},
        {"question": "Who?", "options": [""]},
        {"question": "Who?", "options": ["a", "a"]},
        {"question": "Who?", "options": "a"},
        {"question": "Who?", "choices": ["a"]},
    ],
)
def test_a_question_that_cannot_be_asked_is_an_invalid_call(arguments: Json):
    with pytest.raises(ValidationError):
        ask_user.read_arguments(arguments)


FIELDS: Json = [
    {"name": "copy"},
    {"name": "count", "type": "integer", "description": "how many"},
    {"name": "price", "type": "number"},
    {"name": "urgent", "type": "boolean"},
    {"name": "day", "type": "date"},
    {"name": "colour", "options": ["red", "green"]},
    {"name": "tags", "type": "list of texts", "options": ["a", "b"], "required": False},
]
FILLED: dict[str, Json] = {
    "copy": "x",
    "count": 2,
    "price": 1.5,
    "urgent": False,
    "day": "2030-01-31",
    "colour": "red",
}


async def test_values_are_asked_for_by_name_and_type():
    result, question = await called(
        get_user_input, {"message": "The order", "fields": FIELDS}, FILLED
    )
    assert result == FILLED
    assert question.message == "The order"
    assert question.response_schema["required"] == list(FILLED)
    assert question.response_schema["properties"]["count"]["description"] == "how many"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", "2"),
        ("count", 1.5),
        ("price", "1"),
        ("urgent", "yes"),
        ("urgent", 1),
        ("day", "tomorrow"),
        ("colour", "blue"),
        ("copy", None),
        ("tags", ["c"]),
        ("other", 1),
    ],
)
async def test_values_are_of_their_type(name: str, value: Json):
    _, question = await called(get_user_input, {"message": "The order", "fields": FIELDS}, FILLED)
    with pytest.raises(ValidationError):
        question.read(FILLED | {name: value})


async def test_what_is_not_required_may_be_left_out():
    fields = {"message": "Anything?", "fields": [{"name": "remark", "required": False}]}
    result, _ = await called(get_user_input, fields, {})
    assert result == {}


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [{"name": "a b"}],
        [{"name": ""}],
        [{"name": "a"}, {"name": "a"}],
        [{"name": "a", "type": "file"}],
        [{"name": "a", "type": "integer", "options": ["1"]}],
        [{"name": "a", "kind": "text"}],
        ["a"],
    ],
)
def test_fields_that_cannot_be_asked_for_are_an_invalid_call(fields: Json):
    with pytest.raises(ValidationError):
        get_user_input.read_arguments({"message": "The order", "fields": fields})

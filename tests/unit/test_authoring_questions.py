"""Questions of a tool: which answers they accept, and with which mistakes they are not asked."""

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from app.authoring import AuthoringError, Question
from app.channels import InboxChannel
from app.domain.json import Json

people = InboxChannel("people")


class Size(BaseModel):
    width: int
    since: date


@pytest.mark.parametrize("value", [False, 0, "", None, {}, [], {"a": [None, {"b": "ü"}]}, 1.5])
def test_an_open_question_gives_exactly_the_answer(value: Json):
    answer = Question("What?").read(value)
    assert answer == value
    assert type(answer) is type(value)


def test_closed_options_take_one_of_them():
    question = Question("Which?", options=["main", "reserve"])
    assert question.read("main") == "main"
    assert question.response_schema == {"enum": ["main", "reserve"], "type": "string"}
    for wrong in ("other", "", None, ["main"], 0):
        with pytest.raises(ValidationError):
            question.read(wrong)


def test_multiple_choice_takes_a_list_of_them_each_once_and_at_least_one():
    question = Question("Which?", options=["a", "b", "c"], multiple=True)
    assert question.read(["c", "a"]) == ["c", "a"]
    assert question.response_schema["uniqueItems"] is True
    assert question.response_schema["minItems"] == 1
    for wrong in ([], ["a", "a"], ["d"], "a", None):
        with pytest.raises(ValidationError):
            question.read(wrong)


def test_a_typed_answer_is_of_its_type():
    assert Question("How many?", answer=int).read(3) == 3
    assert Question("How much?", answer=Decimal).read("1.50") == Decimal("1.50")
    size = Question("Which size?", answer=Size).read({"width": 1, "since": "2024-02-29"})
    assert size == Size(width=1, since=date(2024, 2, 29))
    assert Question("Perhaps?", answer=int | None).read(None) is None


@pytest.mark.parametrize(
    ("answer", "wrong"), [(int, "3"), (int, True), (str, 3), (bool, 1), (int, None)]
)
def test_a_typed_answer_is_not_guessed_from_another_type(answer: Any, wrong: Json):
    with pytest.raises(ValidationError):
        Question("What?", answer=answer).read(wrong)


def test_the_terms_of_a_question_reach_its_policy():
    question = Question(
        "What?", channel=InboxChannel("bosses"), expires_after=timedelta(hours=1), on_expire="fail"
    )
    policy = question.policy(people)
    assert (policy.channel, policy.on_expire) == ("bosses", "fail")
    assert Question("What?").policy(people).channel == "people"


def wrong_question(message: str = "What?", **options: Any) -> str:
    question = Question(message, **options)
    with pytest.raises(AuthoringError) as caught:
        question.check()
    return caught.value.message


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"message": " "}, "the message is empty"),
        ({"multiple": True}, "multiple= needs options="),
        ({"options": ["a"], "answer": int}, "options= and answer= exclude each other"),
        ({"options": []}, "options= is empty"),
        ({"options": ["a", "a"]}, "'a' stands there twice"),
        ({"options": ["a", ""]}, "texts that are not empty"),
        ({"on_expire": "approve"}, "on_expire='approve' is unknown here"),
        ({"answer": object()}, "answer= cannot be read from JSON"),
    ],
)
def test_a_question_with_a_mistake_cannot_be_asked(options: dict[str, Any], said: str):
    assert said in wrong_question(**options)


def test_a_right_question_can_be_asked():
    Question("What?", options=["a", "b"], channel=people, approvers=["ann"]).check()

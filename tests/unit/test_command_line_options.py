"""Which options decide a pause, and how the command line says so."""

from typing import Any

import pytest
from rich.console import Console

from app.authoring.response import action_schema, choices_schema, value_schema, verdict_schema
from app.cli.client import Problem
from app.cli.options import chosen, how_to_decide, nothing_to_choose, refused, ways

DRAFT = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "description": "whom"},
        "loud": {"type": "boolean", "default": False},
        "pin": {"anyOf": [{"type": "string"}, {"const": "***"}], "x-sensitive": True},
        "size": {"enum": ["small", "large"]},
    },
    "required": ["to"],
}


def pause(kind: str, allowed: list[str], schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    known = {"id": "pau_1", "kind": kind, "allowed": allowed, "response_schema": schema}
    return {**known, "you_may_decide": True, **more}


APPROVAL = pause(
    "approval", ["verdict", "override_arguments"], verdict_schema(override_arguments=DRAFT)
)
INPUT = pause("input", ["value", "decline"], value_schema(DRAFT))
OPTIONS = pause(
    "interactive", ["value", "decline"], value_schema({"type": "string", "enum": ["a", "b"]})
)
ROUTE = pause(
    "route", ["value", "decline"], value_schema(choices_schema(["a", "b"], multiple=True))
)


@pytest.mark.parametrize(
    ("asked", "fitting"),
    [
        (APPROVAL, ["--approve", "--approve --arguments JSON", "--reject"]),
        (pause("confirmation", ["verdict"], verdict_schema()), ["--approve", "--reject"]),
        (
            pause("review", ["verdict", "override_output"], verdict_schema(override_output=DRAFT)),
            ["--approve", "--approve --output JSON", "--reject"],
        ),
        (INPUT, ["--value JSON", "--reject"]),
        (
            pause("interactive", ["value", "decline"], value_schema({"type": "string"})),
            ["--text TEXT", "--reject"],
        ),
        (ROUTE, ["--choose NAME", "--reject"]),
        (OPTIONS, ["--choose NAME", "--reject"]),
        (pause("input", ["value"], value_schema({"enum": [1, 2]})), ["--value JSON"]),
        (pause("error", ["action"], action_schema("retry", "fail")), ["--action retry|fail"]),
    ],
    ids=(
        "approval",
        "confirmation",
        "review",
        "input",
        "interactive",
        "route",
        "options",
        "numbers",
        "error",
    ),
)
def test_every_kind_of_pause_has_its_options(asked: dict[str, Any], fitting: list[str]) -> None:
    assert list(ways(asked)) == fitting


def test_the_fields_of_a_form_are_told_with_what_they_take() -> None:
    assert _printed(INPUT) == [
        ["Decide", "it", "with:"],
        ["signoff", "decide", "pau_1", "--value", "JSON"],
        ["signoff", "decide", "pau_1", "--reject"],
        ["In", "--value:"],
        ["to", "string", "required", "whom"],
        ["loud", "boolean", "else", "false"],
        ["pin", "string,", "secret", "may", "be", "left", "out"],
        ["size", "small|large", "may", "be", "left", "out"],
    ]
    assert ["In", "--arguments:"] in _printed(APPROVAL)


def test_who_may_not_decide_is_told_so() -> None:
    assert _printed({**APPROVAL, "you_may_decide": False}) == [
        ["You", "may", "not", "decide", "it."]
    ]


def test_what_is_chosen_is_a_name_or_a_list_of_names_as_the_pause_takes_it() -> None:
    assert chosen(["a"], OPTIONS) == "a"
    assert chosen(["a"], ROUTE) == ["a"]
    assert chosen(["a", "b"], OPTIONS) == ["a", "b"]  # which the service refuses


def test_where_nothing_is_offered_it_is_said_how_a_free_answer_is_given() -> None:
    asked = pause("interactive", ["value", "decline"], value_schema({"type": "string"}))
    assert nothing_to_choose(asked) == (
        "There is nothing to choose: the pause is of the kind interactive and takes --text TEXT or --reject."
    )


def _printed(asked: dict[str, Any]) -> list[list[str]]:
    screen = Console(width=200)
    with screen.capture() as captured:
        screen.print(how_to_decide(asked))
    return [line.split() for line in captured.get().splitlines()]


@pytest.mark.parametrize(
    ("asked", "answered_by", "pointer", "message", "said"),
    [
        (INPUT, "--value", "/decision/value/to", "a string", "--value /to: a string."),
        (INPUT, None, "/decision/value", "a value is needed", "--value: a value is needed."),
        (ROUTE, "--choose", "/decision/value/0", "unknown", "--choose /0: unknown."),
        (ROUTE, "--value", "/decision/action", "unknown field", "--action does not go with it."),
        (APPROVAL, None, "/decision/by", "who decides?", "--by: who decides?."),
    ],
)
def test_what_does_not_fit_is_told_by_its_option(
    asked: dict[str, Any], answered_by: str | None, pointer: str, message: str, said: str
) -> None:
    body = {"detail": "wrong", "errors": [{"pointer": pointer, "message": message}]}
    told = refused(Problem(422, body), asked, answered_by=answered_by)
    kind = f"The pause is of the kind {asked['kind']} and takes {' or '.join(ways(asked))}."
    assert told == f"The decision does not fit: {said} {kind}"

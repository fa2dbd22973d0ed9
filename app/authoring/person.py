"""Tools with which a model asks a person."""

from collections.abc import Sequence
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from app.authoring.asks import Question
from app.authoring.context import ToolContext
from app.authoring.mistakes import repeated
from app.authoring.tool import tool

Text = Annotated[str, Field(min_length=1, max_length=2_000, pattern=r"\S")]


def _each_once(options: list[str]) -> list[str]:
    if any(repeated(options)):
        raise ValueError("each option may stand there once")
    return options


Options = Annotated[list[Text], Field(max_length=100), AfterValidator(_each_once)]


@tool
async def ask_user(
    context: ToolContext, question: Text, options: Options | None = None, multiple: bool = False
) -> str | list[str]:
    """Asks a person a question and gives the answer.

    With options, the person chooses one of them, or several if multiple is true; without, the
    answer is free text.
    """
    if not options:
        return await context.pause(Question(question, answer=str))
    if multiple:
        return await context.pause(Question(question, options=options, multiple=True))
    return await context.pause(Question(question, options=options))


class InputField(BaseModel):
    """One value that is asked for."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$")]
    type: Literal["text", "integer", "number", "boolean", "date", "list of texts"] = "text"
    description: str = ""
    options: Options = []
    required: bool = True


def _each_name_once(fields: list[InputField]) -> list[InputField]:
    for name in repeated(each.name for each in fields):
        raise ValueError(f"two fields have the name {name!r}")
    for each in fields:
        if each.options and each.type not in {"text", "list of texts"}:
            raise ValueError(f"the field {each.name!r} has options, which are texts")
    return fields


Fields = Annotated[
    list[InputField], Field(min_length=1, max_length=50), AfterValidator(_each_name_once)
]


@tool
async def get_user_input(context: ToolContext, message: Text, fields: Fields) -> dict[str, Any]:
    """Asks a person to fill in values, and gives them by the fields' names.

    Each field has a name and a type; a text, or each of a list of texts, may be limited to options.
    A field that is not required may be left out.
    """
    form = _form(fields)
    filled = await context.pause(Question(message, answer=form))
    return filled.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _form(fields: Sequence[InputField]) -> type[BaseModel]:
    """A model of the fields. Theirs are aliases, so that no name can be one that pydantic has taken."""
    members: dict[str, Any] = {
        f"field_{index}": (
            _type(each),
            Field(... if each.required else None, alias=each.name, description=each.description),
        )
        for index, each in enumerate(fields)
    }
    return create_model("Input", __config__=ConfigDict(extra="forbid"), **members)


def _type(field: InputField) -> Any:
    text: Any = Literal[tuple(field.options)] if field.options else str
    match field.type:
        case "text":
            return text
        case "list of texts":
            return list[text]
        case "integer":
            return int
        case "number":
            return float
        case "boolean":
            return bool
        case "date":
            return date

"""What an agent reads of a value, and what becomes of its answer."""

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel

from app.authoring.kinds import fits
from app.authoring.shape import bare, json_text


def text_of(value: Any) -> str:
    """What an agent reads: a text, the text of a model that is nothing else, or JSON."""
    match value:
        case str():
            return value
        case BaseModel() if len(type(value).model_fields) == 1:
            (only,) = type(value).model_fields
            inner = getattr(value, only)
            return inner if isinstance(inner, str) else json_text(value).decode()
        case _:
            return json_text(value).decode()


def remarks_on(
    inputs: Sequence[BaseModel], feedback: str | None, previous_output: Any
) -> Iterator[str]:
    """What an agent reads below its work: what was filled in for it, and what is to be better."""
    for each in inputs:
        yield f"{type(each).__name__}: {json_text(each).decode()}"
    if previous_output is not None:
        yield f"Your previous answer was rejected: {text_of(previous_output)}"
    if feedback is not None:
        yield f"Feedback: {feedback}"


def takes_text(expected: Any) -> bool:
    """Whether an answer can stand as it is where `expected` is wanted."""
    return fits(str, expected)


def text_field(expected: Any) -> str | None:
    """The field of a model that an answer is put into: its only text, if nothing else must be."""
    model = bare(expected)
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return None
    fields = model.model_fields
    texts = [name for name, field in fields.items() if bare(field.annotation) is str]
    others_must = any(field.is_required() for name, field in fields.items() if name not in texts)
    return texts[0] if len(texts) == 1 and not others_must else None

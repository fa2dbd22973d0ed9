"""Checks values by JSON Schemas that no type of ours stands behind."""

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import Any, cast
from uuid import UUID

from jsonschema import Draft202012Validator, FormatChecker, validators
from jsonschema.exceptions import ValidationError as SchemaFault
from pydantic import TypeAdapter, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from app.authoring.shape import Schema
from app.domain.json import Json


def faults_of(value: Json, schema: Schema) -> Iterator[SchemaFault]:
    """All that is wrong with a value."""
    validator = _Validator(schema, format_checker=_FORMATS)
    return cast("Iterator[SchemaFault]", validator.iter_errors(value))


def said_of(fault: SchemaFault) -> str:
    """The fault without the value, which the library's own message quotes."""
    allowed = cast("Json", fault.validator_value)
    match fault.validator:
        case "enum" | "const":
            return "is not one of the options"
        case "type":
            return f"must be of type {allowed}"
        case "required":
            return f"must have {', '.join(cast('list[str]', allowed))}"
        case "anyOf" | "oneOf":
            return "fits none of the allowed forms"
        case "uniqueItems":
            return "must not repeat an item"
        case "additionalProperties" | "unevaluatedProperties":
            return "has fields that are not known"
        case rule:
            return f"must satisfy {rule}: {allowed}"


def check(value: Json, schema: Schema) -> None:
    """Raises pydantic's `ValidationError`, with each place where the value does not fit."""
    details = [
        InitErrorDetails(
            type=PydanticCustomError("json_schema", "{reason}", {"reason": reason}),
            loc=place,
            input=None,
        )
        for place, reason in dict.fromkeys(_places(value, schema))
    ]
    if details:
        raise ValidationError.from_exception_data("JSON", details, hide_input=True)


def _places(value: Json, schema: Schema) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for fault in faults_of(value, schema):
        place = tuple(cast("list[str | int]", fault.absolute_path))
        if fault.validator == "required":
            yield from _missing(place, fault)
        else:
            yield place, said_of(fault)


def _missing(
    place: tuple[str | int, ...], fault: SchemaFault
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    there = cast("dict[str, Json]", fault.instance)
    for name in cast("list[str]", fault.validator_value):
        if name not in there:
            yield (*place, name), "is required"


def _is_integer(checker: object, value: object) -> bool:
    """An integer as types read it: 1.0 is none, though JSON Schema says so."""
    return isinstance(value, int) and not isinstance(value, bool)


_Validator: type[Draft202012Validator] = cast("Any", validators).extend(
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)
_FORMATS = FormatChecker(formats=())

for _name, _type in {
    "date-time": datetime,
    "date": date,
    "time": time,
    "duration": timedelta,
    "uuid": UUID,
}.items():

    def _fits(value: object, adapter: TypeAdapter[Any] = TypeAdapter(_type)) -> bool:  # noqa: B008
        return not isinstance(value, str) or adapter.validate_python(value) is not None

    _FORMATS.checks(_name, raises=ValueError)(_fits)

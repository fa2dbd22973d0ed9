"""The declared type of a value: how it becomes JSON, how it comes back, and what it fits."""

import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from typing import (
    Annotated,
    Any,
    TypeGuard,
    TypeVar,
    cast,
    get_args,
    get_origin,
)

from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaWarningKind

from app.domain.json import Json, check_json
from app.domain.masking import sensitive_paths

T = TypeVar("T")
Schema = dict[str, Any]

CONFIG = ConfigDict(
    ser_json_bytes="base64",
    val_json_bytes="base64",
    ser_json_inf_nan="constants",  # not null: what cannot be stored has to be refused
    hide_input_in_errors=True,
)


def adapter_of(annotation: Any) -> TypeAdapter[Any]:
    """A type's adapter; bytes become base64. Raises as pydantic does where it has none."""
    try:
        return TypeAdapter(annotation, config=CONFIG)
    except PydanticUserError as error:
        if error.code != "type-adapter-config-unused":
            raise
    return TypeAdapter(
        annotation
    )  # models, dataclasses and typed dicts bring their own configuration


def dump(adapter: TypeAdapter[Any], value: Any) -> Json:
    """`value` as JSON that `load` restores. Raises where it is not of its type or not JSON."""
    try:
        plain = adapter.dump_python(
            value, mode="json", by_alias=True, round_trip=True, warnings="error"
        )
    except UnicodeDecodeError as error:
        raise ValueError(_NO_TEXT) from error
    check_json(plain)
    return plain


_NO_TEXT = (
    "bytes that are no text: the model they stand in needs "
    'model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")'
)


def load(
    adapter: TypeAdapter[T], value: Json, *, strict: bool | None = None, closed: bool = False
) -> T:
    """The typed value of JSON; raises pydantic's `ValidationError`.

    Read as JSON text, because among Python values a strict model takes no date and no decimal from
    a string. `closed` refuses members that the type does not name, unless one of its models says
    that it takes any.
    """
    extra = "forbid" if closed and not _is_open(adapter) else None
    return adapter.validate_json(
        json_text(value), strict=strict, extra=extra, by_alias=True, by_name=True
    )


@cache
def _is_open(adapter: TypeAdapter[Any]) -> bool:
    """Whether a model in it is declared with `extra="allow"`."""
    return any(
        "properties" in each and each.get("additionalProperties") not in {None, False}
        for each in walk(adapter.json_schema(schema_generator=_Schemas))
    )


def plain(value: Any) -> Json:
    """Any value as JSON, as its own type would be written."""
    return _ANYTHING.dump_python(value, mode="json", by_alias=True)


def json_text(value: Any) -> bytes:
    """Any value as the text of its JSON."""
    return _ANYTHING.dump_json(value, by_alias=True)


_ANYTHING = adapter_of(Any)


def schema_of(adapter: TypeAdapter[Any], mode: JsonSchemaMode = "validation") -> Schema:
    """The JSON Schema of a type, without defaults and examples that would tell a secret."""
    schema = adapter.json_schema(mode=mode, schema_generator=_Schemas)
    definitions: Schema = schema.get("$defs", {})
    if "$ref" in schema:  # a model that holds itself; providers want its members at the top
        schema |= definitions[schema.pop("$ref").rpartition("/")[2]]
    if sensitive_paths(schema):
        for each in walk(schema):
            _forget_secrets(each, definitions)
    return schema


def why_not_json(annotation: Any) -> str | None:
    """Why values of a type cannot be JSON; None where they can."""
    try:
        schema_of(adapter_of(annotation))
    except Exception as error:  # noqa: BLE001 - a type's own schema code can raise anything
        return str(error).partition("\n")[0]
    return None


class _Schemas(GenerateJsonSchema):
    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        # A default that JSON cannot say is left out of the schema; it is still the default.
        if kind != "non-serializable-default":
            super().emit_warning(kind, detail)


def _forget_secrets(schema: Schema, definitions: Schema) -> None:
    telling = {key for key in ("default", "examples", "example") if schema.get(key)}
    if telling and sensitive_paths({**schema, "$defs": definitions}):
        for key in telling:
            del schema[key]


@contextmanager
def quiet_names() -> Generator[None]:
    """For models made of others' names: a field may be called `copy` or `schema`.

    Nobody calls those methods of such a model.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Field name .* shadows an attribute")
        yield


def walk(schema: Schema) -> Iterator[Schema]:
    """A JSON Schema and every schema in it."""
    yield schema
    for key, inner in schema.items():
        if key in {"properties", "patternProperties", "$defs"}:
            below = list(cast("Schema", inner).values())
        elif key in {"anyOf", "oneOf", "allOf", "prefixItems"}:
            below = cast("list[Any]", inner)
        elif key in {"items", "additionalProperties", "propertyNames", "contains"}:
            below = [inner]
        else:
            continue
        for each in below:
            if isinstance(each, dict):
                yield from walk(cast("Schema", each))


def bare(annotation: Any) -> Any:
    """A type without its `Annotated` and without its alias."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif hasattr(annotation, "__value__"):  # `type X = …` of Python 3.12
            annotation = annotation.__value__
        else:
            return annotation


def spoken_type(annotation: Any) -> str:
    """A type as a writer wrote it."""
    found = bare(annotation)
    if isinstance(found, type) and not get_args(found):
        return found.__name__
    return str(found).replace("typing.", "")


def is_model(annotation: Any) -> TypeGuard[type[BaseModel]]:
    """Whether it is a pydantic model."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def json_name(name: str, field: FieldInfo) -> str:
    """The name of a model's field as JSON has it."""
    return field.validation_alias if isinstance(field.validation_alias, str) else name

"""The declared type of a value: how it becomes JSON, how it comes back, and what it fits."""

import types
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    TypeGuard,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaWarningKind
from typing_extensions import is_typeddict

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
    plain = adapter.dump_python(
        value, mode="json", by_alias=True, round_trip=True, warnings="error"
    )
    check_json(plain)
    return plain


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


def fits(given: Any, wanted: Any) -> bool:
    """Whether every `given` is a `wanted`; true where it cannot be told from the types."""
    given, wanted = bare(given), bare(wanted)
    if given == wanted or any(each is Any or each is object for each in (given, wanted)):
        return True
    if _is_union(given):
        return all(fits(each, wanted) for each in get_args(given))
    if _is_union(wanted):
        return any(fits(given, each) for each in get_args(wanted))
    if get_origin(given) is Literal:
        return _literal_fits(get_args(given), wanted)
    if get_origin(wanted) is Literal:
        return False
    return _class_fits(given, wanted)


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """The types of a union; of another type, itself. Each bare."""
    found = bare(annotation)
    if not _is_union(found):
        return (found,)
    return tuple(inner for each in get_args(found) for inner in alternatives(each))


def either(*annotations: Any) -> Any:
    """The type of a value that is of one of these; Any where there is none."""
    if not annotations or any(each is Any for each in annotations):
        return Any
    try:
        return Union[annotations]  # noqa: UP007 - made of a tuple
    except TypeError:  # some metadata cannot be hashed
        return Any


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in {Union, types.UnionType}


def _literal_fits(values: tuple[Any, ...], wanted: Any) -> bool:
    if get_origin(wanted) is Literal:
        return set(values) <= set(get_args(wanted))
    return all(fits(type(value), wanted) for value in values)


def _class_fits(given: Any, wanted: Any) -> bool:
    if is_typeddict(given):
        return members_fit(given, wanted)
    given_class, wanted_class = _class_of(given), _class_of(wanted)
    if given_class is None or wanted_class is None:
        return True
    if given_class is int and wanted_class is float:
        return True
    try:
        if not issubclass(given_class, wanted_class):
            return False
    except TypeError:  # a protocol or a typed dict that cannot be asked
        return True
    return _arguments_fit(given, wanted)


def members_fit(given: Any, wanted: Any) -> bool:
    """Whether a typed dict has what a dict, a typed dict or a model must have."""
    names = get_type_hints(given)
    wants = {name: member_of(wanted, name) for name in {*names, *members_needed(wanted)}}
    if any(each is None for each in wants.values()):
        return False
    if not members_needed(wanted) <= given.__required_keys__:
        return False
    return all(fits(each, cast("tuple[Any]", wants[name])[0]) for name, each in names.items())


def members_needed(wanted: Any) -> frozenset[str]:
    """The members that a value of a type cannot be without."""
    found = bare(wanted)
    if is_typeddict(found):
        return found.__required_keys__
    if not is_model(found):
        return frozenset()
    fields = found.model_fields.items()
    return frozenset(json_name(name, each) for name, each in fields if each.is_required())


def member_of(wanted: Any, name: str) -> tuple[Any] | None:
    """The type that a member must have; None where a value of the type has no such member."""
    found = bare(wanted)
    if found is Any or found is object:
        return (Any,)
    if is_typeddict(found):
        return (get_type_hints(found).get(name, Any),)
    if is_model(found):
        fields = {json_name(own, each): each for own, each in found.model_fields.items()}
        if name in fields:
            return (fields[name].annotation,)
        return None if found.model_config.get("extra") == "forbid" else (Any,)
    origin = _class_of(found)
    if origin is None or not issubclass(dict, origin):
        return None
    return (get_args(found)[1] if len(get_args(found)) == 2 else Any,)


def is_model(annotation: Any) -> TypeGuard[type[BaseModel]]:
    """Whether it is a pydantic model."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def json_name(name: str, field: FieldInfo) -> str:
    """The name of a model's field as JSON has it."""
    return field.validation_alias if isinstance(field.validation_alias, str) else name


def _class_of(annotation: Any) -> type[Any] | None:
    found = type(None) if annotation is None else get_origin(annotation) or annotation
    return found if isinstance(found, type) else None


def _arguments_fit(given: Any, wanted: Any) -> bool:
    inner, outer = get_args(given), get_args(wanted)
    if len(inner) != len(outer):
        return True
    return all(fits(one, other) for one, other in zip(inner, outer, strict=True))

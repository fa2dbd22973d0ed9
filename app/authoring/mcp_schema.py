"""The JSON Schemas of tools elsewhere: made fit to be shown and masked, and a model of the arguments."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Annotated, Any, ClassVar, Literal, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    create_model,
    model_serializer,
    model_validator,
)

from app.authoring.json_schema import check
from app.authoring.shape import CONFIG, Schema, json_name, quiet_names
from app.domain.json import Json
from app.domain.masking import MARK


class UnusableSchema(Exception):
    """A schema of which nobody could say what fits it."""


def usable(schema: Schema) -> Schema:
    """The schema with all its definitions in `$defs`; raises `UnusableSchema`.

    Everything that reads schemas here, and model providers too, look for them there.
    """
    found = _without_definitions(deepcopy(schema))
    try:
        Draft202012Validator.check_schema(found)
    except SchemaError as error:
        raise UnusableSchema(f"it is no JSON Schema: {error.message[:200]}") from error
    known: Schema = found.get("$defs", {})
    for reference in _references(found):
        name = reference.removeprefix(_DEFINITION)
        if name == reference or name not in known:
            raise UnusableSchema(f"it refers to {reference[:200]!r}, which is not one of its $defs")
    return found


_DEFINITION = "#/$defs/"
_OLD_DEFINITION = "#/definitions/"  # until JSON Schema 2019-09


def _without_definitions(schema: Schema) -> Schema:
    found = {key: each for key, each in schema.items() if key not in {"$schema", "$id"}}
    if "definitions" in found:
        found["$defs"] = found.pop("definitions") | found.get("$defs", {})
        _move_references(found)
    return found


def _move_references(schema: Json) -> None:
    match schema:
        case dict():
            members = cast("Schema", schema)
            reference = members.get("$ref")
            if isinstance(reference, str) and reference.startswith(_OLD_DEFINITION):
                members["$ref"] = _DEFINITION + reference.removeprefix(_OLD_DEFINITION)
            for each in members.values():
                _move_references(each)
        case list():
            for each in cast("list[Json]", schema):
                _move_references(each)
        case _:
            return


def _references(schema: Json) -> Iterator[str]:
    match schema:
        case dict():
            for key, each in cast("Schema", schema).items():
                if key in {"$ref", "$dynamicRef", "$recursiveRef"} and isinstance(each, str):
                    yield each
                else:
                    yield from _references(each)
        case list():
            for each in cast("list[Json]", schema):
                yield from _references(each)
        case _:
            return


def mark_sensitive(schema: Schema, pointer: str) -> bool:
    """Marks what a JSON pointer into values of `schema` points at; False where there is no such thing.

    `*` stands for any item. Where others use the same definition, theirs is marked as well.
    """
    found = [schema]
    for token in pointer.removeprefix("/").split("/"):
        name = token.replace("~1", "/").replace("~0", "~")
        found = [inner for each in found for inner in _inner(each, name, schema)]
    for each in found:
        each[MARK] = True
    return bool(found)


def _inner(schema: Schema, name: str, root: Schema) -> Iterator[Schema]:
    for view in _views(schema, root):
        if name in view.get("properties", {}):
            yield view["properties"][name]
        if name == "*" and isinstance(view.get("items"), dict):
            yield view["items"]


def _views(schema: Schema, root: Schema) -> Iterator[Schema]:
    yield schema
    if "$ref" in schema:
        yield from _views(root["$defs"][schema["$ref"].removeprefix(_DEFINITION)], root)
    for union in ("anyOf", "oneOf", "allOf"):
        for each in schema.get(union, ()):
            yield from _views(each, root)


# ── Values ───────────────────────────────────────────────────────────────────────────────────────


class _Arguments(BaseModel):
    """Arguments that fit a JSON Schema. What nobody gave is not written out, if it has no default."""

    json_schema: ClassVar[Schema]

    @model_validator(mode="before")
    @classmethod
    def _fits(cls, given: Any) -> Any:
        check(given, cls.json_schema)
        return given

    @model_serializer(mode="plain")
    def _written(self) -> dict[str, Any]:
        properties: Schema = self.json_schema.get("properties", {})
        written = {
            json_name(name, field): getattr(self, name)
            for name, field in type(self).model_fields.items()
            if name in self.model_fields_set or "default" in properties[json_name(name, field)]
        }
        return written | (self.model_extra or {})


def arguments_model(name: str, schema: Schema) -> type[BaseModel]:
    """A model whose fields are the properties of the schema, and which takes what fits it."""
    properties: Schema = schema.get("properties", {})
    required = schema.get("required", ())
    fields: dict[str, Any] = {}
    for each, inner in properties.items():
        default = ... if each in required else inner.get("default")
        fields[_attribute(each, fields)] = (Any, Field(default, alias=each))
    others: Literal["allow", "forbid"] = "allow" if _takes_others(schema) else "forbid"
    config: ConfigDict = {**CONFIG, "extra": others, "protected_namespaces": ()}

    class Arguments(_Arguments):
        model_config = config
        json_schema = schema

    with quiet_names():
        return create_model(name, __base__=Arguments, **fields)


def _takes_others(schema: Schema) -> bool:
    """Whether there may be members that have no name there. Saying nothing means no, as with types."""
    if "properties" not in schema and "additionalProperties" not in schema:
        return True
    return bool(schema.get("additionalProperties") or schema.get("patternProperties"))


def _attribute(name: str, taken: dict[str, Any]) -> str:
    """The name of a field: that of the property, where Python and pydantic let it be one."""
    is_free = name.isidentifier() and not name.startswith(("_", "model_"))
    if is_free and name not in taken and not hasattr(_Arguments, name):
        return name
    plain = "".join(each if each.isalnum() and each.isascii() else "_" for each in name)
    return f"field{len(taken)}_{plain}"


def result_type(schema: Schema) -> TypeAdapter[Any]:
    """The type of values that fit the schema."""

    def fits(value: Any) -> Any:
        check(value, schema)
        return value

    return TypeAdapter(Annotated[Any, AfterValidator(fits)], config=CONFIG)

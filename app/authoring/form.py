"""The arguments of a tool that a person fills in, apart from those that a model gives."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model

from app.authoring.shape import Schema, json_name, load, quiet_names, schema_of
from app.domain.json import Json


@dataclass(frozen=True, kw_only=True)
class Form:
    """Some fields of a tool's `parameters`, by name."""

    parameters: type[BaseModel]
    fill: tuple[str, ...]

    @cached_property
    def schema(self) -> Schema:
        """JSON Schema of an object with the fields."""
        return schema_of(self._filled)

    def without(self, schema: Schema) -> Schema:
        """The schema of all arguments, without the fields."""
        names = self._json_names
        properties = schema.get("properties", {}).items()
        kept: Schema = {name: each for name, each in properties if name not in names}
        required = [name for name in schema.get("required", []) if name not in names]
        rest = {key: each for key, each in schema.items() if key != "required"}
        return rest | {"properties": kept} | ({"required": required} if required else {})

    def read(self, value: Json) -> BaseModel:
        """What a person filled in; raises `ValidationError` with every wrong field."""
        return load(self._filled, value, closed=True)

    def read_offered(self, arguments: Json) -> BaseModel:
        """Arguments without the fields: a model of the tool's type that lacks them.

        Raises `ValidationError` or `ValueError` for what a model gave wrongly, and for a field that
        it gave at all.
        """
        given = load(self._offered, arguments)
        self._check(cast("dict[str, Json]", arguments))
        values = {name: getattr(given, name) for name in type(given).model_fields}
        return self.parameters.model_construct(given.model_fields_set, **values)

    def _check(self, arguments: dict[str, Json]) -> None:
        """What the tool's own validators say about the arguments that are there."""
        filled = {*self.fill, *self._json_names}
        wrong = [f"/{name}: a person fills it in" for name in arguments if name in filled]
        try:
            load(TypeAdapter(self.parameters), arguments)
        except ValidationError as error:
            details = error.errors(include_url=False, include_input=False, include_context=False)
            wrong += [
                "".join(f"/{part}" for part in each["loc"]) + f": {each['msg']}"
                for each in details
                if each["loc"] and each["loc"][0] not in filled
            ]
        if wrong:
            raise ValueError("; ".join(wrong))

    @cached_property
    def _filled(self) -> TypeAdapter[BaseModel]:
        return self._part("Filled", self.fill, "forbid")

    @cached_property
    def _offered(self) -> TypeAdapter[BaseModel]:
        names = [name for name in self.parameters.model_fields if name not in self.fill]
        return self._part(self.parameters.__name__, names, "ignore")

    def _part(
        self, title: str, names: Sequence[str], extra: Literal["forbid", "ignore"]
    ) -> TypeAdapter[BaseModel]:
        fields: dict[str, Any] = {
            name: (field.annotation, copy(field))
            for name, field in self.parameters.model_fields.items()
            if name in names
        }
        config: ConfigDict = {**self.parameters.model_config, "extra": extra}
        with quiet_names():
            return TypeAdapter(create_model(title, __config__=config, **fields))

    @cached_property
    def _json_names(self) -> set[str]:
        fields = self.parameters.model_fields
        return {json_name(name, fields[name]) for name in self.fill}

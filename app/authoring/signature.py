"""What a tool's signature says: the model of its arguments, and the type of its result."""

import inspect
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo

from app.authoring.context import StepContext, ToolContext
from app.authoring.function import (
    UnreadableSignature,
    hints_of,
    name_of,
    wrong_parameter,
    wrong_result,
)
from app.authoring.shape import CONFIG, adapter_of, bare, quiet_names, why_not_json


@dataclass(frozen=True, kw_only=True)
class ToolSignature:
    """A tool's function as data. `own` is its signature without the context."""

    own: inspect.Signature
    takes_context: bool
    parameters: type[BaseModel]
    single: str | None  # the one parameter that takes the whole model, if the function has such
    result: TypeAdapter[Any]

    def bound(self, arguments: BaseModel) -> inspect.BoundArguments:
        """Arguments in the places at which the function takes them."""
        if self.single is not None:
            return inspect.BoundArguments(self.own, OrderedDict({self.single: arguments}))
        values = ((name, getattr(arguments, name)) for name in self.own.parameters)
        return inspect.BoundArguments(self.own, OrderedDict(values))


def read_signature(fn: Callable[..., Any]) -> ToolSignature:
    """Reads a tool's annotations; raises `UnreadableSignature` with all that is wrong."""
    hints = hints_of(fn)
    own, takes_context = _without_context(inspect.signature(fn), hints)
    parameters = list(own.parameters.values())
    wrong = wrong_result(fn, hints) or _unstorable(hints["return"])
    for parameter in parameters:
        wrong += wrong_parameter(parameter, hints) or _wrong_argument(parameter, hints)
    if wrong:
        raise UnreadableSignature(*wrong)
    single = _whole_model(parameters, hints)
    return ToolSignature(
        own=own,
        takes_context=takes_context,
        parameters=single[1] if single else _made_model(name_of(fn), parameters, hints),
        single=single[0] if single else None,
        result=adapter_of(hints["return"]),
    )


def _without_context(
    signature: inspect.Signature, hints: dict[str, Any]
) -> tuple[inspect.Signature, bool]:
    first, *rest = list(signature.parameters.values()) or [None]
    if first is None or bare(hints.get(first.name)) is not ToolContext:
        return signature, False
    return signature.replace(parameters=[each for each in rest if each is not None]), True


def _wrong_argument(parameter: inspect.Parameter, hints: dict[str, Any]) -> list[str]:
    annotation = hints[parameter.name]
    if bare(annotation) is ToolContext:
        return ["the context must be the first parameter"]
    if bare(annotation) is StepContext:
        return ["a tool gets a ToolContext, not a StepContext"]
    if parameter.name.startswith("_"):
        return [f"{parameter.name!r} begins with '_', which no argument of a model may"]
    why = why_not_json(annotation)
    if why:
        return [f"{parameter.name!r} cannot be read from JSON: {why}"]
    return _wrong_default(parameter, annotation)


def _wrong_default(parameter: inspect.Parameter, annotation: Any) -> list[str]:
    if parameter.default is parameter.empty or isinstance(parameter.default, FieldInfo):
        return []
    try:
        adapter_of(annotation).validate_python(parameter.default)
    except ValidationError:
        return [f"the default of {parameter.name!r} is not of its type"]
    return []


def _unstorable(result: Any) -> list[str]:
    why = why_not_json(result)
    return [f"its result cannot be stored as JSON: {why}"] if why else []


def _whole_model(
    parameters: Sequence[inspect.Parameter], hints: dict[str, Any]
) -> tuple[str, type[BaseModel]] | None:
    match parameters:
        case [inspect.Parameter(name=name, default=inspect.Parameter.empty)]:
            model = hints[name]
            if isinstance(model, type) and issubclass(model, BaseModel):
                return name, model
        case _:
            pass
    return None


def _made_model(
    name: str, parameters: Sequence[inspect.Parameter], hints: dict[str, Any]
) -> type[BaseModel]:
    fields: dict[str, Any] = {
        each.name: (hints[each.name], ... if each.default is each.empty else each.default)
        for each in parameters
    }
    config: ConfigDict = {**CONFIG, "extra": "forbid", "protected_namespaces": ()}
    with quiet_names():
        return create_model(name, __config__=config, **fields)

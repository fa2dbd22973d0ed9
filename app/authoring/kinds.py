"""Whether every value of one type is a value of another, as far as types can tell."""

import types
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict

from app.authoring.shape import bare, is_model, json_name


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


def _class_of(annotation: Any) -> type[Any] | None:
    found = type(None) if annotation is None else get_origin(annotation) or annotation
    return found if isinstance(found, type) else None


def _arguments_fit(given: Any, wanted: Any) -> bool:
    inner, outer = get_args(given), get_args(wanted)
    if len(inner) != len(outer):
        return True
    return all(fits(one, other) for one, other in zip(inner, outer, strict=True))

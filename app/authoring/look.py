"""A look at a value: a writer's function that decides which way a run goes."""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, cast, get_args, get_origin

from pydantic import TypeAdapter

from app.authoring.function import UnreadableSignature, hints_of
from app.authoring.kinds import alternatives, fits
from app.authoring.shape import spoken_type, why_not_json

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Look(Generic[T]):
    """A function of one value, sync or async. `input` is the type of what it looks at."""

    fn: Callable[[Any], T | Awaitable[T]]
    input: TypeAdapter[Any]

    async def at(self, value: Any) -> T:
        """What the function says about a value of its type. A sync one is not run in a thread."""
        found = self.fn(value)
        if inspect.isawaitable(found):
            return await found
        return cast("T", found)


@dataclass(frozen=True, kw_only=True)
class LookDraft:
    """A look as it was listed, in `when=`, `until=` or `select=`; `takes` is Any where it says nothing."""

    name: str
    fn: Callable[[Any], Any]
    takes: Any = Any
    gives: Any = Any
    mistakes: tuple[str, ...] = ()

    @property
    def selects_several(self) -> bool:
        """Whether its annotation says that it may return a list of names."""
        return any(_is_list(each) for each in alternatives(self.gives))

    @property
    def names(self) -> frozenset[object] | None:
        """The names that it may return, where its annotation lists them."""
        return _names(self.gives)


def read_look(name: str, fn: object) -> LookDraft:
    """What such a function takes and gives, and what is wrong with it."""
    if not callable(fn):
        return LookDraft(name=name, fn=_nothing, mistakes=(f"{name}= is not a function: {fn!r}",))
    if isinstance(fn, type):  # `bool` and alike have no signature
        return LookDraft(name=name, fn=fn)
    try:
        hints, signature = hints_of(fn), inspect.signature(fn)
        signature.bind(None)
    except (UnreadableSignature, ValueError) as error:
        return LookDraft(name=name, fn=fn, mistakes=(f"{name}=: {error}",))
    except TypeError:
        wrong = f"{name}= must take one value, that before it"
        return LookDraft(name=name, fn=fn, mistakes=(wrong,))
    taken = next(iter(signature.parameters))
    takes, gives = hints.get(taken, Any), hints.get("return", Any)
    why = why_not_json(takes)
    if why:
        wrong = f"{name}= takes what cannot be read from JSON: {why}"
        return LookDraft(name=name, fn=fn, mistakes=(wrong,))
    return LookDraft(
        name=name, fn=fn, takes=takes, gives=gives, mistakes=tuple(_wrong_result(name, gives))
    )


def _wrong_result(name: str, gives: Any) -> Iterator[str]:
    wanted, said = _WANTED[name]
    if not fits(gives, wanted):
        yield f"{name}= returns {spoken_type(gives)}, and must return {said}"


_TRUTH = (bool, "a bool")
_NAMES = (str | Sequence[str], "the name of a choice, or a list of names")
_WANTED = {"when": _TRUTH, "until": _TRUTH, "select": _NAMES}


def _nothing(value: Any) -> None: ...


def _names(annotation: Any) -> frozenset[object] | None:
    found: set[object] = set()
    for each in alternatives(annotation):
        if get_origin(each) is Literal:
            found.update(get_args(each))
            continue
        inner = _names(get_args(each)[0]) if _is_list(each) and get_args(each) else None
        if inner is None:
            return None
        found |= inner
    return frozenset(found)


def _is_list(annotation: Any) -> bool:
    found = get_origin(annotation) or annotation
    return isinstance(found, type) and issubclass(found, Sequence) and not issubclass(found, str)

"""A writer's function: how it is called, and what its annotations say."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast, get_type_hints

R = TypeVar("R")


class UnreadableSignature(Exception):
    """A signature that cannot be used; `reasons` has everything that is wrong with it."""

    def __init__(self, *reasons: str) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


async def call(fn: Callable[..., Awaitable[R] | R], *args: Any, **kwargs: Any) -> R:
    """Calls a function; a sync one runs in a thread, where it does not hold up others."""
    if inspect.iscoroutinefunction(fn):
        return await cast("Awaitable[R]", fn(*args, **kwargs))
    result = await asyncio.to_thread(fn, *args, **kwargs)
    if inspect.isawaitable(result):
        return await cast("Awaitable[R]", result)
    return cast("R", result)


def name_of(fn: Callable[..., Any]) -> str:
    """The name a function was defined by; for another callable, that of its class."""
    return getattr(fn, "__name__", type(fn).__name__)


def hints_of(fn: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function's parameters and of its `return`, resolved.

    Raises `UnreadableSignature` where one names something that is not there.
    """
    described = fn if inspect.isroutine(fn) else getattr(fn, "func", type(fn).__call__)
    try:
        return get_type_hints(described, include_extras=True)
    except Exception as error:
        raise UnreadableSignature(f"its annotations cannot be read: {error}") from error


def wrong_result(fn: Callable[..., Any], hints: dict[str, Any]) -> list[str]:
    """What keeps a function from being one that returns a value of a declared type."""
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        return ["it yields; it must return its result"]
    return [] if "return" in hints else ["the return annotation is missing"]


def wrong_parameter(parameter: inspect.Parameter, hints: dict[str, Any]) -> list[str]:
    """What keeps a parameter from having a declared type."""
    if parameter.kind in {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        return [f"{parameter} is not allowed: every argument needs a name and a type"]
    if parameter.name not in hints:
        return [f"the annotation of {parameter.name!r} is missing"]
    return []

"""A look at a value: a writer's function that decides which way a run goes."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from pydantic import TypeAdapter

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

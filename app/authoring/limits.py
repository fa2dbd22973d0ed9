"""Limits of what an agent may do in one visit."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from app.authoring.mistakes import wrong_count

DEFAULT_MODEL_CALLS: Final = 12
DEFAULT_TOOL_CALLS: Final = 20


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How often an agent may ask its model and its tools, from getting its work to its answer.

    None stands for the default, which `describe` shows as such.
    """

    model_calls: int | None = None
    tool_calls: int | None = None

    @property
    def most_model_calls(self) -> int:
        return DEFAULT_MODEL_CALLS if self.model_calls is None else self.model_calls

    @property
    def most_tool_calls(self) -> int:
        return DEFAULT_TOOL_CALLS if self.tool_calls is None else self.tool_calls

    def mistakes(self) -> Iterator[str]:
        """What is wrong with them."""
        yield from wrong_count("limits: model_calls", self.most_model_calls, 1)
        yield from wrong_count("limits: tool_calls", self.most_tool_calls)


DEFAULT_LIMITS: Final = Limits()

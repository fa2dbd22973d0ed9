"""Limits of what an agent may do in one visit."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

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
        if type(self.most_model_calls) is not int or self.most_model_calls < 1:
            yield f"limits: model_calls={self.model_calls!r} must be a whole number from 1"
        if type(self.most_tool_calls) is not int or self.most_tool_calls < 0:
            yield f"limits: tool_calls={self.tool_calls!r} must be a whole number from 0"

"""One proposed use of a tool, as scripts write it and guardrails see it."""

from dataclasses import dataclass

from app.domain.json import Json


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """One proposed use of a tool. `arguments` is a text where the model wrote invalid JSON.

    A guardrail gets true values, sensitive ones among them, with every default written out.
    """

    tool: str
    arguments: Json
    provider_id: str = ""
    """The id the provider gave it; empty if none. Providers repeat theirs."""

"""The reference of what writers import, read from signatures and docstrings."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import griffe

import app.authoring
import app.channels
import app.testing


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the page. `names` are written as `Class` or, with methods to show, `Class.method`."""

    module: str
    heading: str
    names: tuple[str, ...]


PARTS: Final = (
    Part(
        module="app.authoring",
        heading="Workflows and agents",
        names=("Workflow", "Workflow.from_graph", "Agent", "Limits", "Guards"),
    ),
    Part(
        module="app.authoring",
        heading="Tools",
        names=(
            "tool",
            "ToolContext",
            "ToolContext.pause",
            "ToolContext.step",
            "ToolContext.report_cost",
            "Sensitive",
            "McpServer",
            "McpServer.tool",
            "McpServer.tools",
            "ask_user",
            "get_user_input",
        ),
    ),
    Part(
        module="app.authoring",
        heading="What calls ask",
        names=("Approval", "Question", "External", "Fill", "Declined"),
    ),
    Part(
        module="app.authoring",
        heading="Steps",
        names=(
            "Step",
            "StepContext",
            "StepContext.input",
            "Steps",
            "Condition",
            "Router",
            "Loop",
            "Parallel",
        ),
    ),
    Part(
        module="app.authoring",
        heading="What steps ask",
        names=("Confirm", "AskInput", "Choose", "Review", "AskError"),
    ),
    Part(
        module="app.authoring",
        heading="Guardrails and judges",
        names=("ToolCall", "CallDecision", "Block", "Replace", "Retry", "ModelJudge"),
    ),
    Part(
        module="app.authoring",
        heading="Models",
        names=(
            "ScriptedModel",
            "call_tool",
            "call_tools",
            "reply_with",
            "ModelRouter",
            "ModelRequest",
            "ModelMessage",
            "OfferedTool",
            "Reply",
            "Usage",
        ),
    ),
    Part(
        module="app.channels",
        heading="Channels",
        names=(
            "InboxChannel",
            "HttpCallbackChannel",
            "TerminalChannel",
            "AutoApproveChannel",
            "AutoRejectChannel",
        ),
    ),
    Part(
        module="app.authoring",
        heading="A channel of one's own",
        names=("Channel", "Channel.decide", "Channel.notify", "AskRequest", "Notice"),
    ),
    Part(
        module="app.authoring",
        heading="Mistakes",
        names=("AuthoringError", "WorkflowMistakes", "Mistake", "ScriptRanOut"),
    ),
    Part(
        module="app.testing",
        heading="Tests",
        names=(
            "Signoff",
            "Signoff.model",
            "Signoff.execute",
            "Signoff.resume",
            "Signoff.expire",
            "Run",
            "assert_paused",
            "assert_finished",
            "assert_failed",
            "assert_called",
            "NotSettled",
            "ScriptNeverUsed",
        ),
    ),
)

INNER: Final = frozenset(
    {
        *("AgentStep", "BuiltWorkflow", "ConditionNode", "FunctionStep", "GraphNode", "LoopNode"),
        *("ParallelNode", "RouterNode", "StepNode", "StepsNode", "WorkflowNode"),
        *("ChatModel", "Gate", "McpTool", "Script", "Tool", "ToolHost", "UnreadableSignature"),
    }
)
"""What is exported for the rest of the service and for types, and is never written down by a writer."""


def untold() -> set[str]:
    """What is exported, and neither on the page nor said to be inner."""
    told = {name.partition(".")[0] for part in PARTS for name in part.names}
    exported = {*app.authoring.__all__, *app.channels.__all__, *app.testing.__all__}
    return exported - told - INNER


def authoring() -> str:
    """The page."""
    code = griffe.load("app")
    return "\n\n".join(
        [
            "# What writers import",
            "Made from the code's own signatures and docstrings. How it is used: "
            "[Writing workflows](../writing-workflows.md); what each ask leads to: [Pauses](../pauses.md).",
            *(text for part in PARTS for text in _part(part, code)),
        ]
    )


def _part(part: Part, code: griffe.Object | griffe.Alias) -> Iterator[str]:
    yield f"## {part.heading}"
    yield f"From `{part.module}`:"
    for name in part.names:
        yield from _entry(name, _found(name, code.modules_collection, part.module))


def _found(name: str, modules: griffe.ModulesCollection, module: str) -> griffe.Object:
    outer, _, method = name.partition(".")
    # A module of the same name hides what is imported from it, so the import itself is followed.
    found = modules[modules[module].imports[outer]]
    return found.all_members[method] if method else found


def _entry(name: str, found: griffe.Object) -> Iterator[str]:
    yield f"### {name}"
    yield f"```python\n{_signature(name, found)}\n```"
    if found.docstring:
        for section in found.docstring.parse("google", warnings=False):
            yield _section(section)


def _section(section: griffe.DocstringSection) -> str:
    match section.kind:
        case griffe.DocstringSectionKind.parameters:
            rows = [f"| `{each.name}` | {_in_a_row(each.description)} |" for each in section.value]
            return "\n".join(["| | |", "|---|---|", *rows])
        case _:
            return inspect.cleandoc(str(section.value))


def _in_a_row(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def _signature(name: str, found: griffe.Object) -> str:
    match found:
        case griffe.Class() if "dataclass" in found.labels or _is_made(found):
            return _call(f"class {name}", list(found.parameters), "")
        case griffe.Class():
            return f"class {name}"
        case griffe.Function() if found.overloads:
            return "\n".join(_function(name, each) for each in found.overloads)
        case griffe.Function():
            return _function(name, found)
        case _:
            return name


def _is_made(found: griffe.Class) -> bool:
    return any(each.name not in ("self", "args", "kwargs") for each in found.parameters)


def _function(name: str, found: griffe.Function) -> str:
    opening = "async def " if "async" in found.labels else "def "
    given = f" -> {found.returns}" if found.returns is not None else ""
    return _call(opening + name, list(found.parameters), given)


def _call(opening: str, parameters: list[griffe.Parameter], ending: str) -> str:
    written = list(_written([each for each in parameters if each.name not in ("self", "cls")]))
    line = f"{opening}({', '.join(written)}){ending}"
    if len(line) <= 90:
        return line
    return "\n".join([f"{opening}(", *(f"    {each}," for each in written), f"){ending}"])


def _written(parameters: list[griffe.Parameter]) -> Iterator[str]:
    has_star = False
    for each in parameters:
        keyword = each.kind == griffe.ParameterKind.keyword_only
        if keyword and not has_star:
            yield "*"
        has_star = has_star or keyword or each.kind == griffe.ParameterKind.var_positional
        yield _parameter(each)


def _parameter(each: griffe.Parameter) -> str:
    stars = ""
    match each.kind:
        case griffe.ParameterKind.var_positional:
            stars = "*"
        case griffe.ParameterKind.var_keyword:
            stars = "**"
        case _:
            pass
    kind = f": {each.annotation}" if each.annotation is not None else ""
    is_shown = each.default is not None and not stars
    default = (f" = {each.default}" if kind else f"={each.default}") if is_shown else ""
    return f"{stars}{each.name}{kind}{default}"

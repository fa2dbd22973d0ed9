"""A workflow as a person reads it: a tree of its steps, with whom they ask, and where it may stop."""

from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from app.cli.durations import spoken
from app.cli.screen import joined, shown

Json = dict[str, Any]
_GRAPH = "graph"
_WHERE_IT_INTERRUPTS = "stops where the graph interrupts"


def outline(workflow: Json) -> Group:
    """The description of a workflow, as `GET /workflows/{name}` gives it, to be printed."""
    agents = {agent["name"]: agent for agent in workflow["agents"]}
    tree = Tree(_title(workflow))
    for line in _head(workflow):
        tree.add(line)
    _add_steps(tree, workflow["steps"], agents)
    return Group(tree, Text(), *_stops(workflow["stops"]))


def _title(workflow: Json) -> Text:
    return Text.assemble(
        shown(workflow["name"], "bold"),
        f" {workflow['version']}",
        (f"  shape {workflow['fingerprint'][:12]}", "dim"),
    )


def _head(workflow: Json) -> Iterator[Text]:
    yield joined("input:", _type_of(workflow["input_schema"]), by=" ")
    yield joined("output:", _type_of(workflow["output_schema"]), by=" ")
    channels = [f"{each['name']} ({each['type']})" for each in workflow["channels"]]
    yield joined("channels:", " · ".join(channels) or "none", by=" ")
    if workflow["history"]:
        yield Text(f"history: {workflow['history']} finished runs")
    if limits := workflow.get("limits"):
        yield limits_line(limits)
    yield from _checks({f"guards on {what}": each for what, each in workflow["guards"].items()})


def limits_line(limits: Json) -> Text:
    """Such as `limits: model_calls 12 (default) · tool_calls 8`."""
    said = (
        f"{name} {each['limit']}{' (default)' if each['default'] else ''}"
        for name, each in limits.items()
        if each["limit"] is not None
    )
    return Text("limits: " + " · ".join(said))


# ── Steps ────────────────────────────────────────────────────────────────────────────────────────


def _add_steps(tree: Tree, steps: Iterable[Json], agents: Json) -> None:
    for step in steps:
        _add_step(tree, step, agents)


def _add_step(tree: Tree, step: Json, agents: Json) -> None:
    branch = tree.add(_step_line(step))
    for ask in step["asks"]:
        branch.add(ask_line(ask) if step["type"] != _GRAPH else graph_line(ask))
    if step["on_error"] not in ("fail", "ask"):
        branch.add(f"when it fails: {step['on_error']}")
    if agent := agents.get(step.get("agent", "")):
        _add_agent(branch, agent)
    for name in ("then", "otherwise"):
        if step.get(name):
            _add_steps(branch.add(Text(name, "italic")), step[name], agents)
    _add_steps(branch, [*step.get("choices", []), *step.get("steps", [])], agents)


def _step_line(step: Json) -> Text:
    more = Text(f"  {_type_words(step)}", "dim")
    description = joined(" ", step["description"], by=" ") if step["description"] else Text()
    return Text.assemble(shown(step["name"], "bold"), more, description)


def _type_words(step: Json) -> str:
    kind = step["type"]
    if "max_iterations" in step:
        return f"{kind}, at most {step['max_iterations']} times"
    if select := step.get("select"):
        several = ", several" if select.get("multiple") else ""
        return f"{kind}, chosen by a {select['by']}{several}"
    if inner := step.get("workflow"):
        return f"{kind} {inner['name']} {inner['version']}"
    return kind


def _add_agent(branch: Tree, agent: Json) -> None:
    branch.add(joined("model:", agent["model"], by=" "))
    branch.add(limits_line(agent["limits"]))
    for line in _checks(agent["guardrails"]):
        branch.add(line)
    for tool in agent["tools"]:
        arguments = f"({', '.join(_fields_of(tool['arguments_schema']))})"
        name = Text.assemble(shown(tool["name"], "cyan"), shown(arguments), "  ")
        line = name + shown(_first_line(tool), "dim")
        told = branch.add(line)
        for check in _checks({name: tool[name] for name in ("before_call", "after_call")}):
            told.add(check)
        for ask in tool["asks"]:
            told.add(ask_line(ask))
        if tool["on_crash"] == "ask":
            told.add("after a crash: a person says whether it happened")


def _checks(named: Json) -> Iterator[Text]:
    """Functions that look at what happens: `before_tool_call: no_round_sums`."""
    for moment, functions in named.items():
        if functions:
            yield joined(f"{moment}:", ", ".join(functions), by=" ")


def _first_line(tool: Json) -> str:
    return (tool["description"] or "").strip().partition("\n")[0]


# ── Asks ─────────────────────────────────────────────────────────────────────────────────────────


def ask_line(ask: Json) -> Text:
    """Such as `approval → finance · not always · 2 have to agree · within 1 d, else reject`."""
    message = f"“{ask['message']}”" if ask["message"] else ""
    asked = Text.assemble((ask["kind"], "yellow"), " → ", shown(ask["channel"], "bold"))
    return joined(asked, message, *_terms(ask))


def graph_line(ask: Json) -> Text:
    """The same of a graph, which says itself when it asks, and what."""
    asked = Text.assemble((_WHERE_IT_INTERRUPTS, "yellow"), " → ", shown(ask["channel"], "bold"))
    message = f"“{ask['message']}”" if ask["message"] else ""
    return joined(asked, message, *_terms({**ask, "conditional": False}))


def _terms(ask: Json) -> Iterator[str]:
    yield "not always" if ask["conditional"] else ""
    yield f"{ask['quorum']} have to agree" if ask["quorum"] > 1 else ""
    yield f"by {', '.join(ask['approvers'])}" if ask["approvers"] else ""
    yield f"rejected: {ask['on_reject']}" if ask["on_reject"] else ""
    if ask["expires_after_seconds"]:
        yield f"within {spoken(ask['expires_after_seconds'])}, else {ask['on_expire']}"
    yield f"then also {ask['escalate_to']}" if ask["escalate_to"] else ""


def _stops(stops: list[Json]) -> Iterator[Text | Table]:
    if not stops:
        yield Text("It stops nowhere by what is declared; a tool may ask by itself.")
        return
    yield Text("It may stop here, and where a tool asks by itself:")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
    for stop in stops:
        of_a_graph = stop["level"] == "executor" and stop["tool"] is None
        what = "where the graph interrupts" if of_a_graph else stop["kind"]
        table.add_row(shown(stop["path"]), shown(stop["tool"] or ""), what, f"→ {stop['channel']}")
    yield table


# ── Types ────────────────────────────────────────────────────────────────────────────────────────


def _type_of(schema: Json) -> str:
    """A type in a few words: an object by its fields, anything else by its name."""
    if not schema:
        return "anything"
    if fields := _fields_of(schema):
        return f"{schema.get('title', 'object')} {{{', '.join(fields)}}}"
    return str(schema.get("title") or schema.get("type") or "anything")


def _fields_of(schema: Json) -> list[str]:
    needed = schema.get("required", [])
    return [name if name in needed else f"{name}?" for name in schema.get("properties", {})]

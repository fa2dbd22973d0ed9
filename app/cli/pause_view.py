"""A pause as a person reads it, and what became of it and of its run."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, cast

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from app.cli.durations import spoken
from app.cli.screen import joined, shown, value_text

Json = dict[str, Any]
_LONGEST = 120


def question(pause: Json) -> Group:
    """All that a decider has to see."""
    return Group(
        Text.assemble(("⏸ ", "yellow"), shown(pause["message"], "bold")),
        Text.assemble((joined(*_about(pause)).plain, "dim")),
        *_matter(pause),
    )


def _about(pause: Json) -> Iterator[str]:
    yield pause["kind"]
    yield f"{pause['workflow']}, step {pause['step']['name']}"
    yield f"asked: {pause['channel']}"
    yield f"for {pause['requested_by']}" if pause["requested_by"] else ""
    policy = pause["policy"]
    if policy["quorum"] > 1:
        yield f"{len(pause['votes'])} of {policy['quorum']} agree"
    yield f"by {', '.join(policy['approvers'])}" if policy["approvers"] else ""
    yield f"open until {clock_time(pause['expires_at'])}" if pause["expires_at"] else ""


def _matter(pause: Json) -> Iterator[RenderableType]:
    if call := pause["call"]:
        description = (call["description"] or "").strip().partition("\n")[0]
        yield Text.assemble(shown(call["tool"], "cyan"), "  ", shown(description, "dim"))
        yield value_table(call["arguments"])
    if "override_output" in pause["allowed"] or pause["output"] is not None:
        yield value_table(pause["output"])
    if error := pause["error"]:
        yield joined(shown(error["code"], "red"), error["message"], by=": ")
    if branch := pause["branch"]:
        yield joined("approved, it takes:", branch, by=" ")
    for choice in pause["choices"] or ():
        yield Text("  ") + joined(shown(choice["name"], "bold"), choice.get("description"), by="  ")


def value_table(value: Any) -> RenderableType:
    """A value; an object by its members, a line each."""
    if not isinstance(value, dict):
        return Text("  ") + shown(value_text(value))
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
    for name, member in cast("Json", value).items():
        table.add_row(shown(name, "dim"), shown(value_text(member)))
    return table


def clock_time(text: str) -> str:
    """A time of the service by this machine's clock and time zone."""
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


# ── What became of it ────────────────────────────────────────────────────────────────────────────


def outcome(pause: Json) -> Text:
    """How a pause was closed, by whom and when; that it waits where it is open."""
    decision = pause["decision"]
    if decision is None:
        return Text("It is open." if pause["status"] == "open" else f"It is {pause['status']}.")
    when = clock_time(decision["decided_at"])
    said = joined(_verdict(decision), f"by {decision['by']}", when, by=" ")
    return joined(said, decision.get("feedback"), by=": ")


def _verdict(decision: Json) -> str:
    if action := decision.get("action"):
        return f"{action},"
    match decision.get("approved"):
        case False:
            return "rejected"
        case True:
            return "approved"
        case _:
            return f"answered {value_text(decision.get('value'))}"


def run_now(run: Json) -> Text:
    """What became of a run."""
    match run["status"]:
        case "completed":
            return Text("The run is completed.", "green")
        case "failed":
            error = run["error"]
            return joined(
                Text("The run failed", "red"), f"{error['code']}: {error['message']}", by=": "
            )
        case "cancelled":
            return joined(Text("The run is cancelled", "yellow"), run["stop_reason"], by=": ")
        case "paused":
            return joined(Text("The run waits for a decision", "yellow"), *_open(run), by=": ")
        case _:
            return Text("The run goes on.")


def _open(run: Json) -> Iterable[str]:
    return [", ".join(_how_far(each) for each in run["pauses"] if each["status"] == "open")]


def _how_far(pause: Json) -> str:
    """An open pause by its id, with how many agree where several have to."""
    quorum = pause["policy"]["quorum"]
    return f"{pause['id']} ({len(pause['votes'])} of {quorum} agree)" if quorum > 1 else pause["id"]


# ── Many ─────────────────────────────────────────────────────────────────────────────────────────


def listing(pauses: Iterable[Json]) -> Table:
    """Pauses, each with the first line of its message; an id is never cut short."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("id", "kind", "workflow", "channel", "since", "left"):
        table.add_column(name, no_wrap=True, overflow="fold" if name == "id" else "ellipsis")
    table.add_column("question")
    for pause in pauses:
        table.add_row(
            shown(pause["id"], "bold"),
            pause["kind"],
            shown(pause["workflow"]),
            shown(pause["channel"]),
            _since(pause["opened_at"]),
            _left(pause),
            shown(_first_line(pause["message"])),
        )
    return table


def _first_line(text: str) -> str:
    """Of a text that is not blank, cut where it is long."""
    first, *more = text.strip().splitlines() or [""]
    return f"{first[:_LONGEST].rstrip()}…" if more or len(first) > _LONGEST else first


def _since(opened_at: str) -> str:
    return spoken(-_seconds_until(opened_at))


def _left(pause: Json) -> str:
    if pause["status"] != "open":
        return pause["status"]
    return spoken(_seconds_until(pause["expires_at"])) if pause["expires_at"] else "no deadline"


def _seconds_until(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() - datetime.now(UTC).timestamp()  # noqa: TID251 - for a reader's eyes

"""`signoff decide`: decides one pause of a running service."""

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import orjson
import typer

from app.cli.client import HERE, Key, Problem, Url, client_of, open_pauses, path_of
from app.cli.exits import CommandFailed, ExitCode
from app.cli.options import chosen, nothing_to_choose, refused, value_option, ways
from app.cli.pause_view import outcome, question, run_now
from app.cli.prompt import Left
from app.cli.questions import ask_decision
from app.cli.screen import joined, screen, show_json

command = typer.Typer(add_completion=False)

Json = dict[str, Any]


@command.command()
def decide(
    pause_id: Annotated[
        str, typer.Argument(help="As `signoff pauses` shows it.", autocompletion=open_pauses)
    ],
    approve: Annotated[bool, typer.Option("--approve", help="Yes.")] = False,
    reject: Annotated[bool, typer.Option("--reject", "--decline", help="No.")] = False,
    value: Annotated[str | None, typer.Option(help="The answer, as JSON.")] = None,
    text: Annotated[str | None, typer.Option(help="The answer, as text.")] = None,
    choose: Annotated[
        list[str] | None, typer.Option(help="A way on; again for several, in their order.")
    ] = None,
    action: Annotated[str | None, typer.Option(help="What to do: retry, skip, fail, …")] = None,
    arguments: Annotated[
        str | None, typer.Option(help="With --approve: other arguments, as JSON.")
    ] = None,
    output: Annotated[
        str | None, typer.Option(help="With --approve: another output, as JSON.")
    ] = None,
    feedback: Annotated[str | None, typer.Option(help="Why.")] = None,
    by: Annotated[
        str | None, typer.Option(help="Who decides, if not your account or the key's owner.")
    ] = None,
    wait: Annotated[int, typer.Option(min=0, max=60, help="Seconds to wait for the run.")] = 3,
    url: Url = HERE,
    key: Key = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the run as JSON.")] = False,
) -> None:
    """Decides a pause; asks for the decision in the terminal where none is given."""
    given = _given(
        approve=approve, reject=reject, value=value, text=text, choose=choose, action=action
    )
    overrides = _overrides(arguments=arguments, output=output)
    with client_of(url, key, by=by) as client:
        pause = client.get(path_of(pause_id))
        decision = given | overrides if given else _asked(pause)
        if choose:
            decision |= {"value": _chosen(choose, pause)}
        if feedback:
            decision["feedback"] = feedback
        try:
            run = client.decide(pause, decision, wait=wait)
        except Problem as problem:
            raise _in_our_words(problem, pause, text=text, choose=choose, value=value) from problem
    if as_json:
        show_json(run)
    else:
        taken = next(each for each in run["pauses"] if each["id"] == pause_id)
        screen().print(joined(_said(taken), run_now(run), by="\n"))


def _given(
    *,
    approve: bool,
    reject: bool,
    value: str | None,
    text: str | None,
    choose: list[str] | None,
    action: str | None,
) -> Json:
    """The decision that the options make; empty where they make none."""
    decisions: list[Json] = []
    if approve or reject:
        decisions.append({"approved": approve})
    if choose:
        decisions.append({"value": choose})
    if action is not None:
        outcome = {} if value is None else {"value": _json("--value", value)}
        decisions.append({"action": action, **outcome})
    elif value is not None:
        decisions.append({"value": _json("--value", value)})
    if text is not None:
        decisions.append({"value": text})
    if len(decisions) > 1 or (approve and reject):
        raise CommandFailed(
            "One decision at a time: --approve, --reject, --value, --text, --choose or --action."
        )
    return decisions[0] if decisions else {}


def _in_our_words(problem: Problem, pause: Json, **answers: object) -> CommandFailed:
    """What the service says of a decision, by the options that made it."""
    if problem.reason != "invalid_decision":
        return problem
    given = [f"--{name}" for name, answer in answers.items() if answer]
    said = refused(problem, pause, answered_by=given[0] if given else None)
    return CommandFailed(said, exit_code=problem.exit_code)


def _chosen(names: list[str], pause: Json) -> object:
    if pause["status"] == "open" and value_option(pause) != "--choose":
        raise CommandFailed(nothing_to_choose(pause))
    return chosen(names, pause)


def _overrides(**given: str | None) -> Json:
    return {
        f"override_{name}": _json(f"--{name}", text)
        for name, text in given.items()
        if text is not None
    }


def _json(option: str, text: str) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise CommandFailed(f"{option} is no JSON: {error.msg}.") from error


def _asked(pause: Mapping[str, Any]) -> Json:
    pause = dict(pause)
    if pause["status"] != "open":
        said = joined("It is decided already", outcome(pause), by=": ").plain
        raise CommandFailed(said, exit_code=ExitCode.TOO_LATE)
    if not sys.stdin.isatty():
        raise CommandFailed(f"What is the decision? It takes {' or '.join(ways(pause))}.")
    screen().print(question(pause))
    try:
        return ask_decision(pause)
    except Left:
        raise CommandFailed(
            "\nNothing is decided; the pause stays open.", exit_code=ExitCode.INTERRUPTED
        ) from None


def _said(pause: Json) -> object:
    return outcome(pause) if pause["status"] != "open" else "Your vote is taken."

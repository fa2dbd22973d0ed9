"""A conversation with a workflow: what is typed becomes a run, and what the run asks is asked here.

heard ──► run ──► asked, decided ──► … ──► answered ──► heard
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn
from urllib.parse import quote

from rich.text import Text

from app.cli import fields
from app.cli.client import Client, Problem, path_of
from app.cli.exits import CommandFailed, ExitCode
from app.cli.listening import Listener
from app.cli.pause_view import outcome, question, run_now, value_table
from app.cli.prompt import Abandoned, Declined, Left, ask, unless
from app.cli.questions import ask_decision
from app.cli.screen import screen, shown

Json = dict[str, Any]

ENDED: Final = {"completed", "failed", "cancelled"}


class Unfinished(Exception):
    """Whoever talked has left while a run is not at its end."""

    def __init__(self, run: Json, *, pause: Json | None, interrupted: bool) -> None:
        super().__init__()
        self.run = run
        self.pause = pause
        self.interrupted = interrupted


@dataclass(kw_only=True)
class Conversation:
    """Runs of one workflow in one thread. `thread` is None until the first is started."""

    client: Client
    workflow: Json
    thread: str | None = None
    _of_others: set[str] = field(default_factory=set[str])
    """Pauses that somebody else has to decide."""

    def talk(self) -> NoReturn:
        """Goes on until whoever talks leaves: raises `Left` between runs, `Unfinished` in one."""
        run = self._unfinished()
        while True:
            if run:
                self._to_its_end(run)
            run = self._started(self._heard())

    def _heard(self) -> Any:
        """The input of the next run: a line where the workflow takes a text, else what it needs."""
        root = self.workflow["input_schema"]
        name = only_text(root)
        while True:
            try:
                if name is None:
                    return fields.ask_value("you", root, root)
                if line := ask("you:"):
                    return {name: line} if name else line
            except Declined:
                continue

    def _unfinished(self) -> Json | None:
        """The run that the thread is in the middle of."""
        if self.thread is None:
            return None
        try:
            active = self.client.get(f"/threads/{self.thread}")["active_run"]
        except Problem as problem:
            if problem.reason == "not_found":
                return None
            raise
        return self._run(self.thread, active["id"]) if active else None

    def _started(self, given: Any) -> Json | None:
        if self.thread is None:
            self.thread = self.client.post("/threads", {})["id"]
        body = {"workflow": self.workflow["name"], "input": given, "if_not_exists": "create"}
        try:
            return self.client.post(f"/threads/{self.thread}/runs", body, prefer="respond-async")
        except Problem as problem:
            if problem.exit_code is not ExitCode.FAILED:
                raise
            fields.complain(problem.message)
            return None

    def _to_its_end(self, run: Json) -> Json:
        """The run once it has ended. Raises `Unfinished`."""
        listener = Listener(
            client=self.client,
            run=run,
            shows_steps=len(self.workflow["steps"]) > 1,
            speaker=self.workflow["name"] if len(self.workflow["agents"]) == 1 else None,
        )
        try:
            while run["status"] not in ENDED:
                pause = self._next_question(run)
                run = self._decided(run, pause) if pause else self._later(run, listener)
        except KeyboardInterrupt:
            raise Unfinished(run, pause=None, interrupted=True) from None
        self._say(run, listener.text.last)
        return run

    def _next_question(self, run: Json) -> Json | None:
        for pause in run["pauses"]:
            if pause["status"] == "open" and pause["id"] not in self._of_others:
                if pause["you_may_decide"]:
                    return pause
                self._leave_to_others(pause, "Somebody else has to decide this")
        return None

    def _decided(self, run: Json, pause: Json) -> Json:
        """The run after the question was asked here, or was settled elsewhere meanwhile."""
        screen().print(question(pause))
        try:
            with unless(lambda: self._is_closed(pause)):
                decision = ask_decision(pause)
            return self.client.decide(pause, decision, wait=0)
        except Left as left:
            raise Unfinished(run, pause=pause, interrupted=left.interrupted) from None
        except Abandoned:
            screen().print(Text("\n") + self._outcome(pause))
        except Problem as problem:
            self._refused(pause, problem)
        return self._run(run["thread_id"], run["id"])

    def _is_closed(self, pause: Json) -> bool:
        try:
            return self.client.get(path_of(pause["id"]))["status"] != "open"
        except CommandFailed:
            return False  # what comes next says why

    def _outcome(self, pause: Json) -> Text:
        return outcome(self.client.get(path_of(pause["id"])))

    def _refused(self, pause: Json, problem: Problem) -> None:
        """Says why; where the decision may be corrected, the pause is asked again, being still open."""
        match problem.exit_code:
            case ExitCode.REFUSED:
                self._leave_to_others(pause, problem.message)
            case ExitCode.TOO_LATE:
                fields.complain(problem.message)
                screen().print(self._outcome(pause))
            case _:
                fields.complain(problem.message)

    def _leave_to_others(self, pause: Json, why: str) -> None:
        self._of_others.add(pause["id"])
        screen().print(question(pause))
        fields.complain(f"{why}: waiting (Ctrl-C leaves)")

    def _later(self, run: Json, listener: Listener) -> Json:
        """The run, once something has happened in it."""
        listener.listen()
        return self._run(run["thread_id"], run["id"])

    def _run(self, thread_id: str, run_id: str) -> Json:
        return self.client.get(f"/threads/{thread_id}/runs/{run_id}")

    def _say(self, run: Json, heard: str) -> None:
        """The output, where it was not `heard` already while it was written."""
        if run["status"] != "completed":
            screen().print(run_now(run))
            return
        output = run["output"]
        name = only_text(self.workflow["output_schema"])
        text: Any = output[name] if name and output is not None else output
        who = Text.assemble(shown(f"{self.workflow['name']}: ", "bold green"))
        if text == heard:
            return
        if isinstance(text, str):
            screen().print(who + shown(text))
        else:
            screen().print(who, value_table(text), sep="\n")


def only_text(schema: Mapping[str, Any]) -> str | None:
    """The only field of a schema, if it is a text; "" where the value is a text itself; else None."""
    wanted = fields.plain(schema, schema)
    if wanted.get("type") == "string" and not wanted.get("enum"):
        return ""
    properties = list(wanted.get("properties", {}).items())
    if len(properties) != 1:
        return None
    name, only = properties[0]
    return name if fields.plain(only, schema).get("type") == "string" else None


def only_workflow(client: Client, name: str | None) -> Json:
    """The workflow of that name, or the only one there is."""
    names: list[str] = [name] if name else _served_by(client)
    if len(names) != 1:
        raise CommandFailed(f"With which workflow? There is: {', '.join(names)}.")
    return client.get(f"/workflows/{quote(names[0], safe='')}")


def _served_by(client: Client) -> list[str]:
    return [each["name"] for each in client.get("/workflows")["items"]]

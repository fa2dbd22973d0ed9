"""A caller of the service's API, for commands: one answer, or one line that says why there is none."""

import os
import pwd
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated, Any, Final, cast
from urllib.parse import quote

import httpx
import typer

from app.cli.exits import CommandFailed, ExitCode

Json = dict[str, Any]

Url = Annotated[
    str, typer.Option("--url", envvar="SIGNOFF_URL", help="Where the service can be reached.")
]
Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        envvar="SIGNOFF_KEY",
        show_default=False,
        show_envvar=True,
        help="Your API key, where the service asks for one.",
    ),
]
HERE: Final = "http://127.0.0.1:8000"

_PATIENCE = httpx.Timeout(10, read=75)  # the service waits for a run for up to 60 s
_EXITS = {
    401: ExitCode.REFUSED,
    403: ExitCode.REFUSED,
    404: ExitCode.TOO_LATE,
    409: ExitCode.TOO_LATE,
    412: ExitCode.TOO_LATE,
}


class Problem(CommandFailed):
    """The service refuses, with a `code`. 422 is about the decision itself: it may be corrected."""

    def __init__(self, status: int, body: Json) -> None:
        self.errors: list[Json] = body.get("errors") or []
        self.reason = str(body.get("code", ""))
        self.status = status
        super().__init__(self._said(body), exit_code=_EXITS.get(status, ExitCode.FAILED))

    def _said(self, body: Json) -> str:
        if self.reason == "unauthenticated":
            return "The service asks for a key: give yours with --key, or in SIGNOFF_KEY."
        fields = [f"{each['pointer']}: {each['message']}" for each in self.errors]
        said = body.get("detail") or body.get("title") or f"The service answered {self.status}."
        if self.status == 401:
            return f"{said} It came from --key or SIGNOFF_KEY."
        return f"{said}" if not fields or fields[0] in said else f"{said} ({'; '.join(fields)})"


class Client:
    """Asks the service at one address. What goes wrong is a `CommandFailed`."""

    def __init__(self, http: httpx.Client, *, by: str | None) -> None:
        self.http = http
        self.by = by
        """Who decides, as far as the service does not know it by a key."""

    def get(self, path: str, **filters: object) -> Json:
        """What is at a path, of a list what has all of these."""
        query = {name: str(value) for name, value in filters.items() if value is not None}
        return self._ask("GET", path, params=query)

    def post(self, path: str, body: Json, **headers: str) -> Json:
        """The answer to a body; `headers` are written with underscores."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._ask("POST", path, json=body, headers=named)

    def decide(self, pause: Json, decision: Json, *, wait: int) -> Json:
        """The run after a decision about exactly what the pause shows."""
        said = {**decision, "by": self.by} if self.by else decision
        shown = {"if_match": f'"{pause["digest"]}"'} if pause["digest"] else {}
        body = {"pause_id": pause["id"], "decision": said}
        path = f"/threads/{pause['thread_id']}/resume"
        return self.post(path, body, prefer=f"wait={wait}", **shown)

    def _ask(self, method: str, path: str, **request: Any) -> Json:
        try:
            answer = self.http.request(method, path, **request)
        except httpx.HTTPError as error:
            raise unreachable(self.http.base_url, error) from error
        return _read(answer)


def _read(answer: httpx.Response) -> Json:
    try:
        body = cast("Json", answer.json())
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise CommandFailed(
            f"What answers at {answer.url.copy_with(path='/', query=None)} is no Signoff service "
            f"(status {answer.status_code}): look at --url."
        )
    if answer.is_error:
        raise Problem(answer.status_code, body)
    return body


def unreachable(url: object, error: httpx.HTTPError) -> CommandFailed:
    """Nobody answers there, or not in time."""
    how = f"did not answer in time at {url}" if isinstance(error, httpx.TimeoutException) else ""
    return CommandFailed(
        f"The service {how or f'cannot be reached at {url}'}: "
        "start one with `signoff serve`, or name its address with --url.",
        exit_code=ExitCode.UNREACHABLE,
    )


@contextmanager
def client_of(
    url: str,
    key: str | None,
    *,
    by: str | None = None,
    transport: httpx.BaseTransport | None = None,
) -> Generator[Client]:
    """A client of the service at an address. With a key the service knows who decides."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        http = httpx.Client(base_url=url, headers=headers, timeout=_PATIENCE, transport=transport)
    except httpx.InvalidURL as error:
        raise CommandFailed(f"--url {url!r} is no address: {error}.") from error
    with http:
        yield Client(http, by=by or (None if key else account()))


def open_pauses(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The ids that a shell may complete, each with its question; none where no service answers at once."""
    asked = context.params
    try:
        with client_of(asked.get("url") or HERE, asked.get("key")) as client:
            client.http.timeout = httpx.Timeout(1)
            found: list[Json] = client.get("/pauses", status="open", limit=100)["items"]
    except CommandFailed:
        return []
    return [(each["id"], each["message"]) for each in found if each["id"].startswith(incomplete)]


def path_of(pause_id: str) -> str:
    """The path of a pause, whatever was typed for its id."""
    return f"/pauses/{quote(pause_id, safe='')}"


def account() -> str:
    """The name of the operating-system account, which decides where there are no keys."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"

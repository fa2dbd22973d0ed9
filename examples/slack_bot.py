"""A bot that asks in Slack: people press a button, and the bot decides in their name.

    python examples/slack_bot.py --port 9001

    Signoff ──notice──► POST /notices ──chat.postMessage──► Slack: a message with two buttons
    Slack ──button──► POST /slack ──► the resume URL, by the person's name ──► Signoff
    Signoff ──pause.decided──► POST /notices ──chat.update──► Slack: the buttons go

It believes notices that are signed with the channel's secrets, and buttons that are signed by Slack. Slack's
ids become the names that Signoff knows by `SLACK_PEOPLE`; who is not in it decides nothing. The bot's key needs
the scopes `decisions:write` and `decisions:act_as`. To reject, Slack asks for a reason first, in a dialog.

Set `WEBHOOK_SECRETS` ("whsec_…"), `SIGNOFF_KEY`, `SLACK_BOT_TOKEN` ("xoxb-…", scope `chat:write`),
`SLACK_SIGNING_SECRET`, `SLACK_CHANNEL` ("C…") and `SLACK_PEOPLE` ({"U…": "maria"}).
"""

import argparse
import base64
import hashlib
import hmac
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, cast

Json = dict[str, Any]

TOLERANCE_SECONDS = 300
MAX_BODY_BYTES = 1_000_000
MAX_TEXT = 2_900  # of a section; Slack takes 3000 characters
REMEMBERED = 10_000


class NotBelieved(Exception):
    """A request that was not signed by whom it should come from, or came too late."""


class Unavailable(Exception):
    """Slack or Signoff did not do what was asked; `retry_after` where it said when to come back."""

    def __init__(self, message: str, retry_after: str | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True, kw_only=True)
class Config:
    """What the bot is told by its environment."""

    webhook_secrets: list[bytes] = field(repr=False)
    signoff_key: str = field(repr=False)
    slack_token: str = field(repr=False)
    slack_secret: str = field(repr=False)
    slack_channel: str
    people: Mapping[str, str]
    slack_api: str = "https://slack.com/api"

    @classmethod
    def read(cls) -> "Config":
        """From the environment; what is missing or wrong ends the bot."""
        said = os.environ
        try:
            secrets = [
                base64.b64decode(each.removeprefix("whsec_"), validate=True)
                for each in said["WEBHOOK_SECRETS"].split()
            ]
            return cls(
                webhook_secrets=secrets,
                signoff_key=said["SIGNOFF_KEY"],
                slack_token=said["SLACK_BOT_TOKEN"],
                slack_secret=said["SLACK_SIGNING_SECRET"],
                slack_channel=said["SLACK_CHANNEL"],
                people=json.loads(said["SLACK_PEOPLE"]),
                slack_api=said.get("SLACK_API_URL", cls.slack_api),
            )
        except KeyError as missing:
            raise SystemExit(f"Set {missing.args[0]}.") from None
        except ValueError:
            raise SystemExit("WEBHOOK_SECRETS or SLACK_PEOPLE cannot be read.") from None


# ── Who says so ──────────────────────────────────────────────────────────────────────────────────────


def verify_notice(headers: Mapping[str, str], body: bytes, secrets: list[bytes]) -> None:
    """Checks a notice as Standard Webhooks says."""
    webhook_id, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    _check_time(sent_at)
    signed = f"{webhook_id}.{sent_at}.".encode() + body
    right = [
        b"v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)) for secret in secrets
    ]
    given = headers.get("webhook-signature", "").encode().split()
    if not any(hmac.compare_digest(one, other) for one in given for other in right):
        raise NotBelieved("not signed with a secret of the channel")


def verify_slack(headers: Mapping[str, str], body: bytes, secret: str) -> None:
    """Checks a request of Slack: https://docs.slack.dev/authentication/verifying-requests-from-slack."""
    sent_at = headers.get("x-slack-request-timestamp", "")
    _check_time(sent_at)
    signed = b"v0:" + sent_at.encode() + b":" + body
    right = "v0=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    given = headers.get("x-slack-signature", "")
    if not hmac.compare_digest(given.encode(), right.encode()):
        raise NotBelieved("not signed by Slack")


def _check_time(sent_at: str) -> None:
    if not sent_at.isdecimal() or abs(time.time() - int(sent_at[:12])) > TOLERANCE_SECONDS:
        raise NotBelieved("too old, or without a time")


# ── What Slack shows ─────────────────────────────────────────────────────────────────────────────────


def question(pause: Json) -> list[Json]:
    """The blocks of a message about an open pause."""
    if "verdict" not in pause["allowed"]:
        inbox = pause["resume_url"].partition("/threads/")[0] + "/inbox"
        return [*_shown(pause), _actions(_button("open", "Answer in the inbox", url=inbox))]
    subject = json.dumps(
        {"pause": pause["id"], "url": pause["resume_url"], "digest": pause["digest"]}
    )
    return [
        *_shown(pause),
        _actions(
            _button("approve", "Approve", value=subject, style="primary"),
            _button("reject", "Reject …", value=subject, style="danger"),
        ),
    ]


def outcome(pause: Json) -> list[Json]:
    """The blocks of the same message once nothing can be decided any more."""
    decision = pause["decision"]
    text = f"*{pause['status']}*"
    if decision:
        verb = {True: "approved", False: "rejected"}.get(decision.get("approved"), "answered")
        text = f"*{verb}* by {escaped(decision['by'])}"
        if feedback := decision.get("feedback"):
            text += f": {escaped(feedback)}"
    elements = [{"type": "mrkdwn", "text": text[:MAX_TEXT]}]
    return [*_shown(pause), {"type": "context", "elements": elements}]


def why_dialog(subject: str) -> Json:
    """The dialog that asks for the reason of a rejection."""
    return {
        "type": "modal",
        "callback_id": "reject",
        "private_metadata": subject,
        "title": {"type": "plain_text", "text": "Reject"},
        "submit": {"type": "plain_text", "text": "Reject"},
        "close": {"type": "plain_text", "text": "Back"},
        "blocks": [
            {
                "type": "input",
                "block_id": "why",
                "optional": True,
                "label": {"type": "plain_text", "text": "Why? The model reads it."},
                "element": {
                    "type": "plain_text_input",
                    "action_id": "text",
                    "multiline": True,
                    "max_length": 2000,
                },
            }
        ],
    }


def _shown(pause: Json) -> list[Json]:
    blocks = [_section(f"*{escaped(pause['message'])}*")]
    shown = pause["call"]["arguments"] if pause["call"] else pause["output"]
    if shown is not None:
        text = json.dumps(shown, indent=2, ensure_ascii=False)
        blocks.append(_section(f"```{escaped(text)[: MAX_TEXT - 6]}```"))
    return blocks


def _section(text: str) -> Json:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text[:MAX_TEXT]}}


def _actions(*buttons: Json) -> Json:
    return {"type": "actions", "elements": list(buttons)}


def _button(action: str, text: str, **more: str) -> Json:
    return {
        "type": "button",
        "action_id": action,
        "text": {"type": "plain_text", "text": text},
        **more,
    }


def escaped(text: str) -> str:
    """Text that Slack shows as it stands: it mentions nobody and links nowhere."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# ── What the bot does ────────────────────────────────────────────────────────────────────────────────


class Bot:
    """What it has said in Slack about which pause, and the newest notice about each."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._lock = Lock()
        self._done: dict[str, None] = {}
        self._newest: dict[str, int] = {}
        self._messages: dict[str, str] = {}

    def hear(self, webhook_id: str, notice: Json) -> None:
        """Takes a notice; one that comes again, or is older than what is known, changes nothing."""
        pause, sequence = notice["data"]["pause"], notice["data"]["event_sequence"]
        if pause is None:
            return
        with self._lock:
            if webhook_id in self._done or sequence < self._newest.get(pause["id"], 0):
                return
            self._say(pause)
            _remember(self._done, webhook_id, None)
            _remember(self._newest, pause["id"], sequence)

    def _say(self, pause: Json) -> None:
        """Posts the message about a pause, or brings the one that is there up to date."""
        blocks = question(pause) if pause["status"] == "open" else outcome(pause)
        message: Json = {
            "channel": self.config.slack_channel,
            "text": escaped(pause["message"]),
            "blocks": blocks,
        }
        posted_at = self._messages.get(pause["id"])
        if posted_at is not None:
            self.slack("chat.update", {**message, "ts": posted_at})
        elif pause["status"] == "open":
            answer = self.slack("chat.postMessage", message)
            _remember(self._messages, pause["id"], answer["ts"])

    def press(self, payload: Json) -> None:
        """Takes a pressed button or a filled dialog, as `block_actions` and `view_submission` say it."""
        if payload["type"] == "view_submission":
            view = payload["view"]
            why = view["state"]["values"]["why"]["text"]["value"]
            self._decide(payload, json.loads(view["private_metadata"]), approved=False, why=why)
        elif payload["type"] == "block_actions":
            action = payload["actions"][0]
            if action["action_id"] == "reject":
                dialog = why_dialog(action["value"])
                self.slack("views.open", {"trigger_id": payload["trigger_id"], "view": dialog})
            elif action["action_id"] == "approve":
                self._decide(payload, json.loads(action["value"]), approved=True)

    def _decide(
        self, payload: Json, subject: Json, *, approved: bool, why: str | None = None
    ) -> None:
        """Decides in the name of who pressed; what is refused, that person alone is told."""
        user = payload["user"]["id"]
        by = self.config.people.get(user)
        if by is None:
            self._whisper(user, "Signoff does not know you, so you cannot decide here.")
            return
        decision: Json = {"approved": approved, "by": by}
        if why:
            decision["feedback"] = why
        refusal = self._resume(subject, decision)
        if refusal:
            self._whisper(user, f"That was not taken: {refusal}")

    def _resume(self, subject: Json, decision: Json) -> str | None:
        """Sends the decision; why it was refused, if it was. A press that comes twice is one decision."""
        body = {"pause_id": subject["pause"], "decision": decision}
        headers = {
            "authorization": f"Bearer {self.config.signoff_key}",
            "prefer": "respond-async",
            "idempotency-key": hashlib.sha256(json.dumps(body).encode()).hexdigest(),
        }
        if subject["digest"]:
            headers["if-match"] = f'"{subject["digest"]}"'
        try:
            _post(subject["url"], body, headers)
        except urllib.error.HTTPError as refused:
            with refused:
                return str(json.loads(refused.read() or b"{}").get("detail", refused.code))
        except OSError:
            return "Signoff cannot be reached. Press again in a moment."
        return None

    def _whisper(self, user: str, text: str) -> None:
        channel = self.config.slack_channel
        self.slack("chat.postEphemeral", {"channel": channel, "user": user, "text": escaped(text)})

    def slack(self, method: str, arguments: Json) -> Json:
        """One call of Slack's Web API."""
        headers = {"authorization": f"Bearer {self.config.slack_token}"}
        try:
            answer = _post(f"{self.config.slack_api}/{method}", arguments, headers)
        except urllib.error.HTTPError as refused:
            with refused:
                raise Unavailable(method, refused.headers.get("retry-after")) from None
        except OSError as lost:
            raise Unavailable(method) from lost
        if not answer.get("ok"):
            raise Unavailable(f"{method}: {answer.get('error')}")
        return answer


def _remember(memory: dict[str, Any], key: str, value: Any) -> None:
    memory[key] = value
    if len(memory) > REMEMBERED:
        del memory[next(iter(memory))]


def _post(url: str, body: Json, headers: Mapping[str, str]) -> Json:
    request = urllib.request.Request(  # noqa: S310  # Slack's API, or a URL that Signoff signed
        url,
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json; charset=utf-8", **headers},
    )
    with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310  # as above
        return json.loads(answer.read() or b"{}")


# ── Its two routes ───────────────────────────────────────────────────────────────────────────────────


class BotServer(ThreadingHTTPServer):
    """The bot behind its routes."""

    def __init__(self, address: tuple[str, int], config: Config) -> None:
        super().__init__(address, Handler)
        self.bot = Bot(config)


class Handler(BaseHTTPRequestHandler):
    """`/notices` for Signoff, `/slack` for Slack."""

    timeout = 10

    def do_POST(self) -> None:
        """Reads, verifies, acts."""
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or len(length) > 7 or int(length) > MAX_BODY_BYTES:
            return self._reply(413)
        body = self.rfile.read(int(length))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            self._take(headers, body)
        except NotBelieved as wrong:
            self._reply(401, {"error": str(wrong)})
        except Unavailable as error:
            after = {"retry-after": error.retry_after} if error.retry_after else {}
            self._reply(503, {"error": str(error)}, after)

    def _take(self, headers: Mapping[str, str], body: bytes) -> None:
        bot = cast("BotServer", self.server).bot
        match self.path:
            case "/notices":
                verify_notice(headers, body, bot.config.webhook_secrets)
                bot.hear(headers["webhook-id"], json.loads(body))
                self._reply(204)
            case "/slack":
                verify_slack(headers, body, bot.config.slack_secret)
                [payload] = urllib.parse.parse_qs(body.decode())["payload"]
                # Slack wants its answer within three seconds: first that, then the rest.
                self._reply(200)
                Thread(target=_press, args=(bot, json.loads(payload)), daemon=True).start()
            case _:
                self._reply(404)

    def _reply(
        self, status: int, answer: Json | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        body = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        if status != 204:
            self.send_header("content-length", str(len(body)))
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _press(bot: Bot, payload: Json) -> None:
    try:
        bot.press(payload)
    except Unavailable as error:
        print(f"Slack did not take it: {error}", flush=True)  # noqa: T201


def main() -> None:
    """Serves until it is stopped."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--host", default="127.0.0.1")
    options.add_argument("--port", type=int, default=9001)
    chosen = options.parse_args()
    with BotServer((chosen.host, chosen.port), Config.read()) as server:
        print(f"The bot listens on http://{chosen.host}:{server.server_port}/", flush=True)  # noqa: T201
        server.serve_forever()


if __name__ == "__main__":
    main()

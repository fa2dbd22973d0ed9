"""A bot that approves by rule: one HTTP handler, nothing but Python's own library.

    WEBHOOK_SECRETS="whsec_…" python examples/approval_bot.py --port 9000

It takes notices of opened pauses, believes only what is signed with one of its secrets, and decides what
its rule has an opinion on: at once in its answer, or with `--later` by a request of its own to the resume
URL that the notice names. What the rule leaves open waits for a person. A notice that comes again gets the
same answer; one that is older than what the bot knows about the pause is dropped.
"""

import argparse
import base64
import hashlib
import hmac
import json
import os
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any, cast

Decision = dict[str, Any]

TOLERANCE_SECONDS = 300
MAX_BODY_BYTES = 1_000_000
REMEMBERED = 10_000


def decide(pause: Mapping[str, Any]) -> Decision | None:
    """The rule: e-mails inside example.com may go out, ones to nobody may not; a person has the rest."""
    call = pause.get("call")
    if pause.get("kind") != "approval" or call is None or call["tool"] != "send_email":
        return None
    recipient = str(call["arguments"].get("to", ""))
    if recipient.count("@") != 1:
        return {"approved": False, "feedback": "there is nobody to send this to"}
    if recipient.endswith("@example.com"):
        return {"approved": True, "feedback": "stays in the house"}
    return None


class WrongNotice(Exception):
    """A notice that did not come from the service, or came too late."""


def verify(headers: Mapping[str, str], body: bytes, secrets: list[bytes], now: float) -> None:
    """Checks a notice as Standard Webhooks says; raises `WrongNotice`."""
    webhook_id, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not sent_at.isdecimal() or abs(now - int(sent_at[:12])) > TOLERANCE_SECONDS:
        raise WrongNotice("too old, or without a time")
    signed = f"{webhook_id}.{sent_at}.".encode() + body
    right = [
        b"v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)) for secret in secrets
    ]
    for given in headers.get("webhook-signature", "").encode().split():
        if any(hmac.compare_digest(given, each) for each in right):
            return
    raise WrongNotice("not signed with a secret of ours")


class Bot:
    """What the bot remembers: its answers by `webhook-id`, and the newest notice about each pause."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._answers: OrderedDict[str, Decision | None] = OrderedDict()
        self._newest: OrderedDict[str, int] = OrderedDict()

    def answer(self, webhook_id: str, notice: Mapping[str, Any]) -> Decision | None:
        """The decision to give; the same one whenever the notice comes again."""
        with self._lock:
            if webhook_id not in self._answers:
                _remember(self._answers, webhook_id, self._consider(notice))
            return self._answers[webhook_id]

    def _consider(self, notice: Mapping[str, Any]) -> Decision | None:
        pause, sequence = notice["data"].get("pause"), notice["data"].get("event_sequence", 0)
        if pause is None or sequence < self._newest.get(pause["id"], 0):
            return None
        _remember(self._newest, pause["id"], sequence)
        is_open = notice["type"] == "pause.opened" and pause["status"] == "open"
        return decide(pause) if is_open else None


def _remember(memory: OrderedDict[str, Any], key: str, value: Any) -> None:
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > REMEMBERED:
        memory.popitem(last=False)


def resume(data: Mapping[str, Any], decision: Decision) -> int:
    """Decides by a request of its own, with the token for this one pause; the status to answer with."""
    request = urllib.request.Request(  # noqa: S310  # the service itself signed this URL
        data["reply"]["url"],
        data=json.dumps({"pause_id": data["pause"]["id"], "decision": decision}).encode(),
        headers={
            "content-type": "application/json",
            "authorization": f"Bearer {data['reply']['token']}",
            "prefer": "respond-async",
        },
    )
    try:
        urllib.request.urlopen(request, timeout=5).close()  # noqa: S310  # as above
    except urllib.error.HTTPError as refusal:
        refusal.close()
        # Refused for good: mostly because somebody was faster. Else the notice shall come again.
        return 204 if refusal.code < 500 and refusal.code != 429 else 503
    except OSError:
        return 503
    return 204


class BotServer(ThreadingHTTPServer):
    """The bot behind its one route."""

    def __init__(self, address: tuple[str, int], *, secrets: list[bytes], later: bool) -> None:
        super().__init__(address, Handler)
        self.bot = Bot()
        self.secrets = secrets
        self.later = later


class Handler(BaseHTTPRequestHandler):
    """Answers one notice: 200 with a decision, 204 without one, 401 if it is not to be believed."""

    timeout = 10

    def do_POST(self) -> None:
        """Reads, verifies, decides."""
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or len(length) > 7 or int(length) > MAX_BODY_BYTES:
            return self._reply(413)
        body = self.rfile.read(int(length))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            verify(headers, body, self._ours.secrets, time.time())
        except WrongNotice as wrong:
            return self._reply(401, {"error": str(wrong)})
        return self._decide(headers["webhook-id"], json.loads(body))

    def _decide(self, webhook_id: str, notice: Mapping[str, Any]) -> None:
        decision = self._ours.bot.answer(webhook_id, notice)
        if decision is None:
            return self._reply(204)
        if self._ours.later:
            return self._reply(resume(notice["data"], decision))
        return self._reply(200, {"decision": decision})

    @property
    def _ours(self) -> BotServer:
        return cast("BotServer", self.server)

    def _reply(self, status: int, answer: Mapping[str, Any] | None = None) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(b"" if answer is None else json.dumps(answer).encode())


def secrets_from(text: str) -> list[bytes]:
    """The keys of `whsec_…` secrets, space separated; at least one."""
    try:
        keys = [
            base64.b64decode(each.removeprefix("whsec_"), validate=True) for each in text.split()
        ]
    except ValueError:
        keys = []
    if not keys or not all(keys):
        raise SystemExit("Set WEBHOOK_SECRETS to the channel's secrets: whsec_…, space separated.")
    return keys


def main() -> None:
    """Serves until it is stopped."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--host", default="127.0.0.1")
    options.add_argument("--port", type=int, default=9000)
    options.add_argument("--later", action="store_true", help="decide by a request of its own")
    chosen = options.parse_args()
    secrets = secrets_from(os.environ.get("WEBHOOK_SECRETS", ""))
    with BotServer((chosen.host, chosen.port), secrets=secrets, later=chosen.later) as server:
        print(f"The bot listens on http://{chosen.host}:{server.server_port}/", flush=True)  # noqa: T201
        server.serve_forever()


if __name__ == "__main__":
    main()

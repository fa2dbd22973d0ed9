"""Notices about pauses that never were, as the service would send them."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from app.domain.ids import new_delivery_id, new_pause_id, new_run_id, new_thread_id
from app.domain.json import Json

_SCHEMA = {
    "type": "object",
    "properties": {
        "to": {"type": "string"},
        "subject": {"type": "string"},
        "body": {"type": "string"},
    },
    "required": ["to", "subject", "body"],
}
_SHOWN: dict[str, Json] = {
    "workflow": "errands",
    "sequence": 1,
    "status": "open",
    "level": "executor",
    "kind": "approval",
    "step": {"name": "assistant", "path": "errands/assistant", "index": 0, "type": "agent"},
    "agent": "assistant",
    "call": {
        "id": "call_0123456789abcdef0123456789abcdef",
        "provider_call_id": None,
        "tool": "send_email",
        "description": "Sends an e-mail.",
        "arguments": {"to": "boss@example.com", "subject": "Day off", "body": "On Friday?"},
        "arguments_schema": _SCHEMA,
        "sensitive_paths": [],
    },
    "position": {"index": 0, "of": 1},
    "message": "assistant wants to call send_email",
    "options": None,
    "choices": None,
    "output": None,
    "error": None,
    "branch": None,
    "allowed": ["verdict", "override_arguments"],
    "response_schema": {
        "type": "object",
        "properties": {"approved": {"type": "boolean"}},
        "required": ["approved"],
    },
    "channel": "check",
    "policy": {"approvers": [], "quorum": 1, "allow_requester": False},
    "votes": [],
    "requested_by": None,
    "metadata": {},
    "you_may_decide": True,
    "escalated_to": None,
    "digest": "d5853cade206deed981cef7c7449f98e846120ec517bbab98ecefde4c6689e3f",
    "decision": None,
}
_BY_DEADLINE = {"approved": False, "by": "system:deadline", "via": "deadline"}
_BY_ANOTHER = {"approved": True, "by": "somebody else", "via": "api"}


@dataclass(frozen=True, kw_only=True)
class Notice:
    """One of them: its `webhook-id` and the JSON of its body."""

    id: str = field(default_factory=new_delivery_id)
    body: dict[str, Json]


@dataclass(frozen=True, kw_only=True)
class Story:
    """A pause in a thread of its own, and how its notices look.

    Args:
        service: The URL that decisions are sent to by a request of their own.
        shown: What the pause shows in place of an e-mail to be approved.
    """

    service: str
    shown: Mapping[str, Json]
    thread_id: str = field(default_factory=new_thread_id)
    run_id: str = field(default_factory=new_run_id)
    pause_id: str = field(default_factory=new_pause_id)
    token: str = field(default_factory=lambda: f"check_{os.urandom(24).hex()}", repr=False)
    began: float = field(default_factory=time.time)

    def opened(self, sequence: int = 1) -> Notice:
        """Somebody has to decide."""
        return self._about_pause("pause.opened", sequence, self._pause())

    def reminded(self, sequence: int = 2) -> Notice:
        """Nobody has decided yet."""
        return self._about_pause("pause.reminder", sequence, self._pause())

    def decided(self, sequence: int = 3) -> Notice:
        """Somebody else was faster."""
        pause = self._closed("decided", _BY_ANOTHER)
        return self._about_pause("pause.decided", sequence, pause)

    def opened_but_expired(self, sequence: int = 1) -> Notice:
        """That it was opened is told only when its deadline is over."""
        return self._about_pause("pause.opened", sequence, self._closed("expired", _BY_DEADLINE))

    def of_the_future(self, sequence: int = 1) -> Notice:
        """A type and members that no version of the service has yet."""
        body = self._about_pause("pause.pondered", sequence, self._pause()).body
        body["data"] |= {"mood": "pensive", "pause": {**body["data"]["pause"], "colour": "blue"}}
        return Notice(body={**body, "trace": "0af7651916cd43dd8448eb211c80319c"})

    def _about_pause(self, event_type: str, sequence: int, pause: dict[str, Json]) -> Notice:
        is_open = pause["status"] == "open"
        data = {
            "event_sequence": sequence,
            "thread_id": self.thread_id,
            "run_id": self.run_id,
            "workflow": {"name": pause["workflow"], "version": "1"},
            "run_status": "paused" if is_open else "running",
            "pause": pause,
            "run": None,
            "reply": self._reply(pause) if is_open else None,
        }
        return Notice(
            body={"type": event_type, "timestamp": _iso(self.began + sequence / 1000), "data": data}
        )

    def _reply(self, pause: dict[str, Json]) -> dict[str, Json]:
        return {
            "url": pause["resume_url"],
            "token": self.token,
            "expires_at": pause["expires_at"],
        }

    def _pause(self) -> dict[str, Any]:
        return {
            **_SHOWN,
            **self.shown,
            "id": self.pause_id,
            "thread_id": self.thread_id,
            "run_id": self.run_id,
            "resume_url": f"{self.service}/threads/{self.thread_id}/resume",
            "opened_at": _iso(self.began),
            "expires_at": _iso(self.began + timedelta(hours=1).total_seconds()),
        }

    def _closed(self, status: str, decision: dict[str, Json]) -> dict[str, Any]:
        taken = {**decision, "decided_at": _iso(self.began)}
        return {
            **self._pause(),
            "status": status,
            "you_may_decide": False,
            "expires_at": _iso(self.began) if status == "expired" else None,
            "decision": taken,
        }


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")

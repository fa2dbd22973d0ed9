"""What the tests know about notices: the secrets they are signed with, and whom they come from."""

import base64
import os
from collections.abc import Sequence
from typing import Any

from standardwebhooks import Webhook

from tests.receivers import Received

CHANNEL_SECRET, OLDER_SECRET, CALLBACK_SECRET, RUN_SECRET = (
    f"whsec_{base64.b64encode(os.urandom(32)).decode()}" for _ in range(4)
)


def verified(received: Received, secret: str) -> dict[str, Any]:
    """The notice, if the public verifier finds it signed with the secret."""
    return Webhook(secret).verify(received.body, dict(received.headers))


def about(run: dict[str, Any], received: Sequence[Received], kind: str = "") -> list[Received]:
    """Those that are about a run, and of one type where it is named, as things happened.

    They may come in another order: each is sent on its own.
    """
    found = [
        each
        for each in received
        if each.json["data"]["run_id"] == run["id"] and each.json["type"].startswith(kind)
    ]
    return sorted(found, key=lambda each: each.json["data"]["event_sequence"])

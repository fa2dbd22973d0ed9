"""Tells a channel of a notice, whichever kind of channel it is."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from traceback import extract_tb
from typing import Any

from app.authoring.channel import Channel, Notice
from app.channels.http_callback import HttpCallbackChannel
from app.channels.signing import SigningSecret, parse_secrets
from app.channels.webhook import Delivered, Endpoint, Failed, Told, WebhookSender


class Notifier:
    """Finds the way to a channel: a webhook for a callback channel, else the channel's own `notify`.

    Args:
        endpoints: The addresses of the callback channels, by name.
        sender: Sends the webhooks.
        secrets: The service's own, for callbacks of runs that bring none.
        limit: The most that a channel's own `notify` may take.
    """

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        sender: WebhookSender,
        *,
        secrets: tuple[SigningSecret, ...] = (),
        limit: timedelta = timedelta(seconds=30),
    ) -> None:
        self._endpoints = endpoints
        self._sender = sender
        self._secrets = secrets
        self._limit = limit.total_seconds()

    async def tell(self, channel: Channel, notice: Notice) -> Told:
        """One attempt; raises nothing for what the channel does."""
        if isinstance(channel, HttpCallbackChannel):
            return await self._post(channel, notice)
        try:
            async with asyncio.timeout(self._limit):
                return Delivered(decision=await channel.notify(notice))
        except TimeoutError:
            return Failed(reason=f"{channel} did not end within {self._limit:g} s")
        except Exception as error:  # noqa: BLE001  # a writer's channel may raise anything
            return Failed(reason=f"{channel} raised {_where(error)}")

    async def _post(self, channel: HttpCallbackChannel, notice: Notice) -> Told:
        endpoint = self._endpoints.get(channel.name)
        if endpoint is None:
            setting = f"SIGNOFF_CHANNELS__{channel.name.upper()}__URL"
            return Failed(reason=f"{channel} has no address: set {setting}")
        return await self._send(endpoint, notice)

    async def call_back(self, callback: Mapping[str, Any], notice: Notice) -> Told:
        """One attempt at the address that a run named for itself: `{url, secret?}`.

        Signed with the run's own secret, else with the service's.
        """
        secret = callback.get("secret")
        secrets = parse_secrets([secret]) if secret else self._secrets
        return await self._send(Endpoint(url=callback["url"], secrets=secrets), notice)

    async def _send(self, endpoint: Endpoint, notice: Notice) -> Told:
        return await self._sender.send(
            endpoint,
            webhook_id=notice.id,
            event_type=notice.type,
            timestamp=notice.timestamp,
            data=notice.data,
        )


def _where(error: Exception) -> str:
    """The kind of an error and the line that raised it; its text could hold a password or a token."""
    frame = extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"

"""The channel that is told by signed webhooks."""

from app.authoring import Channel


class HttpCallbackChannel(Channel):
    """Tells an address by signed webhooks; address and secrets are settings under its name."""

    @property
    def is_told(self) -> bool:
        """Always: a webhook is its way of being told."""
        return True

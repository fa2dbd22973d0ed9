"""The channel that is told by signed webhooks."""

from app.authoring import Channel


class HttpCallbackChannel(Channel):
    """Tells an address by signed webhooks; the address and its secrets are settings under its name."""

    @property
    def is_told(self) -> bool:
        """Always: a webhook is its way of being told."""
        return True

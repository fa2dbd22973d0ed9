"""The channel that tells nobody: the pause waits in the inbox until somebody looks."""

from app.authoring import Channel


class InboxChannel(Channel):
    """Approvers find the pause in the inbox, or in `GET /pauses`."""

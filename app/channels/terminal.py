"""The channel of whoever started the conversation: `signoff chat` asks there and then."""

from app.channels.inbox import InboxChannel


class TerminalChannel(InboxChannel):
    """`signoff chat` asks in its terminal; under `signoff serve` the pause waits in the inbox."""

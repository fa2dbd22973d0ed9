"""Who can be asked, and how they are told."""

from app.channels.automatic import AutoApproveChannel, AutoRejectChannel
from app.channels.http_callback import HttpCallbackChannel
from app.channels.inbox import InboxChannel
from app.channels.terminal import TerminalChannel

__all__ = [
    "AutoApproveChannel",
    "AutoRejectChannel",
    "HttpCallbackChannel",
    "InboxChannel",
    "TerminalChannel",
]

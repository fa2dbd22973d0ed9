"""Tells what looks like a credential: people send them where an id or a name belongs, and there they would be kept."""

import re
from typing import Final

_FORMS: Final = re.compile(
    r"sg[ks]_[\w-]{43}"
    r"|reply_[\w-]{16,}\.[\w-]{16,}"
    r"|whsec_[\w+/-]{22,}=*"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"
)
"""Keys, sessions of the page, reply tokens, secrets of webhooks, and JWT, whose parts begin so since they are JSON objects."""


def looks_secret(text: str) -> bool:
    """Whether there is something in a text that has the form of a credential."""
    return _FORMS.search(text) is not None


def without_secrets(text: str) -> str:
    """The text with `***` in the place of what has the form of a credential."""
    return _FORMS.sub("***", text)

"""What a person, a bot or a policy answers to a pause: one of four shapes, whatever the pause is about."""

from dataclasses import dataclass
from typing import TypeAlias

from app.domain.json import Json


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Yes or no, with the arguments or the output put in the place of what was shown, if any."""

    approved: bool
    override_arguments: Json = None
    override_output: Json = None
    feedback: str | None = None


@dataclass(frozen=True, kw_only=True)
class Value:
    """An answer: any JSON that the pause allows, null and false among it."""

    value: Json
    feedback: str | None = None


@dataclass(frozen=True, kw_only=True)
class Decline:
    """No answer will be given."""

    feedback: str | None = None


@dataclass(frozen=True, kw_only=True)
class Action:
    """What to do next, by name, and with which value where the action takes one."""

    action: str
    value: Json = None
    feedback: str | None = None


Decision: TypeAlias = Verdict | Value | Decline | Action

MAX_BY = 200
MAX_FEEDBACK = 2_000


def one_line(text: str, limit: int) -> str:
    """`text` without control characters, newlines as spaces, at most `limit` characters.

    Names and feedback reach a model's prompt, so they cannot be allowed to look like more than a line of it.
    """
    spaced = "".join(" " if letter in "\r\n\t\v\f\x85\u2028\u2029" else letter for letter in text)
    return "".join(letter for letter in spaced if _is_printed(letter))[:limit].strip()


def _is_printed(letter: str) -> bool:
    return letter == " " or (letter.isprintable() and not "\ud800" <= letter <= "\udfff")

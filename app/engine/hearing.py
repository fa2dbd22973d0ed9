"""Lets those who listen hear an answer while a model writes it: its text alone, without secrets."""

import json
from collections.abc import Iterable, Iterator, Sequence

from app.domain.masking import MARK, scrub
from app.domain.message import Message
from app.engine.audience import Audience, Delta
from app.engine.drive import Drive
from app.engine.models import AnsweredCall, ModelAnswer
from app.engine.scrubbing import SHORTEST, secrets_said
from app.engine.served import Seat


class Hearing:
    """Passes one turn's text on to those who listen, without sensitive values.

    The end of the text is held back as long as it may be the beginning of a secret. Where the agent has a
    tool with sensitive arguments, all of it is held back until the calls are known: a model may say first
    what it then writes into them.
    """

    def __init__(
        self, audience: Audience, seat: Seat, turn: int, secrets: Iterable[str], *, whole: bool
    ) -> None:
        self._audience = audience
        self._seat = seat
        self._turn = turn
        self._secrets = _spellings(secrets)
        self._whole = whole
        self._offset = 0
        self._held = ""

    def begins(self) -> None:
        self._offset, self._held = 0, ""

    def hears(self, text: str) -> None:
        self._held += text
        if not self._whole:
            self._pass_on(_safe_length(self._held, self._secrets))

    def ends(self, answer: ModelAnswer) -> None:
        """The answer is there: what was held back is passed on, if it can be told what is secret in it."""
        if all(self._is_readable(call) for call in answer.calls):
            self._secrets |= _spellings(_written(self._seat, answer.calls))
            self._pass_on(len(self._held))

    def _is_readable(self, call: AnsweredCall) -> bool:
        tool = self._seat.tools.get(call.tool)
        return call.fault is None or tool is None or not tool.sensitive_paths

    def _pass_on(self, length: int) -> None:
        text, self._held = scrub(self._held[:length], self._secrets), self._held[length:]
        if text:
            place = self._seat.place.path
            delta = Delta(
                path=place,
                agent=self._seat.agent.name,
                turn=self._turn,
                offset=self._offset,
                text=text,
            )
            self._offset += len(text)
            self._audience.hear(delta)


def hearing(
    seat: Seat, turn: int, drive: Drive, known: Iterable[Sequence[str]], said: Sequence[Message]
) -> Hearing | None:
    """How the next answer is heard; None where nobody listens, or where it is sensitive as a whole.

    `known` are the sensitive values of the line so far, `said` is the conversation.
    """
    audience = drive.start.audience
    if audience is None or not audience.listens or MARK in repr(seat.place.output_schema):
        return None
    secrets = drive.secrets.union(*known, secrets_said(said, seat.tools))
    whole = any(tool.sensitive_paths for tool in seat.tools.values())
    return Hearing(audience, seat, turn, secrets, whole=whole)


def _written(seat: Seat, calls: Sequence[AnsweredCall]) -> Iterator[str]:
    for call in calls:
        tool = seat.tools.get(call.tool)
        if tool is not None and tool.sensitive_paths:
            yield from tool.secrets(call.arguments)


def _spellings(secrets: Iterable[str]) -> frozenset[str]:
    """The secrets, and how they look within JSON, which a model may write instead of a text."""
    telling = [secret for secret in secrets if len(secret) >= SHORTEST]
    quoted = (json.dumps(each, ensure_ascii=ascii) for each in telling for ascii in (True, False))
    return frozenset([*telling, *(each[1:-1] for each in quoted)])


def _safe_length(text: str, secrets: frozenset[str]) -> int:
    """How much of the text cannot become a part of a secret, whatever follows."""
    safe = len(text)
    while True:
        cuts = (_cut_before(text, secret, safe) for secret in secrets)
        earliest = min(cuts, default=safe)
        if earliest == safe:
            return safe
        safe = earliest


def _cut_before(text: str, secret: str, cut: int) -> int:
    """Where the secret begins that stands across `cut`, or that may be going on after the text's end."""
    start = text.find(secret[0], max(0, cut - len(secret) + 1), cut)
    while start >= 0:
        if secret.startswith(text[start : start + len(secret)]):
            return start
        start = text.find(secret[0], start + 1, cut)
    return cut

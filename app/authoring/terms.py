"""The terms of every ask: whom it asks, until when, and who has to agree."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict

from app.authoring.channel import Channel
from app.authoring.mistakes import as_list, repeated, wrong_choice, wrong_count, wrong_duration
from app.domain.ask import OnExpire, Policy


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What every ask may say: whom to ask, until when, and who has to agree.

    `expires_after` counts from the opening of the pause; `remind_before` and `escalate_before`
    count back from its expiry. `approvers` are names of principals, `group:…` or `channel:…`; none
    means anybody.
    """

    channel: Channel | None = None
    expires_after: timedelta | None = None
    remind_before: timedelta | None = None
    escalate_to: Channel | None = None
    escalate_before: timedelta | None = None
    approvers: Sequence[str] = ()
    quorum: int = 1
    allow_requester: bool = False

    def channels(self) -> Iterator[Channel]:
        """The channels that are named."""
        named: tuple[object, ...] = (self.channel, self.escalate_to)
        yield from (each for each in named if isinstance(each, Channel))


class TermOptions(TypedDict, total=False):
    """`Terms` as keyword arguments."""

    channel: Channel | None
    expires_after: timedelta | None
    remind_before: timedelta | None
    escalate_to: Channel | None
    escalate_before: timedelta | None
    approvers: Sequence[str]
    quorum: int
    allow_requester: bool


def policy_of(terms: Terms, channel: Channel, on_expire: OnExpire = "reject") -> Policy:
    """Terms as plain data; `channel` is asked where they name none."""
    return Policy(
        channel=(terms.channel or channel).name,
        expires_after=terms.expires_after,
        on_expire=on_expire,
        remind_before=terms.remind_before,
        escalate_to=terms.escalate_to.name if terms.escalate_to else None,
        escalate_before=terms.escalate_before or _quarter(terms),
        approvers=tuple(terms.approvers),
        quorum=terms.quorum,
        allow_requester=terms.allow_requester,
    )


def _quarter(terms: Terms) -> timedelta | None:
    return terms.expires_after / 4 if terms.expires_after and terms.escalate_to else None


def wrong_message(message: object) -> Iterator[str]:
    """What is wrong with the text that somebody reads."""
    if not isinstance(message, str) or not message.strip():
        yield "the message is empty"


def wrong_channel(name: str, channel: object) -> Iterator[str]:
    """What is wrong with a channel that may be left out."""
    if channel is not None and not isinstance(channel, Channel):
        yield f"{name}= is not a channel: {channel!r}"


def wrong_terms(terms: Terms, on_expire: str, endings: tuple[str, ...]) -> Iterator[str]:
    """What is wrong with the terms of an ask that may expire as one of `endings`, usually the first."""
    yield from wrong_channel("channel", terms.channel)
    yield from wrong_channel("escalate_to", terms.escalate_to)
    yield from _wrong_deadline(terms)
    yield from wrong_choice("on_expire", on_expire, endings)
    if on_expire != endings[0] and terms.expires_after is None:
        yield f"on_expire={on_expire!r} could never happen without expires_after="
    yield from _wrong_approvers(terms, is_voted_on="approve" in endings)


def _wrong_deadline(terms: Terms) -> Iterator[str]:
    yield from wrong_duration("expires_after", terms.expires_after)
    yield from _wrong_notice("remind_before", terms.remind_before, terms.expires_after)
    yield from _wrong_notice("escalate_before", terms.escalate_before, terms.expires_after)
    if terms.escalate_to is not None and terms.expires_after is None:
        yield "escalate_to= could never happen without expires_after="
    if terms.escalate_to is None and terms.escalate_before is not None:
        yield "escalate_before= needs escalate_to="


def _wrong_notice(name: str, before: object, expires_after: object) -> Iterator[str]:
    yield from wrong_duration(name, before)
    if before is None:
        return
    if expires_after is None:
        yield f"{name}= could never happen without expires_after="
    match before, expires_after:
        case timedelta() as lead, timedelta() as whole if lead >= whole:
            yield f"{name}= is not shorter than expires_after="
        case _:
            pass


def _wrong_approvers(terms: Terms, *, is_voted_on: bool) -> Iterator[str]:
    approvers = as_list(terms.approvers)
    if approvers is None:
        yield "approvers= must be a list of names"
        return
    for name in approvers:
        if not isinstance(name, str) or not name.strip() or name in {"group:", "channel:"}:
            yield f"{name!r} is not an approver: it is a name, 'group:…' or 'channel:…'"
    for name in repeated(approvers):
        yield f"the approver {name!r} stands there twice"
    yield from wrong_count("quorum", terms.quorum, 1)
    people = {str(name) for name in approvers}
    if people and not _can_agree(people, terms.quorum):
        yield f"quorum={terms.quorum} is larger than the {len(people)} named approvers"
    elif not is_voted_on and _is_several(terms.quorum):
        yield f"quorum={terms.quorum} could never matter: only on a yes or a no can several agree"


def _is_several(quorum: object) -> bool:
    return isinstance(quorum, int) and quorum > 1


def _can_agree(approvers: set[str], quorum: object) -> bool:
    if any(name.startswith("group:") for name in approvers):
        return True
    return not isinstance(quorum, int) or quorum <= len(approvers)

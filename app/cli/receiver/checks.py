"""What a receiver must make of good notices and bad ones, one check each.

Every check tells of a pause of its own, so that none depends on what another has left behind.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.channels.signing import sign
from app.channels.webhook import MAX_ANSWER_BYTES
from app.cli.receiver.notices import Story
from app.cli.receiver.probe import Heard, Probe, foreign_secret
from app.cli.receiver.resume_stand_in import Asked
from app.domain.decision import InvalidDecision, parse
from app.domain.json import Json
from app.domain.pause import PauseKind

TOLERANCE_SECONDS: Final = 300
"""How far from now a notice may say that it was sent, as Standard Webhooks' own verifiers have it."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What came of a check. `wrong` is empty where the receiver did right."""

    check: str
    expected: str
    wrong: str = ""
    decided: bool = False

    def as_json(self) -> dict[str, Json]:
        return {
            "check": self.check,
            "passed": not self.wrong,
            "expected": self.expected,
            "wrong": self.wrong or None,
        }


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a check's notices were answered with, in order, and what was wrong with that at once."""

    wrong: str = ""
    may_decide: bool = True
    decided: bool = False


@dataclass(frozen=True, kw_only=True)
class Check:
    """One of them: its name, what is expected of a receiver, and how that is tried."""

    name: str
    expected: str
    tries: Callable[[Probe, Story], Awaitable[Seen]]


async def check_all(
    probe: Probe,
    new_story: Callable[[], Story],
    asked: Sequence[Asked],
    linger: Callable[[], Awaitable[None]],
) -> list[Finding]:
    """Every check's finding, in their order.

    `asked` fills with what the receiver decides by requests of its own; `linger` waits for such.
    """
    tried: list[tuple[Check, Story, Seen]] = []
    for check in CHECKS:
        story = new_story()
        tried.append((check, story, await check.tries(probe, story)))
    await linger()
    return [_finding(check, story, seen, asked) for check, story, seen in tried]


def _finding(check: Check, story: Story, seen: Seen, asked: Sequence[Asked]) -> Finding:
    own = [each for each in asked if each.thread_id == story.thread_id]
    wrong = seen.wrong or next(filter(None, (_wrong_request(each, story) for each in own)), "")
    if not wrong and own and not seen.may_decide:
        wrong = "decided by a request of its own"
    decided = seen.decided or bool(own)
    return Finding(check=check.name, expected=check.expected, wrong=wrong, decided=decided)


def _wrong_request(asked: Asked, story: Story) -> str:
    if asked.token != story.token:
        return "decided by a request without the token of the notice's reply"
    if asked.pause_id != story.pause_id:
        return "decided by a request that names another pause"
    return _wrong_decision(asked.decision, story)


def _wrong_decision(decision: Json, story: Story) -> str:
    kind = PauseKind(story.shown.get("kind", PauseKind.APPROVAL))
    try:
        parse(kind, decision)
    except InvalidDecision as error:
        where = ", ".join(f"{each.pointer or '/'} {each.message}" for each in error.fields)
        return f"its decision would be refused: {where or error.message}"
    return ""


def _taken(heard: Heard, story: Story) -> Seen:
    """A notice that has to be taken, and may be answered with a decision."""
    if not heard.is_taken:
        return Seen(wrong=f"answered {heard}, not 2xx")
    if len(heard.body) > MAX_ANSWER_BYTES:
        return Seen(wrong=f"answered more than {MAX_ANSWER_BYTES} bytes: a decision is not read")
    if heard.decision is None:
        return Seen()
    return Seen(wrong=_wrong_decision(heard.decision, story), decided=True)


def _taken_without_deciding(heard: Heard) -> Seen:
    if not heard.is_taken:
        return Seen(wrong=f"answered {heard}, not 2xx", may_decide=False)
    wrong = f"answered {heard}" if heard.decision is not None else ""
    return Seen(wrong=wrong, may_decide=False)


def _refused(heard: Heard) -> Seen:
    return Seen(wrong="" if heard.is_refused else f"answered {heard}, not 4xx", may_decide=False)


async def _good(probe: Probe, story: Story) -> Seen:
    return _taken(await probe.tell(story.opened()), story)


async def _duplicate(probe: Probe, story: Story) -> Seen:
    notice = story.opened()
    first, second = await probe.tell(notice), await probe.tell(notice)
    seen = _taken(second, story)
    if seen.wrong or first.decision == second.decision:
        return seen
    return replace(seen, wrong=f"answered {first}, then {second} with another decision")


async def _reordered(probe: Probe, story: Story) -> Seen:
    decided = _taken_without_deciding(await probe.tell(story.decided(sequence=5)))
    if decided.wrong:
        return decided
    return _taken_without_deciding(await probe.tell(story.opened(sequence=4)))


async def _wrongly_signed(probe: Probe, story: Story) -> Seen:
    return _refused(await probe.tell(story.opened(), signed_with=[foreign_secret()]))


async def _unsigned(probe: Probe, story: Story) -> Seen:
    return _refused(await probe.tell(story.opened(), signed_with=[]))


async def _altered(probe: Probe, story: Story) -> Seen:
    notice = story.opened()
    altered = {**notice.body, "data": {**notice.body["data"], "event_sequence": 2}}
    return _refused(await probe.tell(notice, altered=altered))


async def _old(probe: Probe, story: Story) -> Seen:
    return _refused(await probe.tell(story.opened(), age=2 * TOLERANCE_SECONDS))


async def _early(probe: Probe, story: Story) -> Seen:
    return _refused(await probe.tell(story.opened(), age=-2 * TOLERANCE_SECONDS))


async def _rotated(probe: Probe, story: Story) -> Seen:
    """With a secret that it does not have yet before its own, after it, and each of its own alone."""
    new = foreign_secret()
    ways = [[new, *probe.secrets], [*probe.secrets, new], *([each] for each in probe.secrets)]
    notice = story.opened()
    for way in ways:
        if (seen := _taken(await probe.tell(notice, signed_with=way), story)).wrong:
            return seen
    return Seen()


async def _other_scheme(probe: Probe, story: Story) -> Seen:
    foreign = sign([foreign_secret()], "x", 0, b"").replace("v1,", "v1a,")
    return _taken(await probe.tell(story.opened(), further=foreign), story)


async def _expired(probe: Probe, story: Story) -> Seen:
    return _taken_without_deciding(await probe.tell(story.opened_but_expired()))


async def _others(probe: Probe, story: Story) -> Seen:
    for notice in (story.reminded(), story.of_the_future(sequence=3)):
        if (seen := _taken(await probe.tell(notice), story)).wrong:
            return seen
    return Seen()


CHECKS: Final[Sequence[Check]] = (
    Check(name="good", expected="2xx within 10 s; a decision, if any, that fits", tries=_good),
    Check(name="duplicate", expected="the same answer under the same id", tries=_duplicate),
    Check(name="reordered", expected="no decision on an older notice", tries=_reordered),
    Check(name="wrongly-signed", expected="4xx", tries=_wrongly_signed),
    Check(name="unsigned", expected="4xx", tries=_unsigned),
    Check(name="altered", expected="4xx", tries=_altered),
    Check(name="old", expected="4xx: sent ten minutes ago", tries=_old),
    Check(name="early", expected="4xx: sent in ten minutes", tries=_early),
    Check(name="rotated", expected="2xx where one signature of several is right", tries=_rotated),
    Check(name="other-scheme", expected="2xx beside a signature of no v1", tries=_other_scheme),
    Check(name="expired", expected="2xx, and no decision", tries=_expired),
    Check(name="others", expected="2xx to types and members it does not know", tries=_others),
)

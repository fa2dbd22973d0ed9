"""Who decides a pause, and whether they may: the name they go by, approvers, the requester, one vote each."""

from dataclasses import dataclass
from typing import Any, cast

from app.domain.decision import MAX_BY, InvalidDecision, Parsed, Verdict, one_line
from app.domain.json import Json
from app.domain.pause import PauseStatus
from app.domain.principal import CHANNEL, RESERVED, Principal, Scope
from app.errors import Conflict, FieldError, Forbidden
from app.lifecycle.site import Site
from app.storage.pauses import PauseRow


class AlreadyVoted(Conflict):
    """One vote is all that anybody has."""

    code = "already_voted"


class NotAnApprover(Forbidden):
    """The ask names who may decide, and they are not among them."""

    code = "not_an_approver"


class MayNotActAs(Forbidden):
    """A decision in the name of somebody else needs a scope of its own."""

    code = "may_not_act_as"


class RequesterMayNotApprove(Forbidden):
    """Somebody else than who asked for the run has to agree."""

    code = "requester_may_not_approve"


@dataclass(frozen=True, kw_only=True)
class Decider:
    """Who decides, and who sends it for them where that is somebody else."""

    by: str
    sent_by: str | None = None


def decider_of(principal: Principal, parsed: Parsed) -> Decider:
    """Who decides: the caller where the service knows them, else the name that the decision gives.

    Raises `MayNotActAs`; `InvalidDecision` where the name is missing, or the service's own.
    """
    by = parsed.by or principal.name
    if not by:
        raise wrong("/by", "who decides has to be named")
    if by == principal.name:
        return Decider(by=by)
    if by.startswith(RESERVED):
        raise wrong("/by", f"names that begin with {', '.join(RESERVED)} are the service's own")
    if principal.name is None:
        return Decider(by=by)
    if not principal.may(Scope.DECISIONS_ACT_AS):
        raise MayNotActAs(
            f"{principal.name} decides in their own name: leave `by` out, or use a key with the scope "
            f"{Scope.DECISIONS_ACT_AS}."
        )
    return Decider(by=by, sent_by=principal.name)


def claimed(principal: Principal, decision: Json | Parsed) -> str | None:
    """Who an attempt is recorded of: the caller, else whom it names, whatever else is wrong with it."""
    if principal.name is not None:
        return principal.name
    if isinstance(decision, Parsed):
        return decision.by
    by = cast("dict[str, Json]", decision).get("by") if isinstance(decision, dict) else None
    named = one_line(by, MAX_BY) if isinstance(by, str) else ""
    return None if named.startswith(RESERVED) else named or None


def check(
    site: Site, principal: Principal, pause: PauseRow, decider: Decider, parsed: Parsed
) -> None:
    """Raises `NotAnApprover`, `AlreadyVoted`, `RequesterMayNotApprove`; `InvalidDecision` for a changed vote."""
    is_known = not site.is_open or decider.by.startswith(CHANNEL)
    if is_known and not is_asked(principal, decider.by, pause.policy):
        raise NotAnApprover(
            f"{decider.by} is not among those who may decide this pause.", pause_id=pause.id
        )
    refuse_second_vote(pause, decider.by)
    if isinstance(parsed.decision, Verdict):
        _check_verdict(pause, parsed.decision, decider.by)


def is_asked(principal: Principal, by: str, policy: dict[str, Any]) -> bool:
    """Whether an ask is for somebody: by name, by a group of who sends the decision, or as it is for anybody.

    A channel has a voice of its own only where nobody is named and one decision is enough, or where it is
    named itself: its address is not a person.
    """
    if policy["approvers"]:
        return principal.is_one_of(policy["approvers"], by)
    return policy["quorum"] == 1 or not by.startswith(CHANNEL)


def refuse_second_vote(pause: PauseRow, by: str) -> None:
    """Raises `AlreadyVoted`."""
    if has_voted(pause.votes, by):
        raise AlreadyVoted(f"{by} has voted on this pause before.", pause_id=pause.id, by=by)


def has_voted(votes: list[dict[str, Any]], by: str) -> bool:
    return any(vote["by"] == by for vote in votes)


def may_decide(site: Site, principal: Principal, pause: dict[str, Any]) -> bool:
    """Whether a caller may send a decision about a pause, as its row is shown; the requester may reject."""
    if pause["status"] != PauseStatus.OPEN or not principal.may(Scope.DECISIONS_WRITE):
        return False
    if principal.only_pause not in (None, pause["id"]):
        return False
    name = principal.name
    if name is None or (site.is_open and not name.startswith(CHANNEL)):
        return True
    return is_asked(principal, name, pause["policy"]) and not has_voted(pause["votes"], name)


def _check_verdict(pause: PauseRow, verdict: Verdict, by: str) -> None:
    """Whether who decides may say so; several who agree must agree to the same."""
    if pause.policy["quorum"] > 1 and (changed := verdict.changes):
        raise wrong(f"/{changed}", "others vote on what is shown: it cannot be changed")
    is_own = by == pause.requested_by and not pause.policy["allow_requester"]
    if verdict.approved and is_own:
        raise RequesterMayNotApprove(
            f"{by} asked for this run, so somebody else has to approve; rejecting is possible.",
            pause_id=pause.id,
        )


def wrong(pointer: str, message: str) -> InvalidDecision:
    """A decision with one wrong field."""
    return InvalidDecision(
        f"The decision cannot be taken: {message}.",
        fields=[FieldError(pointer=pointer, message=message)],
    )

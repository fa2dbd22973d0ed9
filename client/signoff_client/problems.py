"""What can go wrong, as exceptions.

SignoffError
├── Unreachable               nobody answered, however often it was asked
├── WaitTimedOut              a run was not settled in time (also a `TimeoutError`)
├── BadNotice                 a webhook that is not to be believed
└── Problem                   the service refused: `status`, `code`, `detail`, `errors`, `values`
    ├── Unauthenticated       401
    ├── Forbidden             403  MissingScope, NotAnApprover, RequesterMayNotApprove, …
    ├── NotFound              404
    ├── Conflict              409  ThreadBusy, ThreadPaused, AlreadyVoted, WorkflowIncompatible, …
    │   └── PauseClosed            PauseDecided, PauseExpired, PauseCancelled, PauseSuperseded
    ├── DigestMismatch        412
    ├── TooLarge              413, 414, 431
    ├── Invalid               422  InvalidRequest, InvalidDecision, GuardrailBlocked, IdempotencyMismatch
    ├── TooManyRequests       429
    └── ServiceFailed         500 and above; Unavailable 503
"""

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import httpx

from signoff_client.models import Run


class SignoffError(Exception):
    """Everything that this client raises of its own."""


class Unreachable(SignoffError):
    """The service cannot be reached, or broke off, however often it was asked."""


class WaitTimedOut(SignoffError, TimeoutError):
    """The run is not settled yet; `run` is how it stands."""

    def __init__(self, run: Run) -> None:
        super().__init__(f"Run {run.id} is still {run.status}.")
        self.run = run


class BadNotice(SignoffError):
    """A webhook that is not signed with a known secret, or too old, or no notice at all."""


@dataclass(frozen=True, kw_only=True)
class WrongField:
    """One wrong field of a request: a JSON pointer to it, and what is wrong."""

    pointer: str
    message: str


class Problem(SignoffError):
    """The service refused a request (RFC 9457).

    Attributes:
        status: The HTTP status.
        code: The fixed name of the error; empty where something on the way answered, and no Signoff.
        detail: What is so, and what to do.
        errors: The wrong fields, where there are any.
        values: What else the answer says, such as the `pause_ids` of `ThreadPaused`.
        retry_after: Seconds after which to come back, where the answer says so.
    """

    by_code: ClassVar[dict[str, type["Problem"]]] = {}
    by_status: ClassVar[dict[int, type["Problem"]]] = {}

    def __init_subclass__(cls, *, code: str = "", statuses: tuple[int, ...] = ()) -> None:
        super().__init_subclass__()
        if code:
            cls.by_code[code] = cls
        cls.by_status |= dict.fromkeys(statuses, cls)

    def __init__(self, status: int, body: dict[str, Any], *, retry_after: float | None) -> None:
        self.status = status
        self.code = str(body.get("code", ""))
        self.detail = str(body.get("detail", "") or f"Status {status}, and no word of why.")
        self.errors = [
            WrongField(pointer=str(each["pointer"]), message=str(each["message"]))
            for each in body.get("errors") or ()
        ]
        self.values = {name: each for name, each in body.items() if name not in _MEMBERS}
        self.retry_after = retry_after
        super().__init__(self._said())

    def _said(self) -> str:
        fields = "; ".join(f"{each.pointer}: {each.message}" for each in self.errors)
        coded = f"{self.detail} ({self.code})" if self.code else self.detail
        return f"{coded} {fields}" if fields and fields not in self.detail else coded


_MEMBERS = frozenset({"type", "title", "status", "detail", "code", "errors"})


def problem_of(answer: httpx.Response) -> Problem:
    """The problem that an answer tells; its class is that of its code, else that of its status."""
    try:
        body = answer.json()
    except ValueError:
        body = None
    told = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    status = answer.status_code
    family = Problem.by_status.get(status, ServiceFailed if status >= 500 else Problem)
    kind = Problem.by_code.get(str(told.get("code", "")), family)
    return kind(status, told, retry_after=retry_after_of(answer))


def retry_after_of(answer: httpx.Response) -> float | None:
    """The seconds that `Retry-After` names; a date, which this service never sends, is passed over."""
    said = answer.headers.get("retry-after", "")
    return float(said) if said.isdecimal() else None


# ── By status ────────────────────────────────────────────────────────────────────────────────────────


class Unauthenticated(Problem, statuses=(401,)):
    """Nobody is known by the key, or there is none."""


class Forbidden(Problem, statuses=(403,)):
    """The key's owner may not do this."""


class NotFound(Problem, code="not_found", statuses=(404,)):
    """There is no such thing, or it is another tenant's."""


class Conflict(Problem, statuses=(409,)):
    """It does not fit what is so by now."""


class DigestMismatch(Problem, code="digest_mismatch", statuses=(412,)):
    """The decision is about something else than what the pause shows: look at it again."""


class TooLarge(Problem, statuses=(413, 414, 431)):
    """The request is larger than the service takes."""


class Invalid(Problem, statuses=(422,)):
    """The request is wrong; `errors` say where."""


class TooManyRequests(Problem, code="too_many_requests", statuses=(429,)):
    """The key has asked too much; it was tried again as long as that was worth it."""


class ServiceFailed(Problem, code="internal_error"):
    """The service, or something before it, failed."""


class Unavailable(ServiceFailed, statuses=(503,)):
    """The service cannot answer for now; it was tried again."""


# ── By code ──────────────────────────────────────────────────────────────────────────────────────────


class NoCredential(Unauthenticated, code="unauthenticated"):
    """The service asks for a key, and none was given."""


class InvalidCredential(Unauthenticated, code="invalid_credential"):
    """The key is not good, not any more, or was never one."""


class MissingScope(Forbidden, code="missing_scope"):
    """The key is not good for this route."""


class NotAnApprover(Forbidden, code="not_an_approver"):
    """The pause names who decides it, and it is somebody else."""


class RequesterMayNotApprove(Forbidden, code="requester_may_not_approve"):
    """Who asked for the run may reject it, and not approve it."""


class MayNotActAs(Forbidden, code="may_not_act_as"):
    """The key may not decide in the name of others."""


class TokenOfAnotherPause(Forbidden, code="token_of_another_pause"):
    """A reply token decides the pause that it came with, and no other."""


class CrossSiteRequest(Forbidden, code="cross_site_request"):
    """A browser's cookie without the header of the inbox."""


class ThreadExists(Conflict, code="thread_exists"):
    """There is a thread of that id."""


class ThreadBusy(Conflict, code="thread_busy"):
    """A run of the thread is under way."""


class ThreadPaused(Conflict, code="thread_paused"):
    """A run of the thread waits for a decision."""

    @property
    def pause_ids(self) -> list[str]:
        """What it waits for."""
        return list(self.values.get("pause_ids", ()))


class PauseClosed(Conflict):
    """The pause is not open any more; `values` say how that came."""


class PauseDecided(PauseClosed, code="pause_decided"):
    """Somebody decided it before."""


class PauseExpired(PauseClosed, code="pause_expired"):
    """Its deadline has passed."""


class PauseCancelled(PauseClosed, code="pause_cancelled"):
    """Its run has ended without it."""


class PauseSuperseded(PauseClosed, code="pause_superseded"):
    """A newer run took its run's place."""


class AlreadyVoted(Conflict, code="already_voted"):
    """They have voted on this pause before."""


class NoDeadline(Conflict, code="no_deadline"):
    """The pause waits for as long as it takes."""


class WorkflowIncompatible(Conflict, code="workflow_incompatible"):
    """No process serves the workflow in the shape that the run began with; the pause stays open."""


class DeliveryNotDead(Conflict, code="delivery_not_dead"):
    """Only a delivery that nobody tries any more is sent again by hand."""


class ServiceIsOpen(Conflict, code="service_is_open"):
    """Nobody is asked for a key."""


class BodyTooLarge(TooLarge, code="body_too_large"):
    """The body is larger than the service takes."""


class TargetTooLong(TooLarge, code="target_too_long"):
    """Path and query are longer than the service takes."""


class HeadersTooLarge(TooLarge, code="headers_too_large"):
    """The headers are larger than the service takes."""


class UnsupportedMediaType(Problem, code="unsupported_media_type", statuses=(415,)):
    """The body is not said to be JSON."""


class MethodNotAllowed(Problem, code="method_not_allowed", statuses=(405,)):
    """The path does not take the method: is this the address of a Signoff?"""


class InvalidRequest(Invalid, code="invalid_request"):
    """The request does not have the form that its route takes."""


class InvalidDecision(Invalid, code="invalid_decision"):
    """The pause cannot take this decision, and stays open."""


class GuardrailBlocked(Invalid, code="guardrail_blocked"):
    """A guardrail did not let through what the decision brings; the pause stays open."""


class IdempotencyMismatch(Invalid, code="idempotency_mismatch"):
    """The key of this request was used for another one."""


class StoreUnavailable(Unavailable, code="store_unavailable"):
    """Its Postgres cannot be reached."""


class NotReady(Unavailable, code="not_ready"):
    """The process takes no requests for now."""


class IssuerUnavailable(Unavailable, code="issuer_unavailable"):
    """Who issued the token cannot be asked for its keys."""


class EncryptionKeyAbsent(Unavailable, code="encryption_key_absent"):
    """The service lacks the key that the value was encrypted with."""

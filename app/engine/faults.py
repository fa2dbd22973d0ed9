"""The words in which a model reads that something went wrong."""

from pydantic import ValidationError

from app.domain.json import pointer_token
from app.domain.masking import scrub
from app.errors import FieldError, SignoffError

LONGEST = 4_000
"""Characters of a foreign message that a model gets to read."""


def tool_error(reason: str) -> str:
    """A call's result where it has none."""
    return f"Tool error: {reason}"


def rejected(by: str, feedback: str | None) -> str:
    """The result of a call that somebody did not allow."""
    return tool_error(f"the call was rejected by {by}" + (f": {feedback}" if feedback else ""))


def declined(by: str, feedback: str | None) -> str:
    """The result of a call that somebody did not want to do or to answer."""
    return tool_error(f"declined by {by}" + (f": {feedback}" if feedback else ""))


def reason_of(error: BaseException, secrets: frozenset[str] = frozenset()) -> str:
    """What an exception says, in one piece: storable, of bounded length, without `secrets`."""
    match error:
        case ValidationError():
            text = "; ".join(
                f"{each.pointer or '/'}: {each.message}" for each in wrong_fields(error)
            )
        case SignoffError():
            text = error.message
        case KeyError():
            text = f"KeyError: {error}"
        case _:
            text = str(error) or type(error).__name__
    return printable(scrub(text, secrets))


def printable(text: str) -> str:
    """Text that can be stored: NUL and lone surrogates become question marks; not longer than `LONGEST`."""
    return text[:LONGEST].encode(errors="replace").decode().replace("\0", "?")


def wrong_fields(
    error: ValidationError, within: str = "", secrets: frozenset[str] = frozenset()
) -> list[FieldError]:
    """Every wrong field of a value, as JSON pointers below `within`; what was sent is not quoted."""
    details = error.errors(include_url=False, include_input=False, include_context=False)
    return [
        FieldError(
            pointer=within + "".join(f"/{pointer_token(str(part))}" for part in each["loc"]),
            message=printable(scrub(each["msg"], secrets)),
        )
        for each in details
    ]

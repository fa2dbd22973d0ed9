"""How commands end: with which code, and with which words."""

from enum import IntEnum

from app.errors import SignoffError


class ExitCode(IntEnum):
    """What a script may go by. 2 is the shell's own custom for what was typed wrongly."""

    DONE = 0
    FAILED = 1  # it could not be done, or, for `doctor`, something is not in order
    UNREACHABLE = 3  # there is no service at that address
    REFUSED = 4  # the service does not let this key do that
    TOO_LATE = (
        5  # it is not there, or by now in another state: somebody else decided, it expired, …
    )
    STILL_OPEN = 6  # `chat` has ended, and its run waits for a decision
    INTERRUPTED = 130  # by Ctrl-C


class CommandFailed(SignoffError):
    """What was typed cannot be done; the message is one line that says why, and what to do."""

    code = "command_failed"

    def __init__(self, message: str, *, exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code

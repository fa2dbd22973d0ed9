"""A time as callers say it: with its offset, within what can be stored and told again."""

from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import AfterValidator, AwareDatetime

_YEARS: Final = range(2, 9999)
"""Beyond them an offset leads out of the calendar, and the store reads "never"."""


def _in_utc(moment: datetime) -> datetime:
    if moment.year not in _YEARS:
        raise ValueError("is beyond all calendars")
    return moment.astimezone(UTC)


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]

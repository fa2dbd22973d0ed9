"""So many in so much time, counted in memory, for each of those who ask."""

import time
from collections.abc import Callable
from typing import Final

_REMEMBERED_AT_MOST: Final = 100_000


class Rate:
    """So many in so many seconds, and then one whenever its share of the time has passed.

    Args:
        most: How many may come at once, after a time of rest.
        seconds: In how long so many may come.
        clock: Seconds that never go back.
    """

    def __init__(
        self, most: int, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._share = seconds / most
        self._slack = seconds - self._share
        self._clock = clock
        self._due: dict[str, float] = {}  # when each would be through, at one a share (GCRA)

    def wait(self, who: str) -> float:
        """Takes one for `who`: 0; or how many seconds until there is one, and then takes none."""
        now = self._clock()
        due = max(self._due.get(who, now), now)
        if due - now > self._slack:
            return due - now - self._slack
        if len(self._due) >= _REMEMBERED_AT_MOST:
            self._due = {each: until for each, until in self._due.items() if until > now}
        self._due[who] = due + self._share
        return 0.0

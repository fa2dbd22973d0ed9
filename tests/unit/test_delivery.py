"""How long a delivery waits between its attempts."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from app.domain.delivery import MAX_ATTEMPTS, wait_before


def test_the_first_attempt_waits_for_nothing_and_later_ones_longer_and_longer() -> None:
    waits = [wait_before(attempt, jitter=0).total_seconds() for attempt in range(1, 12)]

    assert waits == [0, 5, 30, 120, 600, 1800, 3600, 10800, 21600, 21600, 21600]


@given(attempt=st.integers(2, MAX_ATTEMPTS), jitter=st.floats(0, 1))
def test_jitter_makes_a_wait_longer_by_a_fifth_at_most(attempt: int, jitter: float) -> None:
    plain = wait_before(attempt, jitter=0)

    assert plain <= wait_before(attempt, jitter) <= plain * 1.2


def test_what_the_address_asked_for_is_obeyed_where_it_is_longer() -> None:
    minute = timedelta(minutes=1)

    assert wait_before(2, 0, retry_after=minute) == minute
    assert wait_before(5, 0, retry_after=minute) == timedelta(minutes=10)

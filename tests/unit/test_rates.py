"""So many in so much time."""

from app.lifecycle.rate import Rate


class Clock:
    """Stands still until it is moved."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_so_many_may_come_at_once_and_then_one_a_share() -> None:
    clock = Clock()
    rate = Rate(3, 60, clock)
    assert [rate.wait("ann") for _ in range(4)] == [0, 0, 0, 20]
    clock.now += 19
    assert rate.wait("ann") == 1
    clock.now += 1
    assert [rate.wait("ann") for _ in range(2)] == [0, 20]


def test_in_no_stretch_of_the_time_come_more_than_twice_as_many() -> None:
    clock = Clock()
    rate = Rate(10, 60, clock)
    taken: list[float] = []
    for _ in range(600):
        if not rate.wait("ann"):
            taken.append(clock.now)
        clock.now += 0.5
    for began in taken:
        assert len([each for each in taken if began <= each < began + 60]) <= 20
    assert len(taken) >= 50


def test_who_was_refused_is_not_held_against() -> None:
    clock = Clock()
    rate = Rate(1, 60, clock)
    assert rate.wait("ann") == 0
    assert {rate.wait("ann") for _ in range(100)} == {60}
    clock.now += 60
    assert rate.wait("ann") == 0


def test_everybody_is_counted_alone() -> None:
    rate = Rate(1, 60, Clock())
    assert [rate.wait(who) for who in ("ann", "bob", "ann", "bob")] == [0, 0, 60, 60]

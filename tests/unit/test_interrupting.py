"""Ctrl-C while a command waits: it is heard, whenever it comes."""

import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import pytest

from app.cli.prompt import interruptible

LONG = 60  # seconds; nobody waits for it


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def wait() -> None:
    time.sleep(LONG)


def press_and_wait() -> None:
    with interruptible():
        press()
        wait()


def press_in_a_finalizer_and_wait() -> None:
    with interruptible():
        with suppress(KeyboardInterrupt):  # as Python does with what is raised in `__del__`
            press()
        wait()


@pytest.mark.parametrize("waiting", [press_and_wait, press_in_a_finalizer_and_wait])
def test_ctrl_c_ends_the_waiting(waiting: Callable[[], None]) -> None:
    with pytest.raises(KeyboardInterrupt):
        waiting()


def test_ctrl_c_that_comes_when_the_waiting_is_just_over_is_heard_after_it() -> None:
    before = signal.getsignal(signal.SIGINT)
    came: list[str] = []

    def press_at_the_end(frame: FrameType, event: str, _: object) -> None:
        if event == "return" and frame.f_code.co_qualname == "Reading.end":
            came.append("pressed")
            press()

    def wait_for_nothing() -> None:
        with interruptible():
            sys.setprofile(press_at_the_end)
        came.append("gone on")

    with pytest.raises(KeyboardInterrupt):
        wait_for_nothing()
    sys.setprofile(None)
    assert set(came) == {"pressed"}
    assert signal.getsignal(signal.SIGINT) is before


def test_one_ctrl_c_is_one_also_where_the_clearing_up_takes_its_time() -> None:
    came: list[str] = []

    def press_and_clear_up() -> None:
        with interruptible():
            try:
                press()
                wait()
            finally:
                time.sleep(0.25)  # meanwhile it is sent again, twice
                came.append("cleared up")

    with pytest.raises(KeyboardInterrupt):
        press_and_clear_up()
    assert came == ["cleared up"]


def test_what_holds_ctrl_c_up_is_done_before_it_is_heard() -> None:
    came: list[str] = []

    def press_while_drawing() -> None:
        with interruptible() as reading:
            with reading.held_up():
                press()
                time.sleep(0.25)  # meanwhile it is sent again, twice
                came.append("drawn")
            came.append("gone on")

    with pytest.raises(KeyboardInterrupt):
        press_while_drawing()
    assert came == ["drawn"]


def test_what_holds_ctrl_c_up_lets_it_be_heard_afterwards() -> None:
    def draw_and_press() -> None:
        with interruptible() as reading:
            with reading.held_up():
                pass
            press()

    with pytest.raises(KeyboardInterrupt):
        draw_and_press()

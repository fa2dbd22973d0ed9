"""Asks for a line in the terminal."""

import importlib
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from getpass import getpass
from types import FrameType
from typing import Any, Final

from app.cli.screen import visible

DECLINE: Final = "/decline"
"""What is typed instead of a value, to give none; a reason may follow."""


class Left(Exception):
    """Whoever was asked has left: by Ctrl-C, or at the end of the input (Ctrl-D)."""

    def __init__(self, *, interrupted: bool) -> None:
        super().__init__()
        self.interrupted = interrupted


class Declined(Exception):
    """Whoever was asked gives no answer."""

    def __init__(self, reason: str | None) -> None:
        super().__init__()
        self.reason = reason


class Abandoned(Exception):
    """What was asked needs no answer any more."""


def ask(prompt: str, *, is_hidden: bool = False) -> str:
    """A line, without the space around it; what is typed may be kept off the screen.

    Raises `Left`, and `Abandoned` within `unless`.
    """
    read = getpass if is_hidden and sys.stdin.isatty() else input
    try:
        with interruptible():
            return read(f"{visible(prompt)} ").strip()
    except KeyboardInterrupt:
        raise Left(interrupted=True) from None
    except EOFError:
        raise Left(interrupted=False) from None
    except UnicodeDecodeError:
        return ask(prompt, is_hidden=is_hidden)


def ask_for_value(prompt: str, *, is_hidden: bool = False) -> str:
    """A line that is part of an answer. Raises `Left`, and `Declined` for `/decline`."""
    line = ask(prompt, is_hidden=is_hidden)
    word, _, reason = line.partition(" ")
    if word == DECLINE:
        raise Declined(reason.strip() or None)
    return line


@contextmanager
def unless(is_over: Callable[[], bool]) -> Generator[None]:
    """What is asked within raises `Abandoned` soon after `is_over`, which is called in a thread, says so."""
    left = threading.Event()

    def watch() -> None:
        while not left.wait(_LOOK_EVERY):
            if is_over():
                _send_until(left, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, _let_it_be)
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        left.set()
        thread.join()
        signal.signal(signal.SIGUSR1, before)


@contextmanager
def interruptible() -> Generator["Reading"]:
    """Sees to it that Ctrl-C ends the waiting for what is read, by `KeyboardInterrupt`.

    One that comes between the prompt and the waiting of `input` is noted by Python, and the waiting goes on
    until the next key: a system call that has not begun is not interrupted. So it is sent again; also where
    the first was raised in a finalizer, out of which Python lets nothing. One that comes when the reading is
    over, but before others listen, is raised at the end.
    """
    reading = Reading()
    hears, tells = socket.socketpair()
    tells.setblocking(False)
    thread = threading.Thread(target=reading.insist, args=(hears,), daemon=True)
    thread.start()
    before, woken = dict[int, Any](), -1
    try:
        for number in (signal.SIGINT, signal.SIGUSR1):
            before[number] = signal.signal(number, reading.stop)
        woken = signal.set_wakeup_fd(tells.fileno(), warn_on_full_buffer=False)
        yield reading
    finally:
        try:
            reading.end()
        finally:  # a Ctrl-C may just have come before that
            reading.end()
            signal.set_wakeup_fd(woken)
            tells.close()
            thread.join()
            hears.close()
            for number, handler in before.items():  # now that no more are sent
                signal.signal(number, handler)
    if reading.is_unheard:  # by whatever handler was there before: it may be told to ignore it
        raise KeyboardInterrupt


class Reading:
    """What is being read by the main thread."""

    def __init__(self) -> None:
        self.is_unheard = False
        """Whether the first Ctrl-C came when the reading was over, or held up."""
        self._goes_on = True
        self._over = threading.Event()
        self._was_interrupted = False

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Ends the reading: a signal's handler. Nothing is raised where that is being cleared up after."""
        is_interrupt = number == signal.SIGINT
        if isinstance(sys.exc_info()[1], KeyboardInterrupt | Abandoned):
            return
        if self._goes_on:
            self._was_interrupted |= is_interrupt
            raise KeyboardInterrupt if is_interrupt else Abandoned
        self.is_unheard |= is_interrupt and not self._was_interrupted

    @contextmanager
    def held_up(self) -> Generator[None]:
        """Nothing is raised within, as by what draws on the screen: a Ctrl-C that comes then is raised after it."""
        self._goes_on = False
        try:
            yield
        finally:
            self._goes_on = True
        if self.is_unheard:
            self.is_unheard, self._was_interrupted = False, True
            raise KeyboardInterrupt

    def end(self) -> None:
        """From now on nothing is sent."""
        self._goes_on = False
        self._over.set()

    def insist(self, hears: socket.socket) -> None:
        """Sends a Ctrl-C again that did not end the reading."""
        while sent := hears.recv(1):
            if sent[0] == signal.SIGINT:
                _send_until(self._over, signal.SIGINT)


def _send_until(over: threading.Event, number: signal.Signals) -> None:
    """Sends a signal to the main thread, again and again."""
    main = threading.main_thread().ident or 0
    while not over.wait(_AGAIN_AFTER):
        signal.pthread_kill(main, number)


def _let_it_be(number: int, frame: FrameType | None) -> None:
    """Takes a signal that comes between two lines."""


_AGAIN_AFTER: Final = 0.1  # seconds
_LOOK_EVERY: Final = 1.0

with suppress(ImportError):
    importlib.import_module("readline")  # `input` takes up editing and history from it

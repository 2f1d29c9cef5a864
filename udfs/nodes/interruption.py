"""Whether what nodes do is still wanted: a thread that plays them cannot be ended from outside."""

from __future__ import annotations

from threading import Event

_interrupted = Event()


class Interrupted(Exception):  # noqa: N818 - not an error of a program
    """Nobody wants the rounds any more."""


def interrupt() -> None:
    """Has all networks of this process stop before their next round."""
    _interrupted.set()


def proceed() -> None:
    """Lets networks play again."""
    _interrupted.clear()


def check() -> None:
    """Looks whether to go on.

    Raises:
        Interrupted: No.
    """
    if _interrupted.is_set():
        raise Interrupted

"""Whether what nodes do is still wanted: a thread that plays them cannot be ended from outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event

_ended: ContextVar[Event | None] = ContextVar("ended", default=None)


class Interrupted(Exception):  # noqa: N818 - not an error of a program
    """Nobody wants the rounds any more."""


@contextmanager
def until(ended: Event) -> Iterator[None]:
    """Stops the rounds that this thread plays inside the block once an event is set."""
    token = _ended.set(ended)
    try:
        yield
    finally:
        _ended.reset(token)


def check() -> None:
    """Looks whether to go on.

    Raises:
        Interrupted: No.
    """
    ended = _ended.get()
    if ended is not None and ended.is_set():
        raise Interrupted

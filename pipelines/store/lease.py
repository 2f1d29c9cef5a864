"""The writer's lease of a store on a server, where no operating system keeps a lock and takes it back.

A file holds who writes. It is made with a condition (there is none yet) and renewed with one (it is as this program
left it), so that two programs never believe at once that they have it, whatever their clocks say. Who finds one waits
until it changes, and somebody writes; or until it has stayed the same for longer than a lease lasts, and its program
is gone. A program that has slept for so long learns it before it writes into the ledger, see `Lease.renew`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from threading import Event, Lock, Thread
from uuid import uuid4

from pipelines.errors import StoreError
from pipelines.store.place import Exclusive, Tag

LEASE_SECONDS = 40.0
"""How long a lease lasts that is not renewed: several times as long as a request is tried again."""
_RENEWALS = 8
"""How often it is renewed in that time."""


class Lease:
    """The right to write a store, for as long as it is renewed."""

    def __init__(self, file: Exclusive, writer: str, tag: Tag, token: str) -> None:
        """Keeps what was taken, see `leased`."""
        self._file = file
        self._writer = writer
        self._tag: Tag | None = tag
        self._token = token
        self._number = 0
        self._renewing = Lock()
        self._renewed = time.monotonic()

    def renew(self) -> None:
        """Renews it.

        Raises:
            StoreError: Another program has taken it, as this one did nothing for too long.
        """
        with self._renewing:
            begun = time.monotonic()
            if self._tag is not None:
                self._number += 1
                self._tag = self._file.update(_text(self._writer, self._token, self._number), self._tag)
            if self._tag is None:
                store = str(self._file).rpartition("/")[0]
                raise StoreError(
                    f"another program writes the store {store!r} by now, as this one was silent for too long; end one "
                    "of them"
                )
            self._renewed = begun

    def keep(self, ended: Event) -> None:
        """Renews it again and again until the end."""
        while not ended.wait(LEASE_SECONDS / _RENEWALS):
            # Where it is lost, the next commit says so; where the network is down, the next renewal may come through.
            with suppress(StoreError):
                self.renew()

    def release(self) -> None:
        """Ends it, where it is still that of this program."""
        with suppress(StoreError):
            self.renew()
            self._file.unlink()


@contextmanager
def leased(file: Exclusive, writer: str, say: Callable[[str], None]) -> Iterator[Lease]:
    """Takes the lease that a file stands for, and keeps it.

    Args:
        file: The file.
        writer: Who takes it, for others to read.
        say: Told when it takes long.

    Raises:
        StoreError: Another program has it.
    """
    token = uuid4().hex
    lease = Lease(file, writer, _taken(file, _text(writer, token, 0), say), token)
    ended = Event()
    keeper = Thread(target=lease.keep, args=(ended,), daemon=True, name="lease")
    keeper.start()
    try:
        yield lease
    finally:
        ended.set()
        keeper.join()
        lease.release()


def holder(file: Exclusive) -> str | None:
    """Returns the holder of a lease, if the clocks of this machine and of the server agree; None: nobody."""
    found = file.head()
    if found is None or datetime.now(UTC) - found[1] > timedelta(seconds=LEASE_SECONDS):
        return None
    return writer_in(file)


def writer_in(file: Exclusive) -> str:
    """Returns the current or last holder of a lease."""
    with suppress(FileNotFoundError):
        return file.read_text().splitlines()[0]
    return "another program"


def _text(writer: str, token: str, number: int) -> str:
    return f"{writer}\n{token} {number}\n"


def _taken(file: Exclusive, text: str, say: Callable[[str], None]) -> Tag:
    """Returns the tag of a lease that nobody else has."""
    begun, seen = time.monotonic(), None
    while (tag := file.create(text)) is None:
        found = file.head()
        if found is None:
            continue
        if seen is None:
            seen = found[0]
            say(f"{writer_in(file)} may be writing the store: waiting for up to {LEASE_SECONDS:g} s to see")
        elif found[0] != seen:
            break
        elif time.monotonic() - begun > LEASE_SECONDS:
            tag = file.update(text, seen)
            break
        time.sleep(min(1.0, LEASE_SECONDS / _RENEWALS))
    if tag is None:
        store = str(file).rpartition("/")[0]
        raise StoreError(f"{writer_in(file)} is writing the store {store!r}; wait for its end, or end it")
    return tag

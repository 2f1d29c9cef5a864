"""The place of a store, a folder or an address: created, checked and locked without an engine.

A file server has no operating-system locks that end with their process, so a writer holds a lease: a file that names
the writer. It is created only if it does not exist, and renewed only if it is unchanged, so two programs never hold the
lease at once, independently of their clocks. Another program watches the file. If the file changes, the writer is
alive; if it stays unchanged for longer than a lease, the writer is gone. A writer that slept for longer notices before
it writes to the ledger, see `Lease.renew`.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TypeGuard
from uuid import uuid4

from filelock import FileLock, Timeout

from pipelines.errors import StoreError, nearest
from pipelines.store.place import Exclusive, RemotePath, Tag
from pipelines.store.roots import Root, check_name, make, remove
from pipelines.tables import ROUND_COMMIT, RUN, STORE_FORMAT

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


LATEST = "latest"
LOCK = ".lock"
MANIFEST = "experiment.json"
_LOG = "_delta_log"
_SHOWN = 5
_LOCK_SECONDS = 0.5  # `is_being_written` holds the lock for a moment
_WRITTEN = "name the folder that `roundtable run` wrote"


def check_store(root: Root) -> None:
    """Checks that a folder is a store of this program.

    Raises:
        StoreError: It does not exist, is not a store, or has another format, or the Delta library cannot name it.
    """
    check_name(root)
    check_format(root)
    if _is_store(root):
        return
    if not root.exists():
        beside = sorted(path.name for path in root.parent.iterdir()) if _has_parent(root) else []
        raise StoreError(f"there is no store {str(root)!r};{nearest(root.name, beside)} {_WRITTEN}")
    if not root.is_dir():
        raise StoreError(f"{str(root)!r} is a file, not a store; {_WRITTEN}")
    if (root / MANIFEST).is_file():
        raise StoreError(
            f"the store {str(root)!r} holds no complete round; wait, or if its program is gone, {resume_hint(root)}"
        )
    stores = sorted(path.name for path in root.iterdir() if _is_store(path))
    missing = " and ".join(name for name in (ROUND_COMMIT.name, RUN.name) if not (root / name / _LOG).is_dir())
    holds = f"its stores are {_some(stores)}" if stores else f"it holds {_some(_inside(root)) or 'nothing'}"
    raise StoreError(f"{str(root)!r} is no store: it has no table {missing}; {holds}; {_WRITTEN}")


def check_format(root: Root) -> None:
    """Checks that a store has the tables and columns that this program reads; one without a manifest is not judged.

    Raises:
        StoreError: It is of another format.
    """
    try:
        written = json.loads((root / MANIFEST).read_text("utf-8")).get("store_format", 1)
    except StoreError:  # nobody answers at its address
        raise
    except (OSError, ValueError, AttributeError):
        return  # It does not exist, or it is damaged: the reader of the manifest says so.
    if written != STORE_FORMAT:
        raise StoreError(
            f"the store {str(root)!r} is of format {written}, this program reads format {STORE_FORMAT}; "
            "run the scenario again, or read it with the version that wrote it"
        )


def check_empty(root: Root) -> None:
    """Checks that a folder can become a store.

    Raises:
        StoreError: It is a folder that is not empty, or no folder.
    """
    if root.is_dir():
        inside = _inside(root)
        if inside:
            raise StoreError(f"the store {str(root)!r} is not empty: {_held(root, inside)}")
    elif root.exists() or (isinstance(root, Path) and root.is_symlink()):
        raise StoreError(f"the store {str(root)!r} is a file or a dangling link; name a folder that is new or empty")


@contextmanager
def locked(root: Root, say: Callable[[str], None] = lambda _: None) -> Iterator[Callable[[], None]]:
    """Keeps every other program from writing a store; the lock goes with this process, however it ends.

    Of a folder the operating system keeps the lock, of a place on a server nobody: there it is a lease.

    Args:
        root: The store.
        say: Told when it takes long.

    Yields:
        What checks that it is still locked; called before the ledger is written.

    Raises:
        StoreError: Another program, or another run of this one, writes it.
    """
    if isinstance(root, RemotePath):
        with leased(root.lock(LOCK), _told_of({"process": os.getpid(), **_here()}), say) as lease:
            yield lease.renew
        return
    lock = FileLock(root / LOCK, timeout=_LOCK_SECONDS)
    try:
        lock.acquire()
    except Timeout:
        raise StoreError(f"{_writer(root)} is writing the store {str(root)!r}; wait for its end, or end it") from None
    except OSError as error:
        raise StoreError(f"the store {str(root)!r} cannot be locked: {error.strerror}; check its rights") from error
    with suppress(OSError):  # who it is only helps
        (root / LOCK).write_text(json.dumps({"process": os.getpid(), **_here()}), "utf-8")
    try:
        yield lambda: None
    finally:
        lock.release()


def is_being_written(root: Root) -> bool:
    """Returns whether a program writes a store now."""
    if isinstance(root, RemotePath):
        return holder(root.lock(LOCK)) is not None
    if not (root / LOCK).is_file():
        return False
    lock = FileLock(root / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        return True
    except OSError:  # nobody can write where nobody can lock
        return False
    lock.release()
    return False


@contextmanager
def new_store(
    given: Root | None, scenario: str, say: Callable[[str], None] = lambda _: None
) -> Iterator[tuple[Root, Callable[[], None]]]:
    """Makes the folder of a store and locks it; an error before the first commit leaves nothing behind.

    ``runs/<scenario>/latest`` points to a store of the default folder from its start.

    Args:
        given: The folder, new or empty; None for ``runs/<scenario>/<UTC time>``.
        scenario: Name of the scenario.
        say: Told when it takes long.

    Yields:
        The store, and what `locked` yields.

    Raises:
        StoreError: The folder cannot be made, is not empty, or another program writes into it.
    """
    root = given if given is not None else _free_default(scenario)
    check_name(root)
    try:
        missing = make(root, is_new=given is None)
    except OSError as error:
        raise StoreError(f"the store {str(root)!r} cannot be made: {error.strerror}; name another folder") from error
    with locked(root, say) as still_locked:
        check_empty(root)
        earlier = _link_latest(root) if isinstance(root, Path) and given is None else None
        try:
            yield root, still_locked
        except BaseException as error:
            if _n_commits(root):
                error.add_note(resume_hint(root))
            else:
                if isinstance(root, Path) and given is None:
                    _unlink_latest(root, earlier)
                _remove(root, missing)
            raise


def resume_hint(root: Root) -> str:
    """Returns the next step for a store whose runs are not finished."""
    return f"to resume: roundtable resume {shlex.quote(str(root))}"


def _link_latest(root: Path) -> Path | None:
    """Points ``runs/<scenario>/latest`` to a store; returns its previous target."""
    link = root.parent / LATEST
    earlier = link.readlink() if link.is_symlink() else None
    point(link, Path(root.name))
    return earlier


def _unlink_latest(root: Path, earlier: Path | None) -> None:
    """Restores the link, unless another run has changed it in between."""
    link = root.parent / LATEST
    if not link.is_symlink() or link.readlink() != Path(root.name):
        return
    if earlier is None:
        link.unlink()
    else:
        point(link, earlier)


def point(link: Path, target: Path) -> None:
    """Makes a link, or changes it, in one step."""
    new = link.parent / f".{link.name}-{target.name}"
    with suppress(OSError):  # some file systems have no links; the store works without
        new.symlink_to(target)
        new.replace(link)


def _is_store(root: Root) -> bool:
    return all((root / name / _LOG).is_dir() for name in (ROUND_COMMIT.name, RUN.name))


def _n_commits(root: Root) -> int:
    """Counts the rows of the ledger; the first version of the table is its creation."""
    log = root / ROUND_COMMIT.name / _LOG
    return max(sum(path.name.endswith(".json") for path in log.iterdir()) - 1, 0) if log.is_dir() else 0


def _has_parent(root: Root) -> TypeGuard[Path]:
    return isinstance(root, Path) and root.parent.is_dir()


def _held(root: Root, inside: Sequence[str]) -> str:
    """Returns the contents of a folder that is to be a new store, and the next step."""
    another = "name a new folder, or remove this one"
    if not (_is_store(root) or (root / MANIFEST).is_file()):
        return f"it holds {_some(inside)}; {another}"
    if is_being_written(root):
        return f"{_writer(root)} is writing it; wait for its end, or name a new folder"
    return f"a store is there already; {another}; if its run was interrupted, {resume_hint(root)}"


def _writer(root: Root) -> str:
    """Returns the holder of the lock."""
    if isinstance(root, RemotePath):
        return writer_in(root.lock(LOCK))
    with suppress(OSError, ValueError, KeyError):
        return _told_of(json.loads((root / LOCK).read_text("utf-8")))
    return "another program"


def _here() -> dict[str, str]:
    return {"host": platform.node(), "since": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}


def _told_of(writer: Mapping[str, object]) -> str:
    return f"process {writer['process']} on {writer['host']}, since {writer['since']}"


def _inside(root: Root) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.name not in (LOCK, f"{MANIFEST}.part"))


def _remove(root: Root, made: Sequence[Path]) -> None:
    inside: list[Root] = [*root.iterdir()]
    for path in inside:
        if not (isinstance(root, RemotePath) and path.name == LOCK):  # it goes when it is given back
            remove(path)
    for folder in made:
        with suppress(OSError):  # another run may use it by now
            folder.rmdir()


def _free_default(scenario: str) -> Path:
    folder = Path("runs", scenario)
    name = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    names = (name, *(f"{name}-{rank}" for rank in range(2, 1000)))
    return next(folder / free for free in names if not (folder / free).exists())


def _some(names: Iterable[str]) -> str:
    first = list(islice(names, _SHOWN + 1))
    return ", ".join(first[:_SHOWN]) + (", ..." if len(first) > _SHOWN else "")

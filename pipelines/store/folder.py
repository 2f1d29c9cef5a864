"""Creates, checks and locks the location of a store. These operations need no engine.

An operating-system lock ends with its process; object stores and HDFS have no such lock. The writer of a remote store
holds a lease instead: a lock file that names the writer. A writer creates the lock file only if it does not exist, and
renews it only if it is unchanged. So two programs never hold the lease at once, even if their clocks differ. Another
program watches the lock file: if it changes, the writer is alive; if it stays unchanged for `LEASE_SECONDS`, the writer
has ended. A writer that was suspended for longer detects the lost lease before it writes to the ledger, see
`Lease.renew`.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Lock, Thread
from uuid import uuid4

from filelock import FileLock, Timeout

from pipelines.errors import StoreError, listed, nearest
from pipelines.store.bucket import Bucket
from pipelines.store.hdfs import HdfsLock
from pipelines.store.place import RemotePath, Tag
from pipelines.store.roots import Root, check_name, is_partial, make, remove
from pipelines.tables import ROUND_COMMIT, RUN, STORE_FORMAT

LockFile = Bucket | HdfsLock
"""A file with conditional writes: if several programs write it at the same time, exactly one succeeds."""
LEASE_SECONDS = 40.0
"""Seconds after which a lease expires without renewal; several times the duration of a request with its retries."""
_RENEWALS = 8
"""Number of renewals within `LEASE_SECONDS`."""


class Lease:
    """A writer's exclusive right to a store until the lease expires; `leased` acquires and renews leases."""

    def __init__(self, file: LockFile, writer: str, tag: Tag, token: str) -> None:
        self._file = file
        self._writer = writer
        self._tag: Tag | None = tag
        self._token = token
        self._number = 0
        self._renewing = Lock()

    def renew(self) -> None:
        """Renews the lease; raises `StoreError` if it expired and another program has acquired it."""
        with self._renewing:
            if self._tag is not None:
                self._number += 1
                text = _text(self._writer, self._token, self._number)
                self._tag = self._file.update(text, self._tag) or _own_tag(self._file, self._token)
            if self._tag is None:
                store = str(self._file).rpartition("/")[0]
                raise StoreError(
                    f"another program has acquired the lease of the store {store!r}, because this program did not "
                    "renew it in time; end one of them"
                )

    def keep(self, ended: Event) -> None:
        """Renews the lease periodically until ``ended`` is set; runs in a thread."""
        while not ended.wait(LEASE_SECONDS / _RENEWALS):
            # The next commit reports a lost lease. After a network failure the next renewal may succeed.
            with suppress(StoreError):
                self.renew()

    def release(self) -> None:
        """Removes the lock file unless another program has acquired the lease."""
        with suppress(StoreError):
            self.renew()
            self._file.unlink()


@contextmanager
def leased(file: LockFile, writer: str, say: Callable[[str], None]) -> Iterator[Lease]:
    """Acquires the lease of a lock file and renews it in a thread until the block ends.

    Other programs show ``writer`` in their error message if they find the lease held. ``say`` receives a progress
    message while the function waits for another lease to expire.

    Raises:
        StoreError: Another program holds the lease.
    """
    token = uuid4().hex
    lease = Lease(file, writer, _taken(file, _text(writer, token, 0), token, say), token)
    ended = Event()
    keeper = Thread(target=lease.keep, args=(ended,), daemon=True, name="lease")
    keeper.start()
    try:
        yield lease
    finally:
        ended.set()
        keeper.join()
        lease.release()


def holder(file: LockFile) -> str | None:
    """Returns the name of the program that holds a lease; None if the lease is expired or does not exist.

    The function compares the server's modification time with this machine's clock.
    """
    found = file.head()
    if found is None or datetime.now(UTC) - found[1] > timedelta(seconds=LEASE_SECONDS):
        return None
    return writer_in(file)


def writer_in(file: LockFile) -> str:
    """Returns the name of the program that last wrote a lock file."""
    with suppress(FileNotFoundError):
        return file.read_text().splitlines()[0]
    return "another program"


def _text(writer: str, token: str, number: int) -> str:
    return f"{writer}\n{token} {number}\n"


def _own_tag(file: LockFile, token: str) -> Tag | None:
    """Returns the tag of a lock file if it contains ``token``, else None.

    If the answer to a write is lost, the client repeats the write, and the repetition fails. No other program uses the
    same token, so a file with the token shows that a write succeeded.
    """
    found = file.head()
    with suppress(FileNotFoundError):
        return found[0] if found is not None and token in file.read_text() else None
    return None


def _taken(file: LockFile, text: str, token: str, say: Callable[[str], None]) -> Tag:
    """Creates a lock file with content ``text``, or takes over an expired lease; returns the tag of the file."""
    begun, seen = time.monotonic(), None
    while (tag := file.create(text)) is None:
        found = file.head()
        if found is None:
            continue
        if seen is None:
            seen = found[0]
            if (tag := _own_tag(file, token)) is not None:
                break
            say(f"{writer_in(file)} may be writing the store: waiting for up to {LEASE_SECONDS:g} s to find out")
        elif found[0] != seen:
            break
        elif time.monotonic() - begun > LEASE_SECONDS:
            tag = file.update(text, seen) or _own_tag(file, token)
            break
        time.sleep(min(1.0, LEASE_SECONDS / _RENEWALS))
    if tag is None:
        store = str(file).rpartition("/")[0]
        raise StoreError(f"{writer_in(file)} is writing the store {store!r}; wait until it ends, or stop it")
    return tag


LATEST = "latest"
LOCK = ".lock"
MANIFEST = "experiment.json"
_LOG = "_delta_log"
_LOCK_SECONDS = 0.5  # in another program, `is_being_written` may hold the lock for a moment
_WRITTEN = "name the folder that `roundtable run` wrote"


def check_store(root: Root) -> None:
    """Checks that a folder is a store that this version of the program reads.

    Raises:
        StoreError: The folder does not exist, is not a store, has another format, or has a name that the Delta library
            rejects.
    """
    check_name(root)
    check_format(root)
    if _is_store(root):
        return
    if not root.exists():
        beside: list[str] = []
        if isinstance(root, Path) and root.parent.is_dir():
            beside = sorted(path.name for path in root.parent.iterdir() if path.exists())
        raise StoreError(f"store {str(root)!r} does not exist;{nearest(root.name, beside)} {_WRITTEN}")
    if not root.is_dir():
        raise StoreError(f"{str(root)!r} is a file, not a store; {_WRITTEN}")
    if (root / MANIFEST).is_file():
        if _has_commit(root):
            raise missing_table(root, RUN.name)
        raise no_round(root)
    stores = sorted(path.name for path in root.iterdir() if _is_store(path))
    missing = " and ".join(name for name in (ROUND_COMMIT.name, RUN.name) if not (root / name / _LOG).is_dir())
    holds = f"its stores are {listed(stores, 5)}" if stores else f"it holds {listed(_inside(root), 5) or 'nothing'}"
    raise StoreError(f"{str(root)!r} is not a store: it has no table {missing}; {holds}; {_WRITTEN}")


def no_round(root: Root) -> StoreError:
    """Returns the error for a store without a commit."""
    return StoreError(
        f"the store {str(root)!r} contains no complete round; wait, or if its program has ended, {resume_hint(root)}"
    )


def missing_table(root: Root, name: str) -> StoreError:
    """Returns the error for a table of a store whose folder does not exist."""
    return StoreError(
        f"the store {str(root)!r} is damaged: the folder of table {name!r} is missing; put it back, or run the "
        "scenario again, with a new --store"
    )


def check_format(root: Root) -> None:
    """Raises `StoreError` if the format of a store is not `STORE_FORMAT`; accepts a store without a manifest."""
    try:
        written = json.loads((root / MANIFEST).read_text("utf-8")).get("store_format", 1)
    except StoreError:  # the server is unreachable
        raise
    except (OSError, ValueError, AttributeError):
        return  # The manifest is missing or damaged, which `Manifest.read` reports.
    if written != STORE_FORMAT:
        raise StoreError(
            f"the store {str(root)!r} is of format {written}, this program reads format {STORE_FORMAT}; "
            "run the scenario again, or read it with the version that wrote it"
        )


def check_empty(root: Root) -> None:
    """Raises `StoreError` if a new store cannot be created in a folder: it is not empty, or it is a file."""
    if root.is_dir():
        inside = _inside(root)
        if inside:
            raise StoreError(f"the store {str(root)!r} is not empty: {_content_clause(root, inside)}")
    elif root.exists() or (isinstance(root, Path) and root.is_symlink()):
        raise StoreError(f"the store {str(root)!r} is a file or a dangling link; name a folder that is new or empty")


@contextmanager
def locked(root: Root, say: Callable[[str], None] = lambda _: None) -> Iterator[Callable[[], None]]:
    """Locks a store against other writers until the block ends or the process dies.

    A local folder gets an operating-system lock; a remote path gets a lease, see `leased`. The value of the block is a
    function that raises `StoreError` if the lock is lost; the store calls it before each write to the ledger.

    Raises:
        StoreError: Another program or another run writes the store.
    """
    if isinstance(root, RemotePath):
        with leased(root.lock(LOCK), _this_program(), say) as lease:
            yield lease.renew
        return
    try:
        held = FileLock(root / LOCK, timeout=_LOCK_SECONDS).acquire()
    except Timeout:
        message = f"{_writer(root)} is writing the store {str(root)!r}; wait until it ends, or stop it"
        raise StoreError(message) from None
    except OSError as error:
        raise StoreError(f"the store {str(root)!r} cannot be locked: {error.strerror}; check its rights") from error
    with held:
        with suppress(OSError):  # only the error messages of other programs use the writer's name
            (root / LOCK).write_text(_this_program(), "utf-8")
        yield lambda: None


def is_being_written(root: Root) -> bool:
    """Returns whether another program holds the lock of a store."""
    if isinstance(root, RemotePath):
        return holder(root.lock(LOCK)) is not None
    if not (root / LOCK).is_file():
        return False
    try:
        with FileLock(root / LOCK, timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # without the right to lock, no program can write here
        return False


@contextmanager
def new_store(
    given: Root | None, scenario: str, say: Callable[[str], None] = lambda _: None
) -> Iterator[tuple[Root, Callable[[], None]]]:
    """Creates and locks the folder of a new store; removes the folder if an error occurs before the first commit.

    Args:
        given: The folder, new or empty; None for ``runs/<scenario>/<UTC time>``, to which ``runs/<scenario>/latest``
            then links.
        scenario: Name of the scenario.
        say: Called with progress messages, see `locked`.

    Yields:
        The location of the store, and the function that `locked` yields.

    Raises:
        StoreError: The folder cannot be created, is not empty, or another program writes into it.
    """
    wanted = given if given is not None else Path("runs", scenario)
    check_name(wanted)
    try:
        root, missing = _made_default(scenario) if given is None else (given, make(given))
    except OSError as error:
        message = f"the store {str(wanted)!r} cannot be created: {error.strerror}; name another folder"
        raise StoreError(message) from error
    with locked(root, say) as still_locked:
        check_empty(root)
        earlier = _link_latest(root, say) if isinstance(root, Path) and given is None else None
        try:
            yield root, still_locked
        except BaseException as error:
            if _has_commit(root):
                error.add_note(resume_hint(root))
            else:
                if isinstance(root, Path) and given is None:
                    _unlink_latest(root, earlier)
                _remove(root, missing)
            raise


def resume_hint(root: Root) -> str:
    """Returns the command that resumes an unfinished store, for error messages."""
    return f"to resume: roundtable resume {shlex.quote(str(root))}"


def _link_latest(root: Path, say: Callable[[str], None]) -> Path | None:
    """Links ``runs/<scenario>/latest`` to a store; returns the previous target of the link, or None for a new link.

    A copy of folder ``runs`` may contain a folder in place of the link. The function leaves it, and says so.
    """
    link = root.parent / LATEST
    earlier = link.readlink() if link.is_symlink() else None
    point(link, Path(root.name))
    if link.exists() and not link.is_symlink():
        say(f"{link} is an older copy, not a link to this run; the store is {root}; remove the copy")
    return earlier


def _unlink_latest(root: Path, earlier: Path | None) -> None:
    """Restores ``earlier`` as the target of the link ``latest``, unless the link no longer leads to ``root``."""
    link = root.parent / LATEST
    if not link.is_symlink() or link.readlink() != Path(root.name):
        return
    if earlier is None:
        link.unlink()
    else:
        point(link, earlier)


def point(link: Path, target: Path) -> None:
    """Creates or replaces a symbolic link atomically."""
    new = link.parent / f".{link.name}-{target.name}"
    with suppress(OSError):  # some file systems lack symbolic links; the store works without them
        new.symlink_to(target)
        try:
            new.replace(link)
        finally:
            new.unlink(missing_ok=True)


def _is_store(root: Root) -> bool:
    return all((root / name / _LOG).is_dir() for name in (ROUND_COMMIT.name, RUN.name))


def _has_commit(root: Root) -> bool:
    return (root / ROUND_COMMIT.name / _LOG / f"{1:020}.json").is_file()  # version 0 creates the ledger


def _content_clause(root: Root, inside: Sequence[str]) -> str:
    another = "name a new folder, or remove this one"
    if not (_is_store(root) or (root / MANIFEST).is_file()):
        return f"it contains {listed(inside, 5)}; {another}"
    if is_being_written(root):
        return f"{_writer(root)} is writing it; wait until it ends, or name a new folder"
    return f"it contains a store; {another}; if its run was interrupted, {resume_hint(root)}"


def _writer(root: Root) -> str:
    if isinstance(root, RemotePath):
        return writer_in(root.lock(LOCK))
    with suppress(OSError):
        return (root / LOCK).read_text("utf-8") or "another program"
    return "another program"


def _this_program() -> str:
    return f"process {os.getpid()} on {platform.node()}, since {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _inside(root: Root) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.name != LOCK and not is_partial(path.name))


def _remove(root: Root, made: Sequence[Path]) -> None:
    inside: list[Root] = [*root.iterdir()]
    for path in inside:
        if not (isinstance(root, RemotePath) and path.name == LOCK):  # `Lease.release` removes the lock file
            remove(path)
    for folder in made:
        with suppress(OSError):  # another run may have written into the folder
            folder.rmdir()


def _made_default(scenario: str) -> tuple[Root, list[Path]]:
    """Creates an unused default folder; returns it, and all folders that this required."""
    name = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    rank = 1
    while True:
        root = Path("runs", scenario, name if rank == 1 else f"{name}-{rank}")
        with suppress(FileExistsError):  # another run created the folder in this second
            return root, make(root, is_new=True)
        rank += 1

"""The folder of a store: made, checked and locked; nothing here needs an engine."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from filelock import FileLock, Timeout

from pipelines.errors import StoreError, nearest
from pipelines.tables import ROUND_COMMIT, RUN, STORE_FORMAT

LATEST = "latest"
LOCK = ".lock"
MANIFEST = "experiment.json"
_LOG = "_delta_log"
_SHOWN = 5
_WRITTEN = "name the folder that `roundtable run` wrote"


def check_store(root: Path) -> None:
    """Checks that a folder is a store of this program.

    Raises:
        StoreError: It is not there, or it is none, or one of another format.
    """
    check_format(root)
    if _is_store(root):
        return
    if not root.exists():
        beside = sorted(path.name for path in root.parent.iterdir()) if root.parent.is_dir() else []
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


def check_format(root: Path) -> None:
    """Checks that a store has the tables and columns that this program reads; one without a manifest is not judged.

    Raises:
        StoreError: It is of another format.
    """
    try:
        written = json.loads((root / MANIFEST).read_text("utf-8")).get("store_format", 1)
    except (OSError, ValueError, AttributeError):
        return  # Nothing is there, or it is damaged: whoever needs the manifest says so.
    if written != STORE_FORMAT:
        raise StoreError(
            f"the store {str(root)!r} is of format {written}, this program reads format {STORE_FORMAT}; "
            "run the scenario again, or read it with the version that wrote it"
        )


def check_empty(root: Path) -> None:
    """Checks that a folder can become a store.

    Raises:
        StoreError: It is there and holds something, or it is no folder.
    """
    if root.is_dir():
        inside = _inside(root)
        if inside:
            begun = _is_store(root) or (root / MANIFEST).is_file()
            what = "a store is there already" if begun else f"it holds {_some(inside)}"
            raise StoreError(f"the store {str(root)!r} is not empty: {what}; name a new folder, or remove this one")
    elif root.exists() or root.is_symlink():
        raise StoreError(f"the store {str(root)!r} is a file or a dangling link; name a folder that is new or empty")


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Keeps every other program from writing a store; the lock goes with this process, however it ends.

    Raises:
        StoreError: Another program, or another run of this one, writes it.
    """
    lock = FileLock(root / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise StoreError(f"another program is writing the store {str(root)!r}; wait for its end, or end it") from None
    except OSError as error:
        raise StoreError(f"the store {str(root)!r} cannot be locked: {error.strerror}; check its rights") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def new_store(given: Path | None, scenario: str) -> Iterator[Path]:
    """Makes the folder of a store and locks it; an error before the first commit leaves nothing behind.

    Args:
        given: The folder, new or empty; None for ``runs/<scenario>/<UTC time>``.
        scenario: Name of the scenario.

    Raises:
        StoreError: The folder cannot be made, is not empty, or another program writes into it.
    """
    root = given if given is not None else _free_default(scenario)
    missing = [folder for folder in (root, *root.parents) if not folder.exists()]
    try:
        root.mkdir(parents=True, exist_ok=given is not None)
    except OSError as error:
        raise StoreError(f"the store {str(root)!r} cannot be made: {error.strerror}; name another folder") from error
    with locked(root):
        check_empty(root)
        try:
            yield root
        except BaseException as error:
            if _n_commits(root):
                error.add_note(resume_hint(root))
            else:
                _remove(root, missing)
            raise


def resume_hint(root: Path) -> str:
    """Returns what to do with a store whose runs are not finished."""
    return f"to resume: roundtable resume {shlex.quote(str(root))}"


def link_latest(root: Path) -> None:
    """Points ``runs/<scenario>/latest`` to a store, in one step."""
    link, new = root.parent / LATEST, root.parent / f".{LATEST}-{root.name}"
    with suppress(OSError):  # not every file system has links, and the store is there without
        new.symlink_to(root.name)
        new.replace(link)


def _is_store(root: Path) -> bool:
    return all((root / name / _LOG).is_dir() for name in (ROUND_COMMIT.name, RUN.name))


def _n_commits(root: Path) -> int:
    """Counts the rows of the ledger; the first version of the table is its creation."""
    return max(len(list((root / ROUND_COMMIT.name / _LOG).glob("*.json"))) - 1, 0)


def _inside(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.name not in (LOCK, f"{MANIFEST}.part"))


def _remove(root: Path, made: Sequence[Path]) -> None:
    for path in root.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
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

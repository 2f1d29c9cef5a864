"""`Root`, the location of a store or table (a local folder or a remote path); operations on locations; schema names."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from io import TextIOWrapper
from pathlib import Path
from secrets import token_hex
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from pipelines.engines.names import Engine
from pipelines.errors import QueryError, RoundtableError, StoreError, nearest
from pipelines.store.bucket import RETRY_SECONDS, Bucket
from pipelines.store.hdfs import Hdfs
from pipelines.store.place import RemotePath

Root = Path | Bucket | Hdfs
"""The location of a store or of one of its tables."""
BUCKETS = ("s3", "s3a", "gs", "abfs", "abfss")
_REMOTE_PATHS: dict[str, type[Bucket | Hdfs]] = {**dict.fromkeys(BUCKETS, Bucket), "hdfs": Hdfs}
_FOLDERS = ("file", "dbfs")
_MOUNT = "/dbfs/"
_REFUSED = re.compile(r"[\[\]^|\\\x00-\x1f\x7f\ud800-\udfff]|%[0-9A-Fa-f]{2}")
"""Characters that the Delta library rejects in paths; Python decodes bytes that are not UTF-8 as surrogates."""
_PARTIAL = re.compile(r"\.[0-9a-f]{8}\.part")
_PLAIN = re.compile(r"[A-Za-z0-9/_.,:;=@!$&'()+-]*")
# Only one program writes a store, so a plain rename is safe. It also works on file systems without hard links.
_FOLDER_OPTIONS = {"MOUNT_ALLOW_UNSAFE_RENAME": "true"}
_BUCKET_OPTIONS = {"retry_timeout": f"{RETRY_SECONDS}s"}


def root_of(given: str | Root) -> Root:
    """Returns the location that a string names; any other location is returned unchanged.

    Args:
        given: A folder, an address in a bucket (``s3a://bucket/folder``) or in HDFS (``hdfs://host:port/folder``), or
            ``file:`` or ``dbfs:`` with a folder. Databricks mounts ``dbfs:`` folders below ``/dbfs``.

    Raises:
        StoreError: Stores do not support the scheme of the address.
    """
    if not isinstance(given, str):
        return given
    scheme, colon, rest = given.partition(":")
    if scheme in _REMOTE_PATHS and rest.startswith("//"):
        return _REMOTE_PATHS[scheme](given)
    if scheme in _FOLDERS and rest.startswith("/"):
        folder = unquote(urlsplit(given).path)
        is_mounted = scheme == "dbfs" and not folder.startswith("/Volumes/")
        return Path(_MOUNT + folder.lstrip("/") if is_mounted else folder)
    if colon and rest.startswith("//"):
        allowed = [*_REMOTE_PATHS, *_FOLDERS]
        raise StoreError(
            f"no store can be at {scheme}://;{nearest(scheme, allowed)} allowed: a folder, or an address with "
            f"{', '.join(allowed)}"
        )
    return Path(given)


def engine_path(root: Root) -> str:
    """Returns the path by which Spark opens ``root``; a folder below ``/dbfs`` becomes a ``dbfs:/`` path."""
    text = str(root)
    return f"dbfs:/{text.removeprefix(_MOUNT)}" if isinstance(root, Path) and text.startswith(_MOUNT) else text


def plain(root: Root, scratch: Path) -> Root:
    """Returns a path that Sail can open: ``root`` itself, or a symbolic link to ``root`` in folder ``scratch``.

    Sail 0.7 encodes a path as a URL twice. It cannot open paths with characters that URLs escape, such as spaces and
    letters beyond ASCII. A remote path is returned unchanged.
    """
    if not isinstance(root, Path) or _PLAIN.fullmatch(str(root)):
        return root
    target = str(root.absolute())
    link = scratch / f"store_{blake2b(target.encode(), digest_size=8).hexdigest()}"
    with suppress(FileExistsError):
        link.symlink_to(target, target_is_directory=True)
    return link


def check_name(root: Root) -> None:
    """Raises `StoreError` if the path of a folder contains a character that the Delta library rejects."""
    if isinstance(root, Path) and (found := _REFUSED.search(root.absolute().as_posix())):
        raise StoreError(
            f"no store can be in {str(root)!r}: the Delta library does not take {found[0]!r} in the name of a folder; "
            f"name another folder"
        )


def scheme_of(root: Root | None) -> str | None:
    """Returns the scheme of a remote path; None for a local folder."""
    return root.scheme if isinstance(root, RemotePath) else None


def options_of(root: Root) -> dict[str, str]:
    """Returns the storage options with which the Delta library writes to ``root``."""
    if isinstance(root, Path):
        return _FOLDER_OPTIONS
    return _BUCKET_OPTIONS if isinstance(root, Bucket) else {}


def make(root: Root, *, is_new: bool = False) -> list[Path]:
    """Creates a local folder and its missing parents; returns the created folders. A remote path needs no folder.

    If ``is_new`` is set and the folder exists, the function raises `FileExistsError`.
    """
    if isinstance(root, RemotePath):
        return []
    missing = [folder for folder in (root, *root.parents) if not folder.exists()]
    root.mkdir(parents=True, exist_ok=not is_new)
    return missing


def remove(root: Root) -> None:
    """Removes a file, or a folder with its content; does nothing if the path does not exist."""
    if isinstance(root, RemotePath):
        root.remove_all()
        if root.is_file():
            root.unlink()
    elif root.is_dir():
        shutil.rmtree(root)
    else:
        root.unlink(missing_ok=True)


@contextmanager
def writing(file: Root, to_do: str = "check the folder") -> Iterator[None]:
    """Converts an `OSError` inside the ``with`` block to a `QueryError` that names ``file`` and ``to_do``."""
    try:
        yield
    except RoundtableError:
        raise
    except OSError as error:
        raise QueryError(f"the file {str(file)!r} cannot be written: {error.strerror or error}; {to_do}") from error


def write_whole(file: Root, content: str | bytes) -> None:
    """Writes a file atomically, as `opened_whole` does; text is encoded as UTF-8."""
    data = content.encode() if isinstance(content, str) else content
    if isinstance(file, RemotePath):
        file.write_bytes(data)
        return
    with opened_whole(file) as out:
        out.buffer.write(data)


@contextmanager
def opened_whole(file: Path) -> Iterator[TextIOWrapper]:
    """Opens a local file for writing, and replaces its content atomically at the end of the ``with`` block.

    If the block fails, the old content remains. The file keeps its mode. If the file is a symbolic link, its target is
    replaced. Devices and pipes are written directly.
    """
    if _is_special(file):
        with file.open("w", encoding="utf-8", newline="") as out:
            yield out
        return
    target = file.resolve()
    part = _part(target)
    try:
        with part.open("x", encoding="utf-8", newline="") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        if target.exists():
            shutil.copymode(target, part)
        part.replace(target)
    finally:
        with suppress(OSError):  # a disk that cannot be written
            part.unlink(missing_ok=True)


def check_target(file: Root) -> None:
    """Raises `OSError` if `write_whole` cannot write a local file; does not check a remote path."""
    if isinstance(file, RemotePath):
        return
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not _is_special(file):
        part = _part(file.resolve())
        part.touch()
        part.unlink()


def _is_special(file: Path) -> bool:
    """Returns whether a file is a device or a pipe, also ``/dev/stdout`` if it is redirected to a file."""
    return str(file.parent) in ("/dev", "/dev/fd") or (file.exists() and not file.is_file())


def is_partial(name: str) -> bool:
    """Returns whether a file name is one that `opened_whole` gives to a file until the file is complete."""
    return _PARTIAL.fullmatch(name) is not None


def _part(file: Path) -> Path:
    return file.with_name(f".{token_hex(4)}.part")


def sizes(root: Root) -> dict[str, int]:
    """Returns the sizes in bytes of all files in a folder and its subfolders, keyed by relative path."""
    if isinstance(root, RemotePath):
        return root.sizes()
    return {str(file.relative_to(root)): file.stat().st_size for file in root.rglob("*") if file.is_file()}


def size_of(file: Root) -> int:
    """Returns the size of a file in bytes."""
    return file.n_bytes() if isinstance(file, RemotePath) else file.stat().st_size


def is_writable(root: Root) -> bool:
    """Returns whether this user may write to ``root``; always True for a remote path, whose rights are not checked."""
    return isinstance(root, RemotePath) or os.access(root, os.W_OK)


def delta_rows(table: DeltaTable, columns: Sequence[str]) -> pa.Table:
    """Reads the given columns of all rows of a small Delta table; strings have Arrow's view type.

    Arrow's reader threads call into Python through Delta's file system. If a thread is active at exit, the process ends
    with SIGABRT (in 1 of 8 runs of ``roundtable runs``). Delta's own reader, used here, does not call into Python.

    Raises:
        DeltaError: The table is damaged.
    """
    names = ", ".join(f'"{name}"' for name in columns)
    query = f'SELECT {names} FROM "rows"'  # noqa: S608 - names of columns of the project's own tables
    return pa.table(QueryBuilder().register("rows", table).execute(query))


_NAME = re.compile(r"([A-Za-z_]\w*)\.([A-Za-z_]\w*)", re.ASCII)


@dataclass(frozen=True)
class Schema:
    """The schema ``name`` of ``catalog`` in a Spark session; it holds a store, see `pipelines.store.catalog`."""

    catalog: str
    name: str

    def __str__(self) -> str:
        """Returns ``catalog.name``."""
        return f"{self.catalog}.{self.name}"

    @property
    def quoted(self) -> str:
        """The name, quoted for SQL."""
        return f"`{self.catalog}`.`{self.name}`"

    def check_engine(self, engine: Engine) -> None:
        """Raises `StoreError` if the engine is ``local``, whose catalog ends with the process."""
        if engine == "local":
            raise StoreError(
                f"no store can be in the schema {str(self)!r} with the engine local, whose catalog ends with its "
                f"process; take --engine spark or connect, name a folder or an address, or ./{self} for a folder of "
                "this name"
            )


def place_of(given: str | Root) -> Root | Schema:
    """Returns the location or the schema that a string names.

    A string of two identifiers with a dot between them names a schema, unless a folder of this name exists. Any other
    string, such as ``./catalog.schema``, and a `Path` name a location as in `root_of`.

    Raises:
        StoreError: Stores do not support the scheme of the address.
    """
    name = _NAME.fullmatch(given) if isinstance(given, str) and not os.path.lexists(given) else None
    return root_of(given) if name is None else Schema(*name.groups())

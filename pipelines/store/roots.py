"""Where a store is: a folder, an address or a schema of a catalog; what users name it by, and what is done to it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from pipelines.engines.names import Engine
from pipelines.errors import StoreError, nearest
from pipelines.store.bucket import RETRY_SECONDS, Bucket
from pipelines.store.hdfs import Hdfs
from pipelines.store.place import RemotePath

Root = Path | RemotePath
"""A folder or a place, of a store or of one of its tables."""
BUCKETS = ("s3", "s3a", "gs", "abfs", "abfss")
_PLACES: dict[str, type[Bucket | Hdfs]] = {**dict.fromkeys(BUCKETS, Bucket), "hdfs": Hdfs}
_FOLDERS = ("file", "dbfs")
_MOUNT = "/dbfs/"
_REFUSED = re.compile(r"[\[\]^|\\]|%[0-9A-Fa-f]{2}")
_PLAIN = re.compile(r"[A-Za-z0-9/_.,:;=@!$&'()+-]*")
# Only one program writes a store, so a plain rename does: folders without hard links, e.g. volumes, are fine.
_FOLDER_OPTIONS = {"MOUNT_ALLOW_UNSAFE_RENAME": "true"}
_BUCKET_OPTIONS = {"retry_timeout": f"{RETRY_SECONDS}s"}


def root_of(given: str | Path | RemotePath) -> Root:
    """Returns the place that a user names.

    Args:
        given: A folder; an address in a bucket (``s3a://bucket/folder`` and the like) or in HDFS
            (``hdfs://host:port/folder``); ``file:`` or ``dbfs:`` and a folder, which the latter has where Databricks
            mounts it.

    Raises:
        StoreError: The address is of no scheme that stores may have.
    """
    if not isinstance(given, str):
        return given
    scheme, colon, rest = given.partition(":")
    if scheme in _PLACES and rest.startswith("//"):
        return _PLACES[scheme](given)
    if scheme in _FOLDERS and rest.startswith("/"):
        folder = unquote(urlsplit(given).path)
        is_mounted = scheme == "dbfs" and not folder.startswith("/Volumes/")
        return Path(_MOUNT + folder.lstrip("/") if is_mounted else folder)
    if colon and rest.startswith("//"):
        allowed = [*_PLACES, *_FOLDERS]
        raise StoreError(
            f"no store can be at {scheme}://;{nearest(scheme, allowed)} allowed: a folder, or an address with "
            f"{', '.join(allowed)}"
        )
    return Path(given)


def engine_path(root: Root) -> str:
    """Returns a place as engines name it: Databricks mounts its files in a folder that Spark knows by another name."""
    text = str(root)
    return f"dbfs:/{text.removeprefix(_MOUNT)}" if isinstance(root, Path) and text.startswith(_MOUNT) else text


def plain(root: Root, scratch: Path) -> Root:
    """Returns a path of a folder that Sail can open: the folder itself, or a link to it.

    Sail 0.7 encodes a path as a URL twice, so it cannot open paths with characters that URLs escape, such as spaces and
    letters beyond ASCII.

    Args:
        root: A folder, or a place, which is returned unchanged.
        scratch: The folder of the link.
    """
    if not isinstance(root, Path) or _PLAIN.fullmatch(str(root)):
        return root
    target = str(root.absolute())
    link = scratch / f"store_{blake2b(target.encode(), digest_size=8).hexdigest()}"
    with suppress(FileExistsError):
        link.symlink_to(target, target_is_directory=True)
    return link


def check_name(root: Root) -> None:
    """Checks that the Delta library takes the name of a folder.

    Raises:
        StoreError: It does not.
    """
    if isinstance(root, Path) and (found := _REFUSED.search(root.absolute().as_posix())):
        raise StoreError(
            f"no store can be in {str(root)!r}: the Delta library does not take {found[0]!r} in the name of a folder; "
            f"name another folder"
        )


def scheme_of(root: Root | None) -> str | None:
    """Returns the scheme of an address; None for a folder."""
    return root.scheme if isinstance(root, RemotePath) else None


def options_of(root: Root) -> dict[str, str]:
    """Returns the options with which the Delta library writes there."""
    if isinstance(root, Path):
        return _FOLDER_OPTIONS
    return _BUCKET_OPTIONS if isinstance(root, Bucket) else {}


def make(root: Root, *, is_new: bool = False) -> list[Path]:
    """Creates a folder and its missing parents, and returns the created folders; a place needs none.

    Raises:
        FileExistsError: ``is_new`` is set, and the folder exists.
    """
    if isinstance(root, RemotePath):
        return []
    missing = [folder for folder in (root, *root.parents) if not folder.exists()]
    root.mkdir(parents=True, exist_ok=not is_new)
    return missing


def remove(root: Root) -> None:
    """Removes a place with its content, if it exists."""
    if isinstance(root, RemotePath):
        root.remove_all()
        if root.is_file():
            root.unlink()
    elif root.is_dir():
        shutil.rmtree(root)
    else:
        root.unlink(missing_ok=True)


def write_whole(file: Root, text: str) -> None:
    """Writes a file atomically."""
    if isinstance(file, RemotePath):
        file.write_text(text)
        return
    part = file.with_name(f"{file.name}.part")
    try:
        with part.open("w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def sizes(root: Root) -> dict[str, int]:
    """Returns the bytes of all files of a place, by their paths in it."""
    if isinstance(root, RemotePath):
        return root.sizes()
    return {str(file.relative_to(root)): file.stat().st_size for file in root.rglob("*") if file.is_file()}


def size_of(file: Root) -> int:
    """Returns the bytes of a file."""
    return file.n_bytes() if isinstance(file, RemotePath) else file.stat().st_size


def is_writable(root: Root) -> bool:
    """Returns whether this user may write there; of a place nobody knows before it is tried."""
    return isinstance(root, RemotePath) or os.access(root, os.W_OK)


def delta_rows(table: DeltaTable, columns: Sequence[str]) -> pa.Table:
    """Returns all rows of a small Delta table, read in this process.

    Arrow's threads that read through Delta's file system need the interpreter; one that does when the program exits
    ends it with SIGABRT (in an eighth of the runs of ``roundtable runs``). Delta's own reader has no such threads.

    Args:
        table: The table, in the version that is open.
        columns: Names of its columns.

    Returns:
        A row for each row of the table, `columns` in their order; strings as views.

    Raises:
        DeltaError: The table is damaged.
    """
    names = ", ".join(f'"{name}"' for name in columns)
    query = f'SELECT {names} FROM "rows"'  # noqa: S608 - names of columns of the project's own tables
    return pa.table(QueryBuilder().register("rows", table).execute(query))


_NAME = re.compile(r"([A-Za-z_]\w*)\.([A-Za-z_]\w*)", re.ASCII)


@dataclass(frozen=True)
class Schema:
    """The name of a schema that has a store, see `store.catalog`.

    Attributes:
        catalog: The catalog, as the session names it.
        name: The schema.
    """

    catalog: str
    name: str

    def __str__(self) -> str:
        """Returns the name."""
        return f"{self.catalog}.{self.name}"

    @property
    def quoted(self) -> str:
        """The name, quoted for SQL."""
        return f"`{self.catalog}`.`{self.name}`"

    def check_engine(self, engine: Engine) -> None:
        """Checks that an engine has a catalog that outlives it.

        Raises:
            StoreError: It has none.
        """
        if engine == "local":
            raise StoreError(
                f"no store can be in the schema {str(self)!r} with the engine local, whose catalog ends with its "
                f"process; take --engine spark or connect, name a folder or an address, or ./{self} for a folder of "
                "this name"
            )


def place_of(given: str | Root) -> Root | Schema:
    """Returns the place of a user's string, as `root_of` does, or a schema.

    A string of exactly two identifiers with a dot between them names a schema, unless a folder has this name;
    ``./catalog.schema`` and a `Path` always name a folder.

    Raises:
        StoreError: As `root_of`.
    """
    name = _NAME.fullmatch(given) if isinstance(given, str) and not os.path.lexists(given) else None
    return root_of(given) if name is None else Schema(*name.groups())

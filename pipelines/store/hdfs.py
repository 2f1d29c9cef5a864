"""Paths in Hadoop's file system (HDFS), with atomic writes and lock files.

The address names the NameNode, ``hdfs://host:port/folder``, or a name service of the ``hdfs-site.xml`` in
HADOOP_CONF_DIR. The user comes from the environment: HADOOP_USER_NAME or a Kerberos ticket.

HDFS does not support conditional writes, but it renames atomically. An atomic write therefore creates a temporary file
and renames it. A lock file is represented by a folder that contains one empty file. The name of the empty file is the
content of the lock file. An update renames the empty file. No name is used twice, so only one of several concurrent
updates succeeds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote_plus, unquote_plus, urlsplit
from uuid import uuid4

from pipelines.errors import StoreError, first_line
from pipelines.store.damage import disk_error
from pipelines.store.place import RemotePath, Tag, check_address

if TYPE_CHECKING:
    from hdfs_native import Client

# The client retries an unreachable NameNode for a few seconds, much less than the duration of a lease.
_RETRIES = {
    "dfs.client.failover.max.attempts": "4",
    "dfs.client.failover.sleep.base.millis": "250",
    "dfs.client.failover.sleep.max.millis": "2000",
}
_EXAMPLE = "hdfs://host:port/folder"
_ALLOWED = re.compile(r"[\w./-]*", re.ASCII)  # the Delta library loses tables in folders with other characters
_TAG = "name"
_PART = re.compile(r"\..*\.part")


class Hdfs(RemotePath):
    """The address of a folder or a file in HDFS."""

    def __init__(self, address: str, client: Client | None = None) -> None:
        """Checks the address and creates a client; sends no request to the NameNode.

        Args:
            address: Scheme, NameNode and folder, e.g. ``hdfs://host:8020/studies/one``.
            client: The client of an enclosing folder; None creates a client.

        Raises:
            StoreError: The address has no NameNode, contains credentials or unsupported characters, or package
                ``hdfs_native`` is not installed.
        """
        super().__init__(address)
        self._path = _path(self._address)
        if client is None:
            check_address(self._address, _EXAMPLE, "NameNode")
            if not _ALLOWED.fullmatch(self._path):
                raise StoreError(
                    f"no store can be at {self._address!r}: name a folder in HDFS with letters of English, digits and "
                    "the characters . _ - only"
                )
            client = _client(self._address)
        self._client = client

    def __truediv__(self, name: str) -> Hdfs:
        """Returns the path of file or folder ``name`` in this folder."""
        return Hdfs(f"{self._address}/{name}", self._client)

    def is_file(self) -> bool:
        """Returns whether a file exists at this address."""
        return self._is_dir() is False

    def is_dir(self) -> bool:
        """Returns whether a folder exists at this address."""
        return self._is_dir() is True

    def exists(self) -> bool:
        """Returns whether a file or folder exists at this address."""
        return self._is_dir() is not None

    def iterdir(self) -> Iterator[Hdfs]:
        """Yields the paths in this folder except temporary files; yields nothing if the folder does not exist."""
        for path, _ in self._below(is_deep=False):
            name = path.rpartition("/")[2]
            if not _PART.fullmatch(name):
                yield self / name

    def sizes(self) -> dict[str, int]:
        """Returns the sizes in bytes of all files in this folder and its subfolders, keyed by relative path."""
        cut = len(self._path.rstrip("/")) + 1
        return {path[cut:]: size for path, size in self._below(is_deep=True) if size is not None}

    def n_bytes(self) -> int:
        """Returns the size of this file in bytes; raises `FileNotFoundError` if the file does not exist."""
        with _as_store_error(self._address):
            return self._client.get_file_info(self._path).length

    def read_text(self, encoding: str = "utf-8") -> str:
        """Returns the content of this file; raises `FileNotFoundError` if the file does not exist."""
        with _as_store_error(self._address):
            return self._client.read(self._path).read().decode(encoding)

    def write_bytes(self, data: bytes) -> None:
        """Writes ``data`` to this file atomically."""
        part = _path(_part(self._address))
        with _as_store_error(self._address):
            try:
                with self._client.create(part) as out:
                    out.write(data)
                self._client.rename(part, self._path, overwrite=True)
            except BaseException:
                with suppress(Exception):
                    self._client.delete(part)
                raise

    def lock(self, name: str) -> HdfsLock:
        """Returns the lock file ``name`` in this folder."""
        return HdfsLock(self / name, self._client)

    def unlink(self) -> None:
        """Removes this file."""
        self.remove_all()

    def remove_all(self) -> None:
        """Removes this folder and its content atomically."""
        with _as_store_error(self._address):
            self._client.delete(self._path, recursive=True)

    def _is_dir(self) -> bool | None:
        try:
            with _as_store_error(self._address):
                return self._client.get_file_info(self._path).isdir
        except FileNotFoundError:
            return None

    def _below(self, *, is_deep: bool) -> Iterator[tuple[str, int | None]]:
        """Yields the paths in this folder, each with the size in bytes of a file, or None for a folder."""
        try:
            with _as_store_error(self._address):
                found = [*self._client.list_status(self._path, recursive=is_deep)]
        except FileNotFoundError:
            return
        for status in found:
            if status.path != self._path:  # the listing of a file contains the file itself
                yield status.path, None if status.isdir else status.length


class HdfsLock:
    """A lock file in HDFS: a folder with one empty file, whose name is the content of the lock file."""

    def __init__(self, folder: Hdfs, client: Client) -> None:
        self._folder = folder
        self._client = client

    def __str__(self) -> str:
        """Returns the address."""
        return str(self._folder)

    def create(self, text: str) -> Tag | None:
        """Creates the lock file atomically and returns its tag; returns None if the file exists."""
        part, name = _part(str(self)), quote_plus(text)
        with _as_store_error(str(self)):
            self._client.create(_path(f"{part}/{name}")).close()
            try:
                self._client.rename(_path(part), _path(str(self)))
            except (FileExistsError, FileNotFoundError):
                self._client.delete(_path(part), recursive=True)
                return None
        return {_TAG: name}

    def update(self, text: str, tag: Tag) -> Tag | None:
        """Writes the lock file atomically if its tag equals ``tag``.

        Returns the new tag, or None if the tags differ.
        """
        name = quote_plus(text)
        with _as_store_error(str(self)):
            try:
                self._client.rename(_path(f"{self}/{tag[_TAG]}"), _path(f"{self}/{name}"))
            except FileNotFoundError:
                return None
        return {_TAG: name}

    def head(self) -> tuple[Tag, datetime] | None:
        """Returns the tag and the NameNode's modification time of the lock file; None if the file does not exist."""
        try:
            with _as_store_error(str(self)):
                milliseconds = self._client.get_file_info(_path(str(self))).modification_time
            return {_TAG: self._name()}, datetime.fromtimestamp(milliseconds / 1000, UTC)
        except FileNotFoundError:
            return None

    def read_text(self) -> str:
        """Returns the content of the lock file as a string."""
        return unquote_plus(self._name())

    def unlink(self) -> None:
        """Removes the lock file. If the folder of the lock file is then empty, removes this folder, too."""
        self._folder.remove_all()
        with suppress(RuntimeError):  # the folder is not empty
            self._client.delete(_path(str(self).rpartition("/")[0]))

    def _name(self) -> str:
        names = [path.name for path in self._folder.iterdir()]
        if len(names) == 1:
            return names[0]
        if not self._folder.exists():
            raise FileNotFoundError(str(self))
        raise StoreError(f"the lock {str(self)!r} is damaged; remove it where nobody writes the store")


def _client(address: str) -> Client:
    try:
        from hdfs_native import Client
    except ImportError as error:
        raise StoreError("a store in HDFS needs another package: pip install 'roundtable-pubsub[hdfs]'") from error
    with _as_store_error(address):
        return Client(address, _RETRIES)


def _path(address: str) -> str:
    return "/" + address.partition("://")[2].partition("/")[2]


def _part(address: str) -> str:
    """Returns an unused address for a temporary file beside the file at ``address``."""
    folder, _, name = address.rpartition("/")
    return f"{folder}/.{name}.{uuid4().hex}.part"


@contextmanager
def _as_store_error(address: str) -> Iterator[None]:
    """Converts errors of the HDFS client to `StoreError`; re-raises errors about missing and existing files."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except (OSError, RuntimeError, ValueError) as error:
        raise (disk_error(error, address) or _unknown(error, address)) from None


def _unknown(error: Exception, address: str) -> StoreError:
    if "No NameNode hosts found" in str(error):
        server = urlsplit(address).netloc
        cause = (
            f"{server!r} is not a name service in HADOOP_CONF_DIR: write host and port of the NameNode, or let "
            "HADOOP_CONF_DIR name the folder of hdfs-site.xml"
        )
    else:
        first = first_line(error)
        told = re.match(r'RPCError\("[\w.$]*?(\w+)", "(.*?)(?:\\n|"\)|$)', first)
        if told:
            first = f"{told[1]}: {told[2]}".replace('\\"', '"')
        cause = f"{first}; check the address, and who the user is (HADOOP_USER_NAME, or a ticket of Kerberos)"
    return StoreError(f"HDFS at {address!r} fails: {cause}")

"""A place in Hadoop's file system (HDFS).

The address names the NameNode, ``hdfs://host:port/folder``, or a name service of the ``hdfs-site.xml`` in
HADOOP_CONF_DIR. Who the user is comes from the environment: HADOOP_USER_NAME, or a ticket of Kerberos.

HDFS writes no file under a condition, but it renames in one step. So a file is written beside its place and renamed,
and the file that a lease stands for is a folder with one empty file, whose name is the text: to change it is to rename
that one, which succeeds for one program only, as every name is used once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote_plus, unquote_plus, urlsplit
from uuid import uuid4

from pipelines.errors import StoreError
from pipelines.store.damage import disk_error
from pipelines.store.place import RemotePath, Tag, check_address

if TYPE_CHECKING:
    from hdfs_native import Client

# An address that nobody answers is tried again for some seconds; a lease is much longer.
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
    """A folder or a file in HDFS."""

    def __init__(self, address: str, client: Client | None = None) -> None:
        """Points at a place; nothing is asked of the NameNode yet.

        Args:
            address: Scheme, NameNode and folder, e.g. ``hdfs://host:8020/studies/one``.
            client: The client of an enclosing folder.

        Raises:
            StoreError: The address names no NameNode, or a folder that no store can have; credentials are in it; or
                the client is not installed.
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
        """Returns a place in this one."""
        return Hdfs(f"{self._address}/{name}", self._client)

    def is_file(self) -> bool:
        """Returns whether a file has this name."""
        return self._is_dir() is False

    def is_dir(self) -> bool:
        """Returns whether this is a folder."""
        return self._is_dir() is True

    def exists(self) -> bool:
        """Returns whether anything is here."""
        return self._is_dir() is not None

    def iterdir(self) -> Iterator[Hdfs]:
        """Yields the files and folders in this folder, without unfinished files; none if it does not exist."""
        for path, _ in self._below(is_deep=False):
            name = path.rpartition("/")[2]
            if not _PART.fullmatch(name):
                yield self / name

    def sizes(self) -> dict[str, int]:
        """Returns the bytes of all files below, by what their names have beyond this one."""
        cut = len(self._path.rstrip("/")) + 1
        return {path[cut:]: size for path, size in self._below(is_deep=True) if size is not None}

    def n_bytes(self) -> int:
        """Returns the size of the file.

        Raises:
            FileNotFoundError: The file does not exist.
        """
        with _told(self._address):
            return self._client.get_file_info(self._path).length

    def read_text(self, encoding: str = "utf-8") -> str:
        """Returns the text of the file.

        Raises:
            FileNotFoundError: The file does not exist.
        """
        with _told(self._address):
            return self._client.read(self._path).read().decode(encoding)

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        """Writes the file atomically."""
        part = _path(_part(self._address))
        with _told(self._address):
            try:
                with self._client.create(part) as out:
                    out.write(text.encode(encoding))
                self._client.rename(part, self._path, overwrite=True)
            except BaseException:
                with suppress(Exception):
                    self._client.delete(part)
                raise

    def lock(self, name: str) -> HdfsLock:
        """Returns the file in this place that a lease stands for."""
        return HdfsLock(self / name, self._client)

    def unlink(self) -> None:
        """Removes the file."""
        self.remove_all()

    def remove_all(self) -> None:
        """Removes the folder with its content, in one step."""
        with _told(self._address):
            self._client.delete(self._path, recursive=True)

    def _is_dir(self) -> bool | None:
        """Returns whether this is a folder; None where nothing is here."""
        try:
            with _told(self._address):
                return self._client.get_file_info(self._path).isdir
        except FileNotFoundError:
            return None

    def _below(self, *, is_deep: bool) -> Iterator[tuple[str, int | None]]:
        """Yields the paths below, and the bytes of those that are files."""
        try:
            with _told(self._address):
                found = [*self._client.list_status(self._path, recursive=is_deep)]
        except FileNotFoundError:
            return
        for status in found:
            if status.path != self._path:  # a file lists itself
                yield status.path, None if status.isdir else status.length


class HdfsLock:
    """A file that is made and changed with conditions: a folder with one empty file, whose name is the text."""

    def __init__(self, folder: Hdfs, client: Client) -> None:
        """Points at it.

        Args:
            folder: The folder.
            client: The client.
        """
        self._folder = folder
        self._client = client

    def __str__(self) -> str:
        """Returns the address."""
        return str(self._folder)

    def create(self, text: str) -> Tag | None:
        """Creates the file in one step and returns its tag; None where it exists already."""
        part, name = _part(str(self)), quote_plus(text)
        with _told(str(self)):
            self._client.create(_path(f"{part}/{name}")).close()
            try:
                self._client.rename(_path(part), _path(str(self)))
            except (FileExistsError, FileNotFoundError):
                self._client.delete(_path(part), recursive=True)
                return self._given(name)
        return {_TAG: name}

    def update(self, text: str, tag: Tag) -> Tag | None:
        """Changes the file if it has still this tag, in one step; returns the new one, or None where it is another."""
        name = quote_plus(text)
        with _told(str(self)):
            try:
                self._client.rename(_path(f"{self}/{tag[_TAG]}"), _path(f"{self}/{name}"))
            except FileNotFoundError:
                return self._given(name)
        return {_TAG: name}

    def head(self) -> tuple[Tag, datetime] | None:
        """Returns the tag of the file and when it was written, by the clock of the NameNode; None: not there."""
        try:
            with _told(str(self)):
                milliseconds = self._client.get_file_info(_path(str(self))).modification_time
            return {_TAG: self._name()}, datetime.fromtimestamp(milliseconds / 1000, UTC)
        except FileNotFoundError:
            return None

    def read_text(self) -> str:
        """Returns the text of the file.

        Raises:
            FileNotFoundError: The file does not exist.
        """
        return unquote_plus(self._name())

    def unlink(self) -> None:
        """Removes the file, and the folder that it lies in where that holds nothing else."""
        self._folder.remove_all()
        with suppress(RuntimeError):  # there is something else
            self._client.delete(_path(str(self).rpartition("/")[0]))

    def _given(self, name: str) -> Tag | None:
        """Returns the tag of a name if the file has it: the client asks again where an answer is lost, and is told no.

        No other program gives that name.
        """
        return {_TAG: name} if (self._folder / name).exists() else None

    def _name(self) -> str:
        """Returns the name of the one file."""
        names = [place.name for place in self._folder.iterdir()]
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
    with _told(address):
        return Client(address, _RETRIES)


def _path(address: str) -> str:
    """Returns the path of an address, as the NameNode has it."""
    return "/" + address.partition("://")[2].partition("/")[2]


def _part(address: str) -> str:
    """Returns the address of what is to become the file of another address."""
    folder, _, name = address.rpartition("/")
    return f"{folder}/.{name}.{uuid4().hex}.part"


@contextmanager
def _told(address: str) -> Iterator[None]:
    """Turns what HDFS complains of into a `StoreError`, but for answers that callers ask for."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except (OSError, RuntimeError, ValueError) as error:
        raise (disk_error(error, address) or _unknown(error, address)) from None


def _unknown(error: Exception, address: str) -> StoreError:
    said = str(error)
    if "No NameNode hosts found" in said:
        server = urlsplit(address).netloc
        cause = (
            f"{server!r} is no name service that HADOOP_CONF_DIR knows: write host and port of the NameNode, or let "
            "HADOOP_CONF_DIR name the folder of hdfs-site.xml"
        )
    else:
        first = (said.strip().splitlines() or [type(error).__name__])[0]
        told = re.match(r'RPCError\("[\w.$]*?(\w+)", "(.*?)(?:\\n|"\)|$)', first)
        if told:
            first = f"{told[1]}: {told[2]}".replace('\\"', '"')
        cause = f"{first}; check the address, and who the user is (HADOOP_USER_NAME, or a ticket of Kerberos)"
    return StoreError(f"HDFS at {address!r} fails: {cause}")

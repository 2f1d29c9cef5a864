"""A place that an address names, with as much of `pathlib.Path` as a store needs; each kind of server has a class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import datetime
from typing import Protocol, Self
from urllib.parse import urlsplit

from pipelines.errors import StoreError

Tag = dict[str, str]
"""Identifies the version of a file's content."""


class Exclusive(Protocol):
    """A file that is made and changed with conditions, in one step each: of several programs one succeeds."""

    def create(self, text: str) -> Tag | None:
        """Creates the file and returns its tag; None where it exists already."""

    def update(self, text: str, tag: Tag) -> Tag | None:
        """Writes the file if its tag is still ``tag``; returns the new tag, or None if the tag differs."""

    def head(self) -> tuple[Tag, datetime] | None:
        """Returns the tag of the file and when it was written, by the server's clock; None: not there."""

    def read_text(self) -> str:
        """Returns the text of the file.

        Raises:
            FileNotFoundError: The file does not exist.
        """

    def unlink(self) -> None:
        """Removes the file."""


class RemotePath(ABC):
    """A folder or a file that an address names."""

    def __init__(self, address: str) -> None:
        """Points at a place.

        Args:
            address: Scheme, server or bucket, and folder.
        """
        self._address = address.rstrip("/")

    def __str__(self) -> str:
        """Returns the address."""
        return self._address

    def __repr__(self) -> str:
        """Returns the address, with the class."""
        return f"{type(self).__name__}({self._address!r})"

    def __eq__(self, other: object) -> bool:
        """Returns whether both are the same place."""
        return isinstance(other, RemotePath) and self._address == other._address

    def __hash__(self) -> int:
        """Returns a hash of the address."""
        return hash(self._address)

    @abstractmethod
    def __truediv__(self, name: str) -> Self:
        """Returns the file or folder of a name in this folder."""

    @property
    def scheme(self) -> str:
        """The scheme of the address."""
        return self._address.partition(":")[0]

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self._address.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return self.name.rpartition(".")[0] or self.name

    def absolute(self) -> Self:
        """Returns itself: an address is never relative."""
        return self

    def exists(self) -> bool:
        """Returns whether anything is here."""
        return self.is_dir() or self.is_file()

    @abstractmethod
    def is_file(self) -> bool:
        """Returns whether a file has this name."""

    @abstractmethod
    def is_dir(self) -> bool:
        """Returns whether this is a folder."""

    @abstractmethod
    def iterdir(self) -> Iterator[Self]:
        """Yields the files and folders in this folder; none if it does not exist."""

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """Returns the size in bytes of all files in this folder and its subfolders, by relative path."""

    @abstractmethod
    def n_bytes(self) -> int:
        """Returns the size of the file.

        Raises:
            FileNotFoundError: The file does not exist.
        """

    @abstractmethod
    def read_text(self, encoding: str = "utf-8") -> str:
        """Returns the text of the file.

        Raises:
            FileNotFoundError: The file does not exist.
        """

    @abstractmethod
    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        """Writes the file atomically."""

    @abstractmethod
    def lock(self, name: str) -> Exclusive:
        """Returns the file in this place that a lease stands for."""

    @abstractmethod
    def unlink(self) -> None:
        """Removes the file."""

    @abstractmethod
    def remove_all(self) -> None:
        """Removes everything below."""


def check_address(address: str, example: str, what: str) -> None:
    """Checks that an address names a server or a bucket, and holds no credentials.

    Args:
        address: The address.
        example: One as it should be.
        what: What it has to name.

    Raises:
        StoreError: It does not, or it does.
    """
    place = urlsplit(address)
    if place.password or "?" in address or (place.username and place.scheme in ("s3", "s3a", "gs", "hdfs")):
        raise StoreError(
            f"the address {place.scheme}://... holds credentials, which would be kept with the store; put them into "
            "the environment, and write the address without them"
        )
    if not place.hostname:
        raise StoreError(f"the address {address!r} names no {what}; write e.g. {example}")

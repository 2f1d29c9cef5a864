"""The common part of paths in object stores and HDFS, which have the methods of `pathlib.Path` that a store needs."""

from __future__ import annotations

from typing import Self
from urllib.parse import urlsplit

from pipelines.errors import StoreError

Tag = dict[str, str]
"""A version identifier of a file's content, such as an HTTP entity tag."""


class RemotePath:
    """The address of a folder or a file on a server; base of `bucket.Bucket` and `hdfs.Hdfs`."""

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")

    def __str__(self) -> str:
        """Returns the address."""
        return self._address

    def __repr__(self) -> str:
        """Returns the class name and the address."""
        return f"{type(self).__name__}({self._address!r})"

    def __eq__(self, other: object) -> bool:
        """Returns whether ``other`` is a remote path with an equal address."""
        return isinstance(other, RemotePath) and self._address == other._address

    def __hash__(self) -> int:
        """Returns a hash of the address."""
        return hash(self._address)

    @property
    def scheme(self) -> str:
        """The scheme of the address."""
        return self._address.partition(":")[0]

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self._address.rpartition("/")[2]

    def absolute(self) -> Self:
        """Returns this path: an address is always absolute."""
        return self


def check_address(address: str, example: str, what: str) -> None:
    """Raises `StoreError` if an address contains credentials, or names neither a server nor a bucket.

    The error message contains ``example``, a valid address, and ``what``, the required part: "bucket" or "NameNode".
    """
    parts = urlsplit(address)
    if parts.password or "?" in address or (parts.username and parts.scheme in ("s3", "s3a", "gs", "hdfs")):
        raise StoreError(
            f"the address {parts.scheme}://... contains credentials, which the store would contain; put them into the "
            "environment, and write the address without them"
        )
    if not parts.hostname:
        raise StoreError(f"the address {address!r} names no {what}; write e.g. {example}")

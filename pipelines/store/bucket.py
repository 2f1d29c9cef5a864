"""Paths in an object store: S3, Google Cloud Storage or Azure.

The credentials, the region and the endpoint come from the environment variables of each cloud's own tools. This module
neither stores nor prints credentials.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import from_url

from pipelines.engines.settings import endpoint
from pipelines.errors import StoreError, first_line
from pipelines.store.damage import disk_error
from pipelines.store.place import RemotePath, Tag, check_address

RETRY_SECONDS = 10
"""Seconds for which the client repeats a failing request; much less than the duration of a lease."""
_RETRIES = 3


class Bucket(RemotePath):
    """The address of an object or of a prefix in a bucket."""

    def __init__(self, address: str, store: Any = None, key: str = "") -> None:  # noqa: ANN401 - one class a cloud
        """Checks the address and creates a client; sends no request to the object store.

        Args:
            address: Scheme, bucket and prefix, e.g. ``s3a://bucket/studies/one``.
            store: The client of an enclosing prefix; None creates a client.
            key: The key relative to that prefix.

        Raises:
            StoreError: The address has no bucket or contains credentials.
        """
        super().__init__(address)
        self._key = key
        if store is None:
            check_address(self._address, f"{self.scheme}://bucket/folder", "bucket")
            endpoint()
            with _as_store_error(self._address):
                store = from_url(
                    self._address,
                    retry_config={"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=RETRY_SECONDS)},
                )
        self._store = store

    def __truediv__(self, name: str) -> Bucket:
        """Returns the path of object or prefix ``name`` below this prefix."""
        return Bucket(f"{self._address}/{name}", self._store, f"{self._key}/{name}" if self._key else name)

    def exists(self) -> bool:
        """Returns whether an object exists with this key or below this prefix."""
        return self.is_dir() or self.is_file()

    def is_file(self) -> bool:
        """Returns whether an object with this key exists."""
        return bool(self._key) and self.head() is not None

    def is_dir(self) -> bool:
        """Returns whether an object exists below this prefix."""
        with _as_store_error(self._address):
            return any(len(found) for found in obstore.list(self._store, self._key or None, chunk_size=1))

    def iterdir(self) -> Iterator[Bucket]:
        """Yields the paths of the objects and prefixes directly below this prefix."""
        with _as_store_error(self._address):
            found = obstore.list_with_delimiter(self._store, self._key or None)
        for key in (*found["common_prefixes"], *(entry["path"] for entry in found["objects"])):
            yield self / key.rpartition("/")[2]

    def sizes(self) -> dict[str, int]:
        """Returns the sizes in bytes of all objects below this prefix, keyed by relative path."""
        with _as_store_error(self._address):
            found = [entry for chunk in obstore.list(self._store, self._key or None) for entry in chunk]
        cut = len(self._key) + 1 if self._key else 0
        return {entry["path"][cut:]: entry["size"] for entry in found}

    def n_bytes(self) -> int:
        """Returns the size of this object in bytes; raises `FileNotFoundError` if the object does not exist."""
        with _as_store_error(self._address):
            return obstore.head(self._store, self._key)["size"]

    def head(self) -> tuple[Tag, datetime] | None:
        """Returns the tag and the server's modification time of this object; None if the object does not exist."""
        try:
            with _as_store_error(self._address):
                found = obstore.head(self._store, self._key)
        except FileNotFoundError:
            return None
        return _tag(found), found["last_modified"]

    def read_text(self, encoding: str = "utf-8") -> str:
        """Returns the content of this object; raises `FileNotFoundError` if the object does not exist."""
        with _as_store_error(self._address):
            return bytes(obstore.get(self._store, self._key).bytes()).decode(encoding)

    def write_bytes(self, data: bytes) -> None:
        """Writes ``data`` to this object atomically."""
        self._put(data, "overwrite")

    def create(self, text: str) -> Tag | None:
        """Creates this object atomically and returns its tag; returns None if the object exists."""
        try:
            return self._put(text.encode(), "create")
        except AlreadyExistsError:
            return None

    def update(self, text: str, tag: Tag) -> Tag | None:
        """Writes this object atomically if its tag equals ``tag``; returns the new tag, or None if the tags differ."""
        try:
            return self._put(text.encode(), tag)
        except (PreconditionError, FileNotFoundError):
            return None

    def lock(self, name: str) -> Bucket:
        """Returns object ``name`` below this prefix as a lock file. Every object supports conditional writes."""
        return self / name

    def unlink(self) -> None:
        """Removes this object."""
        with _as_store_error(self._address):
            obstore.delete(self._store, self._key)

    def remove_all(self) -> None:
        """Removes every object below this prefix."""
        prefix = f"{self._key}/" if self._key else ""
        keys = [prefix + name for name in self.sizes()]
        with _as_store_error(self._address):
            obstore.delete(self._store, keys)

    def _put(self, content: bytes, mode: Any) -> Tag:  # noqa: ANN401 - as in obstore
        with _as_store_error(self._address):
            # A conditional write must be a single request: an upload in several parts ignores the condition.
            return _tag(obstore.put(self._store, self._key, content, mode=mode, use_multipart=False))


def _tag(found: Any) -> Tag:  # noqa: ANN401 - a dict whose keys depend on the server
    return {name: found[name] for name in ("e_tag", "version") if found.get(name)}


@contextmanager
def _as_store_error(address: str) -> Iterator[None]:
    """Converts errors of an object store to `StoreError`, except those about missing, existing and changed objects."""
    try:
        yield
    except (AlreadyExistsError, PreconditionError):
        raise
    except (BaseError, OSError, ValueError) as error:
        told = disk_error(error, address)
        if told is None and isinstance(error, FileNotFoundError):
            raise
        cause = re.sub(r"\?\S+", "", first_line(error))  # the query string of a URL may contain a signature
        message = f"the object store of {address!r} fails: {cause}; check the address and the endpoint"
        raise (told or StoreError(message)) from None

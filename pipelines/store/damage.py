"""Converts errors about disks, object stores and damaged files to `StoreError` with a cause and a remedy.

Engines and libraries wrap these errors differently, but every message contains the operating system's message. The loss
of an engine becomes an `EngineError`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.engines.names import JVM_ENDED
from pipelines.errors import EngineError, RoundtableError, StoreError

_CAUSES = (
    (re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE), "the disk is full: free disk space"),
    (re.compile(r"File too large", re.IGNORECASE), "a file exceeds the size limit: raise the limit (ulimit -f)"),
    (re.compile(r"File ?name too long", re.IGNORECASE),
     "a file name exceeds the limit of the file system: use a shorter name"),
    (re.compile(r"Read-only file system", re.IGNORECASE),
     "its file system is read-only: mount it with write access, or copy the store"),
)  # fmt: skip
_DENIED = re.compile(
    r"Permission denied: '(?P<python>[^']+)'|file (?P<rust>/[^#\n]+?)(?:#\d+)?: Permission denied"
    r"|(?P<java>/\S+) \(Permission denied\)|Permission denied \(os error"
)
"""The error of a file without rights, as Python, the Delta library and Java write it."""
_UNREACHABLE = (
    (re.compile(r"NoSuchBucket|ContainerNotFound|specified bucket does not exist|bucket \S+ does not exist",
                re.IGNORECASE),
     "the bucket does not exist: check its name and region, or create it"),
    (re.compile(r"169\.254\.169\.254|metadata\.google\.internal|CredentialsNotLoaded|NoAuthWithAWSException"
                r"|NoAwsCredentials|Unable to load (?:AWS )?credentials|IMDS is disabled", re.IGNORECASE),
     "the environment contains no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
     "GOOGLE_SERVICE_ACCOUNT, or AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY"),
    (re.compile(r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|AuthorizationFailure|AuthenticationFailed"
                r"|(?:403 Forbidden|401 Unauthorized)", re.IGNORECASE),
     "the credentials in the environment do not allow it: check them, and their rights on the bucket"),
    (re.compile(r"No FileSystem for scheme|UnsupportedFileSystemException"
                r"|ClassNotFoundException: Class org\.apache\.hadoop\.fs\.", re.IGNORECASE),
     "Spark lacks the package for its scheme: add org.apache.hadoop:hadoop-aws (s3a), org.apache.hadoop:hadoop-azure "
     "(abfss), each in the version of Spark's Hadoop, or Google's gcs-connector (gs) to spark.jars.packages"),
)  # fmt: skip
_DAMAGED = re.compile(
    r"Parquet error|not a parquet file|corrupt (?:footer|parquet)|invalid parquet|FAILED_READ_FILE"
    r"|\.parquet\b.*(?:not found|no such file|does not exist)|Parquet magic bytes",
    re.IGNORECASE | re.DOTALL,
)
_FILE = re.compile(r"[\w./-]+\.parquet\b")
_NO_JVM = re.compile(r"Answer from Java side is empty|An error occurred while calling [\w.]+")
"""The errors of a call of Py4J whose answer is missing; the error of a method that fails has more text."""
_NO_SERVER = re.compile(r"StatusCode\.UNAVAILABLE|SESSION_NOT_FOUND|SESSION_CHANGED")


@contextmanager
def named_damage(root: object) -> Iterator[None]:
    """Converts errors about the disk, the files of store ``root`` or a lost engine (`surroundings_error`)."""
    try:
        yield
    except RoundtableError:
        raise
    except Exception as error:
        told = surroundings_error(error, root)
        if told is None:
            raise
        for note in getattr(error, "__notes__", ()):
            told.add_note(note)
        raise told from error


def _has_working_directory() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def surroundings_error(error: BaseException, root: object = None) -> StoreError | EngineError | None:
    """Returns the error for the disk or a file of store ``root``, or for a lost engine; None for any other error."""
    if (told := disk_error(error, root)) is not None:
        return told
    errors = list(_chain(error))
    if any(isinstance(one, ConnectionRefusedError) or _NO_JVM.fullmatch(str(one)) for one in errors):
        return EngineError(JVM_ENDED)
    if any(_NO_SERVER.search(str(one)) for one in errors):
        return EngineError("the Spark Connect server has ended, or cannot be reached; check its log")
    return None


def disk_error(error: BaseException, root: object = None) -> StoreError | None:
    """Returns the `StoreError` for an error about the disk or a store's files; None for any other error.

    The message names store ``root`` if it is known.
    """
    store = "the store" if root is None else f"the store {str(root)!r}"
    written = "a file" if root is None else store
    if isinstance(error, FileNotFoundError) and not _has_working_directory():
        return StoreError("the working directory has been removed; change to an existing folder")
    text = " ".join(messages(error))
    for what, causes in ((f"{written} cannot be written", _CAUSES), (f"{store} cannot be reached", _UNREACHABLE)):
        for pattern, cause in causes:
            if pattern.search(text):
                return StoreError(f"{what}: {cause}")
    if (denied := _DENIED.search(text)) is not None:
        file = next((repr(path) for path in denied.groups() if path), "one of its files")
        subject = "a file" if root is None else store
        return StoreError(
            f"{subject} cannot be accessed: permission denied for {file}; correct its rights, or ask its owner"
        )
    if _DAMAGED.search(text):
        found = _FILE.search(text)
        what = f"its file {Path(found[0]).parent.name}/{Path(found[0]).name}" if found else "one of its files"
        return StoreError(
            f"{store} is damaged: {what} cannot be read; restore it from a backup, or run the scenario (stored in "
            "experiment.json) again with a new --store"
        )
    return None


def messages(error: BaseException) -> Iterator[str]:
    """Yields the message of an error, and the messages of the errors that caused it."""
    yield from map(str, _chain(error))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__

"""Finds input files: in the scenario's folder, in the working directory, and in the installed data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from pipelines.errors import DataFileError

_PACKAGE = Path(__file__).resolve().parent
_FOUND: ContextVar[dict[str, Path]] = ContextVar("found")


def installed_data() -> Path:
    """Returns the folder that contains ``conf`` and ``datasets``.

    For an installed wheel, it is the wheel's data folder; for an editable install, it is the checkout.
    """
    packed = _PACKAGE / "_data"
    return packed if packed.is_dir() else _PACKAGE.parent


@contextmanager
def remembered(files: dict[str, Path]) -> Iterator[None]:
    """Inside the ``with`` block, `find_file` caches its results in ``files``, which maps paths in a scenario to files.

    A path that ``files`` contains at the start of the block is not searched.
    """
    token = _FOUND.set(files)
    try:
        yield
    finally:
        _FOUND.reset(token)


def find_file(path: str, beside: Path | None, field: str = "path") -> Path:
    """Returns the first existing file for a path in a scenario.

    A relative path is searched in the folder ``beside``, in the working directory, and in the installed data, in this
    order. ``beside`` is the folder of the scenario file, or None if the scenario is not a file.

    Raises:
        DataFileError: The file does not exist; the message names the searched paths. The error has attribute ``field``.
    """
    found = _FOUND.get({})
    if path not in found:
        found[path] = _looked_up(path, beside, field)
    return found[path]


def _looked_up(path: str, beside: Path | None, field: str) -> Path:
    given = Path(path).expanduser()
    if given.is_absolute():
        candidates = [given]
    else:
        candidates = [folder / given for folder in (beside, Path.cwd(), installed_data()) if folder is not None]
    with suppress(OSError, ValueError):  # a name is too long, or contains a character that file systems reject
        for candidate in candidates:
            if candidate.is_file():
                return candidate
    tried = ", ".join(dict.fromkeys(map(str, candidates)))
    message = f"no file {path!r}; tried {tried}; give a path beside the scenario file, or an absolute one"
    raise DataFileError(message, field)

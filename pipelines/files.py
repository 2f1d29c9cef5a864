"""Where input files are looked up: beside the scenario, in the working directory, in the installed data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from pipelines.errors import DataFileError

_PACKAGE = Path(__file__).resolve().parent
_FOUND: ContextVar[dict[str, Path] | None] = ContextVar("found", default=None)


def installed_data() -> Path:
    """Returns the folder that holds ``conf`` and ``datasets``: a wheel's own, or an editable install's checkout."""
    packed = _PACKAGE / "_data"
    return packed if packed.is_dir() else _PACKAGE.parent


@contextmanager
def remembered(files: dict[str, Path]) -> Iterator[None]:
    """Keeps which files were found: those in ``files`` are found again, others are looked up once and added.

    Args:
        files: A path as a scenario gives it, and the file that it stands for.
    """
    token = _FOUND.set(files)
    try:
        yield
    finally:
        _FOUND.reset(token)


def find_file(path: str, beside: Path | None) -> Path:
    """Returns the first existing file for a path of a scenario.

    Args:
        path: Absolute, or relative to one of the three places.
        beside: The scenario file's folder, if there is one.

    Raises:
        DataFileError: No such file; the message names the places tried.
    """
    found = _FOUND.get()
    if found is None:
        return _looked_up(path, beside)
    if path not in found:
        found[path] = _looked_up(path, beside)
    return found[path]


def _looked_up(path: str, beside: Path | None) -> Path:
    given = Path(path).expanduser()
    if given.is_absolute():
        places = [given]
    else:
        places = [folder / given for folder in (beside, Path.cwd(), installed_data()) if folder is not None]
    for place in places:
        if place.is_file():
            return place
    tried = ", ".join(dict.fromkeys(str(place) for place in places))
    raise DataFileError(f"no file {path!r}; tried {tried}")

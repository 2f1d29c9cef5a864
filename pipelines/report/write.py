"""Writes the report of a store."""

from __future__ import annotations

from pathlib import Path

from pipelines.errors import QueryError
from pipelines.report.document import Asked, gather
from pipelines.report.page import page
from pipelines.sql.query import StoreReader
from pipelines.store.roots import Root, write_whole

NAME = "report.html"


def write_report(reader: StoreReader, root: Root, asked: Asked, out: Path | None = None) -> Root:
    """Writes one HTML file, which is there as a whole or not at all.

    Args:
        reader: The store.
        root: Where it is.
        asked: What the report is to hold.
        out: The file; None: ``report.html`` in the store's folder.

    Returns:
        The file.

    Raises:
        QueryError: There is no such run or round, or the file cannot be written.
    """
    path = out if out is not None else root / NAME
    data = gather(reader, root, asked)
    try:
        write_whole(path, page(data, f"{data['scenario']} - Roundtable"))
    except OSError as error:
        raise QueryError(
            f"the file {str(path)!r} cannot be written: {error.strerror}; name another with --out"
        ) from error
    return path

"""Total orders: every window that decides something sorts by keys that no two of its rows share.

Engines break ties differently, from one execution to the next: runs that must be equal would differ. So these windows
are made here, and a tie stops the job (`AmbiguousOrderError`). ``ROUNDTABLE_CHECK_ORDER=0`` leaves the check out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from pipelines.errors import AmbiguousOrderError

CHECK = "ROUNDTABLE_CHECK_ORDER"
_IS_CHECKED = os.environ.get(CHECK, "1") != "0"
_TIED = "ROUNDTABLE_TIED_ROWS"


def row_number(what: str, partition: str, order: str) -> str:
    """Returns SQL that numbers the rows of each partition from 1 on, in an order without ties.

    Args:
        what: What is numbered, for the error; no quotes.
        partition: Columns, as in ``partition by``.
        order: Sort keys, as in ``order by``; two rows of a partition that agree in all of them stop the job.
    """
    window = f"over (partition by {partition} order by {order})"
    if not _IS_CHECKED:
        return f"row_number() {window}"
    tied = f"cast(raise_error('{_TIED}: {what}: {order};') as int)"
    return f"case when rank() {window} = row_number() {window} then row_number() {window} else {tied} end"


@contextmanager
def ties_named() -> Iterator[None]:
    """Turns an engine's report of tied rows into an error that names the order.

    Raises:
        AmbiguousOrderError: Two rows had equal keys in a window of `row_number`.
    """
    try:
        yield
    except PySparkException as error:
        _, found, rest = str(error).partition(f"{_TIED}: ")
        if not found:
            raise
        raise AmbiguousOrderError(
            f"two rows have equal sort keys, so their order differs between executions ({rest.partition(';')[0]});"
            f" this is a fault of the protocol or the engine, please report it; {CHECK}=0 goes on without this check"
        ) from error

"""The public API of Roundtable, imported at first use: ``import roundtable as rt``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pipelines

if TYPE_CHECKING:
    from pipelines import Comparison, Hunt, Result, RoundtableError, RunRow, compare, hunt, open_store, resume, run

__all__ = [
    "Comparison", "Hunt", "Result", "RoundtableError", "RunRow", "compare", "hunt", "open_store", "resume", "run",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Returns a public name of package `pipelines`.

    Raises:
        AttributeError: The name is not public.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    value: object = getattr(pipelines, name)
    return value


def __dir__() -> list[str]:
    """Returns the sorted names of the module, including public names that are not imported yet."""
    return sorted({*globals(), *__all__})

"""The public API of Roundtable, which runs fault-tolerant publish/subscribe protocols on Spark.

`run` runs a scenario, `resume` resumes an interrupted run, and `open_store` opens an existing store. `compare` ranks
protocols on a scenario, and `hunt` searches for fault schedules that break a guarantee. `RoundtableError` is the base
class of their errors. Each name is imported at its first use, so ``import pipelines`` is fast and needs no engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipelines.api import open_store, resume, run
    from pipelines.comparing.compare import Comparison, compare
    from pipelines.errors import RoundtableError
    from pipelines.hunting import Hunt, hunt
    from pipelines.result import Result, RunRow

__all__ = [
    "Comparison", "Hunt", "Result", "RoundtableError", "RunRow", "compare", "hunt", "open_store", "resume", "run",
]  # fmt: skip
_MODULES = {
    "Comparison": "pipelines.comparing.compare", "compare": "pipelines.comparing.compare",
    "Hunt": "pipelines.hunting", "hunt": "pipelines.hunting",
    "RoundtableError": "pipelines.errors",
    "Result": "pipelines.result", "RunRow": "pipelines.result",
}  # fmt: skip


def __getattr__(name: str) -> object:
    """Imports a public name at its first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES.get(name, "pipelines.api")), name)


def __dir__() -> list[str]:
    """Returns the sorted names of the module, including public names that are not imported yet."""
    return sorted({*globals(), *__all__})

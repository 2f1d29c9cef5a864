"""Roundtable: fault-tolerant publish/subscribe protocols as dataflow on Spark.

`run` runs a scenario file, `resume` resumes a run that was interrupted, `open_store` opens a store that exists,
`compare` ranks protocols on a scenario, `hunt` searches fault schedules that break a guarantee.
They are loaded when they are first asked for, so that ``import pipelines`` takes no time and needs no engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipelines.api import open_store, resume, run
    from pipelines.comparing.compare import Comparison, compare
    from pipelines.hunting import Hunt, hunt
    from pipelines.result import Result, RunRow

__all__ = ["Comparison", "Hunt", "Result", "RunRow", "compare", "hunt", "open_store", "resume", "run"]
_PLACES = {
    "Comparison": "pipelines.comparing.compare", "compare": "pipelines.comparing.compare",
    "Hunt": "pipelines.hunting", "hunt": "pipelines.hunting",
    "Result": "pipelines.result", "RunRow": "pipelines.result",
}  # fmt: skip


def __getattr__(name: str) -> object:
    """Loads a public name."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES.get(name, "pipelines.api")), name)


def __dir__() -> list[str]:
    """Lists the public names, loaded or not."""
    return sorted({*globals(), *__all__})

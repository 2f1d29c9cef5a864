"""Protocol ``flooding``: every publication goes over every link of an overlay, which may have cycles."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from pipelines.contract.audit import arrow_bound, sql_audits, sql_files
from pipelines.contract.protocol import Protocol
from pipelines.contract.run_inputs import Faults, Overlay, Workload
from pipelines.contract.settings import Strict
from pipelines.errors import Problem
from udfs.flooding import Flooding
from udfs.reach import flooding_beyond

_MAX_COPIES = 10_000_000
"""The maximum of the mean number of copies per publication. Copies with equal hops are in flight at the same time."""


class FloodingSettings(Strict):
    """Settings of protocol ``flooding``."""

    name: Literal["flooding"] = Field("flooding", description="selects this protocol")
    max_hops: Annotated[int, Field(ge=1, le=1_000, strict=True)] | None = Field(
        None,
        description="null: nodes store the ids of publications and drop duplicates; a number: a copy crosses at most "
        "this number of links, and nodes store no ids and drop no duplicates",
    )


def problems(settings: Any, overlay: Overlay, workload: Workload, faults: Faults) -> Iterator[Problem]:  # noqa: ANN401
    """Yields a problem if publications have on average more than `_MAX_COPIES` copies because of ``max_hops``.

    Copies correspond to walks that use no link twice in succession.
    """
    if settings.max_hops is None or not len(workload.publication):
        return
    n_published = np.bincount(workload.publication["node_id"].to_numpy(), minlength=len(overlay.names))
    n_copies = 0.0
    walks = overlay.n_walks(n_published / n_published.sum())
    for hops, n_walks in zip(range(1, settings.max_hops + 1), walks, strict=False):
        n_copies += n_walks
        if n_copies > _MAX_COPIES:
            message = (
                f"over {hops} links, the cycles of the overlay multiply a publication to {n_copies:,.0f} copies, on "
                f"average; allowed: 1 to {hops - 1} for this overlay, or null"
            )
            yield Problem(("protocol", "max_hops"), message)
            return


PROTOCOL = Protocol(
    name="flooding",
    summary="every publication goes over every link, duplicates are dropped, the overlay may have cycles",
    settings=FloodingSettings,
    program=Flooding,
    audits=sql_audits("pipelines.protocols.flooding.audits"),
    bound=arrow_bound(sql_files(__name__)["bound"], flooding_beyond),
    assumes=frozenset({"no_loss"}),
    draws=False,
    application=("PUB",),
    check=problems,
)

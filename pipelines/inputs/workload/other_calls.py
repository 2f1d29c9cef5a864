"""Calls of other kinds than subscriptions and publications that a scenario lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from pipelines.contract.run_inputs import OTHER_CALL, Overlay
from pipelines.errors import Problem, WorkloadError
from pipelines.inputs.overlay.nodes import Place, ids_by_name, unknown_node
from pipelines.inputs.workload.lists import after_horizon
from pipelines.scenario.workload import OtherCall

_PLACE: Place = ("workload", "calls")


def listed_calls(listed: Sequence[OtherCall], overlay: Overlay, horizon: int) -> pa.Table:
    """Returns the table of other calls.

    Raises:
        WorkloadError: Unknown nodes and rounds after the horizon, each at its place.
    """
    if not listed:
        return OTHER_CALL.empty_table()
    ids = ids_by_name(overlay)
    problems = [
        problem for index, call in enumerate(listed) for problem in _problems(index, call, ids, overlay, horizon)
    ]
    if problems:
        raise WorkloadError(*problems)
    rows = [
        {**call.model_dump(), "node_id": ids[call.at], "peer": ids.get(getattr(call, "peer", ""))} for call in listed
    ]
    return pa.table({name: [row.get(name) for row in rows] for name in OTHER_CALL.names}, schema=OTHER_CALL)


def _problems(index: int, call: OtherCall, ids: dict[str, int], overlay: Overlay, horizon: int) -> Iterator[Problem]:
    for key in ("at", "peer"):
        name = getattr(call, key, None)
        if name is not None and name not in ids:
            yield Problem((*_PLACE, index, key), unknown_node(name, overlay))
    if call.round > horizon:
        yield Problem((*_PLACE, index, "round"), after_horizon(call.round, horizon))

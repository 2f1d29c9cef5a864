"""What the skip ring cannot run with: calls of supervisors, subscriptions by content, crashes that it does not bear."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipelines.errors import Problem
from pipelines.inputs.faults.tables import Faults
from pipelines.inputs.overlay.graph import Overlay
from pipelines.inputs.workload.tables import Workload
from pipelines.matching.predicate_table import topics_of

_WORKLOAD = {"subscriptions": "subscription", "publications": "publication"}


def problems(settings: Any, overlay: Overlay, workload: Workload, faults: Faults) -> Iterator[Problem]:  # noqa: ANN401
    """Yields what the protocol cannot run with, each problem at its place.

    Args:
        settings: A `SkipRingSettings`.
        overlay: Supervisors and subscribers.
        workload: Its calls.
        faults: Its faults.
    """
    subscribers = overlay.names[overlay.n_brokers :]
    some = ", ".join(subscribers[:5]) + (", ..." if len(subscribers) > 5 else "")
    for part, table in _WORKLOAD.items():
        for index, node in enumerate(getattr(workload, table)["node_id"].to_pylist()):
            if node < overlay.n_brokers:
                message = f"{overlay.names[node]!r} is a supervisor; allowed: a subscriber ({some})"
                yield Problem(("workload", part, index, "at"), message)
    topics = topics_of(workload.subscription["predicate"]).to_pylist()
    for index, (topic, predicate) in enumerate(
        zip(topics, workload.subscription["predicate"].to_pylist(), strict=True)
    ):
        if topic is None:
            message = f"{predicate} is not a topic alone; allowed with protocol skipring: topic: a name, no where:"
            yield Problem(("workload", "subscriptions", index), message)
    for index, topic in enumerate(workload.publication["topic"].to_pylist()):
        if topic is None:
            yield Problem(("workload", "publications", index), "a publication of protocol skipring needs a topic:")
    yield from _crash_problems(overlay, faults)


def _crash_problems(overlay: Overlay, faults: Faults) -> Iterator[Problem]:
    """Subscribers crash for good: the supervisor never records again whom its failure detector has reported (K8)."""
    for row in faults.crash.to_pylist():
        name = overlay.names[row["node_id"]]
        if row["node_id"] < overlay.n_brokers:
            yield Problem(("faults",), f"{name!r} is a supervisor; with protocol skipring only subscribers crash")
        elif row["end_round"] is not None:
            message = f"{name!r} is to recover in round {row['end_round']}; with protocol skipring subscribers crash"
            yield Problem(("faults",), f"{message} for good: leave until: out")

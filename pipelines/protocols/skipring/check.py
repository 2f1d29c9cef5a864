"""What the skip ring cannot run with: calls of supervisors, subscriptions by content, crashes that it does not bear."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from pipelines.contract.predicate import topics_of
from pipelines.contract.run_inputs import Faults, Overlay, Workload
from pipelines.errors import Problem
from udfs.skipring.start import EMPTY

_NEVER = 1 << 62
_KEY_ODDS = 1_000_000
"""Two publications of a topic have the same key in less than one of n runs (birthday bound)."""
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
    yield from _subscription_problems(settings, workload)
    yield from _publication_problems(overlay, workload)
    yield from _key_problems(settings, workload)
    yield from _crash_problems(overlay, faults)


def _subscription_problems(settings: Any, workload: Workload) -> Iterator[Problem]:  # noqa: ANN401
    """Subscriptions are about a topic; those that are there from the start are issued in round 0 (rule K20)."""
    for index, row in enumerate(_subscriptions(workload)):
        if row["topic"] is None:
            message = (
                f"{row['predicate']} is not a topic alone; allowed with protocol skipring: topic: a name, no where:"
            )
            yield Problem(("workload", "subscriptions", index), message)
        is_early = settings.start != EMPTY and (settings.start_until is None or row["round"] <= settings.start_until)
        if is_early and row["round"]:
            message = f"it is there from the start (start: {settings.start}) and issued in round {row['round']}"
            allowed = "round 0, or a round after protocol.start_until"
            yield Problem(("workload", "subscriptions", index), f"{message}; allowed: {allowed}")


def _publication_problems(overlay: Overlay, workload: Workload) -> Iterator[Problem]:
    """Publishers are subscribers of the topic: a node without a place on its ring can send to nobody (rule K17)."""
    standing: dict[tuple[int, str | None], list[tuple[int, int]]] = {}
    for row in _subscriptions(workload):
        end = _NEVER if row["end_round"] is None else row["end_round"]
        standing.setdefault((row["node_id"], row["topic"]), []).append((row["round"], end))
    for index, row in enumerate(workload.publication.select(["node_id", "round", "topic"]).to_pylist()):
        node, round_, topic = row.values()
        if topic is None:
            yield Problem(("workload", "publications", index), "a publication of protocol skipring needs a topic:")
        elif not any(first <= round_ < end for first, end in standing.get((node, topic), ())):
            message = f"{overlay.names[node]!r} publishes in round {round_} to {topic!r}, and has not subscribed to it"
            yield Problem(("workload", "publications", index), f"{message}; allowed: a subscriber of the topic")


def _key_problems(settings: Any, workload: Workload) -> Iterator[Problem]:  # noqa: ANN401
    """Two publications of a topic with the same key are one to all tries: `key_bits` make that unlikely (rule K11)."""
    counts = Counter(workload.publication["topic"].to_pylist())
    if settings.start != EMPTY:
        topics = {row["topic"] for row in _subscriptions(workload)}
        counts.update(dict.fromkeys(topics, settings.start_publications))
    n_pairs = sum(n * (n - 1) // 2 for n in counts.values())
    least = (n_pairs * _KEY_ODDS - 1).bit_length() if n_pairs else 0
    if settings.key_bits < least:
        message = (
            f"{settings.key_bits} bits, and {sum(counts.values())} publications on {len(counts)} topics: with keys of"
            f" so few bits two of a topic may have the same key, and one of them is lost; allowed: {least} or more"
        )
        yield Problem(("protocol", "key_bits"), message)


def _subscriptions(workload: Workload) -> Iterator[dict[str, Any]]:
    topics = topics_of(workload.subscription["predicate"]).to_pylist()
    for row, topic in zip(workload.subscription.to_pylist(), topics, strict=True):
        yield {**row, "topic": topic}


def _crash_problems(overlay: Overlay, faults: Faults) -> Iterator[Problem]:
    """Subscribers crash for good: the supervisor never records again whom its failure detector has reported (K8)."""
    for row in faults.crash.to_pylist():
        name = overlay.names[row["node_id"]]
        if row["node_id"] < overlay.n_brokers:
            yield Problem(("faults",), f"{name!r} is a supervisor; with protocol skipring only subscribers crash")
        elif row["end_round"] is not None:
            message = f"{name!r} is to recover in round {row['end_round']}; with protocol skipring subscribers crash"
            yield Problem(("faults",), f"{message} for good: leave until: out")

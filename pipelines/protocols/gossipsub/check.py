"""What gossipsub cannot run with: calls without a topic, nodes that join, subscribers without links to one another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import networkx as nx

from pipelines.contract.predicate import topics_of
from pipelines.contract.run_inputs import Faults, Overlay, Workload
from pipelines.errors import Problem

_SHOWN = 5


def problems(settings: Any, overlay: Overlay, workload: Workload, faults: Faults) -> Iterator[Problem]:  # noqa: ANN401
    """Yields what the protocol cannot run with, each problem at its place.

    Args:
        settings: A `GossipSubSettings`.
        overlay: The nodes and their links.
        workload: Its calls.
        faults: Its faults; the protocol is played with all kinds.
    """
    topics = topics_of(workload.subscription["predicate"]).to_pylist()
    members: dict[str, set[int]] = {}
    for index, (node, topic) in enumerate(zip(workload.subscription["node_id"].to_pylist(), topics, strict=True)):
        if topic is None:
            message = "its predicate names no topic, and gossipsub has a mesh for each; allowed: topic: a name"
            yield Problem(("workload", "subscriptions", index), message)
        else:
            members.setdefault(topic, set()).add(node)
    for index, topic in enumerate(workload.publication["topic"].to_pylist()):
        if topic is None:
            yield Problem(("workload", "publications", index), "a publication of protocol gossipsub needs a topic:")
    for index in range(len(workload.join)):
        message = "nodes of protocol gossipsub are connected from the start; leave joins out"
        yield Problem(("workload", "joins", index), message)
    if not settings.relay:
        yield from _scattered(overlay, members)


def _scattered(overlay: Overlay, members: dict[str, set[int]]) -> Iterator[Problem]:
    """Yields the topics whose subscribers have no way to one another past nodes that pass nothing on."""
    links = list(zip(overlay.a.tolist(), overlay.b.tolist(), strict=True))
    for topic, nodes in members.items():
        graph = nx.Graph((a, b) for a, b in links if a in nodes and b in nodes)
        graph.add_nodes_from(nodes)
        parts = sorted(nx.connected_components(graph), key=min)
        if len(parts) > 1:
            some = [overlay.names[min(part)] for part in parts[:_SHOWN]]
            message = (
                f"subscribers of topic {topic!r} are in {len(parts)} parts without links between them ("
                f"{', '.join(some)}{', ...' if len(parts) > _SHOWN else ''}), and nodes that do not subscribe relay"
                " nothing; allowed: relay: true, or links between subscribers"
            )
            yield Problem(("protocol", "relay"), message)

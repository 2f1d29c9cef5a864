"""Checks the final state of a run: all messages are delivered in the promised orders, and no key is locked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from oracles.ginger.messages import Id, Publication

if TYPE_CHECKING:
    from oracles.ginger.network import Network

Log = Sequence[tuple[str, Publication]]


def violations(network: Network) -> list[str]:
    logs = {node: client.log for node, client in network.clients.items()}
    ordered = [*order_violations(logs, network.subscribers), *causal_violations(logs)]
    return [*missing(network), *left_over(network), *ordered]


def missing(network: Network) -> Iterator[str]:
    published = [m for client in network.clients.values() for what, m in client.log if what == "publish"]
    for m in published:
        for subscriber in sorted(network.subscribers[m.topic]):
            if m.id not in network.clients[subscriber].delivered:
                yield f"{m.id} {m.guarantee} never delivered at {subscriber}"


def left_over(network: Network) -> Iterator[str]:
    for broker in network.live_brokers():
        for name, topic in broker.topics.items():
            if topic.entry or topic.pending:
                yield f"{broker.node} topic {name}: {len(topic.entry)} wait, {sorted(topic.pending)} pending"
        if broker.is_waiting:
            yield f"{broker.node} awaits {broker.awaits}, holds {len(broker.hold)}"


def deliveries(logs: Mapping[int, Log]) -> dict[int, list[Publication]]:
    return {node: [m for what, m in log if what == "deliver"] for node, log in logs.items()}


def order_violations(logs: Mapping[int, Log], subscribers: Mapping[str, set[int]]) -> Iterator[str]:
    """Yields the pairs of messages, at least one in total order, that two subscribers got in different orders.

    Only pairs with a common key item count.
    """
    for topic, nodes in subscribers.items():
        for a, b in combinations(sorted(nodes), 2):
            one, other = ([m for m in deliveries({n: logs[n]})[n] if m.topic == topic] for n in (a, b))
            place = {m.id: i for i, m in enumerate(other)}
            for first, second in combinations(one, 2):
                is_ordered = (first.is_total or second.is_total) and first.shares(second)
                if is_ordered and place.get(first.id, -1) > place.get(second.id, len(other)):
                    yield f"{first.id} before {second.id} at {a}, after at {b}"


def causal_violations(logs: Mapping[int, Log]) -> Iterator[str]:
    """Yields the pairs of messages with a common key item that a client did not get in causal order."""
    place = {node: {m.id: i for i, m in enumerate(of)} for node, of in deliveries(logs).items()}
    for log in logs.values():
        known: list[Publication] = []
        for what, m in log:
            if what == "publish":
                yield from _late(place, [k for k in known if k.shares(m) and k.id != m.id], m)
            known.append(m)


def _late(place: Mapping[int, Mapping[Id, int]], before: Sequence[Publication], m: Publication) -> Iterator[str]:
    for node, of in place.items():
        for cause in before:
            if of.get(cause.id, -1) > of.get(m.id, len(of)):
                yield f"{cause.id} after {m.id} at {node}, which follows it"

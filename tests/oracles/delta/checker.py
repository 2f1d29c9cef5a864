"""Checks the properties of a run in which at most δ nodes are not OPERATIONAL at any time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property

from oracles.delta.network import Network
from oracles.delta.node import Entry, Node, Status
from oracles.delta.schedule import Call
from oracles.delta.view import Link, View, link


class Checker:
    """Finds the violations of a finished run."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.delta = network.delta
        self.calls = {(call.kind, call.node, call.number): call for call in network.schedule.calls}

    def violations(self) -> list[str]:
        """Returns a phrase for each violation; the list is empty for a correct run."""
        found = [f"round {at}: {what} at {node}: {key}" for at, what, node, key in self.network.notes]
        found += self._refused()
        found += self._exactly_once()
        found += self._expected()
        found += self._after_unsubscribe()
        found += self._pending()
        found += self._topology()
        found += self._subscriptions()
        return found

    def _refused(self) -> Iterator[str]:
        """Yields first copies that were judged duplicates although their receivers lack the information in them.

        A lost PUB is found by `_expected`.
        """
        for node, m, is_known in self.network.refused:
            self.network.count[f"first copies of {m.kind} refused"] += 1
            if not is_known:
                yield f"first copy judged a duplicate at {node}: {m}"

    @cached_property
    def _downtimes(self) -> dict[int, list[tuple[int, float]]]:
        """The periods in which each node was not OPERATIONAL, except its join."""
        found: dict[int, list[tuple[int, float]]] = defaultdict(list)
        since: dict[int, int] = {}
        for at, node, status in self.network.statuses:
            if status == "OPERATIONAL":
                if node in since:
                    found[node].append((since.pop(node), at))
            elif status == "FAILED":
                since.setdefault(node, at)
        for node, at in since.items():
            found[node].append((at, float("inf")))
        return found

    def _stays_up(self, node: int, first: int, last: int) -> bool:
        return all(until < first or since > last for since, until in self._downtimes[node])

    def _crashed(self, node: int, first: int) -> bool:
        return any(since > first for since, _ in self._downtimes[node])

    def _exactly_once(self) -> Iterator[str]:
        times = Counter((s, p, seq) for s, p, seq, _ in self.network.deliveries)
        yield from (f"delivered {n} times: {which}" for which, n in times.items() if n > 1)
        last: dict[tuple[int, int], int] = {}
        for subscriber, source, seq, at in self.network.deliveries:
            if last.get((subscriber, source), -1) > seq:
                yield f"round {at}: out of order at {subscriber}: {source}, {seq}"
            last[subscriber, source] = seq

    def _expected(self) -> Iterator[str]:
        """Checks that confirmed publications were delivered to all subscribers that were up from issue to Conf."""
        at = {(s, p, seq): when for s, p, seq, when in self.network.deliveries}
        for key, confirmed in self.network.confirmations.items():
            if key[0] != "publish":
                continue
            issued = self.network.issued[key][0]
            for subscription in sorted(self.calls[key].matches):
                subscriber = self.network.subscriber[subscription]
                if not self._is_subscribed(subscription, issued, confirmed):
                    continue
                if not self._stays_up(subscriber, issued, confirmed):
                    continue
                delivered = at.get((subscriber, key[1], key[2]))
                if delivered is None or delivered > confirmed:
                    yield f"confirmed in {confirmed}, delivered {delivered} at {subscriber}: {key}"

    def _is_subscribed(self, subscription: int, issued: int, confirmed: int) -> bool:
        subscriber = self.network.subscriber[subscription]
        since = self.network.confirmations.get(("subscribe", subscriber, subscription))
        until = self.network.issued.get(("unsubscribe", subscriber, subscription))
        return since is not None and since <= issued and (until is None or until[0] > confirmed)

    def _after_unsubscribe(self) -> Iterator[str]:
        for subscriber, source, seq, at in self.network.deliveries:
            key = ("publish", source, seq)
            issued = self.network.issued[key][0]
            mine = [s for s in self.calls[key].matches if self.network.subscriber[s] == subscriber]
            ended = [self.network.confirmations.get(("unsubscribe", subscriber, s)) for s in mine]
            if all(end is not None and end < issued for end in ended):
                yield f"round {at}: delivered at {subscriber} after its unsubscribe: {key}"

    def _pending(self) -> Iterator[str]:
        recovered = {crash.node for crash in self.network.schedule.crashes if crash.until is not None}
        for node in self.network.nodes.values():
            if node.status is Status.FAILED:
                continue
            yield from (f"pending at {node.name}: {item}" for item in node.processing.values())
            if node.status is not Status.OPERATIONAL and self._joins(node):
                yield f"{node.name} stays {node.status.value}, recovered: {node.name in recovered}, {node.synch}"
            if self._joins(node) and (node.calls or node.requests or node.deferred):
                yield f"waiting at {node.name}: {node.calls} {node.requests} {node.deferred}"
        for key, (issued, _) in self.network.issued.items():
            excused = self._crashed(key[1], issued) or not self._joins(self.network.nodes[key[1]])
            if key not in self.network.confirmations and not excused:
                yield f"never confirmed: {key}"

    def _joins(self, node: Node) -> bool:
        """Returns whether the node's join point has not failed, so that its join can end; true if it never joins."""
        return node.join_point < 0 or self.network.nodes[node.join_point].status is not Status.FAILED

    @cached_property
    def _members(self) -> dict[int, View]:
        """For each node that has joined, the view of the whole tree of these nodes."""
        joining = {call.node for call in self.network.schedule.calls if call.kind == "join"}
        confirmed = {key[1] for key in self.network.confirmations if key[0] == "join"}
        links = [(ends, False) for ends in self.network.schedule.links if (joining - confirmed).isdisjoint(ends)]
        views = {}
        for name in sorted({x for ends, _ in links for x in ends}):
            views[name] = View(name, len(links))
            views[name].add(links)
        return views

    @cached_property
    def _unfinished(self) -> set[Link]:
        """The links of joins that never ended, because the joining node or its join point is down."""
        ended = {key[1] for key in self.network.confirmations if key[0] == "join"}
        joins = [call for call in self.network.schedule.calls if call.kind == "join"]
        return {link(call.node, call.join_point) for call in joins if call.node not in ended}

    def _quiet(self) -> Iterator[tuple[Node, View]]:
        for name, whole in self._members.items():
            if self.network.nodes[name].status is Status.OPERATIONAL:
                yield self.network.nodes[name], whole

    def _topology(self) -> Iterator[str]:
        """Checks Eq. (1) (Level-1) at every OPERATIONAL node."""
        for node, whole in self._quiet():
            right = {ends for ends, _ in whole.within(node.name, self.delta + 1)}
            held = {ends for ends, mark in node.view.marks.items() if not mark}
            held -= self._unfinished
            if right != held:
                yield f"Eq. (1) at {node.name}: lacks {right - held}, exceeds by {held - right}"

    def _subscriptions(self) -> Iterator[str]:
        """Checks Level-2: each entry is equal to the entry of a node that never failed."""
        for node, whole in self._quiet():
            for call in self.network.schedule.calls:
                if call.kind == "subscribe":
                    yield from self._entry(node, whole, call)

    def _entry(self, node: Node, whole: View, call: Call) -> Iterator[str]:
        confirmations, issued = self.network.confirmations, self.network.issued
        begun = ("subscribe", call.node, call.number)
        ended = ("unsubscribe", call.node, call.number)
        if begun not in confirmations or (ended in issued and ended not in confirmations):
            return
        path = whole.paths[call.node][: self.delta + 2]
        right = None if ended in confirmations else Entry(path[-1], len(path) - 1)
        held = node.entries.get(call.number)
        if held != right:
            yield f"Level-2 at {node.name} for {call.number} of {call.node}: holds {held}, should hold {right}"

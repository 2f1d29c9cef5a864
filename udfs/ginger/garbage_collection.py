"""Garbage collection of buffers, which the thesis leaves to the future (section 6.1).

A message that every member of its topic has had for good is asked for by nobody. Clients tell their brokers what they
have delivered, brokers tell their parents what all below them have had, and whom that covers. When the topic's root
sees that nobody is left out, Collect goes down the sub-tree, and all forget what it names.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from udfs.ginger.buffer import Id, Runs, in_runs, runs_of
from udfs.ginger.items import Item
from udfs.ginger.lost_messages import Asker


class GarbageCollector(Asker):
    """A node with buffers that are collected; its ``memory`` holds how many ids it has ``told`` of each topic."""

    @property
    def collect_every(self) -> int:
        """How many messages are told of at once; 0: buffers are not collected."""
        return self.settings.get("collect_every", 0)

    def report(self, topic: str) -> None:
        """Sends what it has had for good, if that is much more than it told before."""
        raise NotImplementedError

    def handle_repair(self, item: Item) -> None:
        """Handles Collect among the rest."""
        if item.kind != "Collect":
            super().handle_repair(item)
        elif item.peer == self.parent:
            self.collect(item.topic or "", json.loads(item.details or "{}"))

    def collect(self, topic: str, runs: Runs) -> None:
        """Forgets messages that everybody has had."""
        before = len(self.buffer(topic).seen)
        super().collect(topic, runs)
        told = self.recall("told", {})
        if topic in told:
            self.remember(told={**told, topic: max(0, told[topic] - before + len(self.buffer(topic).seen))})

    def tell_parent(self, topic: str, ids: Collection[Id], covered: Collection[int]) -> None:
        """Sends Received: all nodes of ``covered`` have had the messages for good."""
        told = self.recall("told", {})
        if self.parent is not None and self.is_level and len(ids) >= told.get(topic, 0) + self.collect_every:
            self.remember(told={**told, topic: len(ids)})
            self.tell(self.parent, "Received", topic, json.dumps(runs_of(ids)), sorted(covered))

    def tell(
        self, dst: int, kind: str, topic: str, details: str | None = None, covered: list[int] | None = None
    ) -> None:  # fmt: skip
        """Sends what is about a topic, not about a message."""
        latency = self.latency.get(dst)
        self.keep(
            "out", None, kind=kind, peer=dst, topic=topic, covered=covered, latency_rounds=latency, details=details
        )

    def report_all(self) -> None:
        """Looks at all topics at the end of a round."""
        if self.collect_every:
            for buffer in self.buffers():
                self.report(buffer.topic)

    def common(self, ids: Collection[Id], runs: Runs) -> set[Id]:
        """Returns those of the ids that are in runs."""
        return {of for of in ids if in_runs(runs, of)}

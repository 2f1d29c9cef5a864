"""A broker that mends the tree: new parents, elections, held and missing messages (sections 4.2.3 to 4.3.2)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from udfs.ginger.broker import Broker, Topic
from udfs.ginger.items import Item
from udfs.ginger.missing import Missing, read_missing

APPLICATION = frozenset({"Metadata", "TotalAck", "TotalProcessed", "Failed"})
"""Kinds that are held while a broker is reconfigured; repair messages pass."""


class RepairingBroker(Broker):
    """A broker in a round of a run whose nodes may crash.

    Its ``memory`` holds beside that of `Seeker`: ``is_root``, ``is_elected``, ``is_electing``, ``vote`` and ``votes``
    (the residual degree that it told its siblings, and what they told), ``election`` and ``taken`` (numbers of
    elections, and of new children by node), ``deferred`` (ParentRequests that came during the election), ``upward``
    (topics whose sub-tree goes on at the parent) and ``clients`` (by client the topics that it subscribes to).
    """

    def __init__(self, node: int, round_: int, state: Sequence[Item]) -> None:
        """Reads its state: as in `Broker`, and ``await``, ``hold`` and ``failed``."""
        self.awaits: set[int] = set()
        self.hold: list[Item] = []
        super().__init__(node, round_, state)

    def _read_await(self, row: Item) -> None:
        self.awaits.add(row.other or 0)

    def _read_hold(self, row: Item) -> None:
        self.hold.append(row)

    def _read_failed(self, row: Item) -> None:
        self.failed.add(row.other or 0)

    @property
    def is_waiting(self) -> bool:
        """Whether it has no parent that it is level with, or waits for a new neighbour, or holds messages."""
        return not self.is_level or bool(self.awaits or self.hold)

    @property
    def residual_degree(self) -> int:
        """Connections that it may still take in."""
        return self.settings["total_degree"] - len(self.children) - len(self.clients) - (self.parent is not None)

    def handle(self, item: Item) -> None:
        """Handles one message; application messages are held while it is reconfigured."""
        self.hear(item)
        if item.kind not in APPLICATION:
            self._handle_repair(item)
        elif self.is_waiting:
            self.hold.append(item)
        else:
            self._handle_application(item)

    def _handle_application(self, item: Item) -> None:
        if item.kind == "Failed":
            self.on_failed(item.other, int(item.details or 0))
        else:
            super().handle(item)

    def _handle_repair(self, item: Item) -> None:
        match item.kind:
            case "NeighborDown":
                self.on_neighbor_down(int(item.details or 0))
            case "ParentRequest":
                self.on_parent_request(item.other or 0, json.loads(item.details or "{}"))
            case "ParentResponse":
                self.on_parent_response(item)
            case "ParentBuffer":
                self.on_parent_buffer(item)
            case "LostMessageRequest":
                self.on_lost_message_request(item)
            case "LostMessages":
                self.on_lost_messages(item)
            case "TreeViewUpdate":
                self.on_tree_view_update(item)
            case "RootElection":
                self.on_root_election(item)
            case "Timer":
                self.on_timer(*json.loads(item.details or "[]"))

    def on_neighbor_down(self, neighbour: int) -> None:
        """Alg. 3 and 4: forgets the neighbour, and looks for a new parent if it was that."""
        if neighbour in self.children or neighbour in self.clients:
            self._child_down(neighbour)
        elif neighbour == self.parent:
            upward = sorted(name for name, topic in self.topics.items() if neighbour in topic.brokers)
            for topic in self.topics.values():
                topic.brokers.discard(neighbour)
                for pending in topic.pending.values():
                    pending.sent = None
            self.parent = None
            self.remember(upward=upward, is_level=False, is_root=False)
            self.lost(neighbour)
            self._seek_or_elect()

    def _child_down(self, child: int) -> None:
        self.children.discard(child)
        self.clients.discard(child)
        for topic in self.topics.values():
            topic.brokers.discard(child)
            topic.clients.discard(child)
            for pending in topic.pending.values():
                pending.acked.discard(child)
        self.awaits.discard(child)
        self.lost(child)
        self.view_changed()
        self.settle()

    def lost(self, broker: int) -> None:
        """What came from a failed broker before is handled before the news that it failed."""
        super().lost(broker)
        news = Item("inbox", 0, kind="Failed", other=self.node, details=str(broker))
        if self.is_waiting:
            self.hold.append(news)
        else:
            self._handle_application(news)

    def on_failed(self, sender: int | None, broker: int) -> None:
        """Coverage need not wait for a failed broker; the news goes on through the tree."""
        if broker in self.failed:
            return
        self.failed.add(broker)
        super().lost(broker)
        around = self.children | ({self.parent} if self.parent is not None else set())
        for neighbour in sorted(around - {sender}):
            self.send(neighbour, "Failed", details=str(broker))
        self._try_topics()

    def settle(self) -> None:
        """Releases what was held, in order, as far as nothing is awaited any more (Alg. 9)."""
        while self.hold and self.is_level and not self.awaits:
            self._handle_application(self.hold.pop(0))
        self._try_topics()

    def _try_topics(self) -> None:
        for _, topic in sorted(self.topics.items()):
            self.try_all(topic)

    def _seek_or_elect(self) -> None:
        """A broker that never saw anybody above its parent was a child of the root (Alg. 4, lines 9 to 16)."""
        if any(up == 0 for up, _ in self.view.values()):
            self.seek()
            return
        election, vote = self.recall("election", 0) + 1, self.residual_degree
        self.remember(is_electing=True, election=election, vote=vote)
        for sibling in self._siblings():
            self.send(sibling, "RootElection", details=str(vote))
            self.timer("vote", sibling, election, 2 * self.latency.get(sibling, 1) + self.settings["timer"])
        self._decide()

    def _siblings(self) -> list[int]:
        return [broker for broker in self.candidates() if self.view[broker] == (1, 1)]

    def on_root_election(self, item: Item) -> None:
        """Collects the residual degrees of siblings, also before it hears itself that the root failed."""
        self.remember(votes={**self.recall("votes", {}), str(item.other): int(item.details or 0)})
        if self.recall("is_electing", False):
            self._decide()

    def _decide(self) -> None:
        """Alg. 7: the highest residual degree, then the lowest id."""
        votes = {int(sibling): degree for sibling, degree in self.recall("votes", {}).items()}
        siblings = self._siblings()
        if any(sibling not in votes for sibling in siblings):
            return
        deferred = self.recall("deferred", [])
        self.remember(is_electing=False, deferred=[], votes={})
        own = (self.recall("vote", 0), -self.node)
        _, least = max([own, *((votes[sibling], -sibling) for sibling in siblings)])
        if -least == self.node:
            self.is_root = True
            self.view = {}
            self.remember(is_root=True, is_elected=True, is_level=True)
            self.view_changed()
        else:
            self.remember(is_seeking=True)
            self.ask(-least)
        for sender, request in deferred:
            self.on_parent_request(sender, request)
        self.settle()

    def on_timer(self, what: str, partner: int, number: int) -> None:
        """Alg. 8: who has not answered in time has failed."""
        match what:
            case "vote":
                is_open = self.recall("is_electing", False) and number == self.recall("election", 0)
                if is_open and partner in self._siblings() and str(partner) not in self.recall("votes", {}):
                    self.lost(partner)
                    self._decide()
            case "child":
                if partner in self.awaits and number == self.recall("taken", {}).get(str(partner)):
                    self._child_down(partner)
            case _:
                super().on_timer(what, partner, number)

    def request(self) -> dict[str, Any]:
        """Names the topics whose sub-tree it is in, but not at the root of."""
        return {"subscribedTopics": self.recall("upward", []), "breakDegree": self.recall("break_degree", False)}

    def on_parent_request(self, sender: int, request: dict[str, Any]) -> None:
        """Alg. 5."""
        if self.recall("is_electing", False) and sender in self._siblings():
            self.remember(deferred=[*self.recall("deferred", []), [sender, request]])
            return
        accepts = self._accepts(sender, request)
        self.send(sender, "ParentResponse", details=json.dumps(accepts))
        if accepts:
            self._take_in(sender, request)

    def _accepts(self, sender: int, request: dict[str, Any]) -> bool:
        """Orphans decline, as does who knows the sender as an ancestor: else brokers could accept each other."""
        is_above = sender == self.parent or self.view.get(sender, (1, 1)) != (1, 1)
        if not self.is_level or is_above or sender in self.children:
            return False
        inside = {name for name, topic in self.topics.items() if self.is_inside(topic)}
        if not self.recall("is_elected", False) and not inside.issuperset(request["subscribedTopics"]):
            return False
        return bool(request.get("isClient") or request["breakDegree"] or self.residual_degree > 0)

    def is_inside(self, topic: Topic) -> bool:
        """Tells whether it is in the sub-tree of a topic: from the start, or since it took somebody in."""
        return bool(topic.brokers or topic.clients or self.node in topic.members)

    def _take_in(self, sender: int, request: dict[str, Any]) -> None:
        is_client = request.get("isClient", False)
        (self.clients if is_client else self.children).add(sender)
        if is_client:
            self.remember(clients={**self.recall("clients", {}), str(sender): request["subscribed"]})
        known = Missing()
        for name in request["subscribedTopics"]:
            topic = self.topic(name)
            if not is_client:
                topic.brokers.add(sender)
            self._note_known(known, name)
        self.awaits.add(sender)
        self.connect(sender)
        self.send(sender, "ParentBuffer", details=known.text())
        taken = self.recall("taken", {})
        number = 1 + max(taken.values(), default=0)
        self.remember(taken={**taken, str(sender): number})
        self.timer("child", sender, number, self.patience(sender))
        self.view_changed()

    def _note_known(self, known: Missing, name: str) -> None:
        known.name(name)
        known.passed[name] |= self.topic(name).seen
        known.processed[name] |= self.topic(name).processed

    def attached(self) -> None:
        """The new parent is in the sub-trees that the old one was in."""
        for name in self.recall("upward", []):
            self.topic(name).brokers.add(self.parent or 0)

    def on_parent_buffer(self, item: Item) -> None:
        """Alg. 11: sends what the new parent lacks, and asks for what it has and this broker lacks."""
        if item.other == self.parent:
            answer = self._missing_of(read_missing(item.details))
            self.send(self.parent or 0, "LostMessageRequest", details=answer.text())

    def _missing_of(self, theirs: Missing) -> Missing:
        answer = Missing(failed=self.failed)
        for name in sorted(theirs.passed):
            answer.events += [event for event in self.topic(name).history if not theirs.has(event)]
            self._note_known(answer, name)
        return answer

    def on_lost_message_request(self, item: Item) -> None:
        """Alg. 12: takes what it lacked, and answers with what the sender lacks."""
        sender = item.other or 0
        if sender not in self.awaits:
            return
        theirs = read_missing(item.details)
        self._apply(sender, theirs)
        self.send(sender, "LostMessages", details=self._missing_of(theirs).text())
        subscribed = self.recall("clients", {}).get(str(sender), ())
        for name, topic in self.topics.items():
            for pending in topic.pending.values():
                pending.acked.discard(sender)
                pending.covered |= {sender} if name in subscribed else set()
            if name in subscribed:
                topic.clients.add(sender)
        self.awaits.discard(sender)
        self.settle()

    def on_lost_messages(self, item: Item) -> None:
        """All that was missing is there."""
        if item.other != self.parent:
            return
        self._apply(self.parent or 0, read_missing(item.details))
        self.remember(is_level=True)
        self.settle()

    def _apply(self, sender: int, missing: Missing) -> None:
        for what, message, hops in missing.events:
            topic: Topic = self.topic(message.topic)
            if what == "passed":
                self.on_metadata(topic, sender, message, hops + 1, ())
            elif message.id not in topic.processed:
                self.process(topic, sender, message, hops + 1)
        for broker in sorted(missing.failed):
            self.on_failed(sender, broker)

    def view_changed(self) -> None:
        """Tells children and clients what is to be seen from here (Alg. 2)."""
        for child in sorted(self.children | self.clients):
            seen = {broker: place for broker, place in self.view.items() if broker != child}
            if self.parent is not None:
                seen[self.parent] = (0, 1)
            seen |= {other: (1, 0) for other in self.children if other != child}
            path = [[other, up, down, self.latency.get(other, 1)] for other, (up, down) in sorted(seen.items())]
            self.send(child, "TreeViewUpdate", details=json.dumps(path))

    def leave(self) -> None:
        """Leaves its state behind."""
        super().leave()
        self.leave_around("parent")
        for name, topic in sorted(self.topics.items()):
            for kind, nodes in (("broker", topic.brokers), ("client", topic.clients)):
                for node in sorted(nodes):
                    self.keep("subscriber", None, kind=kind, other=node, topic=name)
        for relation, partners in (("await", self.awaits), ("failed", self.failed)):
            for node in sorted(partners):
                self.keep(relation, None, other=node)
        for item in self.hold:
            self.rows.append(item._replace(relation="hold", place=self.next_place()))
        self.remember(is_root=self.is_root)
        self.keep("repair", None, kind="broker", details=json.dumps(self.memory, sort_keys=True))

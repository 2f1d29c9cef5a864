"""A broker that mends the tree: new parents and elections (section 4.2.3)."""

from __future__ import annotations

import json
from typing import Any

from udfs.ginger.electing import Elector
from udfs.ginger.items import Item
from udfs.ginger.missing_sets import MissingSets
from udfs.ginger.parent_search import BACK

APPLICATION = frozenset({"Metadata", "TotalAck", "TotalProcessed", "Failed"})
"""Kinds that are held while a broker is reconfigured; repair messages pass."""


class RepairingBroker(Elector):
    """A broker in a round of a run whose nodes may crash or join.

    Its ``memory`` holds beside that of `Elector`: ``taken`` (numbers of new children by node), ``upward`` (topics whose
    sub-tree goes on at the parent).
    """

    def handle(self, item: Item) -> None:
        """Handles one message; application messages are held while it is reconfigured, those of strangers dropped."""
        self.hear(item)
        if item.kind not in APPLICATION:
            self.handle_repair(item)
        elif item.peer not in self.children | self.clients | {self.parent}:
            return
        elif self.is_waiting:
            self.hold.append(item)
        else:
            self.handle_application(item)

    def handle_repair(self, item: Item) -> None:
        """Handles what mends the tree."""
        match item.kind:
            case "ParentRequest":
                self.on_parent_request(item.peer or 0, json.loads(item.details or "{}"))
            case "LostMessageRequest":
                self.on_lost_message_request(item)
            case "RootElection":
                self.on_root_election(item)
            case "Received":
                self.on_received(item)
            case "JoinTopic":
                self.on_join_topic(item.peer or 0, item.topic or "")
            case "TopicJoined":
                self.on_topic_joined(item)
            case "Join":
                self.on_join(item)
            case "Exception":
                self.pass_exception(item.message, item.peer, item.details or "")
            case _:
                super().handle_repair(item)

    def on_join(self, item: Item) -> None:
        """Looks for a parent: a broker that is new, or that recovers and knows nothing (section 6.1).

        Whatever it has to do with later is numbered above what an earlier life may have left under way.
        """
        first, contacts = self.round << 8, list(item.covered)
        self.is_root = False
        self.remember(
            is_new=True, is_joining=True, is_level=False, attempt=first, election=first, taken={str(self.node): first}
        )
        self.view = {contact: (0, 1 + place) for place, contact in enumerate(contacts)}
        self.latency.update(zip(contacts, item.acked, strict=True))
        if item.details == "RECOVERING":
            # Whoever noticed the failure may have failed, too, before it told anybody.
            self.failed.add(self.node)
        self.keep("status", None, kind=item.details)
        self.seek()

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
            if not self.is_level:
                self.drop_held(neighbour)
            self.parent = None
            self.remember(upward=upward, is_level=False, is_root=False)
            self.orphaned(neighbour)
            self.forget_partner(neighbour)
            self.lost(neighbour)
            self.seek()

    def _child_down(self, child: int) -> None:
        self.children.discard(child)
        self.clients.discard(child)
        for topic in self.topics.values():
            topic.brokers.discard(child)
            topic.clients.discard(child)
            for pending in topic.pending.values():
                pending.acked.discard(child)
        if child in self.awaits:
            self.drop_held(child)
        self.awaits.discard(child)
        self.forget_partner(child)
        self.lost(child)
        self.view_changed()
        self.settle()

    def on_timer(self, what: str, partner: int, number: int) -> None:
        """Alg. 8: who has not answered in time has failed."""
        match what:
            case "vote":
                self.on_vote_timer(partner, number)
            case "child":
                if partner in self.awaits - self.parked.keys() and number == self.recall("taken", {}).get(str(partner)):
                    self._child_down(partner)
            case _:
                super().on_timer(what, partner, number)

    def request(self) -> dict[str, Any]:
        """Names the topics whose sub-tree it is in, but not at the root of."""
        return {
            "subscribedTopics": self.recall("upward", []), "breakDegree": self.recall("break_degree", False),
            "isJoining": self.recall("is_joining", False),
        }  # fmt: skip

    def on_parent_request(self, sender: int, request: dict[str, Any]) -> None:
        """Alg. 5."""
        if self.recall("is_electing", False) and sender in self._siblings():
            self.remember(deferred=[*self.recall("deferred", []), [sender, request]])
            return
        if self.is_newcomer:
            self.send(sender, "ParentResponse", details=json.dumps(BACK))
            return
        if not self._may_take_in(sender, request):
            self.send(sender, "ParentResponse", details="false")
            return
        outside = [name for name in request["subscribedTopics"] if not self.is_inside(self.topic(name))]
        is_forced = bool(request.get("isClient") or request["breakDegree"])
        is_joined = not outside or request["breakDegree"] or self.recall("is_elected", False)
        if not is_joined or not (is_forced or self.residual_degree > 0):
            self.send(sender, "ParentResponse", details="false")
        elif outside:
            others = [entrant for entrant in self.recall("entrants", []) if entrant[0] != sender]
            self.remember(entrants=[*others, [sender, request, self.latency.get(sender, 1)]])
            self.send(sender, "ParentResponse", details="null")
            self.join_topics(outside)
        else:
            self.send(sender, "ParentResponse", details="true")
            self._take_in(sender, request)

    def _may_take_in(self, sender: int, request: dict[str, Any]) -> bool:
        """Orphans decline, as does who knows the sender as an ancestor: else brokers could accept each other.

        A broker that joins has nobody below it, whatever was seen of it before.
        """
        is_old = not request.get("isJoining", False)
        is_above = sender == self.parent or (is_old and self.view.get(sender, (1, 1)) != (1, 1))
        return self.is_level and not is_above and sender not in self.children

    def admit(self) -> None:
        """Who waited for sub-trees to be joined is taken in, if that is still right."""
        entrants = self.recall("entrants", [])
        ready = [e for e in entrants if all(self.is_inside(self.topic(name)) for name in e[1]["subscribedTopics"])]
        self.remember(entrants=[entrant for entrant in entrants if entrant not in ready])
        for sender, request, latency in ready:
            self.latency.setdefault(sender, latency)
            self.on_parent_request(sender, request)

    def _take_in(self, sender: int, request: dict[str, Any]) -> None:
        is_client = request.get("isClient", False)
        self.remember(dead=sorted(self.dead - {sender}))
        (self.clients if is_client else self.children).add(sender)
        self.remember(expected=[broker for broker in self.recall("expected", []) if broker != sender])
        if is_client:
            self.remember(clients={**self.recall("clients", {}), str(sender): request["subscribed"]})
        known = MissingSets()
        if request.get("isJoining", False):
            known.members = {name: sorted(topic.members) for name, topic in self.topics.items() if topic.members}
        for name in request["subscribedTopics"]:
            topic = self.topic(name)
            if not is_client:
                topic.brokers.add(sender)
            self.note_known(known, name)
        self.awaits.add(sender)
        self.connect(sender)
        self.send(sender, "ParentBuffer", details=known.text())
        taken = self.recall("taken", {})
        number = 1 + max(taken.values(), default=0)
        self.remember(taken={**taken, str(sender): number})
        self.timer("child", sender, number, self.patience(sender))
        self.view_changed()

    def attached(self) -> None:
        """The new parent is in the sub-trees that the old one was in."""
        for name in self.recall("upward", []):
            self.topic(name).brokers.add(self.parent or 0)

    def view_changed(self) -> None:
        """Sends children and clients what is to be seen from here (Alg. 2); an orphan would seem to be the root.

        Those that elected a root are its children already, for whoever has to find them if it fails now.
        """
        if self.parent is None and not self.is_root:
            return
        expected = set(self.recall("expected", [])) - self.dead
        for child in sorted(self.children | self.clients):
            seen = {broker: place for broker, place in self.view.items() if broker != child}
            if self.parent is not None:
                seen[self.parent] = (0, 1)
            seen |= {other: (1, 0) for other in self.children | expected if other != child}
            path = [[other, up, down, self.latency.get(other, 1)] for other, (up, down) in sorted(seen.items())]
            self.send(child, "TreeViewUpdate", details=json.dumps(path))

    def leave(self) -> None:
        """Leaves its state behind."""
        if self.is_level and self.recall("is_joining", False):
            self.remember(is_joining=False)
            self.keep("status", None, kind="OPERATIONAL")
        self.report_all()
        super().leave()
        self.leave_around("parent")
        self.leave_buffers()
        for name, topic in sorted(self.topics.items()):
            for kind, nodes in (("broker", topic.brokers), ("client", topic.clients)):
                for node in sorted(nodes):
                    self.keep("subscriber", None, kind=kind, peer=node, topic=name)
        for relation, partners in (("await", self.awaits), ("failed", self.failed)):
            for node in sorted(partners):
                self.keep(relation, None, peer=node)
        for item in self.hold:
            self.rows.append(item._replace(relation="hold", position=self.next_position()))
        self.remember(is_root=self.is_root)
        self.keep("repair", None, kind="broker", details=json.dumps(self.memory, sort_keys=True))

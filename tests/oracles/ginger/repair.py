"""A broker's handling of failed neighbours: new parents, elections, missing messages (sections 4.2.3 to 4.3.2)."""

from __future__ import annotations

from typing import NamedTuple

from oracles.ginger.broker import Broker
from oracles.ginger.messages import Event, Id, Message
from oracles.ginger.topic import Topic

PARENT = -1
"""An element of ``awaits`` while a broker has no parent, or has not received the parent's missing messages yet."""


class Request(NamedTuple):
    """A ParentRequest; ``subscribed`` are the topics of a client."""

    topics: frozenset[str]
    break_degree: bool
    is_client: bool
    subscribed: frozenset[str] = frozenset()


class Known(NamedTuple):
    """A node's knowledge of a topic: the ids of forwarded messages, and the ids of processed messages."""

    passed: frozenset[Id]
    processed: frozenset[Id]

    def has(self, event: Event) -> bool:
        return event.m.id in (self.passed if event.what == "passed" else self.processed)


class Missing(NamedTuple):
    """A LostMessageRequest or its answer: ordered events of each topic, the sender's knowledge, and failed brokers."""

    events: dict[str, list[Event]]
    known: dict[str, Known]
    failed: frozenset[int]


def known(topic: Topic) -> Known:
    return Known(frozenset(topic.seen), frozenset(topic.processed))


SIBLING = (1, 1)


class Vote(NamedTuple):
    """A RootElection: the residual degree, and the brokers that the sender knows to have failed.

    A sender that has another parent sends the brokers above it instead of a degree.
    """

    degree: int | None
    gone: frozenset[int]


class RepairingBroker(Broker):
    """A broker that repairs the tree."""

    upward: frozenset[str] = frozenset()
    total_degree = 3
    is_electing = False
    is_elected = False

    def setup(self, total_degree: int) -> None:
        self.total_degree = total_degree
        self.votes: dict[int, Vote] = {}
        self.vote = Vote(None, frozenset())
        self.decided: frozenset[int] | None = None
        self.lost_parent: int | None = None
        self.below: set[int] = set()
        self.answered: set[int] = set()
        self.heard: frozenset[int] = frozenset()
        self.expected: list[int] = []
        self.deferred: list[tuple[int, Message]] = []
        self.clients_topics: dict[int, frozenset[str]] = {}

    @property
    def residual_degree(self) -> int:
        return self.total_degree - len(self.children) - len(self.clients) - (self.parent is not None)

    def neighbours(self) -> set[int]:
        return self.children | ({self.parent} if self.parent is not None else set())

    def on_neighbor_down(self, src: int, _: Message) -> None:
        if src in self.children:
            self.child_down(src)
        elif src == self.parent:
            self.upward = frozenset(name for name, topic in self.topics.items() if src in topic.brokers)
            for topic in self.topics.values():
                topic.brokers.discard(src)
                for pending in topic.pending.values():
                    pending.sent = None
            if PARENT in self.awaits:
                self.drop_held(src)
            self.parent, self.lost_parent, self.decided, self.below = None, src, None, set()
            self.votes = {b: vote for b, vote in self.votes.items() if src in vote.gone}
            self.answered = set()
            self.heard = frozenset(b for vote in self.votes.values() for b in vote.gone)
            self.awaits.add(PARENT)
            self.lost(src)
            self.seek()
        elif src == self.asked:
            self.on_timer(src, self.attempt)

    def child_down(self, child: int) -> None:
        self.children.discard(child)
        for topic in self.topics.values():
            topic.brokers.discard(child)
            for pending in topic.pending.values():
                pending.acked.discard(child)
        if child in self.awaits:
            self.drop_held(child)
        self.awaits.discard(child)
        self.lost(child)
        self.view_changed()
        self.settle()

    def lost(self, broker: int) -> None:
        super().lost(broker)
        message = Message("failed", body=broker)
        if self.is_waiting:
            self.hold.append((self.node, message))
        else:
            self.handle(self.node, message)

    def drop_held(self, src: int) -> None:
        """Drops the held messages of a partner that arrived before its missing messages, except failure reports."""
        self.hold = [(of, message) for of, message in self.hold if of != src or message.kind == "failed"]

    def on_failed(self, src: int, message: Message) -> None:
        if message.body in self.failed:
            return
        self.failed.add(message.body)
        self.dead.add(message.body)
        for broker in sorted(self.neighbours() - {src}):
            self.links.send(self.node, broker, message)
        self.try_topics()

    def settle(self) -> None:
        """Handles the held messages until one of them makes the broker wait again."""
        while self.hold and not self.awaits:
            self.handle(*self.hold.pop(0))
        self.try_topics()

    def try_topics(self) -> None:
        for topic in self.topics.values():
            self.try_all(topic)

    def candidates(self) -> list[int]:
        return [b for b in super().candidates() if b not in self.children]

    def seek(self) -> None:
        """Searches a parent; if the broker sees only siblings, starts one election for each set of failed brokers."""
        has_above = any(self.view[b] != SIBLING for b in self.candidates())
        if has_above or (self.siblings() and self.gone() == self.decided):
            super().seek()
        else:
            self.elect()

    def elect(self) -> None:
        self.is_electing, self.asked = True, None
        self.vote = Vote(self.residual_degree, self.gone())
        for sibling in self.siblings():
            self.links.send(self.node, sibling, Message("root_election", body=self.vote))
            self.links.timer(self.node, sibling, 0)
        self.decide()

    def siblings(self) -> list[int]:
        return [b for b in self.candidates() if self.view[b] == SIBLING and b not in self.below]

    def gone(self) -> frozenset[int]:
        return frozenset((self.dead & self.view.keys()) | self.heard | ({self.lost_parent} - {None}))

    def on_root_election(self, src: int, message: Message) -> None:
        vote = message.body
        is_orphan = self.parent is None or self.parent in vote.gone
        if vote.degree is None:
            self.told_to_ask(src, vote.gone)
        elif self.is_root or not is_orphan or self.view.get(src) != SIBLING:
            known = {b for b, (up, _) in self.view.items() if up == 0} | ({self.parent} - {None})
            self.links.send(self.node, src, Message("root_election", body=Vote(None, frozenset(known))))
        else:
            self.votes[src] = vote
            if self.parent is None:
                self.count(src, vote)

    def told_to_ask(self, src: int, above: frozenset[int]) -> None:
        """Handles the answer of a sibling that has another parent.

        If a voter is above the sibling, the sibling's vote is not needed; otherwise the sibling wins the election.
        """
        if above & {self.node, *self.siblings()}:
            self.below.add(src)
            if self.is_electing:
                self.decide()
        elif self.is_electing:
            self.end_election(src)

    def count(self, src: int, vote: Vote) -> None:
        known = self.gone()
        self.heard |= vote.gone
        for b in sorted((vote.gone & self.view.keys()) - self.dead):
            self.lost(b)
        if self.is_electing:
            self.decide()
        elif self.asked in vote.gone or (self.asked is None and self.gone() != self.decided):
            self.asked = None
            self.seek()
        elif self.gone() != known or src not in self.answered:
            self.answered.add(src)
            self.vote = Vote(self.residual_degree, self.gone())
            self.links.send(self.node, src, Message("root_election", body=self.vote))

    def decide(self) -> None:
        if self.gone() != self.vote.gone:
            self.elect()
            return
        votes = {b: vote.degree for b, vote in self.votes.items() if vote.gone == self.vote.gone}
        siblings = self.siblings()
        if any(sibling not in votes for sibling in siblings):
            return
        own = (self.vote.degree, -self.node)
        _, least = max([own, *((votes[sibling], -sibling) for sibling in siblings)])
        self.end_election(-least)

    def end_election(self, winner: int) -> None:
        self.is_electing, self.votes, self.decided = False, {}, self.vote.gone
        deferred, self.deferred = self.deferred, []
        if winner == self.node:
            self.is_root = self.is_elected = True
            self.is_seeking, self.expected = False, self.siblings()
            self.awaits.discard(PARENT)
            self.view = {}
            self.view_changed()
        else:
            self.is_seeking = True
            self.ask(winner)
        for src, message in deferred:
            self.on_parent_request(src, message)
        self.settle()

    def on_timer(self, partner: int, attempt: int) -> None:
        if self.is_electing and attempt == 0 and partner not in self.awaits:
            if partner in self.siblings():
                self.lost(partner)
            self.decide()
        elif partner in self.awaits and partner in self.children:
            self.child_down(partner)
        elif partner in self.awaits:
            self.client_down(partner)
        else:
            super().on_timer(partner, attempt)

    def client_down(self, client: int) -> None:
        self.clients.discard(client)
        self.awaits.discard(client)
        self.settle()

    def request(self) -> Request:
        return Request(self.upward, self.break_degree, is_client=False)

    def on_parent_request(self, src: int, message: Message) -> None:
        if self.is_electing and src in self.siblings():
            self.deferred.append((src, message))
            return
        accepts = self.accepts(src, message.body)
        self.links.send(self.node, src, Message("parent_response", body=accepts))
        if accepts:
            self.take_in(src, message.body)

    def accepts(self, src: int, request: Request) -> bool:
        is_above = src == self.parent or self.view.get(src, (1, 1)) != (1, 1)
        if PARENT in self.awaits or is_above or src in self.children:
            return False
        if not self.is_elected and not request.topics <= self.topics.keys():
            return False
        return request.is_client or request.break_degree or self.residual_degree > 0

    def take_in(self, src: int, request: Request) -> None:
        if request.is_client:
            self.clients.add(src)
            self.clients_topics[src] = request.subscribed
        else:
            self.children.add(src)
        self.expected = [b for b in self.expected if b != src]
        for name in request.topics:
            topic = self.topics.setdefault(name, Topic())
            if not request.is_client:
                topic.brokers.add(src)
        self.awaits.add(src)
        body = {name: known(self.topics[name]) for name in request.topics}
        self.links.send(self.node, src, Message("parent_buffer", body=body))
        self.links.timer(self.node, src, 0)
        self.view_changed()

    def attached(self, parent: int) -> None:
        for name in self.upward:
            self.topics[name].brokers.add(parent)

    def on_parent_buffer(self, src: int, message: Message) -> None:
        if src != self.parent:
            return
        events = {
            name: [e for e in self.topics[name].history if not theirs.has(e)] for name, theirs in message.body.items()
        }
        mine = {name: known(self.topics[name]) for name in message.body}
        body = Missing(events, mine, frozenset(self.failed))
        self.links.send(self.node, src, Message("lost_message_request", body=body))

    def on_lost_message_request(self, src: int, message: Message) -> None:
        if src not in self.awaits:
            return
        self.apply(src, message.body)
        events = {
            name: [e for e in self.topics[name].history if not theirs.has(e)]
            for name, theirs in message.body.known.items()
        }
        answer = Missing(events, {}, frozenset(self.failed))
        self.links.send(self.node, src, Message("lost_messages", body=answer))
        for name, topic in self.topics.items():
            for pending in topic.pending.values():
                pending.acked.discard(src)
                if name in self.clients_topics.get(src, ()):
                    pending.covered.add(src)
            if name in self.clients_topics.get(src, ()):
                topic.clients.add(src)
        self.awaits.discard(src)
        self.settle()

    def on_lost_messages(self, src: int, message: Message) -> None:
        if src != self.parent:
            return
        self.apply(src, message.body)
        self.awaits.discard(PARENT)
        self.settle()

    def apply(self, src: int, missing: Missing) -> None:
        for name, events in missing.events.items():
            topic = self.topics[name]
            for what, m in events:
                if what == "processed":
                    if m.id not in topic.processed:
                        self.process(topic, src, m)
                else:
                    (self.take_total if m.is_total else self.take)(topic, src, m, frozenset())
        for broker in sorted(missing.failed):
            self.on_failed(src, Message("failed", body=broker))

    def view_changed(self) -> None:
        for child in sorted(self.children | self.clients):
            view = {b: place for b, place in self.view.items() if b != child}
            if self.parent is not None:
                view[self.parent] = (0, 1)
            coming = {b for b in self.expected if b not in self.dead}
            view |= {other: (1, 0) for other in self.children | coming if other != child}
            self.links.send(self.node, child, Message("tree_view_update", body=view))

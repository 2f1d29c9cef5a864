"""A broker that holds messages while it is reconfigured, and gets and gives missing ones (section 4.3)."""

from __future__ import annotations

import json
from collections.abc import Sequence

from udfs.ginger.broker import Broker, Topic
from udfs.ginger.buffer import Event, Runs, in_runs, runs_of
from udfs.ginger.items import Item
from udfs.ginger.missing_sets import MissingSets, read_missing_sets
from udfs.ginger.queue import Message


class HoldQueueBroker(Broker):
    """A broker with partners that it is not level with.

    Its ``memory`` holds beside that of `Asker` ``clients`` (by client the topics that it subscribes to), and
    ``is_new``: it is not in the sub-trees any more that it was in at the start.
    """

    def __init__(self, node: int, round_: int, state: Sequence[Item]) -> None:
        """Reads its state: as in `Broker`, and ``await``, ``hold`` and ``failed``."""
        self.awaits: set[int] = set()
        self.hold: list[Item] = []
        super().__init__(node, round_, state)

    def _read_await(self, row: Item) -> None:
        self.awaits.add(row.peer or 0)

    def _read_hold(self, row: Item) -> None:
        self.hold.append(row)

    def _read_failed(self, row: Item) -> None:
        self.failed.add(row.peer or 0)

    @property
    def is_waiting(self) -> bool:
        """Whether it has no parent that it is level with, or waits for a new neighbour, or holds messages."""
        return not self.is_level or bool(self.awaits or self.hold)

    def handle_application(self, item: Item) -> None:
        """Handles a message that is not held, or not any more."""
        if item.kind == "Failed":
            self.on_failed(item.peer, *json.loads(item.details or "[]"))
        else:
            super().handle(item)

    def lost(self, broker: int) -> None:
        """What came from a failed broker before is handled before the news that it failed."""
        super().lost(broker)
        news = Item("inbox", 0, kind="Failed", peer=self.node, details=json.dumps([broker, True]))
        if self.is_waiting:
            self.hold.append(news)
        else:
            self.handle_application(news)

    def on_failed(self, sender: int | None, broker: int, is_down: bool) -> None:
        """Coverage need not wait for a failed broker; the news goes on through the tree, maybe after it is back."""
        if broker in self.failed:
            return
        self.failed.add(broker)
        if is_down and sender != self.node:
            super().lost(broker)
        self.flood("Failed", None, sender, json.dumps([broker, broker in self.dead]))
        self._try_topics()

    def settle(self) -> None:
        """Releases what was held, in order, as far as nothing is awaited any more (Alg. 9)."""
        while self.hold and self.is_level and not self.awaits:
            self.handle_application(self.hold.pop(0))
        self._try_topics()

    def drop_held(self, partner: int) -> None:
        """What a partner sent that failed before it told what was before that: whoever has that has this, too."""
        self.hold = [item for item in self.hold if item.peer != partner or item.kind == "Failed"]

    def _try_topics(self) -> None:
        for _, topic in sorted(self.topics.items()):
            self.try_all(topic)

    def is_inside(self, topic: Topic) -> bool:
        """Returns whether it is in the sub-tree of a topic: from the start, or since it took somebody in."""
        is_new = self.recall("is_new", False)
        return bool(topic.brokers or topic.clients or (self.node in topic.members and not is_new))

    def note_known(self, known: MissingSets, name: str) -> None:
        """Adds the ids of what it has had of a topic."""
        known.name(name)
        known.passed[name] |= self.topic(name).seen
        known.processed[name] |= self.topic(name).processed
        if self.buffer(name).collected:
            known.collected[name] = self.buffer(name).collected

    def on_parent_buffer(self, item: Item) -> None:
        """Alg. 11: sends what the new parent lacks, and asks for what it has and this broker lacks."""
        if item.peer == self.parent:
            theirs = self.told(item)
            for name, members in sorted(theirs.members.items()):
                self.topic(name).members = set(members)
                self.keep("member", None, 0, topic=name, covered=members)
            answer = self.missing_of(theirs)
            self.send(self.parent or 0, "LostMessageRequest", details=answer.text())

    def missing_of(self, theirs: MissingSets) -> MissingSets:
        """Returns what another one lacks of the topics that it names."""
        answer = MissingSets(failed=self.failed, back=self.failed - self.dead)
        for name in sorted(theirs.passed):
            events = [event for event in self.buffer(name).events if not theirs.has(event)]
            answer.events += [self.with_body(event) for event in events]
            self.note_known(answer, name)
        return answer

    def on_received(self, item: Item) -> None:
        """A child or a client has had messages for good, and so have all below it."""
        received = self.recall("received", {})
        of_topic = {
            **received.get(item.topic, {}),
            str(item.peer): [list(item.covered), json.loads(item.details or "{}")],
        }
        self.remember(received={**received, item.topic: of_topic})

    def report(self, topic: str) -> None:
        """Collects what all below it have had, and at the topic's root everybody, or tells the parent."""
        about, received = self.topic(topic), self.recall("received", {}).get(topic, {})
        below = {str(node) for node in about.brokers & self.children | about.clients}
        if self.is_waiting or not below <= received.keys():
            return
        ids, covered = set(about.seen) - about.pending.keys(), {self.node}
        for node in below:
            covered.update(received[node][0])
            ids = self.common(ids, received[node][1])
        if not self.is_topic_root(about):
            self.tell_parent(topic, ids, covered)
        elif len(ids) >= self.collect_every and about.members <= covered | self.failed:
            self.collect(topic, runs_of(ids))

    def collect(self, topic: str, runs: Runs) -> None:
        """Whatever everybody has had is over here, too; those below hear of it."""
        about = self.topic(topic)
        new = [of for of in about.seen if in_runs(runs, of)]
        super().collect(topic, runs)
        for pending in [pending for of, pending in about.pending.items() if in_runs(runs, of)]:
            self.process(about, None, pending.message, pending.hops)
        publishers = {source for source, _ in new} & self.clients
        for node in sorted((about.brokers & self.children | about.clients | publishers) if new else ()):
            self.tell(node, "Collect", topic, json.dumps(runs_of(new)))

    def forget_partner(self, partner: int) -> None:
        """What a partner that failed has had counts no more; a new parent is told of everything."""
        super().forget_partner(partner)
        received = self.recall("received", {})
        if received:
            others = {t: {n: told for n, told in of.items() if n != str(partner)} for t, of in received.items()}
            self.remember(received=others)
        self.remember(told={})

    def own_copy(self, message: Message) -> Message:
        """A message that is pending is at hand, whether it has left the buffer or not."""
        pending = self.topic(message.topic).pending.get(message.id)
        return message if pending is None else pending.message

    def needs(self, partner: int, event: Event) -> bool:
        """Who has nobody to pass a message on to needs no more than its id; new neighbours ask for themselves."""
        topic = self.topic(event.message.topic)
        return bool((topic.brokers | topic.clients) - (self.awaits - self.parked.keys()) - {partner})

    def on_lost_message_request(self, item: Item) -> None:
        """Alg. 12: takes what it lacked, and answers with what the sender lacks."""
        sender = item.peer or 0
        if sender not in self.children | self.clients:
            # Whoever took the sender in has failed since, and recovered without knowing it.
            self.send(sender, "NeighborDown", details=str(self.node))
        if sender not in self.awaits:
            return
        is_answered, told = sender in self.parked, self.filled(item)
        if told is None:
            self._answer(sender, read_missing_sets(item.details))
            return
        self.apply(sender, told)
        if not is_answered:
            self._answer(sender, told)
        subscribed = self._subscribed(sender)
        for name, topic in self.topics.items():
            for pending in topic.pending.values():
                pending.acked.discard(sender)
                pending.covered |= {sender} if name in subscribed else set()
        self.awaits.discard(sender)
        self.settle()
        if sender in self.children:
            self.ask_again(sender)

    def _answer(self, sender: int, theirs: MissingSets) -> None:
        """Sends what a new child lacks; from now on it gets all else."""
        self.send(sender, "LostMessages", details=self.missing_of(theirs).text())
        for name in self._subscribed(sender):
            self.topic(name).clients.add(sender)

    def _subscribed(self, client: int) -> Sequence[str]:
        topics: Sequence[str] = self.recall("clients", {}).get(str(client), ())
        return topics

    def on_lost_messages(self, item: Item) -> None:
        """All that was missing is there."""
        told = self.filled(item) if item.peer == self.parent else None
        if told is None:
            return
        self.apply(self.parent or 0, told)
        self.remember(is_level=True)
        self.settle()
        if self.parent is not None:
            self.ask_again(self.parent)

    def ask_again(self, neighbour: int) -> None:
        """A new connection to a broker stands."""
        raise NotImplementedError

    def resume(self, item: Item) -> None:
        """The messages that were lacking are there."""
        if item.kind == "LostMessageRequest":
            self.on_lost_message_request(item)
        else:
            super().resume(item)

    def apply(self, sender: int, missing: MissingSets) -> None:
        """Handles what was missing as if it had come in order."""
        for what, message, hops in missing.events:
            topic: Topic = self.topic(message.topic)
            if not message.has_body:
                self.take_id(topic, what, message, hops + 1)
            elif what == "passed":
                self.on_metadata(topic, sender, message, hops + 1, ())
            elif message.id not in topic.processed:
                self.process(topic, sender, message, hops + 1)
        for broker in sorted(missing.failed):
            self.on_failed(sender, broker, broker not in missing.back)

    def take_id(self, topic: Topic, what: str, message: Message, hops: int) -> None:
        """Notes a message of which no more than the id is there."""
        event = Event(what, message, hops)
        if not topic.buffer.has(event):
            self.buffered(topic.buffer, event)

    def pass_exception(self, message: Message, sender: int | None, details: str) -> None:
        """Brokers pass it on until it is at the client's edge broker."""
        if message.source in self.clients:
            self.send(message.source, "Exception", message, details=details)
        else:
            super().pass_exception(message, sender, details)

    def on_repeat(self, item: Item) -> None:
        """Brings a message to the node that lacks it."""
        target = int(item.details or 0)
        if target == self.node:
            super().on_repeat(item)
        elif target in self.clients:
            self.send(target, "Repeat", item.message, details=item.details)
        else:
            self.flood("Repeat", item.message, item.peer, item.details or "")

"""The node program of the skip ring: the tables of supervisors and subscribers, and a handler for each message.

A node that has not subscribed to a topic rejects messages that would connect it to the ring (rule K4). A subscriber
without a label ignores all messages except SetData and Remove (rule K5). Rule K16 orders the handlers of a round.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from udfs.nodes.calls import PublishCall, SubscribeCall, UnsubscribeCall
from udfs.nodes.context import Context
from udfs.nodes.program import TIMERS, NodeProgram, appended, keyed
from udfs.nodes.world import BEFORE, World
from udfs.skipring import messages as ms
from udfs.skipring.history import (
    ConfigurationChange,
    DatabaseChange,
    Explicit,
    configuration_change,
    database_changes,
    explicit,
)
from udfs.skipring.messages import MESSAGES, CheckAndPublish, CheckTrie, Publish, PublishNew, send
from udfs.skipring.start import begin
from udfs.skipring.state import Crashed, Database, Interest, Subscription, Supervisor, are_valid, responsible, topic_of
from udfs.skipring.subscriber import Member
from udfs.skipring.supervisor import Supervision
from udfs.skipring.trie import NodeHash, Publication, Root, Trie, TrieNode, has_right_key, publication_key, repair_tries


class SkipRing(NodeProgram):
    """A node: a supervisor, or a node that may subscribe."""

    messages = MESSAGES
    order: ClassVar = (
        NodeProgram.down_kind, ("Subscribe", "GetConfiguration", "RequestFor", "Unsubscribe"),
        ("subscribe", "unsubscribe"), "Remove", "SetData", "Introduce", "IntroduceShortcut", "publish",
        ("PublishNew", "Publish", "CheckTrie", "CheckAndPublish"), TIMERS,
    )  # fmt: skip

    supervisor = keyed(Supervisor, is_durable=True)
    database = keyed(Database)
    crashed = keyed(Crashed)
    subscription = keyed(Subscription)
    interest = keyed(Interest)
    trie_node = keyed(TrieNode)
    trie_root = keyed(Root)
    configuration_change = appended(ConfigurationChange, is_durable=True)
    database_change = appended(DatabaseChange, is_durable=True)

    caches: ClassVar = ("has_checked_tries",)

    def __init__(self) -> None:
        super().__init__()
        self._explicit_before: dict[str, Explicit] = {}
        self._supervisions: dict[str, Supervision] = {}
        self.has_checked_tries = False

    @classmethod
    def start(cls, world: World) -> None:
        """Sets the initial state of all nodes and the random round of their first Timeout. Records this state."""
        begin(world)
        for node in world.nodes:
            program: SkipRing = world.program(node)
            program._explicit_before = {topic: explicit(Subscription(topic)) for topic in program.subscription}
            program._note_changes(BEFORE)
            for topic, database in sorted(program.database.items()):
                before = dict.fromkeys(database.entries)
                program.database_change += database_changes(topic, BEFORE, before, database.entries)

    # ---- the application

    def call_subscribe(self, call: SubscribeCall, ctx: Context) -> None:
        """Adds a subscription. The next Timeout sends Subscribe to the topic's supervisor."""
        number, topic = call.subscription_id, topic_of(call)
        self.interest[number] = Interest(number, topic)
        self._made(topic).wants = True

    def call_unsubscribe(self, call: UnsubscribeCall, ctx: Context) -> None:
        """Removes a subscription. If it was the last one on its topic, the node starts to leave the topic's ring."""
        gone = self.interest.pop(call.subscription_id, None)
        if gone is not None and all(one.topic != gone.topic for one in self.interest.values()):
            self._made(gone.topic).wants = False

    def call_publish(self, call: PublishCall, ctx: Context) -> None:
        """Publishes on a topic: inserts, delivers and floods the publication (section 4.3)."""
        topic = topic_of(call)
        key = publication_key(topic, ctx.node, call.source_seq, int(ctx.settings["key_bits"]))
        own, one = self._made(topic), Publication(key, ctx.node, call.source_seq, call.round)
        self._check_tries(ctx)
        if self._take(own, one, "publish", ctx):
            self._flood(own, one, None, ctx)

    # ---- the supervisor

    def on_subscribe(self, m: ms.Subscribe, src: int, ctx: Context) -> None:
        """Subscribe (section 4.1): records the sender, and answers with the sender's configuration."""
        if (supervision := self._supervision(m.topic, ctx)) is not None:
            supervision.integrate(src, "subscribe", ctx)

    def on_get_configuration(self, m: ms.GetConfiguration, src: int, ctx: Context) -> None:
        """GetConfiguration: records the sender if necessary, and answers with the sender's configuration (3.2.1)."""
        if (supervision := self._supervision(m.topic, ctx)) is not None:
            supervision.integrate(src, "request", ctx)

    def on_request_for(self, m: ms.RequestFor, src: int, ctx: Context) -> None:
        """RequestFor (section 3.2.1): sends the subscriber in field ``subscriber`` the subscriber's configuration."""
        if (supervision := self._supervision(m.topic, ctx)) is not None:
            supervision.request_for(m.subscriber, ctx)

    def on_unsubscribe(self, m: ms.Unsubscribe, src: int, ctx: Context) -> None:
        """Unsubscribe (section 4.1): removes the sender from the database, and permits the sender to leave."""
        if (supervision := self._supervision(m.topic, ctx)) is not None:
            supervision.unsubscribe(src, ctx)

    def on_down(self, peer: int, ctx: Context) -> None:
        """Crash report (section 3.3, rule K8): records the crash of `peer`, and removes `peer` from all databases.

        The record is permanent, because crashed nodes do not recover.
        """
        self.crashed[peer] = Crashed(peer)
        for topic in sorted(self.database):
            if (supervision := self._supervision(topic, ctx)) is not None:
                supervision.remove(peer)

    # ---- the ring

    def on_remove(self, m: ms.Remove, src: int, ctx: Context) -> None:
        """Remove (section 4.1): deletes all references to the node that message `m` names."""
        self._own(m.topic).delete(m.node)

    def on_set_data(self, m: ms.SetData, src: int, ctx: Context) -> None:
        """SetData (section 3.2.1): adopts the configuration. A node that has unsubscribed sends Unsubscribe instead."""
        own = self._own(m.topic)
        if not are_valid(m.label, m.predecessor, m.successor):
            return
        if m.label is None:
            own.clear()
        elif own.wants:
            Member(own, m.label, self._responsible(m.topic), ctx).configure(m)
        else:
            send(ctx, self._responsible(m.topic), ms.Unsubscribe(m.topic))

    def on_introduce(self, m: ms.Introduce, src: int, ctx: Context) -> None:
        """Introduce (section 2.2): inserts the introduced node into the ring, or forwards it.

        A node that has unsubscribed sends Remove to the introduced node instead.
        """
        own = self._own(m.topic)
        if not are_valid(m.label, m.believed):
            return
        if not own.wants:
            send(ctx, m.node, ms.Remove(m.topic, ctx.node))
        elif own.label is not None:
            Member(own, own.label, self._responsible(m.topic), ctx).introduce(m)

    def on_introduce_shortcut(self, m: ms.IntroduceShortcut, src: int, ctx: Context) -> None:
        """IntroduceShortcut: stores the introduced node in a slot. An unsubscribed node sends Remove (3.2.2)."""
        own = self._own(m.topic)
        if not are_valid(m.label):
            return
        if not own.wants:
            for node in (m.node, src):
                send(ctx, node, ms.Remove(m.topic, ctx.node))
        elif own.label is not None:
            Member(own, own.label, self._responsible(m.topic), ctx).introduce_shortcut(m)

    # ---- publications

    def on_publish_new(self, m: ms.PublishNew, src: int, ctx: Context) -> None:
        """PublishNew (section 4.3): delivers a new publication, and forwards it to all neighbours except the sender.

        Drops a known publication (rule K12).
        """
        if (own := self._labelled(m.topic, ctx)) is not None:
            one = Publication(m.key, m.source, m.source_seq, m.issued_round, m.hops)
            if self._take(own, one, "flooding", ctx):
                self._flood(own, one, src, ctx)
            else:
                ctx.drop()

    def on_publish(self, m: ms.Publish, src: int, ctx: Context) -> None:
        """Publish (section 4.2): inserts and delivers the requested publications, if they are new."""
        if (own := self._labelled(m.topic, ctx)) is not None:
            for one in m.publications:
                self._take(own, replace(one, hops=one.hops + 1), "trie", ctx)

    def on_check_trie(self, m: ms.CheckTrie, src: int, ctx: Context) -> None:
        """CheckTrie (section 4.2): compares trie nodes in `m` with this node's trie, and requests differences."""
        if (own := self._labelled(m.topic, ctx)) is not None:
            for node in m.nodes:
                self._compare(own.topic, node, src, ctx)

    def on_check_and_publish(self, m: ms.CheckAndPublish, src: int, ctx: Context) -> None:
        """CheckAndPublish (section 4.2): compares a trie node, and sends the publications with the prefix in `m`."""
        if (own := self._labelled(m.topic, ctx)) is not None:
            if m.trie_node is not None:
                self._compare(own.topic, m.trie_node, src, ctx)
            missing = tuple(self._trie(own.topic, ctx).publications(m.prefix))
            if missing:
                send(ctx, src, Publish(own.topic, missing))

    def _compare(self, topic: str, node: NodeHash, src: int, ctx: Context) -> None:
        """Compares `node`, a trie node of subscriber `src`, with this node's trie (section 4.2).

        Requests the differences from `src`.
        """
        trie = self._trie(topic, ctx)
        if node == trie.root:
            return
        own = trie.find(node.label)
        if own is not None:
            if own.hash != node.hash and own.zero is not None and own.one is not None:
                send(ctx, src, CheckTrie(topic, (trie.hash_at(own.zero), trie.hash_at(own.one))))
            return
        below = trie.below(node.label)
        if below is None:
            send(ctx, src, CheckAndPublish(topic, None, node.label))
        else:
            branch = below.label[len(node.label)]
            prefix = node.label + ("0" if branch == "1" else "1")
            send(ctx, src, CheckAndPublish(topic, trie.hash_at(below.label), prefix))

    def _take(self, own: Subscription, one: Publication, via: str, ctx: Context) -> bool:
        """Inserts a new publication with a right key into the trie, and delivers it. Returns whether it is new."""
        if not has_right_key(own.topic, one, int(ctx.settings["key_bits"])):
            return False
        is_new = self._trie(own.topic, ctx).insert(one, via)
        if is_new and own.wants:
            ctx.deliver(one.source, one.source_seq, one.issued_round, one.hops)
        return is_new

    def _flood(self, own: Subscription, one: Publication, sender: int | None, ctx: Context) -> None:
        copy = PublishNew(own.topic, one.key, one.source, one.source_seq, one.issued_round, one.hops + 1)
        for node in own.neighbours():
            if node != sender:
                send(ctx, node, copy)

    def _ask(self, own: Subscription, ctx: Context) -> None:
        """Sends CheckTrie with the root of the trie to a randomly chosen ring neighbour (Timeout, section 4.2)."""
        nodes = own.ring_nodes()
        if nodes:
            dst = nodes[int(ctx.draw(f"neighbour of {own.topic}") * len(nodes))]
            send(ctx, dst, CheckTrie(own.topic, (self._trie(own.topic, ctx).root,)))

    # ---- Timeout

    def on_timer(self, name: str, key: int, ctx: Context) -> None:
        """Timeout: runs the periodic actions of a supervisor (section 3.1) and of a subscriber (sections 3.2, 4.2)."""
        ctx.set_timer(name, key, int(ctx.settings["timeout_interval"]))
        self._check_tries(ctx)
        self._correct_verdicts(ctx)
        for topic in sorted(self.database):
            supervision = self._supervision(topic, ctx)
            if supervision is None:
                self._drop_database(topic, ctx)
            else:
                supervision.timeout(ctx)
        for topic in sorted(self.subscription):
            self._timeout(self._own(topic), ctx)

    def _timeout(self, own: Subscription, ctx: Context) -> None:
        """Runs the Timeout of a subscriber for one topic.

        A subscriber without a label only sends Subscribe (section 3.2.1, action (i)).
        """
        supervisor = self._responsible(own.topic)
        if own.label is None and own.wants:
            send(ctx, supervisor, ms.Subscribe(own.topic))
        elif own.label is None:
            own.clear()
        elif not own.wants:
            send(ctx, supervisor, ms.Unsubscribe(own.topic))
        else:
            Member(own, own.label, supervisor, ctx).timeout()
            self._ask(own, ctx)

    # ---- the history

    def on_round_end(self, ctx: Context) -> None:
        """Records the changes of explicit state in this round (rule K18)."""
        self._note_changes(ctx.round)

    def _note_changes(self, round_: int) -> None:
        for topic, before in sorted(self._explicit_before.items()):
            own = self.subscription.get(topic)
            if own is not None and explicit(own) != before:
                self.configuration_change.append(configuration_change(own, round_))
        for topic, one in sorted(self._supervisions.items()):
            if one.changed:
                self.database_change += database_changes(topic, round_, one.changed, self.database[topic].entries)
                one.changed = {}
        self._explicit_before = {}

    # ---- the node's state of a topic

    def _own(self, topic: str) -> Subscription:
        """Returns the node's state for a topic, after deleting invalid labels (rule K21).

        If the node has no state for the topic, returns an empty state without storing it.
        """
        own = self.subscription.get(topic) or Subscription(topic)
        if topic not in self._explicit_before:
            self._explicit_before[topic] = explicit(own)
            own.drop_invalid_labels()
        return own

    def _made(self, topic: str) -> Subscription:
        return self.subscription.setdefault(topic, self._own(topic))

    def _labelled(self, topic: str, ctx: Context) -> Subscription | None:
        """Returns the node's state for a topic, or None if the node has not subscribed or has no label.

        Repairs the tries of the node first.
        """
        own = self._own(topic)
        if not own.wants or own.label is None:
            return None
        self._check_tries(ctx)
        return own

    def _responsible(self, topic: str) -> int:
        return responsible(topic, self.supervisor.values())

    def _supervision(self, topic: str, ctx: Context) -> Supervision | None:
        """Returns the `Supervision` of a topic, or None if another node supervises the topic (rule K21)."""
        if self._responsible(topic) != ctx.node:
            return None
        if topic not in self._supervisions:
            self._correct_verdicts(ctx)
            database = self.database.setdefault(topic, Database(topic))
            self._supervisions[topic] = Supervision(database, self.crashed)
        return self._supervisions[topic]

    def _drop_database(self, topic: str, ctx: Context) -> None:
        """Deletes the database of a topic whose supervisor is another node (rule K21)."""
        before = {label: (node,) for label, node in self.database.pop(topic).entries.items()}
        self.database_change += database_changes(topic, ctx.round, before, {})

    def _correct_verdicts(self, ctx: Context) -> None:
        """Deletes the crash records of supervisors, and of nodes that the failure detector still watches (rule K21)."""
        for node in [node for node in self.crashed if node in ctx.watched or node in self.supervisor]:
            del self.crashed[node]

    def _check_tries(self, ctx: Context) -> None:
        """Repairs the tries before their first use (rule K22)."""
        if not self.has_checked_tries:
            self.has_checked_tries = True
            key_bits, hash_bits = int(ctx.settings["key_bits"]), int(ctx.settings["hash_bits"])
            repair_tries(self.trie_node, self.trie_root, key_bits, hash_bits)

    def _trie(self, topic: str, ctx: Context) -> Trie:
        return Trie(topic, self.trie_node, self.trie_root, int(ctx.settings["hash_bits"]))

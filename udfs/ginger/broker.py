"""A broker: its parts, subscriptions, and the exchange of missing messages with new neighbours.

Subscribe (sections 3.4 and 4.2.1) floods the tree and carries its path, from which each broker derives the topic's
sub-tree. A broker that has forwarded a Subscribe waits until all receivers have answered Subscribed, and then answers
Subscribed itself. So the client's edge broker learns that the sub-tree is complete. In the exchange (section 4.3.2,
Alg. 10 to 12) a new parent and its child send each other the messages that the receiver lacks.
"""

from __future__ import annotations

from itertools import takewhile

from udfs.ginger import messages as ms, missing_messages, parent_search, tree_repair
from udfs.ginger.buffer import MissingSets
from udfs.ginger.garbage_collection import GarbageCollection
from udfs.ginger.messages import Incarnation
from udfs.ginger.missing_messages import MissingMessages
from udfs.ginger.node import Node, Role
from udfs.ginger.ordering import APPLICATION, Ordering
from udfs.ginger.parent_search import Election
from udfs.ginger.records import FailedBroker, Member, ReceivedSubscribe
from udfs.ginger.topics import Topics
from udfs.ginger.tree_repair import TreeRepair


class Broker(Role):
    """A broker: its parts, and the method that handles each type of message."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.topics = Topics(node)
        self.ordering = Ordering(node, self.topics)
        self.garbage = GarbageCollection(node, self.topics, self.ordering)
        self.missing = MissingMessages(self, self.topics, self.garbage, self.ordering)
        self.tree = TreeRepair(node, self.topics, self.ordering, self.missing)
        self.election = Election(self, self.topics, self.tree)
        self.handlers = {
            **dict.fromkeys(APPLICATION, self.ordering.receive),
            ms.Subscribe: self._on_subscribe,
            ms.Subscribed: self._on_subscribed,
            ms.ParentRequest: self.tree.on_parent_request,
            ms.ParentResponse: self.election.on_response,
            ms.Disconnect: lambda _, src: self.disconnected(src),
            ms.TreeViewUpdate: self.election.on_tree_view_update,
            ms.RootElection: self.election.on_root_election,
            ms.ParentBuffer: self._on_parent_buffer,
            ms.LostMessageRequest: self._on_lost_message_request,
            ms.LostMessages: self._on_lost_messages,
            ms.Lacking: node.ask_publisher,
            ms.Repeat: self.missing.pass_repeat,
            ms.JoinTopic: self.tree.on_join_topic,
            ms.TopicJoined: self.tree.on_topic_joined,
            ms.Received: self.garbage.on_received,
            ms.Collect: self.garbage.on_collect,
        }

    def on_timer(self, name: str, key: int) -> None:
        """Passes the expiry of a timer to the part of the broker that set the timer."""
        if name == parent_search.TIMER:
            self.election.on_timer()
        elif name == missing_messages.TIMER:
            self.missing.on_timer()
        elif name == parent_search.ELECTION_TIMER:
            self.election.on_vote_timer(key)
        elif name == tree_repair.TIMER and key in self.node.awaited and key not in self.node.parked:
            self._child_down(key)

    def join(self, status: str, join_seq: int | None) -> None:
        """Starts the search for a first parent among the contacts of the broker (section 6.1).

        The new status of the node is `status`. The call ``join`` has number `join_seq`, None if the broker recovers.
        """
        node, repair = self.node, self.node.repair
        repair.is_mended = repair.is_present = repair.is_new = repair.is_joining = True
        repair.is_level, repair.join_seq = False, join_seq
        node.see_contacts()
        if status == "RECOVERING":
            repair.incarnations[node.id] = node.incarnation
            # All brokers that noticed the failure may have failed before they reported it.
            node.failed[node.id] = FailedBroker(node.id)
        node.ctx.status(status)
        self.election.seek()

    def end_round(self) -> None:
        """Sets status OPERATIONAL after the first exchange, and sends reports for garbage collection."""
        repair = self.node.repair
        if repair.is_level and repair.is_joining:
            repair.is_joining = False
            self.node.ctx.status("OPERATIONAL")
            if repair.join_seq is not None:
                self.node.ctx.confirm(repair.join_seq)
        self.garbage.end_round()

    # ---- subscriptions (sections 3.4 and 4.2.1)

    def _on_subscribe(self, m: ms.Subscribe, sender: int) -> None:
        """Updates the topic's members (section 4.2.1). Adds this broker to the path of Subscribe, and forwards it."""
        node = self.node
        edge = node.id if m.edge is None else m.edge
        others = sorted(node.neighbours - {sender})
        row = ReceivedSubscribe(m.subscription_id, m.topic, m.source, m.source_seq, edge, sender, len(others))
        node.subscribe[m.subscription_id] = row
        self._add_subscriber(m, sender)
        most = node.setting("max_hops")
        farther = [step._replace(hop_count=step.hop_count + 1) for step in m.path if step.hop_count + 1 < most]
        for other in others:
            here = ms.Step(node.id, 0, "down" if other in node.children else "up")
            onward = m.source, m.source_seq, m.topic, m.subscription_id, edge, (here, *farther), (*m.way, node.id)
            node.send(other, ms.Subscribe(*onward))
        self._confirm(row)

    def _on_subscribed(self, m: ms.Subscribed, sender: int) -> None:
        """Counts the answer Subscribed of `sender`. After the last answer, sends Subscribed towards the subscriber."""
        row = self.node.subscribe.get(m.subscription_id)
        if row is not None:
            row.n_waiting -= 1
            self._confirm(row)

    def _confirm(self, row: ReceivedSubscribe) -> None:
        if row.n_waiting == 0:
            self.node.send(row.next_hop, ms.Subscribed(row.source, row.source_seq, row.subscription_id))

    def _add_subscriber(self, m: ms.Subscribe, sender: int) -> None:
        """Adds the new subscriber, and the brokers that connect it to the sub-tree, to the topic's members.

        Two paths start at this broker: `Member.approach`, the path to the nearest broker of the sub-tree, and the path
        to the subscriber's edge broker. Their last common broker, and all later brokers of both paths, are members.
        """
        node, topic = self.node, self.topics.of(m.topic)
        way = [node.id, *reversed(m.way)]
        known = node.member.get(m.topic) or Member(m.topic)
        approach = known.approach or way
        shared = sum(1 for _ in takewhile(lambda ends: ends[0] == ends[1], zip(approach, way, strict=False)))
        inside = {*approach[shared - 1 :], *way[shared:]}
        members = known.members | inside | {m.source}
        node.member[m.topic] = Member(m.topic, members, approach[:shared], known.clients | {m.source})
        if sender == m.source:
            topic.add(sender, "client")
        if node.id in members:
            before = approach[1:2] if node.id not in known.members else []
            for neighbour in {*before, *way[1:2]}:
                topic.add(neighbour, "broker")

    # ---- exchanges of missing messages with new neighbours (section 4.3.2)

    def _on_parent_buffer(self, m: ms.ParentBuffer, sender: int) -> None:
        """Alg. 11: sends the new parent the messages that it lacks, and the ids of this broker's messages."""
        if sender != self.node.parent:
            return
        theirs = self.missing.drop_collected(m.told)
        for name, members in sorted(theirs.members.items()):
            self.node.member[name] = Member(name, set(members), clients=set(theirs.clients.get(name, ())))
        self.node.send(sender, ms.LostMessageRequest(self.missing.missing_of(theirs)))
        self.ordering.tell_current_topics(sender)

    def _on_lost_message_request(self, m: ms.LostMessageRequest, sender: int) -> None:
        """Alg. 12: applies the messages from the new child `sender`, and sends the messages that `sender` lacks."""
        node, awaited = self.node, self.node.awaited
        if sender not in node.children and sender not in node.clients:
            # This broker accepted the sender in an earlier incarnation, and has crashed and recovered since.
            node.send(sender, ms.Disconnect())
        if sender not in awaited:
            return
        is_answered = sender in self.node.parked
        told = self.missing.take(sender, m)
        if told is None:
            self._send_missing(sender, m.told)
            self.tree.settle()
            return
        if not is_answered:
            self._send_missing(sender, told)
        subscribed = self._subscribed(sender)
        for topic in self.topics:
            for pending in topic.pending.values():
                pending.acked.discard(sender)
                pending.covered |= {sender} if topic.name in subscribed else set()
        awaited.pop(sender, None)
        self.tree.settle()
        if sender in node.children:
            self.tree.ask_again(sender)

    def _send_missing(self, sender: int, theirs: MissingSets) -> None:
        self.node.send(sender, ms.LostMessages(self.missing.missing_of(theirs)))
        self.ordering.tell_current_topics(sender)
        for name in self._subscribed(sender):
            self.topics.of(name).add(sender, "client")

    def _subscribed(self, client: int) -> tuple[str, ...]:
        row = self.node.client_subscription.get(client)
        return () if row is None else row.topics

    def _on_lost_messages(self, m: ms.LostMessages, sender: int) -> None:
        """Applies the messages in LostMessages from the parent, and ends the repair of this broker."""
        node = self.node
        if sender != node.parent:
            return
        if self.missing.take(sender, m) is None:
            self.tree.settle()
            return
        node.repair.is_level = True
        self.tree.settle()
        if node.parent is not None:
            self.tree.ask_again(node.parent)

    # ---- neighbours that fail

    def neighbour_down(self, neighbour: int) -> None:
        """Alg. 3 and 4: removes the failed `neighbour`. If the parent has failed, searches for a new parent.

        If the broker watches `neighbour` only as a member of a topic, it reports the failure (rule G35).
        """
        node = self.node
        if neighbour in node.children or neighbour in node.clients:
            self._child_down(neighbour)
        elif neighbour == node.parent:
            repair = node.repair
            repair.upward = [topic.name for topic in self.topics if neighbour in topic.brokers]
            for topic in self.topics:
                topic.discard(neighbour)
                topic.mark_unsent()
            if not repair.is_level:
                self.ordering.drop(neighbour)
            failed = node.latest(neighbour)
            node.disconnect(neighbour)
            repair.is_level = repair.is_root = False
            self.election.orphaned(failed)
            self._forget(neighbour)
            self.lost(failed)
            self.election.seek()
        else:
            self.lost(Incarnation(neighbour, 0))

    def disconnected(self, sender: int) -> None:
        """Treats neighbour `sender`, which does not know this broker as its neighbour, as failed (rule G28)."""
        if sender in self.node.neighbour:
            self.neighbour_down(sender)

    def _child_down(self, child: int) -> None:
        """Alg. 3 and 8: removes a child or client that has failed, or has not sent LostMessageRequest in time."""
        failed = self.node.latest(child)
        self.node.disconnect(child)
        for topic in self.topics:
            topic.discard(child)
            for pending in topic.pending.values():
                pending.acked.discard(child)
        if self.node.awaited.pop(child, None) is not None:
            self.ordering.drop(child)
        self.ordering.withdraw(child)
        self._forget(child)
        self.lost(failed)
        self.tree.view_changed()
        self.tree.settle()

    def _forget(self, partner: int) -> None:
        self.missing.forget(partner)
        self.garbage.forget(partner)
        self.tree.forget(partner)

    def lost(self, one: Incarnation) -> None:
        """Records that incarnation `one` has failed, and floods Failed to the other brokers."""
        self.ordering.lost(one)

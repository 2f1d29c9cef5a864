"""The children and clients of a broker, and its search for the sub-trees of topics (section 4.2.3, Alg. 2 to 6).

A broker must be in the sub-tree of a topic before it can accept a child that is in the sub-tree. The searching broker
sends JoinTopic to all its neighbours, and neighbours outside the sub-tree forward JoinTopic. A broker in the sub-tree
adds the neighbour that sent JoinTopic to the sub-tree, and answers TopicJoined with its state of the topic. So all
brokers on the path to the searching broker join the sub-tree. If no broker is in the sub-tree, the searching broker
starts a new sub-tree. Brokers store their searches, and repeat them over every new connection. So if a repair
reconnects two parts of the tree, their sub-trees of a topic are connected, too.
"""

from __future__ import annotations

from udfs.ginger import messages as ms
from udfs.ginger.buffer import MissingSets
from udfs.ginger.messages import Incarnation, ParentRequest, Seen
from udfs.ginger.missing_messages import MissingMessages
from udfs.ginger.node import Node
from udfs.ginger.ordering import Ordering
from udfs.ginger.records import Awaited, ClientSubscription, Deferred, Entrant, Postponed, TopicJoin
from udfs.ginger.topics import Topic, Topics

TIMER = "child"
"""The timer that limits the wait for the LostMessageRequest of a new child or client (Alg. 8)."""


class TreeRepair:
    """The children and clients of one broker, and its searches for sub-trees, for itself or for a neighbour."""

    def __init__(self, node: Node, topics: Topics, ordering: Ordering, missing: MissingMessages) -> None:
        self._node = node
        self._topics = topics
        self._ordering = ordering
        self._missing = missing

    def on_parent_request(self, request: ParentRequest, sender: int) -> None:
        """Alg. 5: accepts `sender` as child or client, or declines `request`.

        A broker outside the sub-trees of requested topics first joins these sub-trees, and then accepts. During an
        election, the request of a sibling waits until the election ends.
        """
        node, election = self._node, self._node.election
        if election.is_electing and sender in node.siblings():
            election.deferred.append(Deferred(sender, request))
            return
        if node.is_newcomer:
            self._respond(sender, request, ms.BACK)
            return
        if not self._may_accept(sender, request):
            self._respond(sender, request, ms.DECLINED)
            return
        outside = self._outside(request)
        is_forced = request.is_client or request.break_degree
        is_joined = not outside or request.break_degree or election.is_elected
        if not is_joined or not (is_forced or node.residual_degree > 0):
            self._respond(sender, request, ms.DECLINED)
        elif outside:
            others = [entrant for entrant in self._node.entrant if entrant.node != sender]
            self._node.entrant = [*others, Entrant(sender, request, node.rounds_from(sender))]
            self._respond(sender, request, ms.JOINING)
            for name in outside:
                self._search(name, None, is_own=True)
        else:
            self._respond(sender, request, ms.ACCEPTED)
            self._accept(sender, request)

    def _outside(self, request: ParentRequest) -> list[str]:
        return [name for name in request.topics if not self.is_inside(self._topics.of(name))]

    def _respond(self, sender: int, request: ParentRequest, answer: str) -> None:
        self._node.send(sender, ms.ParentResponse(answer, request.incarnation, self._node.incarnation))

    def _may_accept(self, sender: int, request: ParentRequest) -> bool:
        """Returns whether this broker may accept `sender`: it is neither an orphan nor below `sender` (rule G10).

        A `sender` that joins or recovers has no descendants. If the view shows it as an ancestor, the view is outdated.
        """
        node = self._node
        is_seen_above = sender in node.tree_view and not node.is_sibling(sender)
        is_above = sender == node.parent or (is_seen_above and not request.is_joining)
        return node.repair.is_level and not is_above and sender not in node.children

    def admit(self) -> None:
        """Handles each waiting ParentRequest for which the broker is now in the sub-trees of all requested topics."""
        ready = [entrant for entrant in self._node.entrant if not self._outside(entrant.request)]
        self._node.entrant = [entrant for entrant in self._node.entrant if entrant not in ready]
        for entrant in ready:
            self._node.latency.setdefault(entrant.node, entrant.latency_rounds)
            self.on_parent_request(entrant.request, entrant.node)

    def _accept(self, sender: int, request: ParentRequest) -> None:
        node, election = self._node, self._node.election
        election.expected = [broker for broker in election.expected if broker != sender]
        if request.is_client:
            self._node.client_subscription[sender] = ClientSubscription(sender, request.subscribed)
        known = MissingSets()
        if request.is_joining:
            known.members = {name: row.members for name, row in node.member.items()}
            known.clients = {name: row.clients for name, row in node.member.items()}
        for name in request.topics:
            if not request.is_client:
                self._topics.of(name).add(sender, "broker")
            self._topics.of(name).tell(known)
        self._node.awaited[sender] = Awaited(sender)
        node.connect(Incarnation(sender, request.incarnation), "client" if request.is_client else "child")
        node.send(sender, ms.ParentBuffer(known))
        node.ctx.set_timer(TIMER, sender, node.patience(sender))
        self.view_changed()

    def view_changed(self) -> None:
        """Alg. 2: sends the broker's view to its children and clients.

        An orphan sends no view, because receivers would take it for a root. The view of a newly elected root lists its
        electors as children even before they connect (rule G20).
        """
        node = self._node
        if node.parent is None and not node.repair.is_root:
            return
        seen = {broker: (row.n_up, row.n_down) for broker, row in self._node.tree_view.items()}
        if node.parent is not None:
            seen[node.parent] = (0, 1)
        expected = {*self._node.election.expected} - node.repair.dead
        seen |= dict.fromkeys(node.children | expected, (1, 0))
        path = [
            Seen(other, up, down, node.rounds_from(other), node.latest(other).incarnation)
            for other, (up, down) in sorted(seen.items())
        ]
        for child in sorted(node.children | node.clients):
            node.send(child, ms.TreeViewUpdate(tuple(step for step in path if step.broker != child)))

    # ---- searches for sub-trees

    def is_inside(self, topic: Topic) -> bool:
        """Returns whether the broker is in the sub-tree of `topic`."""
        join = self._node.topic_join.get(topic.name)
        is_first = self._ordering.is_first_member(topic)
        return bool(topic.brokers or topic.clients or is_first or (join and join.is_joined))

    def _search(self, name: str, asker: int | None, *, is_own: bool) -> None:
        topic = self._topics.of(name)
        join = topic.search()
        if not join.is_open:
            join.is_open, join.is_own, join.askers = True, False, []
            join.waiting = sorted(self._node.neighbours - {asker})
            for neighbour in join.waiting:
                self._node.send(neighbour, ms.JoinTopic(name))
        join.is_own = join.is_own or is_own
        if asker is not None and asker in join.waiting:
            # The neighbour searches, too, so this broker is on the path between the neighbour and the sub-tree.
            join.waiting.remove(asker)
            self._take_in(topic, asker)
        elif asker is not None:
            # This broker has sent no JoinTopic to earlier askers, which may be in the sub-tree now (rule G36).
            for earlier in sorted({*join.askers} - {asker, *join.waiting}):
                join.waiting.append(earlier)
                self._node.send(earlier, ms.JoinTopic(name))
            join.askers.append(asker)
        self._conclude(join)

    def _conclude(self, join: TopicJoin) -> None:
        """Ends search `join`, and answers its askers, if this broker is inside or all neighbours have answered."""
        topic = self._topics.of(join.topic)
        if not self.is_inside(topic) and join.waiting:
            return
        askers, join.askers = join.askers, []
        join.is_open, join.is_joined, join.waiting = False, join.is_joined or join.is_own, []
        for asker in askers:
            self._reply(asker, topic)
        self.admit()
        late, join.late = join.late, []
        for neighbour in late:
            if neighbour in self._node.neighbours:
                self._repeat(join, neighbour)

    def on_join_topic(self, m: ms.JoinTopic, sender: int) -> None:
        """Answers JoinTopic if the broker is in the sub-tree, else forwards it.

        A broker under repair postpones JoinTopic, unless it awaits only messages of publishers (rule G30).
        """
        if sender not in self._node.neighbours:
            return
        if self._is_postponing():
            self._node.postponed.append(Postponed(sender, m.topic))
        elif self.is_inside(self._topics.of(m.topic)):
            self._topics.of(m.topic).search()
            self._reply(sender, self._topics.of(m.topic))
        else:
            self._search(m.topic, sender, is_own=False)

    def _reply(self, asker: int, topic: Topic) -> None:
        """Sends TopicJoined to `asker`. A broker in the sub-tree adds `asker` to the sub-tree."""
        if asker not in self._node.neighbours:
            return
        if self.is_inside(topic):
            self._take_in(topic, asker)
        else:
            self._node.send(asker, ms.TopicJoined(topic.name, None))
            self._ordering.try_all(topic)

    def _take_in(self, topic: Topic, neighbour: int) -> None:
        """Adds `neighbour` to the sub-tree of `topic`, and sends it this broker's state of the topic."""
        self._connect(topic, neighbour)
        told = self._missing.missing_of(MissingSets(passed={topic.name: set()}))
        self._node.send(neighbour, ms.TopicJoined(topic.name, told))
        self._ordering.tell_current(topic, {neighbour})
        self._ordering.try_all(topic)

    def on_topic_joined(self, m: ms.TopicJoined, sender: int) -> None:
        """Handles the answer of `sender`, which contains its state of the topic if it is in the sub-tree.

        In this case, connects to `sender`. Ends the search if all answers have arrived.
        """
        if sender not in self._node.neighbours:
            return
        join = self._node.topic_join.get(m.topic)
        if join is not None and sender in join.waiting:
            join.waiting.remove(sender)
        if m.told is not None and not self._link(m, sender):
            return
        if join is not None and join.is_open:
            self._conclude(join)
        self.settle()

    def _link(self, m: ms.TopicJoined, sender: int) -> bool:
        """Adds `sender` to the sub-tree of the topic of `m`, and exchanges missing messages with `sender`.

        Returns False if `m` lacks the body of a needed message, and thus is stored in table ``parked``.
        """
        topic = self._topics.of(m.topic)
        self._connect(topic, sender)
        theirs = self._missing.take(sender, m)
        if theirs is None:
            return False
        lacking = self._missing.missing_of(theirs)
        if lacking.events:
            self._node.send(sender, ms.TopicJoined(m.topic, lacking))
        self._ordering.tell_current(topic, {sender})
        self._ordering.try_all(topic)
        return True

    def _connect(self, topic: Topic, neighbour: int) -> None:
        topic.add(neighbour, "broker")
        if neighbour == self._node.parent:
            topic.mark_unsent()

    def settle(self) -> None:
        """Handles the held messages, and then the JoinTopic messages that the broker postponed during its repair."""
        self._ordering.release()
        while self._node.postponed and not self._is_postponing():
            asked = self._node.postponed.pop(0)
            self.on_join_topic(ms.JoinTopic(asked.topic), asked.sender)

    def _is_postponing(self) -> bool:
        """Returns whether this broker is under repair, and awaits more than messages that publishers send again.

        A publisher without an edge broker may depend on the answer to JoinTopic (rule G30).
        """
        node, parked = self._node, self._node.parked
        is_told = node.repair.is_level or node.parent in parked
        is_repeated = is_told and bool(parked) and self._node.awaited.keys() <= parked.keys()
        return node.is_waiting and not is_repeated

    def ask_again(self, neighbour: int) -> None:
        """Repeats the broker's searches over the new connection to `neighbour`."""
        for join in list(self._node.topic_join.values()):
            self._repeat(join, neighbour)

    def _repeat(self, join: TopicJoin, neighbour: int) -> None:
        """Repeats search `join` over the new connection to `neighbour`. An open search ends first (rule G36)."""
        topic = self._topics.of(join.topic)
        if neighbour in topic.brokers or neighbour in join.waiting:
            return
        if join.is_open:
            join.late.append(neighbour)
        elif self.is_inside(topic):
            self._node.send(neighbour, ms.JoinTopic(join.topic))
        else:
            self._search(join.topic, None, is_own=False)

    def forget(self, partner: int) -> None:
        """Removes the failed `partner` from all searches, and ends the searches that await no other answer."""
        for join in list(self._node.topic_join.values()):
            if join.is_open:
                join.askers = [other for other in join.askers if other != partner]
                join.waiting = [other for other in join.waiting if other != partner]
                self._conclude(join)

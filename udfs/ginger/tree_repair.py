"""The repair of the tree around a broker: new children and clients, and their views (section 4.2.3, Alg. 2 to 6)."""

from __future__ import annotations

from udfs.ginger import messages as ms
from udfs.ginger.buffer import MissingSets
from udfs.ginger.messages import Incarnation, ParentRequest, Seen
from udfs.ginger.node import Node
from udfs.ginger.parent_search import Election
from udfs.ginger.repair_records import Awaited, ClientSubscription, Deferred, Entrant
from udfs.ginger.topic_joining import TopicJoining
from udfs.ginger.topics import Topics

TIMER = "child"
"""The timer that limits the wait for the LostMessageRequest of a new child or client (Alg. 8)."""


class TreeRepair:
    """The children and clients of one broker."""

    def __init__(self, node: Node, topics: Topics, joining: TopicJoining, election: Election) -> None:
        self._node = node
        self._topics = topics
        self._joining = joining
        self._election = election

    def on_parent_request(self, request: ParentRequest, sender: int) -> None:
        """Alg. 5: accepts `sender` as child or client, or declines `request`.

        A broker outside the sub-trees of requested topics first joins these sub-trees, and then accepts. During an
        election, the request of a sibling waits until the election ends.
        """
        node, election = self._node, self._node.election
        if election.is_electing and sender in self._election.siblings():
            election.deferred.append(Deferred(sender, request))
            return
        if node.is_newcomer:
            self._respond(sender, request, ms.BACK)
            return
        if not self._may_accept(sender, request):
            self._respond(sender, request, ms.DECLINED)
            return
        outside = [name for name in request.topics if not self._joining.is_inside(self._topics.of(name))]
        is_forced = request.is_client or request.break_degree
        is_joined = not outside or request.break_degree or election.is_elected
        if not is_joined or not (is_forced or node.residual_degree > 0):
            self._respond(sender, request, ms.DECLINED)
        elif outside:
            others = [entrant for entrant in self._node.entrant if entrant.node != sender]
            self._node.entrant = [*others, Entrant(sender, request, node.rounds_from(sender))]
            self._respond(sender, request, ms.JOINING)
            self._joining.join(outside)
        else:
            self._respond(sender, request, ms.ACCEPTED)
            self._accept(sender, request)

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
        ready = [entrant for entrant in self._node.entrant if self._is_ready(entrant)]
        self._node.entrant = [entrant for entrant in self._node.entrant if entrant not in ready]
        for entrant in ready:
            self._node.latency.setdefault(entrant.node, entrant.latency_rounds)
            self.on_parent_request(entrant.request, entrant.node)

    def _is_ready(self, entrant: Entrant) -> bool:
        return all(self._joining.is_inside(self._topics.of(name)) for name in entrant.request.topics)

    def _accept(self, sender: int, request: ParentRequest) -> None:
        node, election = self._node, self._node.election
        election.expected = [broker for broker in election.expected if broker != sender]
        if request.is_client:
            self._node.client_subscription[sender] = ClientSubscription(sender, request.subscribed)
        known = MissingSets()
        if request.is_joining:
            rows = {name: row for name, row in self._node.member.items() if row.members}
            known.members = {name: set(row.members) for name, row in rows.items()}
            known.clients = {name: set(row.clients) for name, row in rows.items()}
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

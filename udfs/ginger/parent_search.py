"""The search for a new parent (sections 4.2.3 and 4.2.4), and the election of a new root (section 4.2.3, Alg. 7).

A node whose parent failed is called an orphan. An orphan sends ParentRequest to the brokers of its view, one after the
other. If an orphan sees only siblings, it and its siblings elect one of them as root. A vote names the failed brokers
that the voter knows, and an election counts only votes that name the same brokers. A broker that learns of another
failure votes again. So if a winner fails before it has accepted its siblings, another election replaces it. A broker
that sees no live broker becomes a root.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from udfs.ginger import messages as ms
from udfs.ginger.messages import Incarnation
from udfs.ginger.node import Role
from udfs.ginger.records import TreeView, Vote
from udfs.ginger.topics import Topics
from udfs.ginger.tree import SIBLING, belongs
from udfs.ginger.tree_repair import TreeRepair

MAX_PASSES = 20
"""Number of passes over the brokers of its view before a node gives up the search (rule G26)."""
TIMER = "parent"
"""The timer that limits the wait for the answer to a ParentRequest, or the pause between two passes (Alg. 8)."""


class ParentSearch:
    """The search of one broker or client for a parent."""

    def __init__(self, role: Role, topics: Topics) -> None:
        self._role = role
        self._topics = topics
        self._node = role.node
        self._repair = role.node.repair

    def seek(self) -> None:
        """Alg. 4: sends a ParentRequest to the next candidate that has not declined.

        After all candidates have declined, the node asks each of them again with breakDegree set. If all decline again,
        the node pauses, and then starts the next pass. If no candidate is live, or after `MAX_PASSES` passes, the node
        gets status ISOLATED.
        """
        own, live = self._repair, self._node.candidates()
        untried = [broker for broker in live if broker not in own.declined]
        if untried:
            self.ask(untried[0])
        elif not live or own.n_passes >= MAX_PASSES:
            self._node.ctx.status("ISOLATED")
        elif not own.break_degree:
            own.break_degree, own.declined = True, []
            self.seek()
        else:
            own.n_passes, own.break_degree, own.declined, own.asked = own.n_passes + 1, False, [], None
            self._await(None, self._node.setting("timer_rounds"))

    def ask(self, broker: int) -> None:
        """Sends a ParentRequest to `broker`, and starts the timer that limits the wait for the answer.

        A broker names the topics whose sub-tree contains the failed parent. A client names all its topics, and the
        topics that it subscribes to.
        """
        own, node = self._repair, self._node
        own.asked, own.is_promised = broker, False
        topics, is_client = (*own.upward, *node.client_topic), own.role == "client"
        given = topics, own.break_degree, own.is_joining, is_client, node.subscribed, node.incarnation
        node.send(broker, ms.ParentRequest(*given))
        self._await(broker, node.patience(broker))

    def _await(self, broker: int | None, rounds: int) -> None:
        self._repair.awaited = broker
        self._node.ctx.set_timer(TIMER, rounds=rounds)

    def on_response(self, m: ms.ParentResponse, src: int) -> None:
        """Handles the answer of `src`: connects to `src` if it accepts, and asks the next broker if it declines.

        Answer ``joining`` means that `src` joins sub-trees first, so the node waits for a second answer. The node
        ignores answers to its earlier incarnations (rule G28). If `src` accepts an earlier incarnation, and is neither
        the parent nor the broker that the node asks now, the node sends Disconnect to `src`.
        """
        own, node = self._repair, self._node
        if m.incarnation != node.incarnation:
            if m.answer == ms.ACCEPTED and src not in (own.asked, node.parent):
                node.send(src, ms.Disconnect())
            return
        if src != own.asked:
            return
        if m.answer == ms.JOINING:
            own.is_promised = True
            self._await(src, node.patience(src))
            return
        own.asked = None
        answering = Incarnation(src, m.own_incarnation)
        if m.answer == ms.ACCEPTED:
            node.connect(answering, "edge" if own.role == "client" else "parent")
            self._await(src, node.patience(src))
            own.break_degree, own.n_passes, own.declined = False, 0, []
            for name in own.upward:
                self._topics.of(name).add(src, "broker")
            return
        if m.answer == ms.BACK and self._tells_failure(answering):
            self._role.lost(Incarnation(src, m.own_incarnation - 1))
        else:
            own.declined.append(src)
        self.seek()

    def _tells_failure(self, newcomer: Incarnation) -> bool:
        """Returns whether the answer ``back`` of `newcomer` tells the node that its former incarnation failed (G22).

        If not, the answer declines the request. A client asks the newcomer again in its next pass over the view.
        """
        node = self._node
        return self._repair.role == "broker" and not node.is_newcomer and newcomer != node.latest(newcomer.broker)

    def on_timer(self) -> None:
        """Alg. 8: treats a broker that has not answered in time as failed, or starts the next pass after a pause.

        A broker that answered ``joining`` gets a second ParentRequest before it counts as failed (rule G25).
        """
        own, partner = self._repair, self._repair.awaited
        if own.is_level:
            return
        if partner is None:
            if self._node.parent is None:
                self.seek()
        elif partner in self._node.parked:
            return
        elif partner == self._node.parent:
            self._role.neighbour_down(partner)
        elif partner == own.asked and own.is_promised:
            self.ask(partner)
        elif partner == own.asked:
            own.asked = None
            own.declined.append(partner)
            self._role.lost(self._node.latest(partner))
            self.seek()

    def on_tree_view_update(self, m: ms.TreeViewUpdate, src: int) -> None:
        """Alg. 2: derives the view of the node from the view of `src`, its parent.

        Each path becomes one link longer, and paths longer than maxHops are dropped. The node treats the brokers in the
        parent's view as live, even if it has recorded their failure, unless it knows a later incarnation. A client
        needs the previous view if its new edge broker fails before this broker has sent a view (rule G21).
        """
        if src != self._node.parent:
            return
        if self._repair.role == "client":
            self._repair.seen |= {broker: self._node.rounds_from(broker) for broker in self._node.tree_view}
        rounds, most, view = self._node.rounds_from(src), self._node.setting("max_hops"), []
        for other, up, down, latency, incarnation in m.seen:
            self._node.note_up(Incarnation(other, incarnation))
            if other != self._node.id and belongs(up, down + 1, most):
                view.append((other, up, down + 1))
                self._node.latency.setdefault(other, latency + rounds)
        self._node.see(view)


ELECTION_TIMER = "vote"
"""The timer that limits the wait for the vote of a sibling (Alg. 8)."""


def _latest(failed: Iterable[Incarnation]) -> list[Incarnation]:
    """Returns the latest incarnation of each broker in `failed`, ascending."""
    return [Incarnation(*one) for one in sorted(dict(sorted(failed)).items())]


def _has_failed(one: Incarnation, failed: Iterable[Incarnation]) -> bool:
    """Returns whether incarnation `one`, or a later incarnation of its broker, is in `failed`."""
    return any(other.broker == one.broker and other.incarnation >= one.incarnation for other in failed)


class Election(ParentSearch):
    """The search of one broker for a parent, and the elections in which it votes (Alg. 7)."""

    def __init__(self, role: Role, topics: Topics, tree: TreeRepair) -> None:
        super().__init__(role, topics)
        self._election = role.node.election
        self._tree = tree

    def seek(self) -> None:
        """Starts an election if the view has no live broker except siblings. Else sends a ParentRequest (G16 and G17).

        A broker with siblings starts only one election for each set of failed brokers. A newcomer starts no election,
        because its view is too small to show that no other broker is live. A broker that has joined or recovered may
        have neither a child nor a candidate. Its contacts then replace its view first (rule G31).
        """
        node = self._node
        if node.repair.is_new and not node.children and not node.candidates():
            node.see_contacts()
        above = [broker for broker in node.candidates() if not node.is_sibling(broker)]
        is_decided = self._gone() == self._election.decided and bool(node.siblings())
        if node.is_newcomer or above or is_decided:
            super().seek()
        else:
            self._elect()

    def _elect(self) -> None:
        own, node = self._election, self._node
        self._cancel_timers()
        own.is_electing, own.vote, own.gone = True, node.residual_degree, self._gone()
        node.repair.asked = None
        for sibling in node.siblings():
            self._vote(sibling)
            node.ctx.set_timer(ELECTION_TIMER, sibling, 2 * node.rounds_from(sibling) + node.setting("timer_rounds"))
        self._decide()

    def _cancel_timers(self) -> None:
        for broker in self._node.tree_view:
            self._node.ctx.cancel_timer(ELECTION_TIMER, broker)

    def _vote(self, sibling: int) -> None:
        own, node = self._election, self._node
        node.send(sibling, ms.RootElection(own.vote, tuple(own.gone), node.incarnation))

    def _gone(self) -> list[Incarnation]:
        """Returns the failed brokers to name in a vote, each with its latest failed incarnation (rules G18 and G29).

        These are the lost parent, the failed brokers of the view, and the brokers that received votes name.
        """
        node = self._node
        in_view = [node.latest(broker) for broker in node.repair.dead & node.tree_view.keys()]
        return _latest([*in_view, *self._election.heard])

    def orphaned(self, parent: Incarnation) -> None:
        """Records the failure of `parent`. Deletes votes that do not name it, and the result of the last election."""
        own = self._election
        own.votes = {sibling: vote for sibling, vote in own.votes.items() if _has_failed(parent, vote.gone)}
        own.heard = _latest([parent, *(one for vote in own.votes.values() for one in vote.gone)])
        own.decided, own.below, own.answered = None, [], []
        self._node.repair.lost_parent = parent.broker

    def on_root_election(self, m: ms.RootElection, sender: int) -> None:
        """Alg. 7: stores the vote of sibling `sender`, even before the failure detector reports the parent (rule G13).

        The root, or a broker with a live parent, does not vote. It answers with the brokers above it (rule G19). A
        newcomer ignores votes until a broker accepts it, because it has no siblings before.
        """
        node, brokers = self._node, list(m.brokers)
        if node.is_newcomer and node.parent is None:
            return
        if m.vote is None:
            self._on_refused_vote(sender, brokers)
            return
        self._add_voter(sender, brokers)
        if node.is_sibling(sender):
            node.note_up(Incarnation(sender, m.incarnation))
        if not self._is_orphan(brokers) or not node.is_sibling(sender):
            self._refuse(sender)
            return
        self._election.votes[sender] = Vote(m.vote, brokers)
        if node.parent is None:
            self._handle_vote(sender, brokers)

    def _refuse(self, sender: int) -> None:
        """Answers the vote of `sender` with the brokers above this broker (rule G19)."""
        node = self._node
        above = {broker for broker, row in node.tree_view.items() if row.n_up == 0}
        above |= node.neighbours - node.children
        told = tuple(node.latest(broker) for broker in sorted(above))
        node.send(sender, ms.RootElection(None, told, node.incarnation))

    def _on_refused_vote(self, sender: int, above: Sequence[Incarnation]) -> None:
        """Handles an answer in which `sender` refuses to vote and lists the brokers `above` it in the tree (rule G19).

        The election continues without `sender` if this broker or one of its siblings is in `above`. It also continues
        if all brokers in `above` have failed, because `sender` is then an orphan, too. In all other cases the election
        ends with a ParentRequest to `sender`.
        """
        failed = [*self._gone(), Incarnation(self._node.id, self._node.last_failed(self._node.id))]
        is_orphan = bool(above) and all(_has_failed(one, failed) for one in above)
        electors = {self._node.latest(broker) for broker in (self._node.id, *self._node.siblings())}
        if not is_orphan and electors.isdisjoint(above):
            self._end(sender)
            return
        self._election.below.append(sender)
        if self._election.is_electing:
            self._decide()

    def _is_orphan(self, gone: Sequence[Incarnation]) -> bool:
        """Returns whether this broker has no parent, or its parent is one of the failed brokers `gone`."""
        node = self._node
        return not node.repair.is_root and (node.parent is None or _has_failed(node.latest(node.parent), gone))

    def _add_voter(self, sender: int, gone: Sequence[Incarnation]) -> None:
        """Adds voter `sender` to the view of this broker if it is an orphan that sees only siblings (rule G27).

        The brokers `gone`, which the vote names, count as failed. If an election is under way, `sender` also gets the
        vote of this broker.
        """
        node = self._node
        above = [node.latest(broker) for broker in node.candidates() if not node.is_sibling(broker)]
        is_known = sender in node.tree_view or sender in node.children
        if is_known or not self._is_orphan(gone) or not all(_has_failed(one, gone) for one in above):
            return
        node.tree_view[sender] = TreeView(sender, SIBLING, 1, 1, node.rounds_from(sender))
        if self._election.is_electing:
            self._vote(sender)

    def _handle_vote(self, sender: int, gone: Sequence[Incarnation]) -> None:
        """Handles a vote of `sender`: records the failures of the brokers `gone`, which the vote names.

        Then decides the present election, continues the search for a parent, or sends this broker's vote again.
        """
        own, node, repair, known = self._election, self._node, self._node.repair, self._gone()
        own.heard = _latest([*own.heard, *gone])
        for one in gone:
            is_news = one.broker not in repair.dead and one.incarnation >= node.latest(one.broker).incarnation
            if one.broker in node.tree_view and is_news:
                self._role.lost(one)
        is_asked_down = repair.asked is not None and _has_failed(node.latest(repair.asked), gone)
        if own.is_electing:
            self._decide()
        elif is_asked_down or (repair.asked is None and self._gone() != own.decided):
            repair.asked = None
            self.seek()
        elif self._gone() != known or sender not in own.answered:
            own.vote, own.gone = node.residual_degree, self._gone()
            own.answered.append(sender)
            self._vote(sender)

    def _decide(self) -> None:
        """Alg. 7: when all votes have arrived, elects the broker with the highest residual degree (rule G13).

        Among brokers with this degree, the lowest id wins.
        """
        own = self._election
        if own.gone != self._gone():
            self._elect()
            return
        degree = {sibling: vote.degree for sibling, vote in own.votes.items() if vote.gone == own.gone}
        siblings = self._node.siblings()
        if any(sibling not in degree for sibling in siblings):
            return
        votes = [(own.vote, -self._node.id), *((degree[sibling], -sibling) for sibling in siblings)]
        self._end(-max(votes)[1])

    def _end(self, winner: int) -> None:
        own, node = self._election, self._node
        if not own.is_electing:
            return
        self._cancel_timers()
        deferred, own.deferred = own.deferred, []
        own.is_electing, own.votes, own.decided = False, {}, own.gone
        if winner == node.id:
            own.is_elected, own.expected = True, node.siblings()
            node.repair.is_root = node.repair.is_level = True
            node.see([])
        else:
            self.ask(winner)
        if node.repair.is_root:
            self._tree.view_changed()
        for sender, request in deferred:
            self._tree.on_parent_request(request, sender)
        self._tree.settle()

    def on_vote_timer(self, sibling: int) -> None:
        """Alg. 8: records `sibling` as failed if it has not voted in time, and decides without its vote."""
        own, vote = self._election, self._election.votes.get(sibling)
        if not own.is_electing:
            return
        if sibling in self._node.siblings() and (vote is None or vote.gone != own.gone):
            self._role.lost(self._node.latest(sibling))
        self._decide()

    def on_tree_view_update(self, m: ms.TreeViewUpdate, src: int) -> None:
        """Alg. 2: derives the view of the broker from the view of its parent, and sends it to children and clients."""
        super().on_tree_view_update(m, src)
        if src == self._node.parent:
            self._tree.view_changed()

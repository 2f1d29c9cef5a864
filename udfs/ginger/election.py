"""Elections: orphans that see nobody above themselves any more agree on one of them (section 4.2.3, Alg. 7).

A vote names the brokers that its sender knows to be gone (its parent, those of its view), and counts with votes that
name the same ones. Who hears of more votes again. So a winner that fails before it has taken all others in is elected
anew, and whoever is alone in the end is the root of what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from udfs.ginger import messages as ms
from udfs.ginger.parent_search import ParentSearch
from udfs.ginger.repair_records import Deferred, Vote
from udfs.ginger.role import Role

TIMER = "vote"
"""Runs out when a sibling has not voted in time (Alg. 8)."""


class Election:
    """The elections of one broker."""

    def __init__(self, role: Role, search: ParentSearch, ended: Callable[[Sequence[Deferred]], None]) -> None:
        """Votes for a broker.

        Args:
            role: The broker.
            search: Its search for a parent.
            ended: Resumes after an election, with the requests that came during it.
        """
        self._role = role
        self._node = role.node
        self._own = role.node.state.election
        self._search = search
        self._ended = ended

    def seek(self) -> None:
        """Who sees nobody but siblings elects with them, once with the same ones gone; others ask (rules G16 and G17).

        A newcomer sees too little to know that it is alone.
        """
        node = self._node
        above = [broker for broker in self._role.candidates() if not node.is_sibling(broker)]
        is_decided = self._gone() == self._own.decided and bool(self.siblings())
        if node.is_newcomer or above or is_decided:
            self._search.seek()
        else:
            self._elect()

    def _elect(self) -> None:
        """Sends its vote to all siblings; without any it is the root at once."""
        own, node = self._own, self._node
        self._cancel_timers()
        own.is_electing, own.vote, own.gone = True, node.residual_degree, self._gone()
        node.repair.asked = None
        for sibling in self.siblings():
            self._vote(sibling)
            node.ctx.set_timer(TIMER, sibling, 2 * node.rounds_to(sibling) + node.setting("timer_rounds"))
        self._decide()

    def _cancel_timers(self) -> None:
        for broker in self._node.state.tree_view:
            self._node.ctx.cancel_timer(TIMER, broker)

    def _vote(self, sibling: int) -> None:
        self._node.send(sibling, ms.RootElection(self._own.vote, tuple(self._own.gone)))

    def siblings(self) -> list[int]:
        """Returns the siblings that may be elected."""
        found = self._role.candidates()
        return [broker for broker in found if self._node.is_sibling(broker) and broker not in self._own.below]

    def _gone(self) -> list[int]:
        """Returns the parent that it lost, who else of its view has failed, and all that siblings know of."""
        repair = self._node.repair
        lost = set() if repair.lost_parent is None else {repair.lost_parent}
        return sorted(repair.dead & self._node.state.tree_view.keys() | {*self._own.heard} | lost)

    def orphaned(self, parent: int) -> None:
        """Its parent failed; some siblings may have voted before."""
        own = self._own
        own.votes = {sibling: vote for sibling, vote in own.votes.items() if parent in vote.gone}
        own.heard = sorted({broker for vote in own.votes.values() for broker in vote.gone})
        own.decided, own.below, own.answered = None, [], []
        self._node.repair.lost_parent = parent

    def on_root_election(self, m: ms.RootElection, sender: int) -> None:
        """Collects the votes of siblings, also before it hears itself that the parent failed.

        Who votes with it though it has another parent, or is the root, is told to ask it, and whom it is below.
        """
        node, brokers = self._node, list(m.brokers)
        if node.is_newcomer:
            return
        if m.vote is None:
            self._told_to_ask(sender, brokers)
        elif not self._votes_with(sender, brokers):
            above = {broker for broker, row in node.state.tree_view.items() if row.n_up == 0}
            node.send(sender, ms.RootElection(None, tuple(sorted(above | node.neighbours - node.children))))
        else:
            self._own.votes[sender] = Vote(m.vote, brokers)
            if node.parent is None:
                self._vote_counts(sender, brokers)

    def _told_to_ask(self, sender: int, above: Sequence[int]) -> None:
        """Asks somebody who has another parent, unless that is one that votes: then its vote counts for both."""
        if {self._node.id, *self.siblings()}.isdisjoint(above):
            self._end(sender)
            return
        self._own.below.append(sender)
        if self._own.is_electing:
            self._decide()

    def _votes_with(self, sender: int, gone: Sequence[int]) -> bool:
        """Orphans do, for any lost parent; others if their own parent is gone, which they learn here."""
        node = self._node
        is_orphan = node.parent is None or node.parent in gone
        return not node.repair.is_root and is_orphan and node.is_sibling(sender)

    def _vote_counts(self, sender: int, gone: Sequence[int]) -> None:
        """Who the sibling knows to be gone need not be waited for."""
        own, repair, known = self._own, self._node.repair, self._gone()
        own.heard = sorted({*own.heard, *gone})
        for broker in gone:
            if broker in self._node.state.tree_view and broker not in repair.dead:
                self._role.lost(broker)
        if own.is_electing:
            self._decide()
        elif repair.asked in gone or (repair.asked is None and self._gone() != own.decided):
            repair.asked = None
            self._role.seek()
        elif self._gone() != known or sender not in own.answered:
            own.vote, own.gone = self._node.residual_degree, self._gone()
            own.answered.append(sender)
            self._vote(sender)

    def _decide(self) -> None:
        """Alg. 7: the highest residual degree, then the lowest id (rule G13)."""
        own = self._own
        if own.gone != self._gone():
            self._elect()
            return
        degree = {sibling: vote.degree for sibling, vote in own.votes.items() if vote.gone == own.gone}
        siblings = self.siblings()
        if any(sibling not in degree for sibling in siblings):
            return
        votes = [(own.vote, -self._node.id), *((degree[sibling], -sibling) for sibling in siblings)]
        self._end(-max(votes)[1])

    def _end(self, winner: int) -> None:
        """Is the new root, or asks it."""
        own, node = self._own, self._node
        if not own.is_electing:
            return
        self._cancel_timers()
        deferred, own.deferred = own.deferred, []
        own.is_electing, own.votes, own.decided = False, {}, own.gone
        if winner == node.id:
            own.is_elected, own.expected = True, self.siblings()
            node.repair.is_root = node.repair.is_level = True
            node.see([])
            self._role.view_changed()
        else:
            self._search.ask(winner)
        self._ended(deferred)

    def on_timer(self, sibling: int) -> None:
        """Alg. 8: who has not voted in time has failed."""
        own, vote = self._own, self._own.votes.get(sibling)
        if not own.is_electing:
            return
        if sibling in self.siblings() and (vote is None or vote.gone != own.gone):
            self._role.lost(sibling)
        self._decide()

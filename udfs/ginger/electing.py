"""Elections: orphans that see nobody above themselves any more agree on one of them (section 4.2.3, Alg. 7).

A vote names the brokers that its sender knows to be gone (its parent, those of its view), and counts with votes that
name the same ones. Who hears of more votes again. So a winner that fails before it has taken all others in is elected
anew, and whoever is alone in the end is the root of what is left.
"""

from __future__ import annotations

from typing import Any

from udfs.ginger.items import Item
from udfs.ginger.topic_tree import TopicJoiner

SIBLING = (1, 1)
"""Steps up, then down, from a sibling."""
ASK_ME = "null"
"""What is told somebody who votes with a broker that has a parent, or is the root: to ask it."""


class Elector(TopicJoiner):
    """A broker that takes part in elections.

    Its ``memory`` holds beside that of `TopicJoiner`: ``is_root``, ``is_elected``, ``is_electing``, ``election``
    (number of elections), ``vote`` and ``gone`` (the residual degree that it told its siblings, and who was gone then),
    ``votes`` (what siblings told: both, too), ``heard`` (all that they told to be gone), ``answered`` (those that were
    told a vote after an election), ``below`` (those that are below another sibling by now), ``decided`` (``gone`` of
    the last election that ended), ``expected`` (siblings that elected it, and have not come yet), and ``deferred``
    (ParentRequests that came during the election).
    """

    @property
    def residual_degree(self) -> int:
        """Connections that it may still take in."""
        return self.settings["total_degree"] - len(self.children) - len(self.clients) - (self.parent is not None)

    def seek(self) -> None:
        """Who sees nobody but siblings elects with them, once with the same ones gone; else as in `Seeker`.

        A newcomer sees too little to know that it is alone.
        """
        above = [broker for broker in self.candidates() if self.view[broker] != SIBLING]
        is_decided = self._gone() == self.recall("decided", None) and bool(self._siblings())
        if self.is_newcomer or above or is_decided:
            super().seek()
        else:
            self.elect()

    def elect(self) -> None:
        """Sends its vote to all siblings; without any it is the root at once."""
        number, vote, gone = self.recall("election", 0) + 1, self.residual_degree, self._gone()
        self.remember(is_electing=True, asked=None, election=number, vote=vote, gone=gone)
        for sibling in self._siblings():
            self._vote(sibling)
            self.timer("vote", sibling, number, 2 * self.latency.get(sibling, 1) + self.settings["timer"])
        self._decide()

    def _vote(self, sibling: int) -> None:
        vote, gone = self.recall("vote", 0), self.recall("gone", [])
        self.send(sibling, "RootElection", covered=gone, details=str(vote))

    def candidates(self) -> list[int]:
        """Brokers to ask; who has come below it since it saw it beside itself is none."""
        return [broker for broker in super().candidates() if broker not in self.children]

    def _siblings(self) -> list[int]:
        below = self.recall("below", [])
        return [broker for broker in self.candidates() if self.view[broker] == SIBLING and broker not in below]

    def _gone(self) -> list[int]:
        """The parent that it lost, who else of its view has failed, and all that siblings know of."""
        parent = self.recall("lost_parent", None)
        return sorted(self.dead & self.view.keys() | {*self.recall("heard", [])} | ({parent} - {None}))

    def orphaned(self, parent: int) -> None:
        """Its parent failed; some siblings may have voted before."""
        votes = {sibling: vote for sibling, vote in self.recall("votes", {}).items() if parent in vote[1]}
        heard = sorted({broker for _, gone in votes.values() for broker in gone})
        self.remember(lost_parent=parent, decided=None, below=[], answered=[], votes=votes, heard=heard)

    def on_root_election(self, item: Item) -> None:
        """Collects the votes of siblings, also before it hears itself that the parent failed.

        Who votes with it though it has another parent, or is the root, is told to ask it, and whom it is below.
        """
        sender, gone = item.peer or 0, list(item.covered or ())
        if self.is_newcomer:
            return
        if item.details == ASK_ME:
            self._is_told_to_ask(sender, gone)
        elif not self._votes_with(sender, gone):
            above = {broker for broker, (up, _) in self.view.items() if up == 0} | self.neighbours - self.children
            self.send(sender, "RootElection", covered=above, details=ASK_ME)
        else:
            self.remember(votes={**self.recall("votes", {}), str(sender): [int(item.details or 0), gone]})
            if self.parent is None:
                self._vote_counts(sender, gone)

    def has_come_back(self, broker: int) -> None:
        """Its place in the tree is gone, and with it the vote that it gave; two newcomers know no places."""
        if self.is_newcomer:
            super().has_come_back(broker)
        else:
            self.lost(broker)

    def _is_told_to_ask(self, sender: int, above: list[int]) -> None:
        """Asks somebody who has another parent, unless that is one that votes: then its vote counts for both."""
        if not {self.node, *self._siblings()}.isdisjoint(above):
            self.remember(below=[*self.recall("below", []), sender])
            if self.recall("is_electing", False):
                self._decide()
        else:
            self._end_election(sender)

    def _votes_with(self, sender: int, gone: list[int]) -> bool:
        """Orphans do, whatever parents they have lost; others if their own is gone: that is news to them."""
        is_orphan = self.parent is None or self.parent in gone
        return not self.is_root and is_orphan and self.view.get(sender) == SIBLING

    def _vote_counts(self, sender: int, gone: list[int]) -> None:
        """Who the sibling knows to be gone need not be waited for."""
        known = self._gone()
        self.remember(heard=sorted({*self.recall("heard", []), *gone}))
        for broker in gone:
            if broker in self.view and broker not in self.dead:
                self.lost(broker)
        asked = self.recall("asked", None)
        if self.recall("is_electing", False):
            self._decide()
        elif asked in gone or (asked is None and self._gone() != self.recall("decided", None)):
            self.remember(asked=None)
            self.seek()
        elif self._gone() != known or sender not in self.recall("answered", []):
            self.remember(vote=self.residual_degree, gone=self._gone())
            self.remember(answered=[*self.recall("answered", []), sender])
            self._vote(sender)

    def _decide(self) -> None:
        """Alg. 7: the highest residual degree, then the lowest id."""
        gone = self.recall("gone", [])
        if gone != self._gone():
            self.elect()
            return
        told = self.recall("votes", {}).items()
        votes = {int(sibling): degree for sibling, (degree, seen) in told if seen == gone}
        siblings = self._siblings()
        if any(sibling not in votes for sibling in siblings):
            return
        own = (self.recall("vote", 0), -self.node)
        _, least = max([own, *((votes[sibling], -sibling) for sibling in siblings)])
        self._end_election(-least)

    def _end_election(self, winner: int) -> None:
        """Is the new root, or asks it."""
        if not self.recall("is_electing", False):
            return
        deferred = self.recall("deferred", [])
        self.remember(is_electing=False, deferred=[], votes={}, decided=self.recall("gone", []))
        if winner == self.node:
            self.is_root = True
            self.remember(is_root=True, is_elected=True, is_level=True, is_seeking=False, expected=self._siblings())
            self.view = {}
            self.view_changed()
        else:
            self.remember(is_seeking=True)
            self.ask(winner)
        for sender, request in deferred:
            self.on_parent_request(sender, request)
        self.settle()

    def on_vote_timer(self, sibling: int, number: int) -> None:
        """Alg. 8: who has not voted in time has failed."""
        if not self.recall("is_electing", False) or number != self.recall("election", 0):
            return
        _, seen = self.recall("votes", {}).get(str(sibling), (0, None))
        if sibling in self._siblings() and seen != self.recall("gone", []):
            self.lost(sibling)
        self._decide()

    def on_parent_request(self, sender: int, request: dict[str, Any]) -> None:
        """Somebody wants to be taken in."""
        raise NotImplementedError

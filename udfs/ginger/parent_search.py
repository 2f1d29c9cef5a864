"""Looking for a new parent: brokers and clients alike (sections 4.2.3 and 4.2.4)."""

from __future__ import annotations

import json
from typing import Any

from udfs.ginger.items import Item
from udfs.ginger.node import Node

MAX_PASSES = 20
"""Times that a node asks all brokers of its view before it gives up."""
BACK = "back"
"""What a newcomer answers those who ask it to take them in."""


class Seeker(Node):
    """A node whose parent may fail.

    Its ``memory`` holds ``asked`` and ``attempt`` (the broker that was asked, and how often any was), ``is_promised``
    (that one joins sub-trees, in order to take the node in), ``declined``,
    ``break_degree``, ``passes``, ``is_seeking``, ``is_level`` (false from the failure of the parent until the missing
    messages are there), ``dead`` (brokers that it knows to have failed), ``since`` (when it connected to neighbours),
    ``is_joining`` (it has no place in the tree yet), and ``lost_parent`` (the last parent that failed).
    """

    def recall(self, name: str, default: Any) -> Any:  # noqa: ANN401 - values of JSON
        """Returns what it remembers."""
        return self.memory.get(name, default)

    def remember(self, **values: Any) -> None:  # noqa: ANN401 - values of JSON
        """Remembers values until they are changed."""
        self.memory.update(values)

    @property
    def dead(self) -> set[int]:
        """Brokers that it knows to have failed."""
        return set(self.recall("dead", []))

    @property
    def is_level(self) -> bool:
        """Whether it has a parent, or is the root, and has all that it missed."""
        return bool(self.recall("is_level", True))

    @property
    def is_newcomer(self) -> bool:
        """Whether it joins, or is back, and has had no parent yet, which would have told it what there is."""
        return bool(self.recall("is_joining", False)) and self.recall("lost_parent", None) is None

    def candidates(self) -> list[int]:
        """Brokers to ask, by hops, ancestors before siblings, then by id.

        A newcomer knows no others than its contacts, which may be back by now.
        """
        dead = set() if self.is_newcomer else self.dead
        found = [broker for broker in self.view if broker not in dead]
        return sorted(found, key=lambda b: (sum(self.view[b]), self.view[b] == (1, 1), b))

    def seek(self) -> None:
        """Asks the next broker; one after the other, then with breakDegree, then after a pause all over again."""
        self.remember(is_seeking=True)
        live, declined = self.candidates(), self.recall("declined", [])
        open_ = [broker for broker in live if broker not in declined]
        if open_:
            self.ask(open_[0])
        elif not live or self.recall("passes", 0) >= MAX_PASSES:
            self.remember(is_isolated=True)
            self.keep("status", None, kind="ISOLATED")
        elif not self.recall("break_degree", False):
            self.remember(break_degree=True, declined=[])
            self.seek()
        else:
            attempt = self.recall("attempt", 0) + 1
            self.remember(
                passes=self.recall("passes", 0) + 1, break_degree=False, declined=[], asked=None, attempt=attempt
            )
            self.timer("again", self.node, attempt, self.settings["timer"])

    def ask(self, broker: int) -> None:
        """Sends a ParentRequest; a broker that does not answer in time has failed."""
        attempt = self.recall("attempt", 0) + 1
        self.remember(asked=broker, attempt=attempt, is_promised=False)
        self.send(broker, "ParentRequest", details=json.dumps(self.request()))
        self.timer("parent", broker, attempt, self.patience(broker))

    def patience(self, partner: int) -> int:
        """Returns the rounds in which a partner that is up has answered, with an election of its own in between."""
        return 2 * self.latency.get(partner, 1) + 3 * self.settings["timer"]

    def request(self) -> dict[str, Any]:
        """Returns the body of its ParentRequest."""
        raise NotImplementedError

    def on_parent_response(self, item: Item) -> None:
        """A broker accepts, or the next one is asked; null: it joins sub-trees first, and is asked again meanwhile."""
        if item.peer != self.recall("asked", None):
            return
        answer = json.loads(item.details or "false")
        if answer is None:
            attempt = self.recall("attempt", 0) + 1
            self.remember(attempt=attempt, is_promised=True)
            self.timer("parent", item.peer or 0, attempt, self.patience(item.peer or 0))
            return
        self.remember(asked=None)
        if answer == BACK:
            self.has_come_back(item.peer or 0)
            self.seek()
        elif answer:
            self.parent = item.peer
            self.connect(item.peer or 0)
            self.remember(is_seeking=False, break_degree=False, passes=0, declined=[])
            self.attached()
        else:
            self.declined(item.peer or 0)
            self.seek()

    def declined(self, broker: int) -> None:
        """Asks others first."""
        self.remember(declined=[*self.recall("declined", []), broker])

    def has_come_back(self, broker: int) -> None:
        """A newcomer declines; it may have a place in the tree later."""
        self.declined(broker)

    def connect(self, other: int) -> None:
        """Opens a connection to a new neighbour, which may have been one before."""
        super().connect(other)
        self.remember(since={**self.recall("since", {}), str(other): self.round})

    def is_stale(self, news: Item) -> bool:
        """Returns whether NeighborDown was sent before the present connection: the neighbour failed, but is back."""
        since: int = self.recall("since", {}).get(news.details, 0)
        return self.round - (news.latency_rounds or 0) < since

    def attached(self) -> None:
        """A new parent took it in; what else there is to do waits for its ParentBuffer."""

    def on_timer(self, what: str, partner: int, number: int) -> None:
        """A broker that was asked does not answer: it failed; or it is time to ask all once more."""
        if number != self.recall("attempt", 0) or self.is_level:
            return
        if what == "again" and self.parent is None:
            self.seek()
        elif what == "parent" and partner == self.parent:
            self.on_neighbor_down(partner)
        elif what == "parent" and partner == self.recall("asked", None) and self.recall("is_promised", False):
            self.ask(partner)
        elif what == "parent" and partner == self.recall("asked", None):
            self.remember(asked=None, declined=[*self.recall("declined", []), partner])
            self.lost(partner)
            self.seek()

    def on_neighbor_down(self, neighbour: int) -> None:
        """A neighbour failed."""
        raise NotImplementedError

    def lost(self, broker: int) -> None:
        """Notes that a broker failed."""
        self.remember(dead=sorted(self.dead | {broker}))

    def on_tree_view_update(self, item: Item) -> None:
        """The parent tells what it sees; a step down, and what is near enough, is the node's own view.

        What it sees is up, also if it had failed before.
        """
        if item.peer != self.parent:
            return
        seen = json.loads(item.details or "[]")
        self.remember(dead=sorted(self.dead - {other for other, *_ in seen}))
        self.view = {}
        for other, up, down, latency in seen:
            if other != self.node and self.belongs(up, down + 1):
                self.view[other] = (up, down + 1)
                self.latency.setdefault(other, latency + (item.latency_rounds or 1))
        self.view_changed()

    def belongs(self, up: int, down: int) -> bool:
        """Returns whether a broker from which one comes here by steps up, then down, is an ancestor or a sibling."""
        return up + down <= self.settings["max_hops"] and (up == 0 or (up, down) == (1, 1) or up == 1 < down)

    def view_changed(self) -> None:
        """Brokers tell their children."""

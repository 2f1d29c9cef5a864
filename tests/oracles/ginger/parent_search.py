"""The search of brokers and clients for a new parent (sections 4.2.3 and 4.2.4)."""

from __future__ import annotations

from oracles.ginger.messages import Message
from oracles.ginger.ports import Links

MAX_PASSES = 40
Place = tuple[int, int]


class Seeker:
    """A node whose parent may fail; ``view`` maps a broker to the hops up and down on the path between them."""

    def __init__(self, links: Links, node: int) -> None:
        self.links, self.node = links, node
        self.view: dict[int, Place] = {}
        self.parent: int | None = None
        self.asked: int | None = None
        self.is_seeking = False
        self.is_isolated = False
        self.dead: set[int] = set()
        self.declined: set[int] = set()
        self.break_degree = False
        self.attempt = 0
        self.n_passes = 0

    def candidates(self) -> list[int]:
        """Returns the live brokers in the view, ordered by hops; ancestors precede siblings, lower ids higher ids."""
        found = [b for b in self.view if b not in self.dead]
        return sorted(found, key=lambda b: (sum(self.view[b]), self.view[b] == (1, 1), b))

    def seek(self) -> None:
        self.is_seeking = True
        live = self.candidates()
        open_ = [b for b in live if b not in self.declined]
        if open_:
            self.ask(open_[0])
        elif not live or self.n_passes >= MAX_PASSES:
            self.is_isolated = True
        elif not self.break_degree:
            self.break_degree, self.declined = True, set()
            self.seek()
        else:
            self.n_passes += 1
            self.break_degree, self.declined, self.asked = False, set(), None
            self.attempt += 1
            self.links.timer(self.node, self.node, self.attempt)

    def ask(self, broker: int) -> None:
        self.asked = broker
        self.attempt += 1
        self.links.send(self.node, broker, Message("parent_request", body=self.request()))
        self.links.timer(self.node, broker, self.attempt)

    def request(self) -> object:
        raise NotImplementedError

    def on_parent_response(self, src: int, message: Message) -> None:
        if src != self.asked:
            return
        self.asked = None
        if message.body:
            self.parent, self.is_seeking, self.break_degree, self.n_passes = src, False, False, 0
            self.declined = set()
            self.attached(src)
        else:
            self.declined.add(src)
            self.seek()

    def attached(self, parent: int) -> None:
        raise NotImplementedError

    def on_timer(self, partner: int, attempt: int) -> None:
        """Handles a timer: the requested broker counts as failed; a timer for a retry restarts the search."""
        if attempt != self.attempt or not self.is_seeking or self.parent is not None:
            return
        if partner == self.node:
            self.seek()
        elif partner == self.asked:
            self.asked = None
            self.lost(partner)
            self.seek()

    def lost(self, broker: int) -> None:
        self.dead.add(broker)

    def on_tree_view_update(self, src: int, message: Message) -> None:
        if src != self.parent:
            return
        view = {b: (up, down + 1) for b, (up, down) in message.body.items() if b != self.node}
        self.view = {b: place for b, place in view.items() if self.belongs(place)}
        self.view_changed()

    def belongs(self, place: Place) -> bool:
        up, down = place
        return up + down <= self.links.max_hops and (up == 0 or place == (1, 1) or up == 1 < down)

    def view_changed(self) -> None:
        """Handles a change of the view: a broker informs its children."""
